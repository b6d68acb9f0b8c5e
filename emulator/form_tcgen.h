/*
 * What isa.def cannot say of the sm_100 instructions: rules between modifiers, targets, operands.
 */
#ifndef EMULATOR_FORM_TCGEN_H
#define EMULATOR_FORM_TCGEN_H

#include "parse.h"

/* Fills in what an omitted modifier means, and says what does not go together; NULL: all right. */
const char *form_tcgen_check(struct inst *in);

/* Why the instruction may not be used on this target, NULL if it may; sm_100 and above only. */
const char *form_tcgen_target(const struct inst *in, unsigned sm, char suffix);

/* The operands of an instruction whose form has an X; the rules between the others' operands. */
bool form_tcgen_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                       unsigned n, struct inst *in);
void form_tcgen_rules(struct parser *ps, const struct raw *raws, const struct inst *in);

/* Registers of a tcgen05.ld or st; 0: the shape has no such number of repetitions. */
unsigned form_tcgen_registers(const struct inst *in);

#endif
