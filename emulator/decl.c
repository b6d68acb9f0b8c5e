/*
 * Declarations: registers, variables with their initialisers, parameters.
 */
#include <string.h>

#include "decl.h"

enum { MAX_REGS = 1 << 20, PARAM_BANK = 0x210, MAX_PARAM = 32764 };
static uint64_t align_up(uint64_t v, uint64_t a)
{
    return (v + a - 1) / a * a;
}

struct token decl_name(struct parser *ps)
{
    const struct token t = ps->lex.tok;

    if (t.kind != TOK_IDENT || (t.len == 1 && *t.s == '_'))
        FAIL(ps, &t, "expected a name, found '%.*s'", (int)t.len, t.s);
    parse_next(ps);
    return t;
}

static enum type take_type(struct parser *ps, bool reg)
{
    const struct token t = ps->lex.tok;
    const enum type type = t.kind == TOK_DOT ? type_find(t.s + 1, t.len - 1) : TY_NONE;
    bool legal;

    switch (type) {
    case TY_B8: case TY_U8: case TY_S8: case TY_B16: case TY_U16: case TY_S16: case TY_B32:
    case TY_U32: case TY_S32: case TY_F32: case TY_B64: case TY_U64: case TY_S64: case TY_F64:
    case TY_F16: case TY_F16X2: case TY_B128:
        legal = true;
        break;
    case TY_PRED:
        legal = reg;
        break;
    default:
        legal = false;
    }
    if (!legal)
        FAIL(ps, &t, "expected a type, found '%.*s'", (int)t.len, t.s);
    parse_next(ps);
    return type;
}

/* ---- registers ------------------------------------------------------------------------------ */

static void reg_limit(struct parser *ps, const struct token *at, enum bank bank, uint64_t more)
{
    const struct function *f = &ps->p->funcs[ps->func];
    const uint64_t limit = bank == BANK_PRED ? UINT16_MAX : MAX_REGS;

    if (f->nregs[bank] + more > limit)
        FAIL(ps, at, "more than %u registers of a kind", (unsigned)limit);
}

void decl_reg(struct parser *ps)
{
    parse_next(ps);

    const enum type type = take_type(ps, true);
    const enum bank bank = operand_bank(type);
    const unsigned each = type == TY_B128 ? 2 : 1;
    struct function *f = &ps->p->funcs[ps->func];

    do {
        const struct token t = decl_name(ps);
        struct binding *b;

        if (parse_accept(ps, '<')) {
            const struct token at = ps->lex.tok;
            const uint64_t n = at.u;

            if (at.kind != TOK_INT || n > MAX_REGS)
                FAIL(ps, &at, "expected a number of registers");
            parse_next(ps);
            parse_expect(ps, '>');
            reg_limit(ps, &t, bank, n * each);

            struct name *name = names_find(ps, t.s, t.len, true);

            if (name->family && name->family->depth == ps->block->depth)
                FAIL(ps, &t, "'%.*s' is declared twice in this block", (int)t.len, t.s);
            b = names_bind(ps, &name->family);
            b->kind = BIND_REG;
            b->count = (uint32_t)n;
            b->index = f->nregs[bank];
            f->nregs[bank] += (uint32_t)n * each;
        } else {
            reg_limit(ps, &t, bank, each);
            b = names_declare(ps, &t, BIND_REG);
            b->index = f->nregs[bank];
            f->nregs[bank] += each;
        }
        b->type = (uint8_t)type;
    } while (parse_accept(ps, ','));
    parse_expect(ps, ';');
}

/* ---- variables ------------------------------------------------------------------------------ */

bool decl_is_variable(const struct parser *ps)
{
    return parse_is_dot(ps, ".global") || parse_is_dot(ps, ".const") ||
           parse_is_dot(ps, ".shared") || parse_is_dot(ps, ".local") ||
           parse_is_dot(ps, ".param") || parse_is_dot(ps, ".shared::cta") ||
           parse_is_dot(ps, ".shared::cluster");
}

static bool take_space(struct parser *ps, enum space *space)
{
    static const struct { const char *word; enum space space; } spaces[] = {
        {".global", SP_GLOBAL}, {".const", SP_CONST}, {".shared", SP_SHARED},
        {".shared::cta", SP_SHARED}, {".local", SP_LOCAL}, {".param", SP_PARAM},
    };

    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (parse_is_dot(ps, spaces[i].word)) {
            *space = spaces[i].space;
            parse_next(ps);
            return true;
        }
    return false;
}

