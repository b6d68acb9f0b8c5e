#include "form.h"
#include "form_tcgen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modifiers.h"

struct form {
    uint16_t op;
    const char *mnemonic, *operands, *semantics;
};

static const struct form forms[] = {
#define OP(NAME, name)
#define FORM(NAME, mnemonic, operands, semantics) {OP_##NAME, mnemonic, operands, semantics},
#include "isa.def"
#undef OP
#undef FORM
};

enum { NFORMS = sizeof forms / sizeof *forms };

static const char *const opcode_names[] = {
#define OP(NAME, name) #NAME,
#define FORM(NAME, mnemonic, operands, semantics)
#include "isa.def"
#undef OP
#undef FORM
};

const char *opcode_name(enum opcode op)
{
    return op < OP_COUNT ? opcode_names[op] : "?";
}

const char *opcode_semantics(enum opcode op)
{
    for (size_t i = 0; i < NFORMS; i++)
        if (forms[i].op == op)
            return forms[i].semantics;
    return "";
}

/* ---- matching a mnemonic -------------------------------------------------------------------- */

enum { WORDS = 24 };

struct match {
    unsigned nwords, nelements, used;
    struct word word[WORDS];        /* of the opcode as written, without the first */
    int class[WORDS];               /* 1 type, 2 state space: these keep their order; 0 others */
    struct word element[WORDS];     /* of the row: alternatives */
    bool optional[WORDS];
    int taken[WORDS];               /* word that fills the element, or -1 */
};

static bool same(struct word a, const char *s, size_t len)
{
    return a.len == len && a.s[0] == s[0] && !memcmp(a.s, s, len);
}

/* element: "a|b|c", or M64K16 for a wgmma shape of any N */
static bool element_has(struct word e, struct word w)
{
    unsigned m, n, k, em, ek;

    if (e.s[0] == 'M' && sscanf(e.s, "M%4uK%4u", &em, &ek) == 2)
        return modifier_shape(w, &m, &n, &k) && m == em && k == ek;
    for (const char *p = e.s, *end = e.s + e.len; p < end;) {
        const char *stop = p;

        while (stop < end && *stop != '|')
            stop++;
        if (same(w, p, (size_t)(stop - p)))
            return true;
        p = stop + 1;
    }
    return false;
}

static struct word next_element(const char **at, bool *optional)
{
    const char *p = *at;

    while (*p == ' ')
        p++;
    *optional = *p == '[';
    p += *optional;

    const char *from = p;

    while (*p && *p != ' ' && *p != ']')
        p++;
    *at = *p == ']' ? p + 1 : p;
    return (struct word){from, (size_t)(p - from)};
}

static int word_class(struct word w)
{
    const struct modifier *m;

    if (type_find(w.s, w.len))
        return 1;
    m = modifier_find(w.s, w.len);
    return m && m->effect == SPACE ? 2 : 0;
}

/* Fits the words to the row. True: they fit. m->used counts the words that found a place. */
static bool match_row(struct match *m, const struct form *f)
{
    const char *p = f->mnemonic;
    bool optional;
    int last[3] = {-1, -1, -1};

    (void)next_element(&p, &optional);
    m->nelements = 0;
    while (*p && m->nelements < WORDS) {
        m->element[m->nelements] = next_element(&p, &m->optional[m->nelements]);
        m->taken[m->nelements++] = -1;
    }
    m->used = 0;
    for (unsigned i = 0; i < m->nwords; i++) {
        const int class = m->class[i];

        for (unsigned e = class ? (unsigned)(last[class] + 1) : 0; e < m->nelements; e++)
            if (m->taken[e] < 0 && element_has(m->element[e], m->word[i])) {
                m->taken[e] = (int)i;
                last[class] = class ? (int)e : -1;
                m->used++;
                break;
            }
    }
    if (m->used < m->nwords)
        return false;
    for (unsigned e = 0; e < m->nelements; e++)
        if (m->taken[e] < 0 && !m->optional[e])
            return false;
    return true;
}

