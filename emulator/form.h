/*
 * From an opcode as written ("ld.global.v4.u32") to an instruction with its modifiers set, and to
 * the operands it wants. isa.def is the only list of what exists.
 */
#ifndef EMULATOR_FORM_H
#define EMULATOR_FORM_H

#include "program.h"

enum spec_kind {
    SPEC_VALUE,         /* source: register or immediate of the type; destination if dst */
    SPEC_PRED,          /* predicate source, or predicate destination if dst */
    SPEC_MEM,           /* [address] in space */
    SPEC_TENSOR,        /* [map, {coordinates}]: two slots */
    SPEC_IMM,           /* lo..hi, multiple of step */
    SPEC_SIGN,          /* 1 or -1 */
    SPEC_LABEL,
    SPEC_ANY,           /* the decoder of this opcode knows */
    SPEC_SINK,          /* _ alone */
    SPEC_POLICY,        /* cache policy, if the instruction has a cache hint */
    SPEC_EMPTY          /* a slot that the text cannot fill */
};

struct spec {
    uint8_t kind;
    uint8_t type;       /* enum type of a value */
    uint8_t space;      /* enum space of a memory operand */
    bool dst, sink, wider, reg_only, optional, symbol;
    bool pair;          /* followed by | and the second of a pair */
    bool vector;        /* braces wanted (count elements) */
    uint16_t count;
    int64_t lo, hi, step;
};

enum { FORM_SPECS = 8 };

struct shape {
    struct inst model;              /* everything but guard and operands */
    const char *semantics;
    unsigned nspecs;
    struct spec spec[FORM_SPECS];
    unsigned slot[FORM_SPECS];      /* index in inst.o of each spec */
};

/* False: no such instruction; message says what does not fit. */
bool form_resolve(const char *opcode, size_t len, struct shape *shape, char *message, size_t size);

/* Why an opcode may not be used on this target, or NULL. */
const char *form_target(const struct inst *in, unsigned sm, char suffix);

/* The type a name without dot stands for, TY_NONE if none. */
enum type type_find(const char *name, size_t len);

#endif