static uint64_t take_align(struct parser *ps)
{
    const struct token at = ps->lex.tok;
    const int64_t a = expr_integer(ps);

    if (a <= 0 || a > 1 << 20 || (a & (a - 1)))
        FAIL(ps, &at, "an alignment is a power of two");
    return (uint64_t)a;
}

/* .attribute(.managed) and the like: skipped */
static void attribute(struct parser *ps)
{
    unsigned depth = 0;

    parse_next(ps);
    do {
        if (parse_is(ps, '('))
            depth++;
        if (parse_is(ps, ')'))
            depth--;
        if (ps->lex.tok.kind == TOK_END)
            FAIL(ps, &ps->lex.tok, "expected )");
        parse_next(ps);
    } while (depth);
}

/* What stands between the state space and the name, in any order ptxas takes. */
static void qualifiers(struct parser *ps, struct declaration *d)
{
    d->vec = 1;
    for (;;) {
        if (parse_is_dot(ps, ".align")) {
            parse_next(ps);
            d->align = take_align(ps);
        } else if (parse_is_dot(ps, ".attribute")) {
            attribute(ps);
        } else if (parse_is_dot(ps, ".v2") || parse_is_dot(ps, ".v4")) {
            d->vec = parse_is_dot(ps, ".v2") ? 2 : 4;
            parse_next(ps);
        } else {
            break;
        }
    }
    d->type = take_type(ps, d->in_reg);
    if (parse_is_dot(ps, ".ptr")) {
        d->pointer = true;
        parse_next(ps);
        (void)take_space(ps, &d->ptr_space);
        if (parse_is_dot(ps, ".align")) {
            parse_next(ps);
            d->ptr_align = (uint32_t)take_align(ps);
        }
    }
}

static void dimensions(struct parser *ps, struct declaration *d)
{
    while (parse_accept(ps, '[')) {
        const struct token at = ps->lex.tok;
        int64_t n = 0;

        if (d->ndims == DECL_DIMS)
            FAIL(ps, &at, "more than %d dimensions", DECL_DIMS);
        if (!parse_is(ps, ']')) {
            n = expr_integer(ps);
            if (n <= 0)
                FAIL(ps, &at, "an array has at least one element");
        } else if (d->ndims) {
            FAIL(ps, &at, "only the first dimension may be left open");
        }
        parse_expect(ps, ']');
        d->dims[d->ndims++] = (uint64_t)n;
    }
}

uint64_t decl_element_size(const struct declaration *d)
{
    return type_bits(d->type) / 8 * d->vec;
}

uint64_t decl_span(struct parser *ps, const struct declaration *d, unsigned level,
                     const struct token *at)
{
    uint64_t size = decl_element_size(d);

    for (unsigned i = level; i < d->ndims; i++) {
        if (d->dims[i] && size > ((uint64_t)1 << 40) / d->dims[i])
            FAIL(ps, at, "array too large");
        size *= d->dims[i];
    }
    return size;
}

/* ---- placing variables ---------------------------------------------------------------------- */

static void place_shared(struct parser *ps, const struct token *t, const struct declaration *d,
                         uint64_t align, bool is_extern)
{
    const bool open = d->ndims && !d->dims[0];
    const uint64_t size = decl_span(ps, d, 0, t);
    struct binding *b;

    if (open && !is_extern)
        FAIL(ps, t, "only .extern shared memory may leave its size open");
    if (size > UINT32_MAX / 2)
        FAIL(ps, t, "'%.*s' is larger than any shared memory", (int)t->len, t->s);
    b = names_declare(ps, t, BIND_SHARED);
    b->index = ps->nshared;
    if (ps->nshared == ps->shared_cap)
        ps->shared = parse_grow(ps, ps->shared, &ps->shared_cap, ps->nshared, sizeof *ps->shared);
    ps->shared[ps->nshared++] = (struct shared_var){
        .name = parse_copy(ps, t->s, t->len), .align = (uint32_t)align, .size = size,
        .dynamic = is_extern,
    };
}

