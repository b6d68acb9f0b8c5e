/*
 * Initial values of variables.
 */
#include <string.h>

#include "decl.h"

#define MAX_INIT ((uint64_t)256 << 20)

struct init {
    const struct declaration *d;
    struct token at;
    uint8_t *bytes;
    uint64_t size;              /* capacity; grows for an open first dimension */
    uint64_t used;
    bool open;
    struct reloc *relocs;
    uint32_t nrelocs, cap;
};

static void room(struct parser *ps, struct init *in, uint64_t end)
{
    if (end > in->size) {
        uint64_t size = in->size ? in->size : 256;
        uint8_t *bytes;

        if (!in->open)
            FAIL(ps, &ps->lex.tok, "too many initial values");
        while (size < end)
            size *= 2;
        if (size > MAX_INIT)
            FAIL(ps, &ps->lex.tok, "initialised variable too large");
        bytes = parse_alloc(ps, size);
        if (in->bytes)
            memcpy(bytes, in->bytes, in->size);
        in->bytes = bytes;
        in->size = size;
    }
    if (end > in->used)
        in->used = end;
}

/* a variable's or function's address: symbol + c, generic(symbol) + c, 0xff00(symbol) */
static void address_value(struct parser *ps, struct init *in, uint64_t offset, bool generic,
                          uint8_t shift)
{
    const unsigned size = type_bits(in->d->type) / 8;
    const struct token t = decl_name(ps);
    uint32_t number;
    const struct binding *b = names_lookup(ps, &t, &number);
    struct reloc r = {.offset = offset, .generic = generic, .size = (uint8_t)size, .shift = shift};

    if (!b || (b->kind != BIND_SYMBOL && b->kind != BIND_FUNC))
        FAIL(ps, &t, "'%.*s' is no global variable or function", (int)t.len, t.s);
    if (type_float(in->d->type))
        FAIL(ps, &t, "an address does not fit .%s", type_name(in->d->type));
    r.index = b->index;
    r.function = b->kind == BIND_FUNC;
    if (generic)
        parse_expect(ps, ')');
    if (parse_accept(ps, '+'))
        r.addend = expr_integer(ps);
    if (in->nrelocs == in->cap)
        in->relocs = parse_grow(ps, in->relocs, &in->cap, in->nrelocs, sizeof r);
    in->relocs[in->nrelocs++] = r;
}

static void scalar_value(struct parser *ps, struct init *in, uint64_t offset)
{
    const unsigned size = type_bits(in->d->type) / 8;
    const struct token at = ps->lex.tok;

    room(ps, in, offset + size);
    if (at.kind == TOK_IDENT && at.len == 7 && !memcmp(at.s, "generic", 7)) {
        parse_next(ps);
        parse_expect(ps, '(');
        address_value(ps, in, offset, true, 0);
        return;
    }
    if (at.kind == TOK_IDENT && !expr_starts(ps)) {
        address_value(ps, in, offset, false, 0);
        return;
    }

    const struct constant c = expr_parse(ps);

    if (!c.is_float && parse_accept(ps, '(')) {
        unsigned shift = 0;

        while (shift < 56 && (c.u >> shift & 0xff) == 0)
            shift += 8;
        if (c.u >> shift != 0xff)
            FAIL(ps, &at, "a byte mask is 0xff, 0xff00, ..");
        address_value(ps, in, offset, false, (uint8_t)shift);
        parse_expect(ps, ')');
        return;
    }
    switch (in->d->type) {
    case TY_F32: {
        const float f = (float)c.d;

        if (!c.is_float)
            FAIL(ps, &at, "expected a floating-point constant");
        if (c.exact && c.single)
            memcpy(in->bytes + offset, &c.u, 4);
        else
            memcpy(in->bytes + offset, &f, 4);
        break;
    }
    case TY_F64:
        if (!c.is_float)
            FAIL(ps, &at, "expected a floating-point constant");
        memcpy(in->bytes + offset, &c.d, 8);
        break;
    default:
        if (c.is_float && !(c.exact && size == (c.single ? 4u : 8u)))
            FAIL(ps, &at, "expected an integer constant");
        memcpy(in->bytes + offset, &c.u, size > 8 ? 8 : size);
        break;
    }
}

static void values(struct parser *ps, struct init *in, unsigned level, uint64_t offset)
{
    const struct declaration *d = in->d;
    const unsigned levels = d->ndims + (d->vec > 1);

    if (!parse_accept(ps, '{')) {
        if (level < levels && level == 0)
            FAIL(ps, &ps->lex.tok, "expected { before the initial values");
        scalar_value(ps, in, offset);
        return;
    }
    if (level > DECL_DIMS)
        FAIL(ps, &ps->lex.tok, "initial values are nested too deeply");
    if (parse_accept(ps, '}'))
        return;

    const uint64_t step = level + 1 > d->ndims ? type_bits(d->type) / 8
                                               : decl_span(ps, d, level + 1, &in->at);
    /* a list of scalars may fill all inner dimensions in one go */
    const uint64_t flat = type_bits(d->type) / 8;
    const uint64_t end = level == 0 && in->open ? UINT64_MAX
                         : offset + (level >= d->ndims ? decl_element_size(d)
                                                       : decl_span(ps, d, level, &in->at));

    do {
        const bool nested = parse_is(ps, '{');

        if (parse_is(ps, '}'))
            break;
        if (offset >= end)
            FAIL(ps, &ps->lex.tok, "too many initial values");
        values(ps, in, level + 1, offset);
        offset += nested ? step : flat;
    } while (parse_accept(ps, ','));
    parse_expect(ps, '}');
    if (in->open && level == 0)
        room(ps, in, (offset + step - 1) / step * step);
}

void init_parse(struct parser *ps, struct declaration *d, struct symbol *sym,
                const struct token *at)
{
    struct init in = {.d = d, .at = *at};

    in.open = d->ndims && !d->dims[0];
    if (!in.open) {
        in.size = decl_span(ps, d, 0, at);
        if (in.size > MAX_INIT)
            FAIL(ps, at, "initialised variable too large");
        in.bytes = parse_alloc(ps, in.size + 8);
    }
    values(ps, &in, 0, 0);
    if (in.open)
        d->dims[0] = in.used / decl_span(ps, d, 1, at);
    sym->init = in.bytes;
    sym->relocs = in.relocs;
    sym->nrelocs = in.nrelocs;
}