static bool row_is(const struct form *f, struct word base)
{
    return f->mnemonic[0] == base.s[0] && !strncmp(f->mnemonic, base.s, base.len) &&
           (f->mnemonic[base.len] == ' ' || !f->mnemonic[base.len]);
}

/* NOT IMPLEMENTED: PTX has these, the emulator does not. */
static bool exists_elsewhere(struct word base)
{
    static const char *const words[] = {
        "tcgen05", "multimem", "clusterlaunchcontrol", "tex", "tld4", "txq", "suld",
        "sust", "sured", "suq", "istypep", "vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl",
        "vshr", "vmad", "vset", "vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2",
        "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4",
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == base.len && !memcmp(words[i], base.s, base.len))
            return true;
    return false;
}

/* Says why the row that fits best does not fit. */
static void explain(struct match *m, const struct form *best, struct word base, char *message,
                    size_t size)
{
    if (!best) {
        snprintf(message, size, exists_elsewhere(base) ? "instruction '%.*s' is not implemented"
                                                       : "unknown instruction '%.*s'",
                 (int)base.len, base.s);
        return;
    }
    match_row(m, best);
    for (unsigned i = 0; i < m->nwords; i++) {
        bool taken = false;

        for (unsigned e = 0; e < m->nelements; e++)
            taken |= m->taken[e] == (int)i;
        if (!taken) {
            snprintf(message, size, "modifier '.%.*s' does not fit '%.*s' here; the nearest form "
                     "is: %s", (int)m->word[i].len, m->word[i].s, (int)base.len, base.s,
                     best->mnemonic);
            return;
        }
    }
    for (unsigned e = 0; e < m->nelements; e++)
        if (m->taken[e] < 0 && !m->optional[e]) {
            snprintf(message, size, "'%.*s' needs one of .%.*s", (int)base.len, base.s,
                     (int)m->element[e].len, m->element[e].s);
            return;
        }
    snprintf(message, size, "malformed opcode");
}

/* ---- what a row cannot say ------------------------------------------------------------------ */

/* What the manual says an omitted modifier means, so that executors need not know. */
static void defaults(struct inst *in, bool sem, bool scope, const char *base)
{
    switch (in->op) {
    case OP_BAR: case OP_BAR_RED:
        if (!strcmp(base, "bar"))
            in->flags |= INST_ALIGNED;
        in->scope = SCOPE_CTA;
        break;
    case OP_FENCE:
        in->sem = !strcmp(base, "membar") ? SEM_SC : sem ? in->sem : SEM_ACQ_REL;
        break;
    case OP_ATOM: case OP_ATOM_CAS: case OP_RED:
        if (!sem)
            in->sem = SEM_RELAXED;
        if (!scope)
            in->scope = SCOPE_GPU;
        break;
    case OP_MBAR_ARRIVE:
        if (!sem)
            in->sem = SEM_RELEASE;
        if (!scope)
            in->scope = SCOPE_CTA;
        break;
    case OP_MBAR_WAIT:
        if (!sem)
            in->sem = SEM_ACQUIRE;
        if (!scope)
            in->scope = SCOPE_CTA;
        break;
    case OP_MBAR_EXPECT_TX: case OP_MBAR_COMPLETE_TX:
        in->sem = SEM_RELAXED;
        if (!scope)
            in->scope = SCOPE_CTA;
        break;
    case OP_BARRIER_CLUSTER:
        in->scope = SCOPE_CLUSTER;
        if (!sem)
            in->sem = in->flags & INST_ARRIVE ? SEM_RELEASE : SEM_ACQUIRE;
        break;
    case OP_MAPA: case OP_GETCTARANK:
        /* without the space the address is generic */
        break;
    default:
        break;
    }
}

