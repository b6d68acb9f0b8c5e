/*
 * Fragments of wmma: how many registers they have. What lies in them is in wmma.c.
 */
#ifndef EMULATOR_WMMA_H
#define EMULATOR_WMMA_H

#include "program.h"

/* Rows of A, columns of B; 0 for C and D. */
static inline unsigned wmma_vectors(const struct inst *in, enum suboperation matrix)
{
    return matrix == SUB_A ? in->m : matrix == SUB_B ? in->n : 0;
}

/* Registers that hold different elements. */
static inline unsigned wmma_distinct(const struct inst *in, enum suboperation matrix, enum type t)
{
    const unsigned vectors = wmma_vectors(in, matrix);
    const unsigned elements = vectors ? (unsigned)vectors * in->k : (unsigned)in->m * in->n;

    return elements * type_bits(t) / 32 / (t == TY_F64 ? 64 : 32);
}

/* Registers of the fragment: A and B of f16 always have eight, and hold elements two or four times
 * where that is more than they need. */
static inline unsigned wmma_registers(const struct inst *in, enum suboperation matrix, enum type t)
{
    return t == TY_F16 && matrix != SUB_C ? 8 : wmma_distinct(in, matrix, t);
}

/* B has the part of mma's A, and D lies transposed. */
static inline bool wmma_turned(const struct inst *in)
{
    return in->m == 8 && in->n == 32;
}

#endif
