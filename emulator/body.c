/*
 * Function bodies: blocks, labels, declarations, instructions.
 */
#include <string.h>

#include "parse.h"

/* ---- opcodes -------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *s, uint32_t len)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ h >> 15;
}

/* A module uses a few hundred spellings thousands of times: each is matched once. */
static const struct shape *shape_of(struct parser *ps, const struct token *op)
{
    const uint32_t hash = hash_of(op->s, op->len);
    struct shape_entry **bucket = &ps->shapes[hash % SHAPE_BUCKETS], *e;
    char message[320];
    const char *wrong;

    for (e = *bucket; e; e = e->next)
        if (e->hash == hash && e->len == op->len && !memcmp(e->s, op->s, op->len))
            return &e->shape;
    e = parse_alloc(ps, sizeof *e);
    if (!form_resolve(op->s, op->len, &e->shape, message, sizeof message))
        FAIL(ps, op, "%s", message);
    wrong = form_target(&e->shape.model, ps->p->sm, ps->p->sm_suffix);
    if (wrong)
        FAIL(ps, op, "%s, this module has sm_%u%.1s", wrong, ps->p->sm,
             ps->p->sm_suffix ? &ps->p->sm_suffix : "");
    e->s = op->s;
    e->len = op->len;
    e->hash = hash;
    e->next = *bucket;
    *bucket = e;
    return &e->shape;
}

/* Modifiers may stand apart from the opcode: joins them in a copy. The next token is current. */
static void join_modifiers(struct parser *ps, struct token *op)
{
    char joined[256];

    while (ps->lex.tok.kind == TOK_DOT) {
        struct token dot = ps->lex.tok;
        const struct token saved = *op;

        if (op->len + dot.len > sizeof joined)
            FAIL(ps, op, "opcode too long");
        memcpy(joined, saved.s, saved.len);
        memcpy(joined + saved.len, dot.s, dot.len);
        op->s = parse_copy(ps, joined, saved.len + dot.len);
        op->len = saved.len + dot.len;
        parse_next(ps);
    }
}

/* ---- emitting ------------------------------------------------------------------------------- */

static struct where here(struct parser *ps, const struct token *at)
{
    struct where w = {.ptx_line = at->line, .line = at->line, .func = ps->func};

    if (ps->has_loc) {
        w.file = ps->loc_file | WHERE_NUMBERED;
        w.line = ps->loc_line;
    } else if (ps->lex.marker_line) {
        w.file = ps->marker_file;
        if (ps->lex.marker.file_len && ps->lex.marker.file != ps->marker_name) {
            ps->marker_name = ps->lex.marker.file;
            ps->marker_file = parse_file(ps, ps->lex.marker.file, ps->lex.marker.file_len);
            w.file = ps->marker_file;
        }
        w.line = ps->lex.marker.line + (at->line - ps->lex.marker_line - 1);
    }
    return w;
}

static void emit(struct parser *ps, const struct inst *in, struct where w)
{
    struct program *p = ps->p;
    const uint32_t pc = p->ninsts;

    if (pc == ps->insts_cap) {
        uint32_t cap = ps->insts_cap;

        p->insts = parse_grow(ps, p->insts, &ps->insts_cap, pc, sizeof *p->insts);
        p->where = parse_grow(ps, p->where, &cap, pc, sizeof *p->where);
    }
    p->insts[pc] = *in;
    p->where[pc] = w;
    for (unsigned i = 0; i < in->nopnd; i++)
        operand_use_shared(ps, pc, i, &in->o[i]);
    p->ninsts++;
}

static void note(struct function *f, const struct inst *in)
{
    switch (in->op) {
    case OP_SETMAXNREG:
        f->uses_setmaxnreg = true;
        break;
    case OP_MAPA: case OP_GETCTARANK: case OP_BARRIER_CLUSTER:
        f->uses_cluster = true;
        break;
    case OP_GRIDDEP:
        f->uses_launch_dependents |= !(in->flags & INST_WAIT);
        break;
    default:
        if (in->space == SP_SHARED_CLUSTER && !(in->op == OP_TENSOR_LOAD || in->op == OP_BULK_COPY))
            f->uses_cluster = true;
        break;
    }
}