/* Rules between modifiers that a row cannot say. */
static const char *cross_check(struct inst *in, bool sem, bool scope)
{
    const bool vectors = in->vec > 1;

    switch (in->op) {
    case OP_SETP: case OP_SET:
        if (in->sub2 && type_signed((enum type)in->type[in->op == OP_SET]))
            return ".lo, .ls, .hi and .hs compare unsigned types";
        in->sub2 = SUB_NONE;
        break;
    case OP_MIN: case OP_MAX:
        if ((in->flags & INST_XORSIGN) && !(in->flags & INST_ABS))
            return ".xorsign goes with .abs";
        if ((in->flags & INST_ABS) && !(in->flags & INST_XORSIGN) && in->type[0] != TY_F32)
            return ".abs goes with .xorsign";
        break;
    case OP_MBAR_ARRIVE: case OP_MBAR_WAIT: case OP_MBAR_EXPECT_TX: case OP_MBAR_COMPLETE_TX:
        if (sem != scope && !(in->flags & INST_NOCOMPLETE))
            return "an order (.release, .acquire, .relaxed) and a scope (.cta, .cluster) go "
                   "together";
        break;
    case OP_LD: case OP_ST:
        if (in->vec == 8 && type_bits(in->type[0]) != 32)
            return "a vector of eight has 32-bit elements";
        if (vectors && type_bits(in->type[0]) * in->vec > 128 &&
            in->space != SP_GLOBAL && in->space != SP_GENERIC)
            return "a vector of more than 128 bits lies in .global memory";
        if (in->op == OP_ST && in->space == SP_CONST)
            return ".const memory cannot be written";
        if ((in->flags & INST_NC) && in->space != SP_GLOBAL)
            return ".nc needs .global";
        break;
    case OP_ATOM: case OP_RED:
        if (vectors) {
            const unsigned bits = type_bits(in->type[0]) * in->vec;
            const bool f32 = in->type[0] == TY_F32;

            if (in->space != SP_GLOBAL && in->space != SP_GENERIC)
                return "a vector atomic needs .global";
            if (bits > 128)
                return "a vector atomic has at most 128 bits";
            if (f32 == !!(in->flags & INST_NOFTZ))
                return f32 ? ".noftz does not fit .f32" : ".noftz is required for this type";
            if (f32 && in->vec == 8)
                return "a vector atomic has at most 128 bits";
        }
        break;
    case OP_WGMMA: case OP_WGMMA_SP: {
        const bool narrow = type_bits(in->type[1]) == 1 || in->type[1] == TY_S8 ||
                            in->type[1] == TY_U8;

        if (in->n < 8 || in->n > 256 || in->n % 8)
            return "N of wgmma is 8 to 256 in steps of 8";
        if (narrow && in->n != 8 && in->n != 24 && in->n % 16)
            return "N of an integer wgmma is 8, 16, 24, 32, then 48 to 256 in steps of 16";
        break;
    }
    default:
        break;
    }
    return NULL;
}

/* ---- operand column ------------------------------------------------------------------------- */

static int64_t parse_int(const char **p)
{
    char *end;
    const int64_t v = strtoll(*p, &end, 0);

    *p = end;
    return v;
}

static enum type wider_type(enum type t)
{
    switch (t) {
    case TY_U16: return TY_U32;
    case TY_S16: return TY_S32;
    case TY_U32: return TY_U64;
    case TY_S32: return TY_S64;
    default: return t;
    }
}

