/* shapes.c -- reads problem lists. */
#include "shapes.h"

#include <errno.h>
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

void shapes_free(struct shapes *shapes)
{
    free(shapes->list);
    shapes->list = NULL;
    shapes->count = 0;
}
