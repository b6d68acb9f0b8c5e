/*
 * The words between the dots of an opcode, and what each sets in an instruction.
 */
#ifndef EMULATOR_MODIFIERS_H
#define EMULATOR_MODIFIERS_H

#include "program.h"

struct word {
    const char *s;
    size_t len;
};

enum effect {
    RND, CMP, SUB, SPACE, SEM, SCOPE, FLAG, VEC, DIM, GROUP, KIND, SHAPE, BLOCK, COLLECTOR
};

struct modifier {
    const char *word;
    uint8_t effect;             /* enum effect: the field of struct inst */
    uint32_t value;
};

const struct modifier *modifier_find(const char *word, size_t len);     /* NULL: none, or a type */

/* m64n128k16; any numbers */
bool modifier_shape(struct word w, unsigned *m, unsigned *n, unsigned *k);

/* Sets what the word says; types and spaces fill the next free place. */
void modifier_apply(struct inst *in, struct word w, unsigned *ntypes, unsigned *nspaces);

#endif