/* One item of the column, see the head of isa.def. Returns the number of slots. */
static unsigned parse_spec(const char **at, const struct inst *in, struct spec *s)
{
    const char *p = *at;
    unsigned slots = 1;

    *s = (struct spec){.kind = SPEC_VALUE, .step = 1};
    if (*p == '=') {
        s->dst = true;
        p++;
    }
    for (; *p == '~' || (*p == 'r' && p[1] != 0 && p[1] != ','); p++)
        *(*p == '~' ? &s->wider : &s->reg_only) = true;
    switch (*p) {
    case '@':
        s->kind = SPEC_MEM;
        s->space = in->space;
        p++;
        if (*p == '2')
            s->space = in->space2, p++;
        else if (*p == 'g')
            s->space = SP_GENERIC, p++;
        else if (*p == 's')
            s->space = SP_SHARED, p++;
        else if (*p == 'c')
            s->space = SP_SHARED_CLUSTER, p++;
        else if (*p == 'm')
            s->space = SP_TENSOR, p++;
        else if (*p == 'T') {
            s->kind = SPEC_TENSOR;
            s->space = SP_GENERIC;
            s->count = in->sub == SUB_GATHER4 || in->sub == SUB_SCATTER4 ? 5 : in->dim;
            slots = 2;
            p++;
        }
        break;
    case '#':
        p++;
        if (*p == 's') {
            s->kind = SPEC_SIGN;
            p++;
            break;
        }
        s->kind = SPEC_IMM;
        s->lo = parse_int(&p);
        p += 2;
        s->hi = parse_int(&p);
        if (*p == '/') {
            p++;
            s->step = parse_int(&p);
        }
        break;
    case 'L': s->kind = SPEC_LABEL; p++; break;
    case 'X': s->kind = SPEC_ANY; p++; break;
    case '_': s->kind = SPEC_SINK; p++; break;
    case '-': s->kind = SPEC_EMPTY; p++; break;
    case 'h':
        s->kind = in->flags & INST_CACHE_HINT ? SPEC_POLICY : SPEC_EMPTY;
        s->type = TY_B64;
        p++;
        break;
    case 'a': s->symbol = true; s->type = in->type[0]; p++; break;
    case 'w': s->type = (uint8_t)wider_type((enum type)in->type[0]); p++; break;
    case 't':
        p++;
        s->type = in->type[0];
        if (*p == '1')
            s->type = in->type[1], p++;
        else if (*p == '2')
            s->type = in->type[2], p++;
        break;
    case 'p':
        if (strncmp(p, "pred", 4)) {
            s->kind = SPEC_PRED;
            s->type = TY_PRED;
            p++;
            break;
        }
        /* fall through */
    default: {
        const char *from = p;

        while ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'))
            p++;
        s->type = (uint8_t)type_find(from, (size_t)(p - from));
        if (s->type == TY_PRED)
            s->kind = SPEC_PRED;
    }
    }
    if (*p == '_' && s->kind != SPEC_SINK)
        s->sink = true, p++;
    if (*p == '*') {
        p++;
        if (*p == 'v') {
            s->count = in->vec;
            s->vector = in->vec > 1 || in->op == OP_LDMATRIX || in->op == OP_STMATRIX;
            p++;
        } else {
            s->count = (uint16_t)parse_int(&p);
            s->vector = true;
        }
    }
    if (*p == '?')
        s->optional = true, p++;
    if (*p == '|')
        s->pair = true, p++;
    while (*p == ',' || *p == ' ')
        p++;
    *at = p;
    return slots;
}