/* The token after the opcode is current. */
static void instruction(struct parser *ps, struct token *op, const struct token *start,
                        const struct inst *guard)
{
    join_modifiers(ps, op);

    const struct shape *shape = shape_of(ps, op);
    struct inst in = shape->model;
    const struct where at = here(ps, op);
    struct raw raws[RAW_OPERANDS];

    ps->opcode = *op;
    in.guard = guard->guard;
    in.guard_reg = guard->guard_reg;
    if (in.op == OP_CALL) {
        special_call(ps, &in);
    } else {
        const unsigned n = operand_list(ps, raws);

        special_assign(ps, shape, raws, n, &in);
    }
    if (!parse_is(ps, ';'))
        FAIL(ps, &ps->lex.tok, "expected ; after the instruction, found '%.*s'",
             (int)ps->lex.tok.len, ps->lex.tok.s);

    struct where w = at;

    w.text = (uint32_t)(start->s - ps->p->text);
    w.len = (uint32_t)(ps->lex.tok.s - start->s);
    emit(ps, &in, w);
    note(&ps->p->funcs[ps->func], &in);
    parse_next(ps);
}

/* ---- labels --------------------------------------------------------------------------------- */

static void add_label(struct parser *ps, const struct token *at)
{
    struct binding *b = names_declare(ps, at, BIND_LABEL);

    b->index = ps->p->ninsts;
    if (ps->nlabels == ps->labels_cap)
        ps->labels = parse_grow(ps, ps->labels, &ps->labels_cap, ps->nlabels, sizeof *ps->labels);
    ps->labels[ps->nlabels++] = (struct label){parse_copy(ps, at->s, at->len), b->index};
}

static void branch_targets(struct parser *ps, const struct token *at)
{
    struct binding *b = names_declare(ps, at, BIND_TARGETS);
    uint32_t n = 0;

    b->index = ps->p->nelems;
    do {
        const struct token t = ps->lex.tok;
        struct label_ref *ref;

        if (t.kind != TOK_IDENT)
            FAIL(ps, &t, "expected a label");
        if (n == UINT16_MAX)
            FAIL(ps, &t, "too many targets");
        ref = parse_alloc(ps, sizeof *ref);
        ref->name = names_find(ps, t.s, t.len, true);
        ref->pc = ps->p->ninsts;
        ref->elem = operand_elems(ps, 1);
        ref->next = ps->block->refs;
        ps->block->refs = ref;
        n++;
        parse_next(ps);
    } while (parse_accept(ps, ','));
    b->size = n;
    parse_expect(ps, ';');
}

/* .callprototype and .calltargets: only their names matter, calls carry their own operands */
static void prototype(struct parser *ps, const struct token *at)
{
    (void)names_declare(ps, at, BIND_PROTOTYPE);
    while (ps->lex.tok.kind != TOK_END && !parse_is(ps, ';'))
        parse_next(ps);
    parse_expect(ps, ';');
}

static void labelled(struct parser *ps, const struct token *at)
{
    if (parse_is_dot(ps, ".branchtargets")) {
        parse_next(ps);
        branch_targets(ps, at);
    } else if (parse_is_dot(ps, ".callprototype") || parse_is_dot(ps, ".calltargets")) {
        parse_next(ps);
        prototype(ps, at);
    } else {
        add_label(ps, at);
    }
}

/* ---- statements ----------------------------------------------------------------------------- */

static void guard(struct parser *ps, struct inst *g)
{
    const bool negated = parse_accept(ps, '!');
    const struct token at = ps->lex.tok;
    uint32_t number;
    const struct binding *b;

    if (at.kind != TOK_IDENT)
        FAIL(ps, &at, "expected a predicate register after @");
    b = names_lookup(ps, &at, &number);
    if (!b || b->kind != BIND_REG || b->type != TY_PRED)
        FAIL(ps, &at, "'%.*s' is not a predicate register", (int)at.len, at.s);
    g->guard = negated ? GUARD_FALSE : GUARD_TRUE;
    g->guard_reg = (uint16_t)(b->index + number);
    parse_next(ps);
}

