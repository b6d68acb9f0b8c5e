/* shapes.c -- reads problem lists, and makes random ones. */
#include "shapes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int append(struct shapes *shapes, const struct shape *shape, char *why, size_t why_size)
{
    struct shape *list = realloc(shapes->list, (shapes->count + 1) * sizeof *list);
    if (!list) {
        snprintf(why, why_size, "host memory is exhausted");
        return -1;
    }
    list[shapes->count++] = *shape;
    shapes->list = list;
    return 0;
}

/* Reads a size at *text and steps behind it; 0 if there is none. */
static int64_t take(const char **text)
{
    char *end;
    errno = 0;
    const long long value = strtoll(*text, &end, 10);
    if (end == *text || errno || value <= 0 || value > (1LL << 40)) return 0;
    *text = end;
    return value;
}

int shapes_parse(struct shapes *shapes, const char *text, char *why, size_t why_size)
{
    struct shape shape = { .batch = 1, .layout = "kk" };
    const char *at = text;
    shape.m = take(&at);
    if (shape.m && !*at) {
        shape.n = shape.k = shape.m;
    } else if (shape.m && *at == 'x') {
        at++;
        shape.n = take(&at);
        if (shape.n && *at == 'x') {
            at++;
            shape.k = take(&at);
        }
        if (shape.k && *at == 'x') {
            at++;
            shape.batch = take(&at);
        }
    }
    if (!shape.m || !shape.n || !shape.k || !shape.batch || *at) {
        snprintf(why, why_size, "shape \"%s\": must be MxNxK, like 8192x4096x7168, MxNxKxBATCH, or one number for "
                 "a cube", text);
        return -1;
    }
    snprintf(shape.name, sizeof shape.name, "%lldx%lldx%lld", (long long)shape.m, (long long)shape.n,
             (long long)shape.k);
    if (shape.batch > 1) {
        const size_t length = strlen(shape.name);
        snprintf(shape.name + length, sizeof shape.name - length, "x%lld", (long long)shape.batch);
    }
    return append(shapes, &shape, why, why_size);
}

int shapes_read(struct shapes *shapes, const char *path, char *why, size_t why_size)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        snprintf(why, why_size, "cannot read %s: %s", path, strerror(errno));
        return -1;
    }
    char line[256];
    int number = 0, result = 0;
    while (result == 0 && fgets(line, sizeof line, file)) {
        struct shape shape;
        long long m, n, k, batch;
        char rest;
        number++;
        line[strcspn(line, "#\n")] = 0;
        if (line[strspn(line, " \t\r")] == 0) continue;
        const int fields =
            sscanf(line, "%39s %lld %lld %lld %lld %2s %c", shape.name, &m, &n, &k, &batch, shape.layout, &rest);
        if (fields != 6 || m <= 0 || n <= 0 || k <= 0 || batch <= 0 || !strchr("km", shape.layout[0]) ||
            !shape.layout[1] || !strchr("kn", shape.layout[1])) {
            snprintf(why, why_size,
                     "%s:%d: must be \"name M N K batch layout\" with sizes above 0 and layout kk, kn, mk or mn",
                     path, number);
            result = -1;
            break;
        }
        shape.m = m;
        shape.n = n;
        shape.k = k;
        shape.batch = batch;
        result = append(shapes, &shape, why, why_size);
    }
    if (result == 0 && ferror(file)) {
        snprintf(why, why_size, "cannot read %s: %s", path, strerror(errno));
        result = -1;
    }
    fclose(file);
    return result;
}

int shapes_default(struct shapes *shapes, char *why, size_t why_size)
{
    static const char *const list[] = { "4096x4096x4096", "8192x8192x8192", "8192x4096x7168" };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (shapes_parse(shapes, list[i], why, why_size)) return -1;
    return 0;
}

/* splitmix64: a uniform number of [0, 1). */
static double uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* Log-uniform from low to high, then the nearest multiple of `step` that lies in between. */
static int64_t random_size(uint64_t *state, int64_t low, int64_t high, int64_t step)
{
    const double size = (double)low * exp2(log2((double)high / (double)low) * uniform(state));
    const int64_t multiple = (int64_t)(size / (double)step + 0.5) * step;
    const int64_t least = (low + step - 1) / step * step;
    return multiple < least ? least : multiple;
}

int shapes_random(struct shapes *shapes, size_t count, uint64_t seed, char *why, size_t why_size)
{
    static const struct {
        int64_t m, nk;   /* multiples of */
    } kinds[] = { { 64, 64 }, { 8, 8 }, { 1, 8 } };
    const size_t first = shapes->count;
    uint64_t state = seed;
    for (size_t i = 0; i < count;) {
        struct shape shape = { .batch = 1, .layout = "kk" };
        shape.m = random_size(&state, 1, 8192, kinds[i % 3].m);
        shape.n = random_size(&state, 64, 16384, kinds[i % 3].nk);
        shape.k = random_size(&state, 64, 16384, kinds[i % 3].nk);
        bool again = (double)shape.m * (double)shape.n * (double)shape.k > 2e12;
        for (size_t j = first; j < shapes->count; j++) {
            const struct shape *s = &shapes->list[j];
            again = again || (s->m == shape.m && s->n == shape.n && s->k == shape.k);
        }
        if (again) continue;
        snprintf(shape.name, sizeof shape.name, "%lldx%lldx%lld", (long long)shape.m, (long long)shape.n,
                 (long long)shape.k);
        if (append(shapes, &shape, why, why_size)) return -1;
        i++;
    }
    return 0;
}

void shapes_print(const struct shapes *shapes)
{
    for (size_t i = 0; i < shapes->count; i++) {
        const struct shape *s = &shapes->list[i];
        printf("%-18s %6lld %6lld %6lld %4lld %s\n", s->name, (long long)s->m, (long long)s->n, (long long)s->k,
               (long long)s->batch, s->layout);
    }
}

void shapes_free(struct shapes *shapes)
{
    free(shapes->list);
    shapes->list = NULL;
    shapes->count = 0;
}