bool form_resolve(const char *opcode, size_t len, struct shape *shape, char *message, size_t size)
{
    struct match m = {0};
    const char *end = opcode + len;
    const char *dot = memchr(opcode, '.', len);
    const struct word base = {opcode, (size_t)((dot ? dot : end) - opcode)};
    const struct form *found = NULL, *best = NULL;
    unsigned best_used = 0;

    for (const char *p = dot; p && p < end;) {
        const char *from = p + 1;
        const char *next = memchr(from, '.', (size_t)(end - from));

        if (m.nwords == WORDS) {
            snprintf(message, size, "more than %d modifiers", WORDS);
            return false;
        }
        m.word[m.nwords] = (struct word){from, (size_t)((next ? next : end) - from)};
        m.class[m.nwords] = word_class(m.word[m.nwords]);
        m.nwords++;
        p = next;
    }
    for (size_t i = 0; i < NFORMS && !found; i++) {
        if (!row_is(&forms[i], base))
            continue;
        if (match_row(&m, &forms[i]))
            found = &forms[i];
        else if (!best || m.used > best_used)
            best = &forms[i], best_used = m.used;
    }
    if (!found) {
        explain(&m, best, base, message, size);
        return false;
    }

    unsigned ntypes = 0, nspaces = 0;
    bool sem = false, scope = false;
    char base_copy[16] = "";

    memset(shape, 0, sizeof *shape);
    shape->model.op = found->op;
    shape->model.vec = 1;
    shape->semantics = found->semantics;
    for (unsigned e = 0; e < m.nelements; e++)
        if (m.taken[e] >= 0) {
            const struct word w = m.word[m.taken[e]];
            const struct modifier *mod = modifier_find(w.s, w.len);

            modifier_apply(&shape->model, w, &ntypes, &nspaces);
            sem |= mod && mod->effect == SEM;
            scope |= mod && mod->effect == SCOPE;
        }
    if (base.len < sizeof base_copy)
        memcpy(base_copy, base.s, base.len);
    defaults(&shape->model, sem, scope, base_copy);

    const char *wrong = cross_check(&shape->model, sem, scope);

    if (!wrong)
        wrong = form_tcgen_check(&shape->model);

    if (wrong) {
        snprintf(message, size, "%s", wrong);
        return false;
    }

    unsigned slot = 0;

    for (const char *p = found->operands; *p && shape->nspecs < FORM_SPECS;) {
        shape->slot[shape->nspecs] = slot;
        slot += parse_spec(&p, &shape->model, &shape->spec[shape->nspecs]);
        if (shape->spec[shape->nspecs].dst)
            shape->model.dst |= (uint8_t)(1u << shape->slot[shape->nspecs]);
        shape->nspecs++;
    }
    shape->model.nopnd = (uint8_t)slot;
    return true;
}

const char *form_target(const struct inst *in, unsigned sm, char suffix)
{
    switch (in->op) {
    case OP_WGMMA: case OP_WGMMA_SP: case OP_WGMMA_FENCE: case OP_WGMMA_COMMIT: case OP_WGMMA_WAIT:
        return sm == 90 && suffix == 'a' ? NULL : "wgmma needs .target sm_90a";
    case OP_SETMAXNREG:
        return sm >= 90 && suffix ? NULL : "setmaxnreg needs a target such as sm_90a";
    case OP_TENSORMAP_REPLACE:
        return sm >= 90 && suffix ? NULL : "tensormap.replace needs a target such as sm_90a";
    case OP_MAPA: case OP_GETCTARANK: case OP_BARRIER_CLUSTER: case OP_ELECT: case OP_STMATRIX:
    case OP_ST_ASYNC: case OP_RED_ASYNC: case OP_FENCE_MBARRIER_INIT: case OP_FENCE_PROXY_ASYNC:
    case OP_FENCE_PROXY_TENSORMAP: case OP_GRIDDEP: case OP_BULK_COPY: case OP_BULK_REDUCE:
    case OP_BULK_PREFETCH: case OP_BULK_COMMIT: case OP_BULK_WAIT: case OP_TENSOR_LOAD:
    case OP_TENSOR_STORE: case OP_TENSOR_REDUCE: case OP_TENSOR_PREFETCH:
    case OP_TENSORMAP_CP_FENCEPROXY: case OP_PREFETCH_TENSORMAP: case OP_MBAR_EXPECT_TX:
    case OP_MBAR_COMPLETE_TX:
        if (sm < 90)
            return "this instruction needs sm_90 or higher";
        break;
    case OP_LD: case OP_ST:
        return sm >= 100 || type_bits((enum type)in->type[0]) * in->vec <= 128
               ? NULL : "a vector of more than 128 bits needs sm_100 or higher";
    case OP_MBAR_WAIT:
        return sm >= 90 || !(in->flags & INST_TRY) ? NULL : "mbarrier.try_wait needs sm_90";
    default:
        break;
    }
    return form_tcgen_target(in, sm, suffix);
}
