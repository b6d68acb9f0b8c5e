// The driver API on top of the machine: what its files share.
//
// One lock guards all driver state. Every entry point takes it (driver_enter), works on plain
// structs, and drops it (driver_leave); it is dropped meanwhile only to execute work (kernels,
// copies, callbacks), to translate PTX, and to wait. Handles are never dereferenced: a handle is a
// number that the registry turns into an object of the right kind, or refuses, so null, freed,
// foreign and wild handles are error codes.
//
//   device -> context -> streams -> queue of items -> struct work (also a graph node's payload)
//                     -> modules -> image (program and its variables, refcounted) -> functions
//
// Work of a context executes one item at a time (context.executing), in stream order, at the moment
// it is enqueued if nothing has to be waited for; see driver_stream.c.
#ifndef EMU_DRIVER_H
#define EMU_DRIVER_H

// What this library exports is what cuda.h declares.
#pragma GCC visibility push(default)
#include <cuda.h>
// From cudaProfiler.h, which does not come with every cuda.h (pip's has none).
CUresult CUDAAPI cuProfilerStart(void);
CUresult CUDAAPI cuProfilerStop(void);
#pragma GCC visibility pop

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "machine.h"
#include "machine_run.h"
#include "mem.h"

enum {
    DRIVER_VERSION = 13000,
    DEVICES_MOST = 16,
    PARAM_BYTES_MOST = 32764,
    GRID_BARRIER_BYTES = 8,
    STREAM_PRIORITY_LEAST = 0,
    STREAM_PRIORITY_GREATEST = -5,
};

enum handle_kind {
    HANDLE_CONTEXT = 0x10, // from here on, so that no handle is 0, 1 or 2
    HANDLE_MODULE,
    HANDLE_FUNCTION,
    HANDLE_LIBRARY,
    HANDLE_KERNEL,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_NODE,
    HANDLE_EXEC,
    HANDLE_POOL,
    HANDLE_USER_OBJECT,
};

// ---- objects ------------------------------------------------------------------------------------

struct device {
    CUdevice ordinal;
    unsigned sms;
    struct context *primary;            // NULL while not retained
    unsigned primary_refs;
    unsigned primary_flags;
    CUmemoryPool current_pool;          // set by the program, 0: the default one
    struct pool *pool;                  // default memory pool, made when asked for
};

struct limits {
    size_t stack, printf_fifo, malloc_heap, sync_depth, pending_launches, l2_fetch, persisting_l2;
};

struct context {
    CUcontext handle;
    struct context *next;
    struct device *device;
    bool primary;
    unsigned flags, api_version;
    uint64_t id;
    CUfunc_cache cache_config;
    CUsharedconfig bank_config;
    struct limits limits;

    struct mem *mem;
    struct machine *machine;            // made at the first launch
    uint64_t grids;                     // launches so far
    uint64_t grid_barrier;              // of cooperative launches, made at the first
    CUresult fault;                     // sticky: what a kernel did
    char *report;                       // last trap or load error, as text

    struct stream *streams;             // all, the legacy default stream first
    struct stream *legacy;
    uint64_t order;                     // counts enqueued items
    bool executing;                     // some thread executes an item of this context
    unsigned pins;                      // calls that are inside: it is not freed under them
    pthread_t helper; // runs callbacks, polls waits, releases launches held back; made when needed
    bool has_helper, helper_stop;
    struct module *modules;
    struct image *images;
    struct event *events;
    struct capture *captures;
};

// A translated PTX text whose variables have been placed in a context's memory.
struct image {
    unsigned refs;
    struct context *context;            // NULL once the context is gone
    struct image *next;                 // in the context
    struct program *program;
    uint64_t *blocks;                   // base addresses of the variables, by symbol
    struct func *funcs;                 // by function of the program
};

struct func {                           // CUfunction
    CUfunction handle;                  // 0 until asked for
    struct image *image;
    struct module *module;
    struct kernel *kernel;              // NULL for a module's function
    const struct function *function;
    int max_dynamic_smem, carveout;
    unsigned cluster[3];                // required cluster size, 0: none
    bool cluster_fixed;                 // by the PTX
    bool nonportable_cluster;
    int cluster_policy;
};

struct module {                         // CUmodule
    CUmodule handle;
    struct context *context;
    struct image *image;
    struct library *library;            // NULL unless it is a library's module
    struct module *next;
};

struct library {                        // CUlibrary
    CUlibrary handle;
    char *text;                         // PTX, translated when a context first needs it
    size_t length;
    CUresult status;                    // what using it answers when there is no PTX
    char why[200];
    struct module **modules;            // one per context that has used it
    unsigned module_count;
    bool listed;                        // kernels are known
    struct kernel *kernels;
    unsigned kernel_count;
};

