#include "ptx_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ptx_arg_size(const struct ptx_arg *arg)
{
    return arg->is_map ? 128 : ptx_type_size(arg->type) * (arg->count ? arg->count : 1);
}

/* ---- reading the comments ------------------------------------------------------------------- */

struct reader {
    const char *at;
    unsigned line;
    char *message;
    size_t size;
};

static bool wrong(struct reader *r, const char *what)
{
    snprintf(r->message, r->size, "line %u: %s, at '%.40s'", r->line, what, r->at);
    return false;
}

static void skip(struct reader *r)
{
    while (*r->at == ' ' || *r->at == '\t')
        r->at++;
}

static bool word(struct reader *r, char *out, size_t size)
{
    size_t n = 0;

    skip(r);
    while ((*r->at >= 'a' && *r->at <= 'z') || (*r->at >= 'A' && *r->at <= 'Z') || *r->at == '_' ||
           *r->at == '$' || (*r->at >= '0' && *r->at <= '9')) {
        if (n + 1 == size)
            return false;
        out[n++] = *r->at++;
    }
    out[n] = 0;
    return n > 0;
}

static bool count(struct reader *r, unsigned long *out)
{
    char *end;

    skip(r);
    *out = strtoul(r->at, &end, 0);
    if (end == r->at || *r->at == '-')
        return false;
    r->at = end;
    return true;
}

static bool triple(struct reader *r, uint32_t out[3])
{
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; i++) {
        unsigned long v;

        if (!count(r, &v) || !v || v > INT32_MAX)
            return wrong(r, "expected a size");
        out[i] = (uint32_t)v;
        skip(r);
        if (*r->at != ',')
            break;
        r->at++;
    }
    return true;
}

static char *rest(struct reader *r, const char *end)
{
    char *copy;

    skip(r);
    while (end > r->at && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    copy = malloc((size_t)(end - r->at) + 1);
    if (copy) {
        memcpy(copy, r->at, (size_t)(end - r->at));
        copy[end - r->at] = 0;
    }
    return copy;
}

static bool run_line(struct reader *r, struct ptx_case *c)
{
    char key[16];

    while (word(r, key, sizeof key)) {
        unsigned long v;
        bool good = true;

        if (!strcmp(key, "grid"))
            good = triple(r, c->grid);
        else if (!strcmp(key, "block"))
            good = triple(r, c->block);
        else if (!strcmp(key, "cluster"))
            good = triple(r, c->cluster);
        else if (!strcmp(key, "smem") && count(r, &v))
            c->smem = (uint32_t)v;
        else if (!strcmp(key, "kernel") && word(r, c->kernel, sizeof c->kernel))
            good = true;
        else
            return wrong(r, "expected grid, block, cluster, smem or kernel");
        if (!good)
            return false;
    }
    skip(r);
    return !*r->at || wrong(r, "unexpected text");
}

/* a,b,.. into out; how many, 0 if there is none or one is no number */
static unsigned list(struct reader *r, uint64_t *out, unsigned max)
{
    unsigned n = 0;

    while (n < max) {
        unsigned long v;

        if (!count(r, &v))
            return 0;
        out[n++] = v;
        skip(r);
        if (*r->at != ',')
            break;
        r->at++;
    }
    return n;
}

static const char *const map_types[] = {    /* in the order of CUtensorMapDataType */
    "u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32ftz", "tf32",
    "tf32ftz", "b4x16", "b4x16_p64", "b6x16_p32",
};

enum { MAP_TYPES = sizeof map_types / sizeof *map_types };

static unsigned map_type_bits(int type)
{
    static const unsigned char bits[MAP_TYPES] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32,
                                                  4, 4, 6};

    return bits[type];
}

static bool map_field(struct reader *r, struct ptx_map *map, const char *key)
{
    uint64_t v[5] = {0};
    const bool fill = !strcmp(key, "fill");
    char nan[8];
    unsigned n;

    if (fill) {
        map->fill = 1;
        return (word(r, nan, sizeof nan) && !strcmp(nan, "nan")) || wrong(r, "expected nan");
    }
    n = list(r, v, 5);
    if (!n)
        return wrong(r, "expected numbers");
    if (!strcmp(key, "dim")) {
        map->rank = n;
        memcpy(map->dim, v, sizeof v);
    } else if (!strcmp(key, "pitch")) {
        memcpy(map->pitch, v, sizeof map->pitch);
    } else if (!strcmp(key, "box") || !strcmp(key, "step")) {
        for (unsigned i = 0; i < n; i++)
            (key[0] == 'b' ? map->box : map->step)[i] = (uint32_t)v[i];
    } else if (!strcmp(key, "swizzle") && (v[0] == 32 || v[0] == 64 || v[0] == 128)) {
        map->swizzle = v[0] == 32 ? 1 : v[0] == 64 ? 2 : 3;
    } else if (!strcmp(key, "atom") && map->swizzle >= 3 && (v[0] == 32 || v[0] == 64)) {
        map->swizzle = v[0] == 32 ? 4 : 6;
    } else {
        return wrong(r, "expected dim, pitch, box, step, swizzle 32|64|128, behind swizzle 128 "
                        "atom 32|64, or fill nan");
    }
    return true;
}

