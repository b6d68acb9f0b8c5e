/* gemm_order.c -- topics about launches that follow one another, and launches without the library. */
#define _GNU_SOURCE
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gemm_topics.h"

extern char **environ;

/* ---- streams, graphs, chains ---------------------------------------------------------------------------------- */

/* Everything that a capture made; *kernels counts its kernel nodes. */
static bool capture(struct gemm_run *run, CUstream stream, CUgraphExec *exec, size_t *kernels)
{
    struct gpu *gpu = &topic_rig.gpu;
    CUgraph graph = NULL;
    CUgraphNode nodes[16];
    size_t count = LENGTH(nodes);
    bool ok = gpu_ok(gpu, gpu->StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "cuStreamBeginCapture");
    const bool launched = ok && gemm_launch(&topic_rig, run, stream);
    if (ok) ok = gpu_ok(gpu, gpu->StreamEndCapture(stream, &graph), "cuStreamEndCapture") && launched;
    ok = ok && gpu_ok(gpu, gpu->GraphGetNodes(graph, nodes, &count), "cuGraphGetNodes");
    *kernels = 0;
    for (size_t i = 0; ok && i < count; i++) {
        CUgraphNodeType type;
        ok = gpu_ok(gpu, gpu->GraphNodeGetType(nodes[i], &type), "cuGraphNodeGetType");
        *kernels += ok && type == CU_GRAPH_NODE_TYPE_KERNEL;
    }
    ok = ok && gpu_ok(gpu, gpu->GraphInstantiateWithFlags(exec, graph, 0), "cuGraphInstantiateWithFlags");
    if (graph) gpu->GraphDestroy(graph);
    if (!ok) print_message("    %s%s\n", run->error, gpu->error);
    return ok;
}

/* A plan's first run is a capture: one kernel node, replayed with contents that change, equal to eager runs. */
void topic_graphs(void **state)
{
    enum { VARIANTS = 4 };
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    struct gpu *gpu = &topic_rig.gpu;
    if (!gpu->StreamBeginCapture || !gpu->StreamEndCapture || !gpu->GraphGetNodes || !gpu->GraphNodeGetType ||
        !gpu->GraphInstantiateWithFlags || !gpu->GraphLaunch || !gpu->GraphExecDestroy || !gpu->GraphDestroy)
        topic_skip("the driver has no graphs");
    struct gemm_case cases[VARIANTS];
    struct gemm_run eager[VARIANTS] = { 0 }, run = { 0 };
    for (int i = 0; i < VARIANTS; i++) {
        cases[i] = topic_case(kernel, kernel->tile_m + 1, 72, 2 * kernel->tile_k + 8, FILL_NORMAL);
        cases[i].seed += (uint64_t)i;
    }
    CUstream stream = NULL;
    CUgraphExec exec = NULL;
    size_t kernels = 0;
    bool ok = gpu_ok(gpu, gpu->StreamCreate(&stream, 0), "cuStreamCreate");
    ok = ok && gemm_prepare(&topic_rig, &cases[0], &run) && capture(&run, stream, &exec, &kernels) && kernels == 1;
    if (ok || kernels > 1) assert_int_equal(kernels, 1);
    for (int i = 0; ok && i < VARIANTS; i++) ok = gemm_result(&topic_rig, &cases[i], &eager[i]);
    for (int i = 0; ok && i < (topic_rig.full ? 1000 : 6); i++) {
        char where[200];
        const struct gemm_run *want = &eager[i % VARIANTS];
        matrix_poison(&run.d);
        ok = gemm_rewind(&topic_rig, &run) &&
             gpu_ok(gpu, gpu->MemcpyDtoD(run.at_a.base, want->at_a.base, run.a.bytes), "cuMemcpyDtoD") &&
             gpu_ok(gpu, gpu->MemcpyDtoD(run.at_b.base, want->at_b.base, run.b.bytes), "cuMemcpyDtoD") &&
             gpu_ok(gpu, gpu->GraphLaunch(exec, stream), "cuGraphLaunch") && gemm_fetch(&topic_rig, &run);
        if (!ok) print_message("    replay %d: %s\n", i, gpu->error);
        if (ok && !gemm_same(&run, want, where, sizeof where)) {
            print_message("    replay %d differs from the eager run: %s\n", i, where);
            ok = false;
        }
    }
    if (exec) gpu->GraphExecDestroy(exec);
    if (stream) gpu->StreamDestroy(stream);
    for (int i = 0; i < VARIANTS; i++) gemm_release(&topic_rig, &eager[i]);
    gemm_release(&topic_rig, &run);
    assert_true(ok);
}