struct kernel {                         // CUkernel
    CUkernel handle;
    struct library *library;
    char *name;
    // Attributes set for a device, before or after a context of it has the function; -2: not set.
    int max_dynamic_smem[DEVICES_MOST], carveout[DEVICES_MOST], nonportable[DEVICES_MOST];
};

struct event {                          // CUevent
    CUevent handle;
    struct event *next;                 // in the context
    unsigned refs;
    struct context *context;            // NULL once the context is gone
    unsigned flags;
    uint64_t issued, done; // numbers of the last record enqueued and of the last one completed
    uint64_t nanoseconds;               // when that was
    uint64_t capture_id;                // recorded in a capture: which, and
    struct node **captured;             // the nodes that a wait for it depends on
    size_t captured_count;
};

// ---- work ---------------------------------------------------------------------------------------

enum work_kind {
    WORK_LAUNCH,
    WORK_COPY,
    WORK_FILL,
    WORK_HOST,
    WORK_RECORD,
    WORK_WAIT,
    WORK_WRITE_VALUE,
    WORK_WAIT_VALUE,
    WORK_FREE,
    WORK_EMPTY,
    WORK_CHILD,
};

// One side of a copy: device or host address, or both at once for unified addresses.
struct side {
    uint64_t address;
    size_t pitch, height;               // bytes of a row, rows of a slice
    bool host;                          // plain host memory, not known to the driver
};

struct copy {
    struct side to, from;
    size_t width, rows, slices;         // bytes, rows, slices
    uint8_t *staged; // the source as it was when an asynchronous call took it, or NULL
};

struct launch_work {
    struct func *func;                  // its image is kept by `image`
    struct image *image;
    unsigned grid[3], block[3], cluster[3], smem;
    bool explicit_cluster, programmatic, cooperative;
    int priority;
    struct event *event;                // programmatic event to record, or NULL
    uint64_t event_number;
    uint8_t *params;
    size_t param_bytes;
    void **list; // pointers to the parameters, for who asks a node; made when asked
};

struct work {
    enum work_kind kind;
    unsigned refs;
    union {
        struct launch_work launch;
        struct copy copy;
        struct {
            uint64_t address;
            size_t pitch, width, rows;
            uint32_t value;
            unsigned element;
        } fill;
        struct { CUhostFn fn; CUstreamCallback callback; CUstream stream; void *user; } host;
        struct { struct event *event; uint64_t number; } event;         // record, wait
        struct { uint64_t address, value; unsigned bytes, flags; } value;
        struct { uint64_t address; } free;
        struct { struct graph *graph; } child;
    };
};

struct item {                           // work in a stream's queue
    struct item *next;
    struct work *work;
    uint64_t order;                     // in the context
    uint64_t event_number;              // record: this record's number; wait: the number to reach
    bool programmatic;                  // a launch that may overlap with the launch before it
    bool held;                          // a launch that may wait for its programmatic successor
    bool running;
};

struct stream {                         // CUstream
    CUstream handle;                    // 0 for the legacy and per-thread default streams
    struct context *context;
    struct stream *next;                // in the context
    unsigned pins;                      // calls that wait for it
    bool gone;                          // destroyed, to be freed with the last pin
    unsigned flags;
    int priority;
    uint64_t id;
    uint64_t thread;                    // per-thread default stream: whose; else 0
    struct item *first, *last;
    struct capture *capture;            // taking part in
    struct node **tail;                 // nodes the next captured work depends on
    size_t tail_count;
    CUgraphNode *tail_handles;          // the same for who asks
    CUgraphEdgeData *tail_edges;
};

struct capture {
    uint64_t id;
    struct context *context;
    struct stream *origin;
    CUgraph graph;                      // by handle: the program may destroy it
    bool into_existing;                 // the graph was the program's before
    CUstreamCaptureMode mode;
    uint64_t thread;
    bool invalid;
    struct capture *next;
};

struct node {                           // CUgraphNode
    CUgraphNode handle;
    struct graph *graph;
    uint64_t id, origin;                // its own, and that of the node it was cloned from
    struct work *work;
    bool disabled;
    struct node **from;                 // dependencies
    CUgraphEdgeData *edges;             // one each
    size_t from_count, from_room;
    size_t mark;                        // scratch
};

struct graph {                          // CUgraph
    CUgraph handle;
    bool child;                         // lives in a node
    struct node **nodes;                // in order of creation
    size_t count, room;
    struct user_object **objects;       // one reference each
    size_t object_count;
};

struct exec {                           // CUgraphExec
    CUgraphExec handle;
    struct context *context;
    unsigned long long flags;
    struct graph *graph;                // private clone, nodes in the order in which they run
};

struct pool {                           // CUmemoryPool
    CUmemoryPool handle;
    struct device *device;
    uint64_t threshold;
    int reuse[3];
};

struct user_object {
    CUuserObject handle;
    unsigned refs;
    CUhostFn destroy;
    void *user;
};