static void location(struct parser *ps)
{
    const struct token at = ps->lex.tok;

    parse_next(ps);

    const int64_t number = expr_integer(ps);
    const int64_t line = expr_integer(ps);

    (void)expr_integer(ps);
    if (number < 0 || number >= WHERE_NUMBERED || line < 0)
        FAIL(ps, &at, "no such file or line");
    ps->has_loc = true;
    ps->loc_file = (uint32_t)number;    /* its .file may still come: link_program looks it up */
    ps->loc_line = (uint32_t)line;
    if (parse_accept(ps, ',')) {        /* function_name label[+n], inlined_at file line column */
        while (ps->lex.tok.kind == TOK_IDENT || ps->lex.tok.kind == TOK_INT ||
               parse_is(ps, '+') || parse_is(ps, ','))
            if (ps->lex.tok.kind == TOK_IDENT && ps->lex.tok.len == 10 &&
                !memcmp(ps->lex.tok.s, "inlined_at", 10)) {
                parse_next(ps);
                for (int i = 0; i < 3; i++)
                    (void)expr_integer(ps);
                break;
            } else {
                parse_next(ps);
            }
    }
}

static void directive(struct parser *ps)
{
    if (parse_is_dot(ps, ".reg")) {
        decl_reg(ps);
    } else if (parse_is_dot(ps, ".loc")) {
        location(ps);
    } else if (parse_is_dot(ps, ".pragma")) {
        do
            parse_next(ps);
        while (ps->lex.tok.kind == TOK_STRING || parse_is(ps, ','));
        parse_expect(ps, ';');
    } else if (parse_is_dot(ps, ".file")) {
        parse_file_directive(ps);
    } else if (decl_is_variable(ps)) {
        decl_variable(ps, false, false);
    } else {
        FAIL(ps, &ps->lex.tok, "'%.*s' does not belong in a function body",
             (int)ps->lex.tok.len, ps->lex.tok.s);
    }
}

static void statement(struct parser *ps)
{
    const struct token start = ps->lex.tok;
    struct inst g = {0};

    if (parse_accept(ps, '@')) {
        guard(ps, &g);
        if (ps->lex.tok.kind != TOK_IDENT)
            FAIL(ps, &ps->lex.tok, "expected an instruction after the guard");
    }
    lex_glue_modifiers(&ps->lex);

    struct token op = ps->lex.tok;

    parse_next(ps);
    if (!g.guard && parse_is(ps, ':')) {
        if (memchr(op.s, '.', op.len))
            FAIL(ps, &op, "'%.*s' is no label", (int)op.len, op.s);
        parse_next(ps);
        labelled(ps, &op);
        return;
    }
    instruction(ps, &op, g.guard ? &start : &op, &g);
}

static void implicit_end(struct parser *ps, const struct token *brace)
{
    const struct function *f = &ps->p->funcs[ps->func];
    struct inst in = {.op = (uint16_t)(f->entry ? OP_EXIT : OP_RET), .vec = 1};
    struct where w = here(ps, brace);

    w.text = (uint32_t)(brace->s - ps->p->text);
    w.len = 1;
    emit(ps, &in, w);
}

/* The opening brace is current; leaves the token behind the closing one. */
void body_parse(struct parser *ps)
{
    struct function *f = &ps->p->funcs[ps->func];
    unsigned depth = 0;

    f->first = ps->p->ninsts;
    ps->in_body = true;
    ps->has_loc = false;
    ps->indirect = false;
    ps->nlabels = ps->labels_cap = 0;
    ps->labels = NULL;
    for (;;) {
        const struct token at = ps->lex.tok;

        if (at.kind == TOK_END)
            FAIL(ps, &at, "the body of '%s' is not closed", f->name);
        if (parse_accept(ps, '{')) {
            names_open(ps);
            depth++;
        } else if (parse_is(ps, '}')) {
            if (depth == 1)
                implicit_end(ps, &at);
            names_close(ps);
            parse_next(ps);
            if (--depth == 0)
                break;
        } else if (at.kind == TOK_DOT) {
            directive(ps);
        } else if (at.kind == TOK_IDENT || parse_is(ps, '@')) {
            statement(ps);
        } else {
            FAIL(ps, &at, "expected an instruction, found '%.*s'", (int)at.len, at.s);
        }
    }
    ps->in_body = false;
    f = &ps->p->funcs[ps->func];
    f->end = ps->p->ninsts;
    f->labels = ps->labels;
    f->nlabels = ps->nlabels;
    f->recursive = ps->indirect;
    if (ps->frame_max > (uint64_t)512 << 20)
        FAIL(ps, &ps->lex.tok, "'%s' has more than 512 MiB of local memory", f->name);
    f->frame_size = (uint32_t)((ps->frame_max + 15) / 16 * 16);
}
