/*
 * Guards that are undefined in some lanes.
 *
 * Compilers let rows past the end of a problem run on with whatever they hold and guard only their
 * stores; on the way such a row may be asked whether its sum is zero. So where a guard decides only
 * what is in registers, its lanes leave that out, and have the registers undefined from then on:
 * it makes no difference until they get out, and there the trap is. A guard that decides anything
 * else (a store, a barrier, a loop) traps itself.
 */
#include "state.h"

enum { LONGEST_SKIP = 512 };

/* Does the instruction nothing but write registers, whatever other lanes do? */
static bool only_registers(const struct inst *in)
{
    switch ((enum opcode)in->op) {
    case OP_ADD: case OP_SUB: case OP_MUL: case OP_MAD: case OP_MUL24: case OP_MAD24: case OP_DIV:
    case OP_REM: case OP_ABS: case OP_NEG: case OP_MIN: case OP_MAX: case OP_SAD: case OP_DP4A:
    case OP_DP2A: case OP_AND: case OP_OR: case OP_XOR: case OP_NOT: case OP_CNOT: case OP_LOP3:
    case OP_SHL: case OP_SHR: case OP_SHF: case OP_POPC: case OP_CLZ: case OP_BFIND: case OP_FNS:
    case OP_BREV: case OP_BFE: case OP_BFI: case OP_BMSK: case OP_SZEXT: case OP_PRMT:
    case OP_SETP: case OP_SET: case OP_SELP: case OP_SLCT: case OP_FMA: case OP_RCP: case OP_SQRT:
    case OP_RSQRT: case OP_SIN: case OP_COS: case OP_LG2: case OP_EX2: case OP_TANH: case OP_TESTP:
    case OP_COPYSIGN: case OP_MOV: case OP_CVT: case OP_CVT_PACK: case OP_CVTA:
        return !(in->flags & INST_CC);
    case OP_LD:
        return in->sem == SEM_WEAK;
    default:
        return false;
    }
}

static bool is_skip(const struct inst *insts, uint32_t pc, uint32_t end)
{
    const struct inst *in = &insts[pc];

    return only_registers(in) || (in->op == OP_BRA && in->o[0].imm > pc && in->o[0].imm <= end);
}

static void forget(struct warp *w, const struct operand *o, uint32_t lanes)
{
    if (o->kind == OPND_VEC) {
        for (unsigned i = 0; i < o->n; i++)
            forget(w, operand_element(w->grid->program, o, i), lanes);
    } else if (o->kind == OPND_REG) {
        uint32_t *const defined[] = { [BANK_32] = w->r.def32, [BANK_64] = w->r.def64,
                                      [BANK_PRED] = w->r.defp };
        defined[o->bank][o->reg] &= ~lanes;
        if (o->type == TY_B128)
            defined[o->bank][o->reg + 1] &= ~lanes;
    }
}

bool skip_undefined(struct warp *w, uint32_t pc, uint32_t lanes)
{
    const struct inst *insts = w->grid->program->insts;
    const bool branch = insts[pc].op == OP_BRA;
    const uint32_t first = branch ? pc + 1 : pc;
    const uint64_t end = branch ? insts[pc].o[0].imm : pc + 1;

    if (end < first || end - first > LONGEST_SKIP)
        return false;
    for (uint32_t i = first; i < end; i++)
        if (!is_skip(insts, i, (uint32_t)end))
            return false;
    for (uint32_t i = first; i < end; i++)
        for (unsigned s = 0; s < insts[i].nopnd; s++)
            if (insts[i].dst >> s & 1)
                forget(w, &insts[i].o[s], lanes);
    return true;
}