void topic_two_streams(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    struct gpu *gpu = &topic_rig.gpu;
    struct gemm_case cases[2];
    struct gemm_run eager[2] = { 0 }, run[2] = { 0 };
    CUstream streams[2] = { 0 };
    bool ok = true;
    for (int i = 0; i < 2; i++) {
        cases[i] = topic_case(kernel, (topic_rig.full ? 4 : 1) * kernel->tile_m + i, 72 + i,
                              3 * kernel->tile_k + 8 * i, FILL_NORMAL);
        cases[i].sm_budget = topic_rig.full ? 60 : 1;
        ok = ok &&
             gpu_ok(gpu, gpu->StreamCreate(&streams[i], 1 /* not ordered with the default stream */),
                    "cuStreamCreate") &&
             gemm_result(&topic_rig, &cases[i], &eager[i]) && gemm_prepare(&topic_rig, &cases[i], &run[i]);
    }
    for (int i = 0; ok && i < (topic_rig.full ? 1000 : 4); i++)
        ok = gemm_launch(&topic_rig, &run[i % 2], streams[i % 2]);
    for (int i = 0; ok && i < 2; i++) {
        char where[200];
        ok = gemm_fetch(&topic_rig, &run[i]);
        if (ok && !gemm_same(&run[i], &eager[i], where, sizeof where)) {
            print_message("    stream %d differs: %s\n", i, where);
            ok = false;
        }
    }
    for (int i = 0; i < 2; i++) {
        if (streams[i]) gpu->StreamDestroy(streams[i]);
        gemm_release(&topic_rig, &eager[i]);
        gemm_release(&topic_rig, &run[i]);
    }
    assert_true(ok);
}

/* D of each launch is C, or A, of the next; two buffers take turns, so a launch that starts too early reads or
 * overwrites what its predecessor still needs. */
static bool run_chain(struct gemm_run *run, int length, bool through_a, bool wait)
{
    struct gpu *gpu = &topic_rig.gpu;
    const CUdeviceptr other = gpu_alloc(gpu, run->d.bytes);
    bool ok = other && gemm_rewind(&topic_rig, run) && gpu_upload(gpu, other, run->d.base, run->d.bytes);
    const struct ptxmm_arguments first = run->arguments;
    uint64_t from = through_a ? first.a : first.c;
    for (int i = 0; ok && i < length; i++) { /* an odd length ends in D */
        *(through_a ? &run->arguments.a : &run->arguments.c) = from;
        run->arguments.d = i % 2 ? other + run->d.guard : first.d;
        from = run->arguments.d;
        ok = gemm_launch(&topic_rig, run, NULL) && (!wait || gpu_ok(gpu, gpu->CtxSynchronize(), "cuCtxSynchronize"));
    }
    run->arguments = first;
    ok = ok && gemm_fetch(&topic_rig, run);
    if (!ok) print_message("    %s%s\n", run->error, gpu->error);
    gpu_free(gpu, other);
    return ok;
}