/* TYPE of BUFFER dim X,Y box X,Y .. */
static bool map_line(struct reader *r, struct ptx_case *c, struct ptx_arg *arg)
{
    struct ptx_map *map = &arg->map;
    char text[32];

    arg->is_map = true;
    if (!word(r, text, sizeof text))
        return wrong(r, "expected the type of the map's elements");
    while (map->type < MAP_TYPES && strcmp(map_types[map->type], text))
        map->type++;
    if (map->type == MAP_TYPES)
        return wrong(r, "expected u8 u16 u32 s32 u64 s64 f16 f32 f64 bf16 f32ftz tf32 tf32ftz "
                        "b4x16 b4x16_p64 b6x16_p32");
    if (!word(r, text, sizeof text) || strcmp(text, "of") || !word(r, text, sizeof text))
        return wrong(r, "expected of and a buffer");
    while (map->buffer < c->nargs && strcmp(c->arg[map->buffer].name, text))
        map->buffer++;
    if (map->buffer == c->nargs || !c->arg[map->buffer].count)
        return wrong(r, "no such buffer before this line");
    for (int i = 0; i < 5; i++)
        map->step[i] = 1;
    while (word(r, text, sizeof text))
        if (!map_field(r, map, text))
            return false;
    if (!map->rank || !map->box[map->rank - 1])
        return wrong(r, "dim and box are needed, with as many numbers");
    for (unsigned i = 0; i + 1 < map->rank; i++)
        if (!map->pitch[i])
            map->pitch[i] = i ? map->pitch[i - 1] * map->dim[i]
                              : map->dim[0] * map_type_bits(map->type) / 8;
    c->nargs++;
    skip(r);
    return !*r->at || wrong(r, "unexpected text");
}

static bool arg_line(struct reader *r, struct ptx_case *c)
{
    struct ptx_arg *arg = &c->arg[c->nargs];
    char type[16];

    if (c->nargs == PTX_ARGS)
        return wrong(r, "too many arguments");
    if (!word(r, arg->name, sizeof arg->name) || !word(r, type, sizeof type))
        return wrong(r, "expected a name and a type");
    if (!strcmp(type, "tensormap"))
        return map_line(r, c, arg);
    if (!ptx_type_find(type, &arg->type))
        return wrong(r, "expected a type: u8 s8 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64");
    skip(r);
    if (*r->at == '[') {
        unsigned long n;

        r->at++;
        if (!count(r, &n) || !n || n > 1ul << 28 || *r->at != ']')
            return wrong(r, "expected a number of elements and ]");
        r->at++;
        arg->count = n;
    }
    c->nargs++;
    skip(r);
    if (*r->at == '=') {
        r->at++;
        arg->init = rest(r, r->at + strlen(r->at));
        return arg->init || wrong(r, "out of memory");
    }
    if (!arg->count)
        return wrong(r, "a scalar needs a value");
    return !*r->at || wrong(r, "unexpected text");
}

static bool expect_line(struct reader *r, struct ptx_case *c)
{
    struct ptx_expect *e = &c->expect[c->nexpects];
    char name[32];
    const char *within;
    unsigned n = 0;

    if (c->nexpects == PTX_EXPECTS)
        return wrong(r, "too many expectations");
    if (!word(r, name, sizeof name))
        return wrong(r, "expected the name of a buffer");
    while (n < c->nargs && strcmp(c->arg[n].name, name))
        n++;
    if (n == c->nargs || !c->arg[n].count)
        return wrong(r, "no such buffer");
    *e = (struct ptx_expect){.arg = n, .last = c->arg[n].count - 1, .line = r->line};
    skip(r);
    if (*r->at == '[') {
        unsigned long first, last;

        r->at++;
        if (!count(r, &first))
            return wrong(r, "expected an index");
        last = first;
        if (r->at[0] == '.' && r->at[1] == '.') {
            r->at += 2;
            if (!count(r, &last))
                return wrong(r, "expected an index");
        }
        if (*r->at != ']' || last < first || last >= c->arg[n].count)
            return wrong(r, "expected a range of the buffer's elements");
        r->at++;
        e->first = first;
        e->last = last;
    }
    skip(r);
    if (*r->at != '=' && *r->at != '~')
        return wrong(r, "expected = or ~");

    const bool near = *r->at++ == '~';

    within = near ? strstr(r->at, " within ") : NULL;
    if (near && !within)
        return wrong(r, "expected within and a tolerance");
    if (near && !((e->within = strtod(within + 8, NULL)) > 0))
        return wrong(r, "expected a tolerance");
    e->expression = rest(r, within ? within : r->at + strlen(r->at));
    if (!e->expression)
        return wrong(r, "out of memory");
    c->nexpects++;
    return true;
}

