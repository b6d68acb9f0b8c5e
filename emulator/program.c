/*
 * Loading and asking: the front end's outside.
 */
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

static enum load_status no_memory(struct load_error *error)
{
    memset(error, 0, sizeof *error);
    error->status = LOAD_NO_MEMORY;
    snprintf(error->message, sizeof error->message, "out of memory");
    return LOAD_NO_MEMORY;
}

/* False: ps->error says why. Nothing here is used after the jump but ps. */
static bool run(struct parser *ps)
{
    if (setjmp(ps->bail))
        return false;

    const char *file = ps->options->file ? ps->options->file : "ptx";

    (void)parse_file(ps, file, strlen(file));
    parse_module(ps);
    return true;
}

enum load_status program_load(const char *text, size_t len, const struct load_options *options,
                              struct program **out, struct load_error *error)
{
    static const struct load_options none = {0};
    struct load_error ignored;
    struct arena *arena = arena_new();
    struct parser *ps = calloc(1, sizeof *ps);
    struct program *p = arena ? arena_alloc(arena, sizeof *p) : NULL;
    char *copy;
    bool loaded;

    *out = NULL;
    if (!error)
        error = &ignored;
    memset(error, 0, sizeof *error);
    while (len && !text[len - 1])
        len--;
    copy = p && len < UINT32_MAX / 2 ? arena_alloc(arena, len + 1) : NULL;
    if (!ps || !copy) {
        free(ps);
        arena_free(arena);
        return no_memory(error);
    }
    memcpy(copy, text, len);
    p->arena = arena;
    p->text = copy;
    p->text_len = len;
    ps->arena = arena;
    ps->options = options ? options : &none;
    ps->error = error;
    ps->p = p;
    lex_init(&ps->lex, copy, len);
    loaded = run(ps);
    free(ps);
    if (!loaded) {
        arena_free(arena);
        return error->status;
    }
    *out = p;
    return LOAD_OK;
}

void program_free(struct program *p)
{
    if (p)
        arena_free(p->arena);
}

const struct function *program_find(const struct program *p, const char *name)
{
    for (uint32_t i = 0; i < p->nfuncs; i++)
        if (!strcmp(p->funcs[i].name, name))
            return &p->funcs[i];
    return NULL;
}

const struct symbol *program_symbol(const struct program *p, const char *name)
{
    for (uint32_t i = 0; i < p->nsymbols; i++)
        if (!p->symbols[i].is_function_local && !strcmp(p->symbols[i].name, name))
            return &p->symbols[i];
    return NULL;
}

const struct function *program_function_at(const struct program *p, uint32_t pc)
{
    return pc < p->ninsts ? &p->funcs[p->where[pc].func] : NULL;
}

const char *program_text(const struct program *p, uint32_t pc, char *buf, size_t n)
{
    const struct where *w = &p->where[pc];
    size_t used = 0;
    bool blank = false, cut = false;

    if (!n)
        return buf;
    for (uint32_t i = 0; i < w->len && !cut; i++) {
        const char c = p->text[w->text + i];

        if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            blank = used > 0;
            continue;
        }
        cut = used + blank + 1 >= n;
        if (!cut) {
            if (blank)
                buf[used++] = ' ';
            buf[used++] = c;
            blank = false;
        }
    }
    buf[used] = 0;
    if (cut && n > 3) {
        used = used > n - 4 ? n - 4 : used;
        memcpy(buf + used, "...", 4);
    }
    return buf;
}

const char *program_label(const struct program *p, uint32_t pc)
{
    const struct function *f = program_function_at(p, pc);
    uint32_t lo = 0, hi = f ? f->nlabels : 0;

    while (lo < hi) {           /* the first label behind pc */
        const uint32_t mid = (lo + hi) / 2;

        if (f->labels[mid].pc <= pc)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? f->labels[lo - 1].name : "";
}