static void place_frame(struct parser *ps, const struct token *t, const struct declaration *d,
                        uint64_t align)
{
    struct function *f = &ps->p->funcs[ps->func];
    const uint64_t size = decl_span(ps, d, 0, t);
    struct binding *b = names_declare(ps, t, d->space == SP_LOCAL ? BIND_LOCAL : BIND_FRAME_PARAM);

    if (d->ndims && !d->dims[0])
        FAIL(ps, t, "the size of '%.*s' is missing", (int)t->len, t->s);
    if (size > UINT32_MAX)
        FAIL(ps, t, "'%.*s' is too large", (int)t->len, t->s);
    ps->frame = align_up(ps->frame, align);
    b->offset = (int64_t)ps->frame;
    b->size = size;
    b->type = (uint8_t)d->type;
    b->writable = true;
    ps->frame += size;
    if (ps->frame > ps->frame_max)
        ps->frame_max = ps->frame;
    if (align > f->frame_align)
        f->frame_align = (uint32_t)align;
    if (d->space == SP_LOCAL)
        ps->block->keeps_frame = true;
}

static struct symbol *place_symbol(struct parser *ps, const struct token *t,
                                   const struct declaration *d, uint64_t align, bool is_extern,
                                   bool visible)
{
    struct program *p = ps->p;
    const struct name *n = names_find(ps, t->s, t->len, true);
    const struct binding *old = n->plain;
    struct symbol *s;

    if (old && old->kind == BIND_SYMBOL && old->depth == ps->block->depth &&
        (is_extern || p->symbols[old->index].is_extern)) {
        s = &p->symbols[old->index];        /* declared before, defined now, or the reverse */
        s->is_extern &= is_extern;
        s->visible |= visible;
        if (!is_extern)
            s->align = (uint32_t)align;
        return s;
    }

    struct binding *b = names_declare(ps, t, BIND_SYMBOL);

    if (p->nsymbols == ps->symbols_cap)
        p->symbols = parse_grow(ps, p->symbols, &ps->symbols_cap, p->nsymbols, sizeof *p->symbols);
    b->index = p->nsymbols;
    s = &p->symbols[p->nsymbols++];
    *s = (struct symbol){.name = parse_copy(ps, t->s, t->len), .space = d->space,
                         .is_extern = is_extern, .visible = visible,
                         .is_function_local = ps->in_body, .align = (uint32_t)align};
    return s;
}

/* At the state space. */
void decl_variable(struct parser *ps, bool is_extern, bool visible)
{
    struct declaration d = {0};

    (void)take_space(ps, &d.space);
    if (d.space == SP_PARAM && !ps->in_body)
        FAIL(ps, &ps->lex.tok, ".param variables belong to functions");
    if (d.space == SP_LOCAL && !ps->in_body)
        FAIL(ps, &ps->lex.tok, ".local variables at module scope are not supported");
    qualifiers(ps, &d);
    do {
        const struct token t = decl_name(ps);
        const uint64_t align = d.align ? d.align : decl_element_size(&d);
        uint64_t last = 1;

        d.ndims = 0;
        if (parse_accept(ps, '<')) {        /* a family of variables p<3> */
            const struct token at = ps->lex.tok;

            if (d.space != SP_PARAM && d.space != SP_LOCAL)
                FAIL(ps, &at, "a family of variables is .param or .local");
            last = (uint64_t)expr_integer(ps);
            if (last == 0 || last > 4096)
                FAIL(ps, &at, "expected a number of variables");
            parse_expect(ps, '>');
            for (uint64_t i = 0; i < last; i++) {
                char text[300];
                struct token each = t;
                uint32_t len = t.len > 256 ? 256 : t.len, digits = 1;

                memcpy(text, t.s, len);
                for (uint64_t v = i; v >= 10; v /= 10)
                    digits++;
                for (uint64_t v = i, k = digits; k-- > 0; v /= 10)
                    text[len + k] = (char)('0' + v % 10);
                each.s = parse_copy(ps, text, len + digits);
                each.len = len + digits;
                place_frame(ps, &each, &d, align);
            }
            continue;
        }
        dimensions(ps, &d);
        if (d.space == SP_SHARED) {
            place_shared(ps, &t, &d, align, is_extern);
        } else if (d.space == SP_GLOBAL || d.space == SP_CONST) {
            const uint32_t index = (uint32_t)(place_symbol(ps, &t, &d, align, is_extern, visible) -
                                              ps->p->symbols);

            if (parse_accept(ps, '=')) {
                struct symbol s = ps->p->symbols[index];

                if (is_extern)
                    FAIL(ps, &t, "an .extern variable has no initial value");
                init_parse(ps, &d, &s, &t);
                ps->p->symbols[index] = s;
            } else if (d.ndims && !d.dims[0] && !is_extern) {
                FAIL(ps, &t, "the size of '%.*s' is missing", (int)t.len, t.s);
            }

            const uint64_t size = decl_span(ps, &d, 0, &t);

            if (size > ps->p->symbols[index].size)
                ps->p->symbols[index].size = size;
        } else {
            place_frame(ps, &t, &d, align);
        }
        if (parse_is(ps, '='))
            FAIL(ps, &ps->lex.tok, "only .global and .const variables have initial values");
    } while (parse_accept(ps, ','));
    parse_expect(ps, ';');
}

