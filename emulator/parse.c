/*
 * Module level: directives, functions, and the parser's small tools.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

/* ---- errors --------------------------------------------------------------------------------- */

static void source_line(const struct parser *ps, const char *at, char *out, size_t size)
{
    const char *from = at, *to = at;
    const char *begin = ps->lex.begin, *end = ps->lex.end;

    while (from > begin && from[-1] != '\n')
        from--;
    while (to < end && *to != '\n' && *to != '\r')
        to++;
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    if ((size_t)(to - from) >= size)
        to = from + size - 1;
    memcpy(out, from, (size_t)(to - from));
    out[to - from] = 0;
}

static void report(struct parser *ps, enum load_status status, const char *at, uint32_t line,
                   const char *format, va_list args)
{
    struct load_error *e = ps->error;
    const char *from = at;

    memset(e, 0, sizeof *e);
    e->status = status;
    e->line = line;
    snprintf(e->file, sizeof e->file, "%s", ps->options->file ? ps->options->file : "ptx");
    while (from > ps->lex.begin && from[-1] != '\n')
        from--;
    e->column = (uint32_t)(at - from) + 1;
    vsnprintf(e->message, sizeof e->message, format, args);
    source_line(ps, at, e->text, sizeof e->text);
}

void parse_fail(struct parser *ps, enum load_status status, const struct token *at,
                const char *format, ...)
{
    va_list args;
    const bool own = at->s >= ps->lex.begin && at->s <= ps->lex.end;    /* not a joined copy */

    va_start(args, format);
    report(ps, status, own ? at->s : ps->lex.tok.s, at->line, format, args);
    va_end(args);
    if (ps->lex.marker_line && ps->lex.marker_line < at->line) {
        ps->error->line = ps->lex.marker.line + (at->line - ps->lex.marker_line - 1);
        if (ps->lex.marker.file_len)
            snprintf(ps->error->file, sizeof ps->error->file, "%.*s",
                     (int)ps->lex.marker.file_len, ps->lex.marker.file);
    }
    longjmp(ps->bail, 1);
}

void parse_fail_line(struct parser *ps, const struct where *w, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    report(ps, LOAD_INVALID, ps->lex.begin + w->text,
           w->file & WHERE_NUMBERED ? w->ptx_line : w->line, format, args);
    va_end(args);
    if (w->file < ps->p->nfiles)
        snprintf(ps->error->file, sizeof ps->error->file, "%s", ps->p->files[w->file]);
    longjmp(ps->bail, 1);
}

/* ---- memory --------------------------------------------------------------------------------- */

void *parse_alloc(struct parser *ps, size_t size)
{
    void *block = arena_alloc(ps->arena, size);

    if (!block)
        parse_fail(ps, LOAD_NO_MEMORY, &ps->lex.tok, "out of memory");
    return block;
}

/* Doubles an array that is full; the old one stays in the arena. */
void *parse_grow(struct parser *ps, void *array, uint32_t *cap, uint32_t used, size_t size)
{
    const uint32_t fresh = *cap ? *cap * 2 : 16;
    void *block;

    if (fresh > UINT32_MAX / 2)
        parse_fail(ps, LOAD_NO_MEMORY, &ps->lex.tok, "module too large");
    block = parse_alloc(ps, fresh * size);
    if (used)
        memcpy(block, array, used * size);
    *cap = fresh;
    return block;
}

const char *parse_copy(struct parser *ps, const char *s, size_t len)
{
    char *copy = parse_alloc(ps, len + 1);

    memcpy(copy, s, len);
    return copy;
}

/* ---- tokens --------------------------------------------------------------------------------- */

void parse_next(struct parser *ps)
{
    lex_next(&ps->lex);
    if (ps->lex.tok.kind == TOK_BAD)
        FAIL(ps, &ps->lex.tok, "%s", ps->lex.tok.message);
}

bool parse_is(const struct parser *ps, int punct)
{
    return ps->lex.tok.kind == TOK_PUNCT && ps->lex.tok.punct == punct;
}