void topic_chains(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    const int length = topic_rig.full ? 101 : 3;
    for (int i = 0; i < 4; i++) { /* without and with a promise about what no launch of the chain writes */
        const int through_a = i / 2, promised = i % 2;
        const struct gemm_case types = { .kernel = kernel };
        if (through_a && gemm_type_a(&types) != gemm_type_d(&types)) continue;
        const int64_t size = topic_rig.full ? 8 * kernel->tile_k : kernel->tile_k + 8;
        struct gemm_case c = topic_case(kernel, (topic_rig.full ? 9 : 1) * kernel->tile_m + 1, size, size, FILL_NORMAL);
        c.alpha = through_a ? 1 / sqrtf((float)size) : 0.01f; /* keeps values near 1 */
        c.with_c = !through_a;
        c.beta = through_a ? 0 : 1;
        struct gemm_case promise = c;
        promise.constant_a = promised && !through_a;
        promise.constant_b = promised;
        struct gemm_run overlapped = { 0 }, waited = { 0 };
        char where[200], text[600];
        bool ok = gemm_prepare(&topic_rig, &promise, &overlapped) && gemm_prepare(&topic_rig, &c, &waited) &&
                  run_chain(&overlapped, length, through_a, false) && run_chain(&waited, length, through_a, true);
        if (ok && !(gemm_same(&overlapped, &waited, where, sizeof where) &&
                    matrix_intact(&overlapped.d, where, sizeof where))) {
            print_message("    %s\n        chain through %s: %s\n", gemm_describe(&promise, text, sizeof text),
                          through_a ? "A" : "C", where);
            ok = false;
        }
        gemm_release(&topic_rig, &overlapped);
        gemm_release(&topic_rig, &waited);
        assert_true(ok);
    }
}

/* ---- launches by the ABI alone -------------------------------------------------------------------------------- */

int topic_foreign_child(const char *mistake_name, const char *kernel_name)
{
    alarm(120);
    if (!rig_open(&topic_rig, NULL)) {
        printf("    %s\n", topic_rig.error);
        return 2;
    }
    for (int mistake = 0; mistake < FOREIGN_MISTAKES; mistake++) {
        if (strcmp(mistake_name, foreign_name((enum foreign_mistake)mistake))) continue;
        const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(kernel_name);
        struct gemm_run run;
        CUresult result;
        if (!kernel) return 2;
        const struct gemm_case c = topic_case(kernel, 17, 8, kernel->tile_k + 8, FILL_SMALL_INT);
        if (!gemm_prepare(&topic_rig, &c, &run) ||
            !foreign_launch(&topic_rig, &run, (enum foreign_mistake)mistake, NULL, &result)) {
            printf("    %s\n", run.error);
            return 2;
        }
        if (result == CUDA_SUCCESS) result = topic_rig.gpu.CtxSynchronize();
        return result == CUDA_SUCCESS;
    }
    return 2;
}

void topic_foreign(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin_once(state);
    struct gemm_case c = topic_case(kernel, kernel->tile_m + 1, 70, kernel->tile_k + 8, FILL_SMALL_INT);
    struct gemm_run run;
    CUresult launched = CUDA_SUCCESS;
    c.with_c = true;
    c.beta = 2;
    bool ok = gemm_prepare(&topic_rig, &c, &run) && foreign_launch(&topic_rig, &run, FOREIGN_NONE, NULL, &launched) &&
              gpu_ok(&topic_rig.gpu, launched, "cuLaunchKernelEx") && gemm_fetch(&topic_rig, &run) &&
              gemm_judge(&topic_rig, &run);
    if (!ok) print_message("    by the ABI: %s%s\n", run.error, topic_rig.gpu.error);
    gemm_release(&topic_rig, &run);
    assert_true(ok);

    pid_t children[FOREIGN_MISTAKES] = { 0 };
    fflush(stdout);
    for (int i = 1; i < FOREIGN_MISTAKES; i++) {
        if (!foreign_can((enum foreign_mistake)i, kernel)) continue;
        char self[] = "kernels", option[] = "--foreign", mistake[32], name[128];
        char *const arguments[] = { self, option, mistake, name, NULL };
        snprintf(mistake, sizeof mistake, "%s", foreign_name((enum foreign_mistake)i));
        snprintf(name, sizeof name, "%s", kernel->name);
        if (posix_spawn(&children[i], "/proc/self/exe", NULL, NULL, arguments, environ)) children[i] = 0;
    }
    for (int i = 1; i < FOREIGN_MISTAKES; i++) {
        if (!foreign_can((enum foreign_mistake)i, kernel)) continue;
        static const char *const verdicts[] = { "", "went unnoticed", "could not be tried" };
        int status = 0;
        const bool ended = children[i] && waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status);
        const int code = ended ? WEXITSTATUS(status) : -1;
        if (code == 0) continue;
        print_message("    wrong %s %s\n", foreign_name((enum foreign_mistake)i),
                      code == 1 || code == 2 ? verdicts[code] : "ended the process");
        ok = false;
    }
    assert_true(ok);
}