/* ---- parameters ----------------------------------------------------------------------------- */

static void place_param(struct parser *ps, struct function *f, struct param *p,
                        const struct declaration *d, const struct token *t, bool named,
                        bool results)
{
    const uint64_t size = decl_span(ps, d, 0, t);
    struct binding *b = NULL;

    p->type = d->type;
    p->align = (uint32_t)(d->align ? d->align : decl_element_size(d));
    p->pointer = d->pointer;
    p->ptr_align = d->ptr_align;
    p->ptr_space = d->ptr_space;
    if (size > UINT32_MAX)
        FAIL(ps, t, "parameter too large");
    p->size = (uint32_t)size;
    if (d->in_reg) {
        const enum bank bank = operand_bank(d->type);

        p->in_reg = true;
        p->size = type_bits(d->type) / 8;
        p->reg = (struct operand){.kind = OPND_REG, .type = (uint8_t)d->type,
                                  .bank = (uint8_t)bank, .reg = f->nregs[bank]};
        reg_limit(ps, t, bank, 2);
        if (named) {
            b = names_declare(ps, t, BIND_REG);
            b->index = f->nregs[bank];
            b->type = (uint8_t)d->type;
        }
        f->nregs[bank] += d->type == TY_B128 ? 2 : 1;
        return;
    }
    if (f->entry) {
        const uint64_t at = align_up((uint64_t)PARAM_BANK + f->param_size, p->align) - PARAM_BANK;

        if (at + size > MAX_PARAM)
            FAIL(ps, t, "more than %d bytes of parameters", MAX_PARAM);
        p->offset = (uint32_t)at;
        f->param_size = (uint32_t)(at + size);
    } else {
        ps->frame = align_up(ps->frame, p->align);
        p->offset = (uint32_t)ps->frame;
        ps->frame += size;
        if (ps->frame > (uint64_t)1 << 20)
            FAIL(ps, t, "parameters too large");
        if (ps->frame > ps->frame_max)
            ps->frame_max = ps->frame;
        if (p->align > f->frame_align)
            f->frame_align = p->align;
    }
    if (named) {
        b = names_declare(ps, t, f->entry ? BIND_KERNEL_PARAM : BIND_FRAME_PARAM);
        b->offset = p->offset;
        b->size = size;
        b->type = (uint8_t)d->type;
        b->writable = results;
    }
}

/* ( .param .u64 a, .param .align 8 .b8 b[16] ): the list of a function, or its results. */
void decl_params(struct parser *ps, struct function *f, bool results)
{
    struct param *list = NULL;
    uint32_t n = 0, cap = 0;

    parse_expect(ps, '(');
    while (!parse_is(ps, ')')) {
        struct declaration d = {0};
        struct token t = ps->lex.tok;
        bool named;

        if (parse_is_dot(ps, ".reg")) {
            d.in_reg = true;
            parse_next(ps);
            if (f->entry)
                FAIL(ps, &t, "parameters of a kernel are .param");
        } else if (!parse_is_dot(ps, ".param")) {
            FAIL(ps, &t, "expected .param");
        } else {
            parse_next(ps);
        }
        qualifiers(ps, &d);
        named = ps->lex.tok.kind == TOK_IDENT && !(ps->lex.tok.len == 1 && *ps->lex.tok.s == '_');
        t = ps->lex.tok;
        if (named || ps->lex.tok.kind == TOK_IDENT)
            parse_next(ps);
        dimensions(ps, &d);
        if (n == cap)
            list = parse_grow(ps, list, &cap, n, sizeof *list);
        list[n] = (struct param){.name = named ? parse_copy(ps, t.s, t.len) : ""};
        place_param(ps, f, &list[n], &d, &t, named, results);
        n++;
        if (!parse_accept(ps, ','))
            break;
    }
    parse_expect(ps, ')');
    if (results) {
        f->rets = list;
        f->nrets = n;
    } else {
        f->params = list;
        f->nparams = n;
    }
}
