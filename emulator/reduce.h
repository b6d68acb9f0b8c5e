/* Element-wise updates of memory: what bulk and tensor reductions, and red.async, do. */
#ifndef EMULATOR_REDUCE_H
#define EMULATOR_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"
#include "tmap.h"

enum reduce_type {
    REDUCE_U32, REDUCE_S32, REDUCE_U64, REDUCE_S64, REDUCE_F16, REDUCE_BF16, REDUCE_F32,
    REDUCE_F32_FTZ, REDUCE_F64, REDUCE_NONE,
};

enum reduce_type reduce_of_map(enum tmap_type type);        /* REDUCE_NONE: no reductions */
enum reduce_type reduce_of_type(enum type type);            /* b32, b64: as unsigned */
unsigned reduce_bytes(enum reduce_type type);

/* Whether the hardware has the combination in tensor copies. */
bool reduce_legal(enum suboperation op, enum reduce_type type);

/* old op operand, for one element of encodings. */
uint64_t reduce_element(enum suboperation op, enum reduce_type type, uint64_t old,
                        uint64_t operand);

/* count elements: memory[i] = memory[i] op operand[i]. */
void reduce_bytes_at(enum suboperation op, enum reduce_type type, uint8_t *memory,
                     const uint8_t *operand, size_t count);

#endif