bool parse_accept(struct parser *ps, int punct)
{
    if (!parse_is(ps, punct))
        return false;
    parse_next(ps);
    return true;
}

void parse_expect(struct parser *ps, int punct)
{
    if (!parse_accept(ps, punct))
        FAIL(ps, &ps->lex.tok, "expected %c, found '%.*s'", punct, (int)ps->lex.tok.len,
             ps->lex.tok.s);
}

bool parse_is_dot(const struct parser *ps, const char *word)
{
    return ps->lex.tok.kind == TOK_DOT && strlen(word) == ps->lex.tok.len &&
           !memcmp(word, ps->lex.tok.s, ps->lex.tok.len);
}

/* ---- files ---------------------------------------------------------------------------------- */

uint32_t parse_file(struct parser *ps, const char *s, size_t len)
{
    struct program *p = ps->p;

    for (uint32_t i = 0; i < p->nfiles && i < 64; i++)
        if (strlen(p->files[i]) == len && !memcmp(p->files[i], s, len))
            return i;
    if (p->nfiles == ps->files_cap)
        p->files = parse_grow(ps, p->files, &ps->files_cap, p->nfiles, sizeof *p->files);
    p->files[p->nfiles] = parse_copy(ps, s, len);
    return p->nfiles++;
}

/* .file 1 "name"[, time, size] */
void parse_file_directive(struct parser *ps)
{
    parse_next(ps);

    const int64_t number = expr_integer(ps);
    const struct token name = ps->lex.tok;

    if (name.kind != TOK_STRING)
        FAIL(ps, &name, "expected the name of the file");
    parse_next(ps);
    while (parse_accept(ps, ','))
        (void)expr_integer(ps);
    if (ps->nnumbered == ps->numbered_cap)
        ps->numbered = parse_grow(ps, ps->numbered, &ps->numbered_cap, ps->nnumbered,
                                  sizeof *ps->numbered);
    ps->numbered[ps->nnumbered].number = (uint32_t)number;
    ps->numbered[ps->nnumbered++].file = parse_file(ps, name.s, name.len);
}

/* ---- header --------------------------------------------------------------------------------- */

static void version(struct parser *ps)
{
    if (!parse_is_dot(ps, ".version"))
        FAIL(ps, &ps->lex.tok, "a module begins with .version");
    parse_next(ps);

    const struct token at = ps->lex.tok;
    unsigned major, minor;
    char copy[16] = "", tail;

    if (at.kind != TOK_FLOAT || at.len >= sizeof copy)
        FAIL(ps, &at, "expected a version such as 9.0");
    memcpy(copy, at.s, at.len);
    if (sscanf(copy, "%2u.%1u%c", &major, &minor, &tail) != 2)
        FAIL(ps, &at, "expected a version such as 9.0");
    ps->p->version = major * 10 + minor;
    if (ps->p->version > 90)
        parse_fail(ps, LOAD_UNSUPPORTED_VERSION, &at, "PTX %s is newer than 9.0", copy);
    parse_next(ps);
}

static void target(struct parser *ps)
{
    struct program *p = ps->p;
    const unsigned part = ps->options->sm;

    if (!parse_is_dot(ps, ".target"))
        FAIL(ps, &ps->lex.tok, ".target follows .version");
    do {
        char copy[16] = "", suffix = 0, tail;
        unsigned sm;

        parse_next(ps);

        const struct token at = ps->lex.tok;

        if (at.kind != TOK_IDENT)
            FAIL(ps, &at, "expected a target such as sm_90a");
        parse_next(ps);
        if (at.len < 3 || memcmp(at.s, "sm_", 3))
            continue;           /* debug, texmode_unified, .. */
        if (at.len < sizeof copy)
            memcpy(copy, at.s, at.len);

        const int n = sscanf(copy, "sm_%3u%c%c", &sm, &suffix, &tail);

        if (n < 1 || n > 2 || (n == 2 && suffix != 'a' && suffix != 'f'))
            FAIL(ps, &at, "unknown target '%.*s'", (int)at.len, at.s);
        p->sm = sm;
        p->sm_suffix = n == 2 ? suffix : 0;
        if (part && (sm > part || (p->sm_suffix == 'a' && sm != part) ||
                     (p->sm_suffix == 'f' && sm / 10 != part / 10)))
            parse_fail(ps, LOAD_WRONG_TARGET, &at, "the module is for %s, the device is sm_%u",
                       copy, part);
    } while (parse_is(ps, ','));
    if (!p->sm)
        FAIL(ps, &ps->lex.tok, "expected a target such as sm_90a");
}

