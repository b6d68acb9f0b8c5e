/*
 * Special registers: %tid.x and the like.
 */
#include <string.h>

#include "parse.h"

static const struct {
    const char *name;
    uint16_t reg;
    uint8_t type;               /* TY_U32, TY_U64 or TY_PRED */
    bool three;                 /* has .x .y .z */
} specials[] = {
    {"%tid", SR_TID_X, TY_U32, true}, {"%ntid", SR_NTID_X, TY_U32, true},
    {"%ctaid", SR_CTAID_X, TY_U32, true}, {"%nctaid", SR_NCTAID_X, TY_U32, true},
    {"%clusterid", SR_CLUSTERID_X, TY_U32, true}, {"%nclusterid", SR_NCLUSTERID_X, TY_U32, true},
    {"%cluster_ctaid", SR_CLUSTER_CTAID_X, TY_U32, true},
    {"%cluster_nctaid", SR_CLUSTER_NCTAID_X, TY_U32, true},
    {"%cluster_ctarank", SR_CLUSTER_CTARANK, TY_U32, false},
    {"%cluster_nctarank", SR_CLUSTER_NCTARANK, TY_U32, false},
    {"%is_explicit_cluster", SR_IS_EXPLICIT_CLUSTER, TY_PRED, false},
    {"%laneid", SR_LANEID, TY_U32, false}, {"%warpid", SR_WARPID, TY_U32, false},
    {"%nwarpid", SR_NWARPID, TY_U32, false}, {"%smid", SR_SMID, TY_U32, false},
    {"%nsmid", SR_NSMID, TY_U32, false}, {"%gridid", SR_GRIDID, TY_U64, false},
    {"%envreg1", SR_ENVREG1, TY_U32, false}, {"%envreg2", SR_ENVREG2, TY_U32, false},
    {"%lanemask_eq", SR_LANEMASK_EQ, TY_U32, false},
    {"%lanemask_le", SR_LANEMASK_LE, TY_U32, false},
    {"%lanemask_lt", SR_LANEMASK_LT, TY_U32, false},
    {"%lanemask_ge", SR_LANEMASK_GE, TY_U32, false},
    {"%lanemask_gt", SR_LANEMASK_GT, TY_U32, false},
    {"%clock", SR_CLOCK, TY_U32, false}, {"%clock_hi", SR_CLOCK_HI, TY_U32, false},
    {"%clock64", SR_CLOCK64, TY_U64, false}, {"%globaltimer", SR_GLOBALTIMER, TY_U64, false},
    {"%globaltimer_lo", SR_GLOBALTIMER_LO, TY_U32, false},
    {"%globaltimer_hi", SR_GLOBALTIMER_HI, TY_U32, false},
    {"%dynamic_smem_size", SR_DYNAMIC_SMEM_SIZE, TY_U32, false},
    {"%total_smem_size", SR_TOTAL_SMEM_SIZE, TY_U32, false},
    {"%aggr_smem_size", SR_AGGR_SMEM_SIZE, TY_U32, false},
    {"%current_graph_exec", SR_CURRENT_GRAPH_EXEC, TY_U64, false},
    {"%reserved_smem_offset_begin", SR_RESERVED_SMEM_BEGIN, TY_U32, false},
    {"%reserved_smem_offset_end", SR_RESERVED_SMEM_END, TY_U32, false},
    {"%reserved_smem_offset_cap", SR_RESERVED_SMEM_CAP, TY_U32, false},
    {"%reserved_smem_offset_0", SR_RESERVED_SMEM_0, TY_U32, false},
    {"%reserved_smem_offset_1", SR_RESERVED_SMEM_1, TY_U32, false},
};

const char *special_name(enum special s)
{
    static const char *const suffixed[][3] = {
        {"%tid.x", "%tid.y", "%tid.z"}, {"%ntid.x", "%ntid.y", "%ntid.z"},
        {"%ctaid.x", "%ctaid.y", "%ctaid.z"}, {"%nctaid.x", "%nctaid.y", "%nctaid.z"},
        {"%clusterid.x", "%clusterid.y", "%clusterid.z"},
        {"%nclusterid.x", "%nclusterid.y", "%nclusterid.z"},
        {"%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z"},
        {"%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z"},
    };

    if (s < SR_CLUSTER_CTARANK)
        return suffixed[s / 3][s % 3];
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        if (specials[i].reg == s)
            return specials[i].name;
    return "%pm0";
}

static bool numbered(const struct token *t, const char *prefix)
{
    const size_t n = strlen(prefix);

    if (t->len <= n || memcmp(t->s, prefix, n))
        return false;
    for (size_t i = n; i < t->len; i++)
        if (t->s[i] < '0' || t->s[i] > '9')
            return i > n && t->len - i == 3 && !memcmp(t->s + i, "_64", 3);
    return true;
}

/* The current token has been taken as t; a component .x may follow. */
bool sreg_parse(struct parser *ps, const struct token *t, struct operand *o)
{
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (strlen(specials[i].name) != t->len || memcmp(specials[i].name, t->s, t->len))
            continue;
        o->kind = OPND_SPECIAL;
        o->reg = specials[i].reg;
        o->type = specials[i].type;
        if (!specials[i].three)
            return true;

        const struct token dot = ps->lex.tok;

        if (dot.kind != TOK_DOT || dot.len != 2 || dot.s[1] < 'x' || dot.s[1] > 'z')
            FAIL(ps, &dot, "'%.*s' needs .x, .y or .z", (int)t->len, t->s);
        o->reg += (uint32_t)(dot.s[1] - 'x');
        parse_next(ps);
        return true;
    }
    if (numbered(t, "%pm") || numbered(t, "%envreg")) {
        o->kind = OPND_SPECIAL;
        o->reg = SR_PM0;
        o->type = t->s[t->len - 1] == '4' && t->s[t->len - 3] == '_' ? TY_U64 : TY_U32;
        return true;
    }
    return false;
}
