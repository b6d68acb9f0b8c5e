/*
 * A PTX file that says how to run itself and what must come out, in comments at its head:
 *
 *   //run: grid 2 block 32 smem 0               also: grid x,y,z  cluster 2  kernel name
 *   //arg: a u32[64] = i * 3                    a device buffer and its initial values
 *   //arg: out u32[64]                          a device buffer that nobody has written
 *   //arg: n u32 = 64                           a scalar
 *   //arg: m tensormap bf16 of a dim 64,32 box 64,8 swizzle 128
 *                                               a tensor map over an earlier buffer; also: pitch
 *                                               bytes of dims 1.. (packed), step, fill nan, and
 *                                               atom 32 behind swizzle 128
 *   //buffer: b f32[9] = 1                      a buffer that is no argument, for a map's sake
 *   //expect: out[0..31] = a[i] + n             equal bits; also out, out[5]
 *   //expect: f ~ sqrt(x[i]) within 1e-6        relative error
 *   //trap: BOUNDS                              the launch must fail, and the report contain this
 *   //rules: assume                             the emulator needs PTXMM_EMU_RULES=assume; none: it
 *                                               must have no rules
 *
 * Arguments come in the kernel's order. In an expression (C's operators, min, max, abs, sqrt) i is
 * the index of the element, a scalar's name its value, a[..] the initial value of a buffer. This
 * module knows no driver: the caller allocates, launches and copies.
 */
#ifndef PTXMM_CLI_PTX_CASE_H
#define PTXMM_CLI_PTX_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PTX_ARGS = 16, PTX_EXPECTS = 32 };

enum ptx_type {
    PTX_U8, PTX_S8, PTX_U16, PTX_S16, PTX_U32, PTX_S32, PTX_U64, PTX_S64,
    PTX_F16, PTX_BF16, PTX_F32, PTX_F64
};

/* Operands of cuTensorMapEncodeTiled; type, swizzle and fill are that function's numbers. */
struct ptx_map {
    unsigned buffer;            /* argument it looks at */
    int type, swizzle, fill;
    uint32_t rank;
    uint64_t dim[5], pitch[4];
    uint32_t box[5], step[5];
};

struct ptx_arg {
    char name[32];
    enum ptx_type type;
    size_t count;               /* elements of a buffer; 0: a scalar or a map */
    char *init;                 /* expression, or NULL */
    bool is_map;
    bool hidden;                /* //buffer: the kernel does not get it */
    struct ptx_map map;
};

struct ptx_expect {
    unsigned arg;
    size_t first, last;         /* elements, last included */
    char *expression;
    double within;              /* relative error allowed; 0: equal bits */
    unsigned line;
};

struct ptx_case {
    char kernel[1024];
    uint32_t grid[3], block[3], cluster[3];     /* cluster: zeros if not said */
    uint32_t smem;              /* dynamic shared memory, bytes */
    unsigned nargs, nexpects;
    struct ptx_arg arg[PTX_ARGS];
    struct ptx_expect expect[PTX_EXPECTS];
    char *trap;                 /* words of the report, or NULL */
    char rules[8];              /* "assume", "none", or "" */
};

/* What an expression may name besides i. */
struct ptx_values {
    const struct ptx_case *c;
    void *const *initial;       /* values of each argument, or NULL where there are none */
};

struct ptx_number {
    bool real;
    int64_t i;
    double d;
};

/* False: message names the line and what is wrong. Free the case in both events. */
bool ptx_case_parse(struct ptx_case *c, const char *text, char *message, size_t size);
void ptx_case_free(struct ptx_case *c);

size_t ptx_type_size(enum ptx_type type);
const char *ptx_type_name(enum ptx_type type);
bool ptx_type_find(const char *name, enum ptx_type *type);
size_t ptx_arg_size(const struct ptx_arg *arg);

/* Initial values of argument n, ptx_arg_size bytes; earlier arguments are in values. */
bool ptx_case_fill(const struct ptx_values *v, unsigned n, void *bytes, char *message,
                   size_t size);

/* Holds results (as initial: one per argument) against every expectation. False: message names the
 * first element that differs. */
bool ptx_case_check(const struct ptx_values *v, void *const *results, char *message, size_t size);

/* The element as text, for people. */
void ptx_case_print(enum ptx_type type, const void *bytes, size_t index, char *out, size_t size);

/* One expression, for element i. */
bool ptx_expr_eval(const struct ptx_values *v, const char *expression, size_t i,
                   struct ptx_number *out, char *message, size_t size);

/* An element of a buffer as a number, and back: integers wrap, reals round to nearest even. */
struct ptx_number ptx_element(enum ptx_type type, const void *bytes, size_t index);
void ptx_element_store(enum ptx_type type, struct ptx_number n, void *bytes, size_t index);

#endif