/* ---- functions ------------------------------------------------------------------------------ */

static uint32_t function_of(struct parser *ps, const struct token *name, bool entry)
{
    struct program *p = ps->p;
    const struct name *n = names_find(ps, name->s, name->len, true);

    if (n->plain && n->plain->kind == BIND_FUNC && n->plain->depth == ps->block->depth) {
        if (p->funcs[n->plain->index].entry != entry)
            FAIL(ps, name, "'%.*s' is declared as kernel and as function", (int)name->len, name->s);
        return n->plain->index;
    }

    struct binding *b = names_declare(ps, name, BIND_FUNC);

    if (p->nfuncs == ps->funcs_cap)
        p->funcs = parse_grow(ps, p->funcs, &ps->funcs_cap, p->nfuncs, sizeof *p->funcs);
    b->index = p->nfuncs;
    p->funcs[p->nfuncs] = (struct function){.name = parse_copy(ps, name->s, name->len),
                                            .entry = entry, .is_extern = true};
    return p->nfuncs++;
}

static void three(struct parser *ps, uint32_t out[3], bool need_all)
{
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; i++) {
        const struct token at = ps->lex.tok;
        const int64_t v = expr_integer(ps);

        if (v < 1 || v > INT32_MAX)
            FAIL(ps, &at, "expected a positive number");
        out[i] = (uint32_t)v;
        if (!parse_accept(ps, ','))
            break;
        if (need_all && i == 2)
            FAIL(ps, &at, "three dimensions at most");
    }
}

static uint32_t one(struct parser *ps)
{
    const struct token at = ps->lex.tok;
    const int64_t v = expr_integer(ps);

    if (v < 0 || v > INT32_MAX)
        FAIL(ps, &at, "expected a number");
    return (uint32_t)v;
}

/* The directives between a function's parameters and its body. */
static void performance(struct parser *ps, struct function *f)
{
    for (;;) {
        const struct token at = ps->lex.tok;
        const bool known = at.kind == TOK_DOT;

        if (!known)
            return;
        parse_next(ps);

        #define IS(word) (at.len == sizeof(word) - 1 && !memcmp(at.s, word, at.len))
        if (IS(".maxntid")) {
            three(ps, f->maxntid, true);
        } else if (IS(".reqntid")) {
            three(ps, f->reqntid, true);
        } else if (IS(".minnctapersm")) {
            f->minnctapersm = one(ps);
        } else if (IS(".maxnctapersm")) {
            (void)one(ps);
        } else if (IS(".maxnreg")) {
            f->maxnreg = one(ps);
        } else if (IS(".reqnctapercluster")) {
            three(ps, f->reqnctapercluster, true);
        } else if (IS(".explicitcluster")) {
            f->explicitcluster = true;
        } else if (IS(".maxclusterrank")) {
            f->maxclusterrank = one(ps);
        } else if (IS(".blocksareclusters")) {
            f->blocksareclusters = true;
        } else if (IS(".noreturn")) {
            f->noreturn = true;
        } else if (IS(".unique")) {
            /* nothing to do */
        } else if (IS(".abi_preserve") || IS(".abi_preserve_control")) {
            (void)one(ps);
        } else if (IS(".pragma")) {
            while (ps->lex.tok.kind == TOK_STRING || parse_is(ps, ','))
                parse_next(ps);
            parse_expect(ps, ';');
        } else {
            FAIL(ps, &at, "'%.*s' does not belong between a function's head and body",
                 (int)at.len, at.s);
        }
        #undef IS
    }
}

