/*
 * Names and scopes. A name has three slots, since PTX keeps them apart: a plain thing (register,
 * variable, function), a register family (r<10> answers to r0..r9), and a label. Each slot is a
 * stack of bindings, innermost first; closing a block pops what it bound.
 */
#include <string.h>

#include "parse.h"

static uint32_t hash_of(const char *s, uint32_t len)
{
    uint32_t h = 2166136261u;

    for (uint32_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ h >> 15;
}

static void rehash(struct parser *ps)
{
    const uint32_t cap = ps->names_cap ? ps->names_cap * 2 : 1024;
    struct name **table = parse_alloc(ps, cap * sizeof *table);

    for (uint32_t i = 0; i < ps->names_cap; i++) {
        struct name *n = ps->names[i];

        if (n) {
            uint32_t at = n->hash & (cap - 1);

            while (table[at])
                at = (at + 1) & (cap - 1);
            table[at] = n;
        }
    }
    ps->names = table;
    ps->names_cap = cap;
}

struct name *names_find(struct parser *ps, const char *s, uint32_t len, bool add)
{
    const uint32_t hash = hash_of(s, len);

    if (ps->nnames * 2 >= ps->names_cap)
        rehash(ps);

    uint32_t at = hash & (ps->names_cap - 1);

    for (struct name *n; (n = ps->names[at]); at = (at + 1) & (ps->names_cap - 1))
        if (n->hash == hash && n->len == len && !memcmp(n->s, s, len))
            return n;
    if (!add)
        return NULL;

    struct name *n = parse_alloc(ps, sizeof *n);

    n->s = s;
    n->len = len;
    n->hash = hash;
    ps->names[at] = n;
    ps->nnames++;
    return n;
}

/* Pushes a binding on a slot and notes it in the current block. */
struct binding *names_bind(struct parser *ps, struct binding **where)
{
    struct binding *b = parse_alloc(ps, sizeof *b);

    b->where = where;
    b->outer = *where;
    b->depth = ps->block->depth;
    b->next = ps->block->bindings;
    ps->block->bindings = b;
    *where = b;
    return b;
}

/* r17 belongs to a family r<..> of the same block that has more than 17 members */
static struct binding *family_of(struct parser *ps, const char *s, uint32_t len, uint32_t *number)
{
    uint32_t stem = len, value = 0;

    while (stem && s[stem - 1] >= '0' && s[stem - 1] <= '9')
        stem--;
    if (stem == len || stem == 0 || len - stem > 8 || (s[stem] == '0' && len - stem > 1))
        return NULL;

    const struct name *n = names_find(ps, s, stem, false);

    if (!n || !n->family)
        return NULL;
    for (uint32_t i = stem; i < len; i++)
        value = value * 10 + (uint32_t)(s[i] - '0');
    *number = value;
    for (struct binding *b = n->family; b; b = b->outer)
        if (value < b->count)
            return b;
    return NULL;
}

/* The outermost block of a body belongs with its function's parameters. */
static uint32_t outermost(const struct parser *ps)
{
    enum { PARAMETERS = 1 };            /* their depth; the module's is 0 */

    return ps->block->depth == PARAMETERS + 1 ? PARAMETERS : ps->block->depth;
}

struct binding *names_declare(struct parser *ps, const struct token *at, enum binding_kind kind)
{
    struct name *n = names_find(ps, at->s, at->len, true);
    struct binding **slot = kind == BIND_LABEL || kind == BIND_TARGETS || kind == BIND_PROTOTYPE
                            ? &n->label : &n->plain;
    uint32_t number;
    const struct binding *family = slot == &n->plain ? family_of(ps, at->s, at->len, &number)
                                                     : NULL;

    if ((*slot && (*slot)->depth >= outermost(ps)) ||
        (family && family->depth == ps->block->depth))
        FAIL(ps, at, "'%.*s' is declared twice in this block", (int)at->len, at->s);

    struct binding *b = names_bind(ps, slot);

    b->kind = (uint8_t)kind;
    return b;
}

/* The innermost plain thing of this name; *number is the index in a family, else 0. */
struct binding *names_lookup(struct parser *ps, const struct token *at, uint32_t *number)
{
    struct binding *family = family_of(ps, at->s, at->len, number);
    const struct name *n = names_find(ps, at->s, at->len, false);
    struct binding *plain = n ? n->plain : NULL;

    if (plain && (!family || plain->depth >= family->depth)) {
        *number = 0;
        return plain;
    }
    return family;
}

void names_open(struct parser *ps)
{
    struct block *b = parse_alloc(ps, sizeof *b);

    b->outer = ps->block;
    b->depth = ps->block ? ps->block->depth + 1 : 0;
    b->frame = ps->frame;
    ps->block = b;
}

static void resolve(struct parser *ps, const struct label_ref *r, const struct binding *b)
{
    struct operand *o = r->elem == NO_INDEX ? &ps->p->insts[r->pc].o[r->targets]
                                            : &ps->p->elems[r->elem];

    if (r->targets) {
        if (b->kind != BIND_TARGETS)
            parse_fail_line(ps, &ps->p->where[r->pc],
                            "brx.idx needs the label of a .branchtargets list");
        o->kind = OPND_VEC;
        o->reg = b->index;
        o->n = (uint16_t)b->size;
        return;
    }
    if (b->kind != BIND_LABEL)
        parse_fail_line(ps, &ps->p->where[r->pc], "branch to something that is not a label");
    o->kind = OPND_LABEL;
    o->imm = b->index;
}

/*
 * A label is looked for when its block closes, for it may stand behind the branch and hide one of
 * an outer block. What is not found moves on to the outer block.
 */
void names_close(struct parser *ps)
{
    struct block *block = ps->block;

    for (struct label_ref *r = block->refs, *next; r; r = next) {
        const struct binding *b = r->name->label;

        next = r->next;
        if (b && b->depth == block->depth) {
            resolve(ps, r, b);
        } else if (block->depth <= 1) {
            parse_fail_line(ps, &ps->p->where[r->pc], "label '%.*s' is not defined",
                            (int)r->name->len, r->name->s);
        } else {
            r->next = block->outer->refs;
            block->outer->refs = r;
        }
    }
    for (struct binding *b = block->bindings; b; b = b->next)
        *b->where = b->outer;
    if (block->keeps_frame && block->outer)
        block->outer->keeps_frame = true;
    else
        ps->frame = block->frame;
    ps->block = block->outer;
}