// ---- the one state ------------------------------------------------------------------------------

struct config {
    struct machine_config machine;
    unsigned devices;
    char report_path[4096];             // "" for none, "-" for stderr
};

struct driver {
    pthread_mutex_t lock;
    pthread_cond_t changed; // an item completed, a helper is wanted, a context stopped executing
    bool ready;
    CUresult init_result;
    char init_report[512];
    struct config config;
    struct device devices[DEVICES_MOST];
    struct context *contexts;
    struct mem_space *space;
    struct mem *host;                   // page-locked host memory, seen by every context
    uint64_t ids;                       // contexts, streams, captures, nodes
    struct slot *slots;
    uint32_t slot_count, slot_free;
    struct host_block *host_blocks;
};

extern struct driver driver;            // guarded by driver.lock
// The thread runs a callback, which must not call the driver.
extern _Thread_local bool driver_in_callback;

enum enter {
    ENTER_PLAIN,                        // initialised
    ENTER_CONTEXT,                      // and a live current context
    ENTER_HEALTHY,                      // and no kernel has faulted in it
};

// Takes the lock and checks. On anything but CUDA_SUCCESS the lock is not held.
CUresult driver_enter(enum enter level, struct context **context);
void driver_leave(struct context *context);

// Body of an entry point: `expr` is evaluated with the lock held and, but for IN_DRIVER, `ctx` set.
#define ENTER_(level, expr)                                     \
    struct context *ctx = NULL;                                 \
    CUresult result_ = driver_enter(level, &ctx);               \
    if (result_ == CUDA_SUCCESS) {                              \
        result_ = (expr);                                       \
        driver_leave(ctx);                                      \
    }                                                           \
    return result_
#define IN_DRIVER(expr) ENTER_(ENTER_PLAIN, expr)
#define IN_CONTEXT(expr) ENTER_(ENTER_CONTEXT, expr)
#define IN_HEALTHY(expr) ENTER_(ENTER_HEALTHY, expr)

// ---- handles ------------------------------------------------------------------------------------
void *handle_new(enum handle_kind kind, void *object);          // NULL: no memory
void *handle_find(enum handle_kind kind, const void *handle);   // the object, or NULL
void handle_drop(const void *handle);

// ---- shared services; the lock is held for all of them ------------------------------------------
// driver_state.c
bool driver_part_is_b200(void);
uint64_t driver_id(void);
uint64_t driver_thread(void); // a number for the calling thread, never 0
// Keeps the text, and appends it to the report stream.
void driver_report(struct context *ctx, const char *text);
// driver_device.c
struct device *device_find(CUdevice ordinal);
int device_attribute(const struct device *device, CUdevice_attribute attribute);
uint64_t device_memory(void);
// driver_context.c
struct context *context_find(CUcontext handle);
struct context *context_current(void);
CUcontext context_stack_top(void);                              // the calling thread's, or 0
// Waits until nothing executes in it, with the lock dropped meanwhile.
void context_quiet(struct context *ctx);
// driver_stream.c
struct stream *stream_find(struct context *ctx, CUstream handle);       // also 0, 1, 2
struct stream *stream_new(struct context *ctx, unsigned flags, int priority);
void stream_free(struct stream *stream);
bool stream_helper(struct context *ctx);
// Queues work (takes the reference) and runs what can run; during a capture it becomes a node
// instead.
CUresult stream_submit(struct stream *stream, struct work *work);
CUresult stream_enqueue(struct stream *stream, struct work *work, uint64_t event_number,
                        bool programmatic);
void stream_pump(struct context *ctx, bool all);
CUresult stream_drain(struct stream *stream);                           // until its queue is empty
CUresult context_drain(struct context *ctx);                            // all its streams
void stream_rest(void); // waits a moment, with the lock dropped
// What a call that may not happen during some capture has to ask first (900, and the captures are
// spoilt).
CUresult capture_forbids(void);
// The same for a call that waits for the whole context.
CUresult capture_in_context(struct context *ctx);
// A call that waits for or asks about a stream, which a capture does not survive (900).
CUresult capture_touches(struct stream *stream);
// A call that uses the legacy default stream, for captures in blocking streams (906).
CUresult capture_legacy(struct context *ctx, const struct stream *stream);
// driver_work.c
struct work *work_new(enum work_kind kind);                             // one reference
struct work *work_keep(struct work *work);
void work_drop(struct work *work);
struct work *work_clone(const struct work *work);
// Executes one piece of work, or a chain of launches. Lock not held.
CUresult work_run(struct context *ctx, struct work *const *works, size_t count, struct trap *trap);
// May a wait at the head of a stream go on? True for everything that does not wait.
bool work_ready(struct context *ctx, const struct item *item);
// driver_copy.c
CUresult copy_check(struct context *ctx, const struct copy *copy);
CUresult copy_from_3d(const CUDA_MEMCPY3D *params, struct copy *copy);
CUresult copy_run(struct context *ctx, const struct copy *copy);        // lock not held
CUresult fill_check(struct context *ctx, const struct work *work);
CUresult fill_run(struct context *ctx, const struct work *work);
// Resolves a unified address: device block of any context, page-locked or plain host memory.
const struct mem_block *memory_block(struct context *ctx, uint64_t address);
// driver_memory.c
CUresult memory_free(struct context *ctx, uint64_t address);
// driver_module.c
CUresult image_new(struct context *ctx, const char *text, size_t length, struct image **image);
void image_drop(struct image *image);
// Finds the PTX text in what a load call was given; *length counts it. Where it had to be unpacked,
// *owned is the memory that the caller frees, else NULL.
CUresult image_text(const void *data, const char **text, size_t *length, char **owned,
                    const char **why);
