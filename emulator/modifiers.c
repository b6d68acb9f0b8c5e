#include "modifiers.h"

#include <stdio.h>
#include <string.h>

#include "form.h"

/* Collector b0 to b3: the number above the suboperation. */
#define COLLECTOR_B(name, number) \
    {"collector::" name "::fill", COLLECTOR, number << 8 | SUB_FILL}, \
    {"collector::" name "::use", COLLECTOR, number << 8 | SUB_USE}, \
    {"collector::" name "::lastuse", COLLECTOR, number << 8 | SUB_LASTUSE}, \
    {"collector::" name "::discard", COLLECTOR, number << 8 | SUB_DISCARD}

static const struct modifier modifiers[] = {
    {"rn", RND, RND_RN}, {"rz", RND, RND_RZ}, {"rm", RND, RND_RM}, {"rp", RND, RND_RP},
    {"rna", RND, RND_RNA}, {"rni", RND, RND_RNI}, {"rzi", RND, RND_RZI}, {"rmi", RND, RND_RMI},
    {"rpi", RND, RND_RPI},
    {"eq", CMP, CMP_EQ}, {"ne", CMP, CMP_NE}, {"lt", CMP, CMP_LT}, {"le", CMP, CMP_LE},
    {"gt", CMP, CMP_GT}, {"ge", CMP, CMP_GE}, {"ls", CMP, CMP_LE}, {"hs", CMP, CMP_GE},
    {"equ", CMP, CMP_EQU}, {"neu", CMP, CMP_NEU}, {"ltu", CMP, CMP_LTU}, {"leu", CMP, CMP_LEU},
    {"gtu", CMP, CMP_GTU}, {"geu", CMP, CMP_GEU}, {"num", CMP, CMP_NUM}, {"nan", CMP, CMP_NAN},
    {"add", SUB, SUB_ADD}, {"min", SUB, SUB_MIN}, {"max", SUB, SUB_MAX}, {"and", SUB, SUB_AND},
    {"or", SUB, SUB_OR}, {"xor", SUB, SUB_XOR}, {"inc", SUB, SUB_INC}, {"dec", SUB, SUB_DEC},
    {"exch", SUB, SUB_EXCH}, {"cas", SUB, SUB_CAS}, {"popc", SUB, SUB_POPC},
    {"lo", SUB, SUB_LO}, {"hi", SUB, SUB_HI}, {"wide", SUB, SUB_WIDE},
    {"l", SUB, SUB_L}, {"r", SUB, SUB_R},
    {"idx", SUB, SUB_IDX}, {"up", SUB, SUB_UP}, {"down", SUB, SUB_DOWN}, {"bfly", SUB, SUB_BFLY},
    {"all", SUB, SUB_ALL}, {"any", SUB, SUB_ANY}, {"uni", SUB, SUB_UNI},
    {"ballot", SUB, SUB_BALLOT},
    {"f4e", SUB, SUB_F4E}, {"b4e", SUB, SUB_B4E}, {"rc8", SUB, SUB_RC8}, {"ecl", SUB, SUB_ECL},
    {"ecr", SUB, SUB_ECR}, {"rc16", SUB, SUB_RC16},
    {"finite", SUB, SUB_FINITE}, {"infinite", SUB, SUB_INFINITE}, {"number", SUB, SUB_NUMBER},
    {"notanumber", SUB, SUB_NOTANUMBER}, {"normal", SUB, SUB_NORMAL},
    {"subnormal", SUB, SUB_SUBNORMAL},
    {"clamp", SUB, SUB_CLAMP}, {"wrap", SUB, SUB_WRAP},
    {"global_address", SUB, SUB_GLOBAL_ADDRESS}, {"rank", SUB, SUB_RANK},
    {"box_dim", SUB, SUB_BOX_DIM}, {"global_dim", SUB, SUB_GLOBAL_DIM},
    {"global_stride", SUB, SUB_GLOBAL_STRIDE}, {"element_stride", SUB, SUB_ELEMENT_STRIDE},
    {"elemtype", SUB, SUB_ELEMTYPE}, {"interleave_layout", SUB, SUB_INTERLEAVE_LAYOUT},
    {"swizzle_mode", SUB, SUB_SWIZZLE_MODE}, {"fill_mode", SUB, SUB_FILL_MODE},
    {"L1", SUB, SUB_L1}, {"L2", SUB, SUB_L2}, {"L2::evict_last", SUB, SUB_EVICT_LAST},
    {"L2::evict_normal", SUB, SUB_EVICT_NORMAL}, {"L2::evict_first", SUB, SUB_EVICT_FIRST},
    {"L2::evict_unchanged", SUB, SUB_EVICT_UNCHANGED},
    {"global", SPACE, SP_GLOBAL}, {"shared", SPACE, SP_SHARED}, {"shared::cta", SPACE, SP_SHARED},
    {"shared::cluster", SPACE, SP_SHARED_CLUSTER}, {"local", SPACE, SP_LOCAL},
    {"const", SPACE, SP_CONST}, {"param", SPACE, SP_PARAM}, {"param::entry", SPACE, SP_PARAM},
    {"param::func", SPACE, SP_PARAM},
    {"weak", SEM, SEM_WEAK}, {"relaxed", SEM, SEM_RELAXED}, {"acquire", SEM, SEM_ACQUIRE},
    {"release", SEM, SEM_RELEASE}, {"acq_rel", SEM, SEM_ACQ_REL}, {"sc", SEM, SEM_SC},
    {"volatile", SEM, SEM_VOLATILE}, {"mmio", SEM, SEM_MMIO},
    {"cta", SCOPE, SCOPE_CTA}, {"cluster", SCOPE, SCOPE_CLUSTER}, {"gpu", SCOPE, SCOPE_GPU},
    {"gl", SCOPE, SCOPE_GPU}, {"sys", SCOPE, SCOPE_SYS},
    {"ftz", FLAG, INST_FTZ}, {"sat", FLAG, INST_SAT}, {"satfinite", FLAG, INST_SATFINITE},
    {"relu", FLAG, INST_RELU}, {"NaN", FLAG, INST_NAN}, {"approx", FLAG, INST_APPROX},
    {"full", FLAG, INST_FULL}, {"cc", FLAG, INST_CC}, {"xorsign", FLAG, INST_XORSIGN},
    {"abs", FLAG, INST_ABS}, {"sync", FLAG, INST_SYNC}, {"aligned", FLAG, INST_ALIGNED},
    {"trans", FLAG, INST_TRANS}, {"col", FLAG, INST_COL}, {"a", SUB, SUB_A}, {"b", SUB, SUB_B},
    {"c", SUB, SUB_C}, {"sp::ordered_metadata", FLAG, INST_ORDERED}, {"nc", FLAG, INST_NC}, {"noftz", FLAG, INST_NOFTZ},
    {"parity", FLAG, INST_PARITY}, {"noComplete", FLAG, INST_NOCOMPLETE},
    {"noinc", FLAG, INST_NOINC}, {"expect_tx", FLAG, INST_EXPECT_TX},
    {"arrive_drop", FLAG, INST_DROP}, {"multicast::cluster", FLAG, INST_MULTICAST},
    {"L2::cache_hint", FLAG, INST_CACHE_HINT}, {"read", FLAG, INST_READ}, {"to", FLAG, INST_TO},
    {"cvt", FLAG, INST_TO}, {"arrive", FLAG, INST_ARRIVE}, {"wait", FLAG, INST_WAIT},
    {"try_wait", FLAG, INST_TRY}, {"shiftamt", FLAG, INST_SHIFTAMT},
    {"v2", VEC, 2}, {"v4", VEC, 4}, {"v8", VEC, 8}, {"x1", VEC, 1}, {"x2", VEC, 2}, {"x4", VEC, 4},
    {"x8", VEC, 8}, {"x16", VEC, 16}, {"x32", VEC, 32}, {"x64", VEC, 64}, {"x128", VEC, 128},
    {"1d", DIM, 1}, {"2d", DIM, 2}, {"3d", DIM, 3}, {"4d", DIM, 4}, {"5d", DIM, 5},
    {"get_first_ctaid::x", DIM, 1}, {"get_first_ctaid::y", DIM, 2}, {"get_first_ctaid::z", DIM, 3},
    {"cta_group::1", GROUP, 1}, {"cta_group::2", GROUP, 2},
    {"kind::f16", KIND, KIND_F16}, {"kind::tf32", KIND, KIND_TF32},
    {"kind::f8f6f4", KIND, KIND_F8F6F4}, {"kind::i8", KIND, KIND_I8},
    {"kind::mxf8f6f4", KIND, KIND_MXF8F6F4}, {"kind::mxf4", KIND, KIND_MXF4},
    {"kind::mxf4nvf4", KIND, KIND_MXF4NVF4},
    {"32x32b", SHAPE, SHAPE_32X32B}, {"16x64b", SHAPE, SHAPE_16X64B},
    {"16x128b", SHAPE, SHAPE_16X128B}, {"16x256b", SHAPE, SHAPE_16X256B},
    {"16x32bx2", SHAPE, SHAPE_16X32BX2}, {"128x256b", SHAPE, SHAPE_128X256B},
    {"4x256b", SHAPE, SHAPE_4X256B}, {"128x128b", SHAPE, SHAPE_128X128B},
    {"64x128b", SHAPE, SHAPE_64X128B}, {"32x128b", SHAPE, SHAPE_32X128B},
    {"scale_vec::1X", BLOCK, 32}, {"scale_vec::2X", BLOCK, 32}, {"scale_vec::4X", BLOCK, 16},
    {"block16", BLOCK, 16}, {"block32", BLOCK, 32},
    {"warpx2::02_13", SUB, SUB_WARPX2_02_13}, {"warpx2::01_23", SUB, SUB_WARPX2_01_23},
    {"warpx4", SUB, SUB_WARPX4}, {"b4x16_p64", SUB, SUB_B4X16_P64},
    {"b6x16_p32", SUB, SUB_B6X16_P32}, {"tile::gather4", SUB, SUB_GATHER4},
    {"tile::scatter4", SUB, SUB_SCATTER4},
    {"collector::a::fill", SUB, SUB_FILL}, {"collector::a::use", SUB, SUB_USE},
    {"collector::a::lastuse", SUB, SUB_LASTUSE}, {"collector::a::discard", SUB, SUB_DISCARD},
    COLLECTOR_B("b0", 0), COLLECTOR_B("b1", 1), COLLECTOR_B("b2", 2), COLLECTOR_B("b3", 3),
    {"ashift", FLAG, INST_ASHIFT}, {"b8x16", FLAG, INST_TO}, {"pack::16b", FLAG, INST_PACK},
    {"unpack::16b", FLAG, INST_PACK}, {"wait::ld", FLAG, INST_READ},
    {"fence::after_thread_sync", FLAG, INST_WAIT},
    {"multicast::cluster::all", FLAG, INST_MULTICAST},
};

