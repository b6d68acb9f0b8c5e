/*
 * A trap is a value: what went wrong, where, and in words.
 *
 * A machine keeps the first trap of a run and stops; the caller gets it as a struct. Nothing is
 * printed here. The text is owned by the trap: trap_clear frees it.
 */
#ifndef EMULATOR_TRAP_H
#define EMULATOR_TRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, the driver's error code it becomes, what the name means */
#define TRAP_KINDS(X) \
    X(BOUNDS,          700, "access outside every allocation or window") \
    X(READ_ONLY,       700, "write to memory that is read-only") \
    X(DEAD_TARGET,     719, "access to the shared memory of a CTA that has exited") \
    X(MISALIGNED,      716, "misaligned address") \
    X(WRONG_SPACE,     717, "address of another space") \
    X(UNDEFINED,       719, "use of a value that nobody wrote") \
    X(DIVERGENT,       719, "aligned instruction in divergent code") \
    X(MISMATCH,        719, "lanes or warps disagree on an operand or instruction") \
    X(MEMBERMASK,      719, "executing lane is not in its own member mask") \
    X(BARRIER,         719, "misuse of a named barrier") \
    X(CLUSTER_BARRIER, 719, "misuse of the cluster barrier") \
    X(REGISTERS,       719, "illegal change of the register count") \
    X(MBARRIER,        719, "misuse of an mbarrier") \
    X(MBARRIER_TX,     719, "transaction count of an mbarrier out of range") \
    X(MBARRIER_MEMORY, 719, "ordinary access to a live mbarrier") \
    X(PHASE,           719, "wait for a phase two steps away") \
    X(TENSOR_MAP,      715, "illegal tensor map") \
    X(TENSOR_ACCESS,   715, "illegal coordinate or operand of a tensor copy") \
    X(DESCRIPTOR,      719, "illegal matrix descriptor") \
    X(PROXY,           719, "engine and ordinary access to the same bytes with no proxy fence between") \
    X(FENCE,           719, "tcgen05 instructions of two threads without tcgen05.fence between") \
    X(PENDING,         719, "register or cell of a pending asynchronous instruction touched") \
    X(EXIT_PENDING,    719, "exit with asynchronous work outstanding") \
    X(CALL,            719, "illegal call or return") \
    X(STACK,           719, "call stack or local memory exhausted") \
    X(INSTRUCTION,     715, "instruction not allowed here") \
    X(TENSOR_MEMORY,   719, "misuse of Tensor Memory") \
    X(UNVERIFIED,      719, "behaviour that no source confirms") \
    X(TRAP,            719, "trap instruction") \
    X(ASSERT,          710, "assertion of the kernel failed") \
    X(DEADLOCK,        702, "deadlock: every thread waits") \
    X(LIVELOCK,        702, "livelock: threads run but nothing changes") \
    X(RESOURCES,       701, "launch needs more than a multiprocessor has") \
    X(MEMORY,            2, "the host ran out of memory")

enum trap_kind {
    TRAP_NONE,
#define X(name, code, text) TRAP_##name,
    TRAP_KINDS(X)
#undef X
    TRAP_KIND_COUNT
};

enum trap_level {
    TRAP_ERROR,
};

struct trap {
    enum trap_kind kind;
    enum trap_level level;
    char kernel[128];
    char file[256];             /* source position of the instruction; line 0: none */
    unsigned line;
    char source[128];           /* the instruction as written, cut */
    bool in_cta;                /* the fields from here to lane say something */
    unsigned cta[3];
    int warp;                   /* rank in the CTA, or -1 */
    int lane;                   /* or -1: the whole warp */
    unsigned thread[3];         /* threadIdx, if there is a lane */
    bool has_address;
    uint64_t address;
    char *text;                 /* one or more lines, no newline at the end */
};

/* "BOUNDS", and the sentence beside it above. */
const char *trap_name(enum trap_kind kind);
const char *trap_sentence(enum trap_kind kind);

/* The CUresult that a driver reports for this kind. */
int trap_code(enum trap_kind kind);

/* The report a reader gets, as a new string of the caller's, or NULL when memory is short. */
char *trap_report(const struct trap *trap);

/* Frees the text and makes it TRAP_NONE. */
void trap_clear(struct trap *trap);

#endif