CUresult module_load(struct context *ctx, const char *text, size_t length, struct module **module);
void module_free(struct module *module);
struct func *module_function(struct module *module, const char *name);
CUresult module_global(const struct module *module, CUdeviceptr *address, size_t *bytes,
                       const char *name);
CUresult file_read(const char *path, char **data); // the caller frees; ends in zeros
void func_init(struct func *func, struct image *image, struct module *module,
               const struct function *function);
// driver_unpack.c
enum packing { PACKED_LZ4, PACKED_ZSTD };
// Text of `bytes` bytes, with a zero behind it; the caller frees. NULL: *why says why.
char *text_unpack(enum packing packing, const void *packed, size_t packed_bytes, uint64_t bytes,
                  const char **why);
// driver_library.c
struct func *library_function(struct kernel *kernel, struct context *ctx, CUresult *result);
// Of a function's handle or a kernel's.
struct func *func_find(struct context *ctx, CUfunction handle, CUresult *result);
void library_forget(struct context *ctx);
// driver_func.c
CUresult func_get(const struct func *func, CUfunction_attribute attribute, int *value);
CUresult func_set(struct func *func, CUfunction_attribute attribute, int value);
CUresult func_param(const struct func *func, size_t index, size_t *offset, size_t *size);
unsigned func_threads_most(const struct func *func);
unsigned func_smem_most(void);
// driver_launch.c
CUresult launch_build(struct context *ctx, const CUlaunchConfig *config, CUfunction handle,
                      void **params, void **extra, struct work **work);
CUresult launch_set_params(struct launch_work *launch, void **params, void **extra);
// driver_occupancy.c
unsigned occupancy_blocks(const struct func *func, unsigned threads, size_t smem);
unsigned occupancy_clusters(const struct context *ctx, const struct func *func, unsigned threads,
                            size_t smem, unsigned size);
// driver_event.c
struct event *event_keep(struct event *event);
void event_drop(struct event *event);
struct event *event_find(CUevent handle);
void event_forget_capture(struct event *event);
void event_forget_context(struct context *ctx);
// driver_capture.c
CUresult capture_add(struct stream *stream, struct work *work);         // takes the reference
CUresult capture_record(struct stream *stream, struct event *event);
CUresult capture_wait(struct stream *stream, struct event *event);
CUresult capture_isolation(struct stream *stream); // it waits for something outside: spoilt
void capture_spoil(struct capture *capture);                            // NULL: nothing
void capture_end(struct capture *capture);
// The body of an entry point: takes the lock itself.
CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                      CUgraph *graph, const CUgraphNode **from, const CUgraphEdgeData **edges,
                      size_t *count);
struct capture *capture_by_id(uint64_t id);
void stream_leave_capture(struct stream *stream);
void capture_forget_graph(const struct graph *graph);                   // it goes away
bool capture_uses_graph(const struct graph *graph);
// driver_graph.c
struct graph *graph_new(void);
void graph_free(struct graph *graph);
struct graph *graph_clone(const struct graph *graph);
// A node that depends on `from`; takes the reference to work, also on failure (NULL).
struct node *graph_add(struct graph *graph, struct node *const *from, const CUgraphEdgeData *edges,
                       size_t count, struct work *work);
bool graph_reorder(struct graph *graph); // dependencies first; false: a cycle or no memory
CUresult nodes_find(const struct graph *graph, const CUgraphNode *handles, size_t count,
                    struct node ***nodes);
struct node *node_find(CUgraphNode handle);
void user_object_release(struct user_object *object, unsigned count);
// driver_node.c
// `old` is the work to be replaced, whose attributes stay, or NULL.
CUresult work_from_params(struct context *ctx, const CUgraphNodeParams *params,
                          const struct work *old, struct work **work);
CUgraphNodeType work_node_type(const struct work *work);
// driver_exec.c
void exec_free(struct exec *exec);
CUresult exec_update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info);

#endif
