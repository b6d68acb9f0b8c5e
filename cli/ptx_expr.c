/*
 * Expressions of a PTX case: parsed and evaluated in one go, for one element.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx_case.h"

enum { DEPTH = 64 };

struct eval {
    const struct ptx_values *v;
    const char *at, *begin;
    size_t i;
    unsigned depth;
    bool failed;
    char *message;
    size_t size;
};

static struct ptx_number conditional(struct eval *e);

static struct ptx_number integer(int64_t i)
{
    return (struct ptx_number){.i = i};
}

static struct ptx_number real(double d)
{
    return (struct ptx_number){.real = true, .d = d};
}

static double value(struct ptx_number n)
{
    return n.real ? n.d : (double)n.i;
}

static bool truth(struct ptx_number n)
{
    return n.real ? n.d != 0 : n.i != 0;
}

__attribute__((format(printf, 2, 3)))
static struct ptx_number fail(struct eval *e, const char *format, ...)
{
    if (!e->failed) {
        va_list args;

        va_start(args, format);
        vsnprintf(e->message, e->size, format, args);
        va_end(args);
    }
    e->failed = true;
    e->at = "";
    return integer(0);
}

static void skip(struct eval *e)
{
    while (*e->at == ' ' || *e->at == '\t')
        e->at++;
}

static bool accept(struct eval *e, const char *operator)
{
    const size_t n = strlen(operator);

    skip(e);
    if (strncmp(e->at, operator, n))
        return false;
    /* < is not the beginning of <<, & not of && */
    if (n == 1 && strchr("<>=!&|", *operator) && (e->at[1] == '=' || e->at[1] == *operator))
        return false;
    e->at += n;
    return true;
}

static void expect(struct eval *e, const char *what)
{
    if (!accept(e, what))
        (void)fail(e, "expected %s in '%s'", what, e->begin);
}

static bool letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

static struct ptx_number call(struct eval *e, const char *name, size_t len)
{
    const struct ptx_number a = conditional(e);
    struct ptx_number b = integer(0);
    const bool two = !strncmp(name, "min", len) || !strncmp(name, "max", len);

    if (two) {
        expect(e, ",");
        b = conditional(e);
    }
    expect(e, ")");
    if (!strncmp(name, "sqrt", len))
        return real(sqrt(value(a)));
    if (!strncmp(name, "abs", len))
        return a.real ? real(fabs(a.d)) : integer(a.i < 0 ? (int64_t)(0 - (uint64_t)a.i) : a.i);
    if (a.real || b.real)
        return real(*name == 'm' && name[1] == 'i' ? fmin(value(a), value(b))
                                                   : fmax(value(a), value(b)));
    return integer(name[1] == 'i' ? (a.i < b.i ? a.i : b.i) : (a.i > b.i ? a.i : b.i));
}

static struct ptx_number named(struct eval *e)
{
    const char *name = e->at;
    size_t len;

    while (letter(*e->at))
        e->at++;
    len = (size_t)(e->at - name);
    if (len == 1 && *name == 'i')
        return integer((int64_t)e->i);

    static const char *const functions[] = {"min", "max", "abs", "sqrt"};

    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        if (strlen(functions[f]) == len && !strncmp(functions[f], name, len)) {
            expect(e, "(");
            return call(e, functions[f], len);
        }
    for (unsigned n = 0; n < e->v->c->nargs; n++) {
        const struct ptx_arg *arg = &e->v->c->arg[n];

        if (strlen(arg->name) != len || strncmp(arg->name, name, len))
            continue;
        if (!e->v->initial[n])
            return fail(e, "'%s' has no initial value", arg->name);
        if (!arg->count)
            return ptx_element(arg->type, e->v->initial[n], 0);
        expect(e, "[");

        const struct ptx_number index = conditional(e);

        expect(e, "]");
        if (index.real || index.i < 0 || (size_t)index.i >= arg->count)
            return fail(e, "'%s' has no element %lld", arg->name, (long long)index.i);
        return ptx_element(arg->type, e->v->initial[n], (size_t)index.i);
    }
    return fail(e, "unknown name '%.*s'", (int)len, name);
}

static struct ptx_number number(struct eval *e)
{
    char *end_int, *end_real;
    const unsigned long long u = strtoull(e->at, &end_int, 0);
    const double d = strtod(e->at, &end_real);

    if (end_int == e->at && end_real == e->at)
        return fail(e, "expected a value at '%s'", e->at);
    if (end_real > end_int) {
        e->at = end_real;
        return real(d);
    }
    e->at = end_int;
    return integer((int64_t)u);
}

static struct ptx_number unary(struct eval *e)
{
    struct ptx_number n;