static bool comment(struct reader *r, struct ptx_case *c, bool *ran)
{
    if (!strncmp(r->at, "//run:", 6)) {
        r->at += 6;
        *ran = true;
        return run_line(r, c);
    }
    if (!strncmp(r->at, "//arg:", 6)) {
        r->at += 6;
        return arg_line(r, c);
    }
    if (!strncmp(r->at, "//buffer:", 9)) {
        c->arg[c->nargs % PTX_ARGS].hidden = true;
        r->at += 9;
        return arg_line(r, c) && (c->arg[c->nargs - 1].count || wrong(r, "expected a buffer"));
    }
    if (!strncmp(r->at, "//expect:", 9)) {
        r->at += 9;
        return expect_line(r, c);
    }
    if (!strncmp(r->at, "//trap:", 7)) {
        r->at += 7;
        free(c->trap);
        c->trap = rest(r, r->at + strlen(r->at));
        return c->trap || wrong(r, "out of memory");
    }
    if (!strncmp(r->at, "//rules:", 8)) {
        r->at += 8;
        if (word(r, c->rules, sizeof c->rules) &&
            (!strcmp(c->rules, "assume") || !strcmp(c->rules, "none")))
            return true;
        return wrong(r, "expected assume or none");
    }
    return true;
}

bool ptx_case_parse(struct ptx_case *c, const char *text, char *message, size_t size)
{
    struct reader r = {.at = text, .message = message, .size = size};
    bool ran = false;

    memset(c, 0, sizeof *c);
    for (int i = 0; i < 3; i++)
        c->grid[i] = c->block[i] = 1;
    for (const char *p = text; *p;) {
        const size_t len = strcspn(p, "\r\n");
        char *line;
        bool good;

        r.line++;
        if (len > 2 && p[0] == '/' && p[1] == '/') {
            line = malloc(len + 1);
            r.at = p;
            if (!line)
                return wrong(&r, "out of memory");
            r.at = line;
            memcpy(line, p, len);
            line[len] = 0;
            good = comment(&r, c, &ran);
            free(line);
            if (!good)
                return false;
        }
        p += len;
        p += *p == '\r';
        p += *p == '\n';
    }
    r.at = text;
    if (!ran)
        return wrong(&r, "there is no //run: line");
    if (!*c->kernel) {
        const char *entry = strstr(text, ".entry");

        r.at = entry ? entry + 6 : "";
        if (!entry || !word(&r, c->kernel, sizeof c->kernel))
            return wrong(&r, "there is no .entry");
    }
    return true;
}

void ptx_case_free(struct ptx_case *c)
{
    for (unsigned i = 0; i < c->nargs; i++)
        free(c->arg[i].init);
    for (unsigned i = 0; i < c->nexpects; i++)
        free(c->expect[i].expression);
    free(c->trap);
    memset(c, 0, sizeof *c);
}

/* ---- values --------------------------------------------------------------------------------- */

bool ptx_case_fill(const struct ptx_values *v, unsigned n, void *bytes, char *message, size_t size)
{
    const struct ptx_arg *arg = &v->c->arg[n];
    const size_t elements = arg->count ? arg->count : 1;

    for (size_t i = 0; i < elements; i++) {
        struct ptx_number x;
        char why[256];

        if (!ptx_expr_eval(v, arg->init, i, &x, why, sizeof why)) {
            snprintf(message, size, "%s[%zu]: %s", arg->name, i, why);
            return false;
        }
        ptx_element_store(arg->type, x, bytes, i);
    }
    return true;
}

static bool agrees(const struct ptx_expect *e, enum ptx_type type, const void *results, size_t i,
                   struct ptx_number want)
{
    unsigned char bits[8];
    const struct ptx_number got = ptx_element(type, results, i);
    const double expected = want.real ? want.d : (double)want.i;
    const double found = got.real ? got.d : (double)got.i;

    ptx_element_store(type, want, bits, 0);
    if (e->within <= 0)
        return !memcmp(bits, (const unsigned char *)results + i * ptx_type_size(type),
                       ptx_type_size(type));
    return fabs(found - expected) <= e->within * fabs(expected);
}

bool ptx_case_check(const struct ptx_values *v, void *const *results, char *message, size_t size)
{
    for (unsigned k = 0; k < v->c->nexpects; k++) {
        const struct ptx_expect *e = &v->c->expect[k];
        const struct ptx_arg *arg = &v->c->arg[e->arg];

        for (size_t i = e->first; i <= e->last; i++) {
            struct ptx_number want;
            unsigned char bits[8];
            char why[256], got[40], expected[40];

            if (!ptx_expr_eval(v, e->expression, i, &want, why, sizeof why)) {
                snprintf(message, size, "line %u, %s[%zu]: %s", e->line, arg->name, i, why);
                return false;
            }
            if (agrees(e, arg->type, results[e->arg], i, want))
                continue;
            ptx_element_store(arg->type, want, bits, 0);
            ptx_case_print(arg->type, bits, 0, expected, sizeof expected);
            ptx_case_print(arg->type, results[e->arg], i, got, sizeof got);
            snprintf(message, size, "line %u: %s[%zu] is %s, expected %s", e->line, arg->name, i,
                     got, expected);
            return false;
        }
    }
    return true;
}
