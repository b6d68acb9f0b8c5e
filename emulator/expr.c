/*
 * Constant expressions: C's operators over 64-bit integers, and doubles where a literal is one.
 */
#include <string.h>

#include "parse.h"

enum { MAX_DEPTH = 200 };

static struct constant conditional(struct parser *ps);
static struct constant unary(struct parser *ps);

static struct constant integer(uint64_t u, bool is_unsigned)
{
    return (struct constant){.u = u, .is_unsigned = is_unsigned};
}

static struct constant real(double d)
{
    return (struct constant){.is_float = true, .d = d};
}

static struct constant literal(struct parser *ps)
{
    const struct token t = ps->lex.tok;
    struct constant c = {0};

    parse_next(ps);
    if (t.kind == TOK_INT)
        return integer(t.u, t.is_unsigned);
    c.is_float = true;
    c.d = t.d;
    c.exact = t.exact;
    c.single = t.single;
    c.u = t.single ? t.bits32 : t.bits64;
    return c;
}

static struct constant primary(struct parser *ps)
{
    const struct token *t = &ps->lex.tok;

    if (t->kind == TOK_INT || t->kind == TOK_FLOAT)
        return literal(ps);
    if (t->kind == TOK_IDENT && t->len == 7 && !memcmp(t->s, "WARP_SZ", 7)) {
        parse_next(ps);
        return integer(32, false);
    }
    if (parse_accept(ps, '(')) {
        if (parse_is_dot(ps, ".s64") || parse_is_dot(ps, ".u64")) {
            const bool is_unsigned = parse_is_dot(ps, ".u64");

            parse_next(ps);
            parse_expect(ps, ')');

            struct constant c = unary(ps);

            if (c.is_float)
                c = integer(is_unsigned ? (c.d > 0 && c.d < 18446744073709551616.0
                                           ? (uint64_t)c.d : 0)
                                        : (c.d > -9223372036854775808.0 &&
                                           c.d < 9223372036854775808.0
                                           ? (uint64_t)(int64_t)c.d : 0), is_unsigned);
            c.is_unsigned = is_unsigned;
            return c;
        }

        const struct constant c = conditional(ps);

        parse_expect(ps, ')');
        return c;
    }
    FAIL(ps, t, "expected a constant, found '%.*s'", (int)t->len, t->s);
}

static struct constant unary(struct parser *ps)
{
    const struct token at = ps->lex.tok;
    struct constant c;

    if (++ps->depth > MAX_DEPTH)
        FAIL(ps, &at, "constant expression is nested too deeply");
    if (parse_accept(ps, '-')) {
        c = unary(ps);
        if (!c.is_float)
            c.u = 0 - c.u, c.is_unsigned = c.is_unsigned && c.u;
        else if (c.exact)
            c.u ^= c.single ? UINT64_C(1) << 31 : UINT64_C(1) << 63, c.d = -c.d;
        else
            c.d = -c.d;
    } else if (parse_accept(ps, '+')) {
        c = unary(ps);
    } else if (parse_accept(ps, '~')) {
        c = unary(ps);
        if (c.is_float)
            FAIL(ps, &at, "~ needs an integer");
        c.u = ~c.u;
    } else if (parse_accept(ps, '!')) {
        c = unary(ps);
        c = integer(c.is_float ? c.d == 0 : !c.u, false);
    } else {
        c = primary(ps);
    }
    ps->depth--;
    return c;
}

static const struct level {
    int punct;
    int level;
} binary[] = {
    {PUNCT2('|', '|'), 1}, {PUNCT2('&', '&'), 2}, {'|', 3}, {'^', 4}, {'&', 5},
    {PUNCT2('=', '='), 6}, {PUNCT2('!', '='), 6}, {'<', 7}, {'>', 7}, {PUNCT2('<', '='), 7},
    {PUNCT2('>', '='), 7}, {PUNCT2('<', '<'), 8}, {PUNCT2('>', '>'), 8}, {'+', 9}, {'-', 9},
    {'*', 10}, {'/', 10}, {'%', 10},
};

static int level_of(const struct parser *ps)
{
    if (ps->lex.tok.kind == TOK_PUNCT)
        for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
            if (binary[i].punct == ps->lex.tok.punct)
                return binary[i].level;
    return 0;
}