    if (++e->depth > DEPTH)
        return fail(e, "expression nested too deeply");
    if (accept(e, "-")) {
        n = unary(e);
        n = n.real ? real(-n.d) : integer((int64_t)(0 - (uint64_t)n.i));
    } else if (accept(e, "~")) {
        n = integer(~unary(e).i);
    } else if (accept(e, "!")) {
        n = integer(!truth(unary(e)));
    } else if (accept(e, "(")) {
        n = conditional(e);
        expect(e, ")");
    } else {
        skip(e);
        n = letter(*e->at) && !(*e->at >= '0' && *e->at <= '9') ? named(e) : number(e);
    }
    e->depth--;
    return n;
}

static const struct {
    const char *text;
    int level;
} operators[] = {
    {"||", 1}, {"&&", 2}, {"|", 3}, {"^", 4}, {"&", 5}, {"==", 6}, {"!=", 6}, {"<=", 7},
    {">=", 7}, {"<<", 8}, {">>", 8}, {"<", 7}, {">", 7}, {"+", 9}, {"-", 9}, {"*", 10}, {"/", 10},
    {"%", 10},
};

enum { OPERATORS = sizeof operators / sizeof *operators };

static struct ptx_number combine(struct eval *e, const char *op, struct ptx_number a,
                                 struct ptx_number b)
{
    const bool r = a.real || b.real;
    const double x = value(a), y = value(b);
    const uint64_t u = (uint64_t)a.i, w = (uint64_t)b.i;

    if (!strcmp(op, "||"))
        return integer(truth(a) || truth(b));
    if (!strcmp(op, "&&"))
        return integer(truth(a) && truth(b));
    if (!strcmp(op, "=="))
        return integer(r ? x == y : a.i == b.i);
    if (!strcmp(op, "!="))
        return integer(r ? x != y : a.i != b.i);
    if (!strcmp(op, "<="))
        return integer(r ? x <= y : a.i <= b.i);
    if (!strcmp(op, ">="))
        return integer(r ? x >= y : a.i >= b.i);
    if (!strcmp(op, "<"))
        return integer(r ? x < y : a.i < b.i);
    if (!strcmp(op, ">"))
        return integer(r ? x > y : a.i > b.i);
    if (!strcmp(op, "+"))
        return r ? real(x + y) : integer((int64_t)(u + w));
    if (!strcmp(op, "-"))
        return r ? real(x - y) : integer((int64_t)(u - w));
    if (!strcmp(op, "*"))
        return r ? real(x * y) : integer((int64_t)(u * w));
    if (!strcmp(op, "/") && r)
        return real(x / y);
    if (r)
        return fail(e, "%s needs integers", op);
    if (!strcmp(op, "|"))
        return integer(a.i | b.i);
    if (!strcmp(op, "^"))
        return integer(a.i ^ b.i);
    if (!strcmp(op, "&"))
        return integer(a.i & b.i);
    if (!strcmp(op, "<<"))
        return integer(w > 63 ? 0 : (int64_t)(u << w));
    if (!strcmp(op, ">>"))
        return integer(a.i >> (w > 63 ? 63 : w));
    if (!b.i || (a.i == INT64_MIN && b.i == -1))
        return fail(e, "division of %lld by %lld", (long long)a.i, (long long)b.i);
    return integer(*op == '/' ? a.i / b.i : a.i % b.i);
}

static struct ptx_number climb(struct eval *e, int min)
{
    struct ptx_number a = unary(e);

    for (bool found = true; found && !e->failed;) {
        found = false;
        for (int k = 0; k < OPERATORS && !found; k++) {
            const char *before = e->at;

            if (operators[k].level < min || !accept(e, operators[k].text)) {
                e->at = before;
                continue;
            }
            a = combine(e, operators[k].text, a, climb(e, operators[k].level + 1));
            found = true;
        }
    }
    return a;
}

static struct ptx_number conditional(struct eval *e)
{
    struct ptx_number n;

    if (++e->depth > DEPTH)
        return fail(e, "expression nested too deeply");
    n = climb(e, 1);
    if (accept(e, "?")) {
        const struct ptx_number yes = conditional(e);

        expect(e, ":");

        const struct ptx_number no = conditional(e);

        n = truth(n) ? yes : no;
    }
    e->depth--;
    return n;
}

bool ptx_expr_eval(const struct ptx_values *v, const char *expression, size_t i,
                   struct ptx_number *out, char *message, size_t size)
{
    struct eval e = {.v = v, .at = expression, .begin = expression, .i = i, .message = message,
                     .size = size};

    *out = conditional(&e);
    skip(&e);
    if (!e.failed && *e.at)
        (void)fail(&e, "'%s' is left over in '%s'", e.at, expression);
    return !e.failed;
}