static enum builtin builtin_of(const char *name)
{
    static const struct { const char *name; enum builtin builtin; } known[] = {
        {"vprintf", BUILTIN_VPRINTF}, {"__assertfail", BUILTIN_ASSERTFAIL},
        {"malloc", BUILTIN_MALLOC}, {"free", BUILTIN_FREE},
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].builtin;
    return BUILTIN_NONE;
}

static void check_directives(struct parser *ps, const struct token *at, const struct function *f)
{
    if (f->maxntid[0] && f->reqntid[0])
        FAIL(ps, at, "'%s' has .maxntid and .reqntid, which exclude each other", f->name);
    if (f->maxclusterrank && f->reqnctapercluster[0])
        FAIL(ps, at, "'%s' has .maxclusterrank and .reqnctapercluster, which exclude each other",
             f->name);
}

/* Behind .entry or .func. */
static void function(struct parser *ps, bool entry)
{
    struct function head = {0};     /* results are read before the name is known */
    uint32_t index;
    bool defined;

    ps->frame = ps->frame_max = 0;
    ps->func = ps->p->nfuncs;
    if (ps->p->nfuncs == ps->funcs_cap)
        ps->p->funcs = parse_grow(ps, ps->p->funcs, &ps->funcs_cap, ps->p->nfuncs,
                                  sizeof *ps->p->funcs);
    memset(&ps->p->funcs[ps->func], 0, sizeof head);
    names_open(ps);
    head.entry = entry;
    if (!entry && parse_is_dot(ps, ".noreturn")) {
        head.noreturn = true;
        parse_next(ps);
    }
    if (!entry && parse_is(ps, '('))
        decl_params(ps, &head, true);

    const struct token name = ps->lex.tok;

    if (name.kind != TOK_IDENT)
        FAIL(ps, &name, "expected the function's name");
    parse_next(ps);

    struct block *inner = ps->block;

    ps->block = inner->outer;       /* the name belongs to the module */
    index = function_of(ps, &name, entry);
    ps->block = inner;

    const struct function before = ps->p->funcs[index];

    defined = before.end > before.first;
    ps->func = index;
    if (parse_is(ps, '('))
        decl_params(ps, &head, false);
    head.name = before.name;
    performance(ps, &head);
    check_directives(ps, &name, &head);
    head.builtin = builtin_of(before.name);
    head.is_extern = true;
    if (before.nparams != head.nparams && before.params)
        FAIL(ps, &name, "'%s' was declared with %u parameters", head.name, before.nparams);
    if (before.nrets != head.nrets && before.params)
        FAIL(ps, &name, "'%s' was declared with %u results", head.name, before.nrets);
    if (parse_is(ps, '{')) {
        if (defined)
            FAIL(ps, &name, "'%s' is defined twice", head.name);
        head.is_extern = false;
        head.builtin = BUILTIN_NONE;
        ps->p->funcs[index] = head;
        body_parse(ps);
    } else {
        if (entry && !parse_is(ps, ';'))
            FAIL(ps, &ps->lex.tok, "expected { and the body of '%s'", head.name);
        if (!defined)
            ps->p->funcs[index] = head;
        parse_expect(ps, ';');
    }
    ps->block->keeps_frame = false;
    names_close(ps);
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* .section .debug_info { .. } */
static void section(struct parser *ps)
{
    unsigned depth = 0;

    parse_next(ps);
    while (ps->lex.tok.kind == TOK_IDENT || ps->lex.tok.kind == TOK_DOT)
        parse_next(ps);
    do {
        if (ps->lex.tok.kind == TOK_END)
            FAIL(ps, &ps->lex.tok, "the section is not closed");
        if (parse_is(ps, '{'))
            depth++;
        if (parse_is(ps, '}'))
            depth--;
        parse_next(ps);
    } while (depth);
}

/* .alias a, b; -- a is b */
static void alias(struct parser *ps)
{
    struct token t[2];
    struct binding *b[2];
    uint32_t number;

    for (int i = 0; i < 2; i++) {
        parse_next(ps);
        t[i] = ps->lex.tok;
        if (t[i].kind != TOK_IDENT)
            FAIL(ps, &t[i], "expected a function");
        b[i] = names_lookup(ps, &t[i], &number);
        if (!b[i] || b[i]->kind != BIND_FUNC)
            FAIL(ps, &t[i], "'%.*s' is no function", (int)t[i].len, t[i].s);
        parse_next(ps);
        if (i == 0 && !parse_is(ps, ','))
            FAIL(ps, &ps->lex.tok, "expected ,");
    }
    if (b[0]->index == b[1]->index || !ps->p->funcs[b[0]->index].is_extern)
        FAIL(ps, &t[0], "'%.*s' has a body of its own", (int)t[0].len, t[0].s);
    if (ps->p->funcs[b[1]->index].is_extern)
        FAIL(ps, &t[1], "'%.*s' has no body", (int)t[1].len, t[1].s);

    const char *name = ps->p->funcs[b[0]->index].name;

    ps->p->funcs[b[0]->index] = ps->p->funcs[b[1]->index];
    ps->p->funcs[b[0]->index].name = name;
    ps->p->funcs[b[0]->index].is_alias = true;
    special_edge(ps, b[0]->index, b[1]->index);
    parse_expect(ps, ';');
}

static void top_level(struct parser *ps)
{
    const struct token at = ps->lex.tok;
    bool is_extern = false, visible = false;

    if (at.kind != TOK_DOT)
        FAIL(ps, &at, "expected a directive, found '%.*s'", (int)at.len, at.s);
    for (;;) {
        if (parse_is_dot(ps, ".extern"))
            is_extern = true;
        else if (parse_is_dot(ps, ".visible") || parse_is_dot(ps, ".weak") ||
                 parse_is_dot(ps, ".common"))
            visible = true;
        else
            break;
        parse_next(ps);
    }
    if (parse_is_dot(ps, ".entry") || parse_is_dot(ps, ".func")) {
        const bool entry = parse_is_dot(ps, ".entry");

        parse_next(ps);
        function(ps, entry);
    } else if (decl_is_variable(ps)) {
        decl_variable(ps, is_extern, visible);
    } else if (is_extern || visible) {
        FAIL(ps, &ps->lex.tok, "expected a function or variable, found '%.*s'",
             (int)ps->lex.tok.len, ps->lex.tok.s);
    } else if (parse_is_dot(ps, ".file")) {
        parse_file_directive(ps);
    } else if (parse_is_dot(ps, ".section")) {
        section(ps);
    } else if (parse_is_dot(ps, ".alias")) {
        alias(ps);
    } else if (parse_is_dot(ps, ".pragma")) {
        do
            parse_next(ps);
        while (ps->lex.tok.kind == TOK_STRING || parse_is(ps, ','));
        parse_expect(ps, ';');
    } else if (parse_is_dot(ps, ".address_size")) {
        parse_next(ps);

        const struct token size = ps->lex.tok;

        if (expr_integer(ps) != 64)
            FAIL(ps, &size, "only .address_size 64 is supported");
    } else {
        FAIL(ps, &ps->lex.tok, "'%.*s' is not supported at module scope", (int)ps->lex.tok.len,
             ps->lex.tok.s);
    }
}

void parse_module(struct parser *ps)
{
    if (ps->lex.tok.kind == TOK_BAD)
        FAIL(ps, &ps->lex.tok, "%s", ps->lex.tok.message);
    ps->p->address_size = 64;
    names_open(ps);
    version(ps);
    target(ps);
    while (ps->lex.tok.kind != TOK_END)
        top_level(ps);
    link_program(ps);
}