static struct constant combine_real(struct parser *ps, const struct token *op, double a, double b)
{
    switch (op->punct) {
    case '+': return real(a + b);
    case '-': return real(a - b);
    case '*': return real(a * b);
    case '/': return real(a / b);
    case '<': return integer(a < b, false);
    case '>': return integer(a > b, false);
    case PUNCT2('<', '='): return integer(a <= b, false);
    case PUNCT2('>', '='): return integer(a >= b, false);
    case PUNCT2('=', '='): return integer(a == b, false);
    case PUNCT2('!', '='): return integer(a != b, false);
    default: FAIL(ps, op, "operator needs integers");
    }
}

static struct constant combine(struct parser *ps, const struct token *op, struct constant a,
                               struct constant b)
{
    if (a.is_float || b.is_float) {
        const double x = a.is_float ? a.d : a.is_unsigned ? (double)a.u : (double)(int64_t)a.u;
        const double y = b.is_float ? b.d : b.is_unsigned ? (double)b.u : (double)(int64_t)b.u;

        return combine_real(ps, op, x, y);
    }

    const bool u = a.is_unsigned || b.is_unsigned;
    const int64_t sa = (int64_t)a.u, sb = (int64_t)b.u;

    switch (op->punct) {
    case PUNCT2('|', '|'): return integer(a.u || b.u, false);
    case PUNCT2('&', '&'): return integer(a.u && b.u, false);
    case '|': return integer(a.u | b.u, u);
    case '^': return integer(a.u ^ b.u, u);
    case '&': return integer(a.u & b.u, u);
    case PUNCT2('=', '='): return integer(a.u == b.u, false);
    case PUNCT2('!', '='): return integer(a.u != b.u, false);
    case '<': return integer(u ? a.u < b.u : sa < sb, false);
    case '>': return integer(u ? a.u > b.u : sa > sb, false);
    case PUNCT2('<', '='): return integer(u ? a.u <= b.u : sa <= sb, false);
    case PUNCT2('>', '='): return integer(u ? a.u >= b.u : sa >= sb, false);
    case PUNCT2('<', '<'): return integer(b.u > 63 ? 0 : a.u << b.u, a.is_unsigned);
    case PUNCT2('>', '>'):
        if (a.is_unsigned)
            return integer(b.u > 63 ? 0 : a.u >> b.u, true);
        return integer((uint64_t)(sa >> (b.u > 63 ? 63 : b.u)), false);
    case '+': return integer(a.u + b.u, u);
    case '-': return integer(a.u - b.u, u);
    case '*': return integer(a.u * b.u, u);
    default:
        if (!b.u)
            FAIL(ps, op, "division by zero in a constant expression");
        if (!u && sa == INT64_MIN && sb == -1)
            return integer(op->punct == '/' ? a.u : 0, false);
        if (op->punct == '/')
            return integer(u ? a.u / b.u : (uint64_t)(sa / sb), u);
        return integer(u ? a.u % b.u : (uint64_t)(sa % sb), u);
    }
}

static struct constant climb(struct parser *ps, int min)
{
    struct constant a = unary(ps);

    for (int level; (level = level_of(ps)) >= min && level;) {
        const struct token op = ps->lex.tok;

        parse_next(ps);
        a = combine(ps, &op, a, climb(ps, level + 1));
    }
    return a;
}

static struct constant conditional(struct parser *ps)
{
    const struct token at = ps->lex.tok;

    if (++ps->depth > MAX_DEPTH)
        FAIL(ps, &at, "constant expression is nested too deeply");

    struct constant c = climb(ps, 1);

    if (parse_accept(ps, '?')) {
        const struct constant yes = conditional(ps);

        parse_expect(ps, ':');

        const struct constant no = conditional(ps);

        c = (c.is_float ? c.d != 0 : c.u != 0) ? yes : no;
    }
    ps->depth--;
    return c;
}

struct constant expr_parse(struct parser *ps)
{
    return conditional(ps);
}

int64_t expr_integer(struct parser *ps)
{
    const struct token at = ps->lex.tok;
    const struct constant c = conditional(ps);

    if (c.is_float)
        FAIL(ps, &at, "expected an integer");
    return (int64_t)c.u;
}

bool expr_starts(const struct parser *ps)
{
    const struct token *t = &ps->lex.tok;

    return t->kind == TOK_INT || t->kind == TOK_FLOAT ||
           (t->kind == TOK_PUNCT && (t->punct == '(' || t->punct == '-' || t->punct == '+' ||
                                     t->punct == '~' || t->punct == '!')) ||
           (t->kind == TOK_IDENT && t->len == 7 && !memcmp(t->s, "WARP_SZ", 7));
}