const struct modifier *modifier_find(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof modifiers / sizeof *modifiers; i++)
        if (modifiers[i].word[0] == word[0] && !strncmp(modifiers[i].word, word, len) &&
            !modifiers[i].word[len])
            return &modifiers[i];
    return NULL;
}

bool modifier_shape(struct word w, unsigned *m, unsigned *n, unsigned *k)
{
    char copy[24], tail;

    if (w.len >= sizeof copy)
        return false;
    memcpy(copy, w.s, w.len);
    copy[w.len] = 0;
    return sscanf(copy, "m%4un%4uk%4u%c", m, n, k, &tail) == 3;
}

static bool compares(uint16_t op)
{
    return op == OP_SETP || op == OP_SET;
}

void modifier_apply(struct inst *in, struct word w, unsigned *ntypes, unsigned *nspaces)
{
    const enum type type = type_find(w.s, w.len);
    const struct modifier *m = modifier_find(w.s, w.len);
    unsigned sm, sn, sk;

    if (type) {
        if (*ntypes < 3)
            in->type[(*ntypes)++] = (uint8_t)type;
        return;
    }
    if (!m) {
        if (modifier_shape(w, &sm, &sn, &sk)) {
            in->m = (uint16_t)sm;
            in->n = (uint16_t)sn;
            in->k = (uint16_t)sk;
        }
        return;
    }
    switch (m->effect) {
    case RND:
        in->rnd = (uint8_t)m->value;
        break;
    case CMP:
        in->cmp = (uint8_t)m->value;
        if (w.len == 2 && w.s[1] == 's')
            in->sub2 = SUB_LO;      /* ls, hs: unsigned only, see cross_check */
        break;
    case SUB:
        if (compares(in->op) && (m->value == SUB_LO || m->value == SUB_HI))
            in->cmp = m->value == SUB_LO ? CMP_LT : CMP_GT, in->sub2 = SUB_LO;
        else if ((in->op == OP_BRA || in->op == OP_CALL || in->op == OP_BRX || in->op == OP_RET))
            in->flags |= m->value == SUB_UNI ? INST_UNIFORM : 0;
        else if (!in->sub)
            in->sub = (uint8_t)m->value;
        else
            in->sub2 = (uint8_t)m->value;
        break;
    case SPACE:
        if ((*nspaces)++ == 0)
            in->space = (uint8_t)m->value;
        else
            in->space2 = (uint8_t)m->value;
        break;
    case SEM:
        if (in->sem != SEM_MMIO)
            in->sem = (uint8_t)m->value;
        break;
    case SCOPE:
        in->scope = (uint8_t)m->value;
        break;
    case FLAG:
        if (in->op != OP_CVT_PACK || m->value != INST_TO)
            in->flags |= m->value;
        break;
    case VEC:
        in->vec = (uint8_t)m->value;
        break;
    case DIM:
        in->dim = (uint8_t)m->value;
        break;
    case GROUP:
        in->cta_group = (uint8_t)m->value;
        break;
    case KIND:
        in->kind = (uint8_t)m->value;
        break;
    case COLLECTOR:
        in->sub = (uint8_t)m->value;
        in->sub2 = (uint8_t)(m->value >> 8);
        break;
    case SHAPE:
        in->shape = (uint8_t)m->value;
        break;
    case BLOCK:
        in->block = (uint8_t)m->value;
        in->flags |= w.s[0] == 's' ? INST_SCALE_VEC : 0;
        break;
    default:
        break;
    }
}
