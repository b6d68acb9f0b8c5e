#include "exec.h"

/* One handler per opcode. */
const machine_op machine_ops[OP_COUNT] = {
#define OP(NAME, name) [OP_##NAME] = op_##name,
#define FORM(NAME, mnemonic, operands, semantics)
#include "isa.def"
#undef OP
#undef FORM
};
