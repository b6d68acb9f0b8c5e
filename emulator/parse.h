/*
 * The parser's inside: shared by parse.c (module level), body.c (function bodies), operand.c,
 * expr.c, names.c and link.c. Errors leave by parse_fail, which does not return; all memory is the
 * program's arena, so nothing is lost by that.
 */
#ifndef EMULATOR_PARSE_H
#define EMULATOR_PARSE_H

#include <setjmp.h>

#include "arena.h"
#include "form.h"
#include "lex.h"
#include "program.h"

/* ---- names ---------------------------------------------------------------------------------- */

enum binding_kind {
    BIND_REG,           /* type, index; count > 0: a family r<count> */
    BIND_SHARED,        /* index into parser.shared */
    BIND_SYMBOL,        /* index into program.symbols */
    BIND_LOCAL,         /* offset in the frame */
    BIND_KERNEL_PARAM,  /* offset in the bank */
    BIND_FRAME_PARAM,   /* offset in the frame, size */
    BIND_FUNC,          /* index into program.funcs */
    BIND_LABEL,         /* index: instruction */
    BIND_TARGETS,       /* .branchtargets list: index, size into program.elems */
    BIND_PROTOTYPE      /* .callprototype, .calltargets */
};

struct binding {
    struct binding **where;     /* the name's slot it sits in */
    struct binding *outer;      /* what it hides */
    struct binding *next;       /* of the same block */
    uint8_t kind, type;
    bool writable;              /* a parameter that st.param may write */
    uint32_t depth;
    uint32_t index, count;
    int64_t offset;
    uint64_t size;
};

struct name {
    const char *s;
    uint32_t len, hash;
    struct binding *plain, *family, *label;
};

struct block {
    struct block *outer;
    struct binding *bindings;
    struct label_ref *refs;
    uint32_t depth;
    uint64_t frame;             /* frame cursor at the opening brace */
    bool keeps_frame;           /* .local variables were declared inside */
};

struct label_ref {              /* of a branch whose label is not known yet */
    struct label_ref *next;
    struct name *name;
    uint32_t pc, elem;          /* operand 0 of pc, or an element if elem != NO_INDEX */
    bool targets;               /* the name of a .branchtargets list */
};

#define NO_INDEX UINT32_MAX

/* ---- constants ------------------------------------------------------------------------------ */

struct constant {
    bool is_float, is_unsigned;
    bool exact, single;         /* written 0f or 0d, and nothing was computed with it */
    uint64_t u;                 /* integer value, or the bits of an exact float */
    double d;
};

/* ---- operands as written, before the form has its say --------------------------------------- */

enum raw_imm { RAW_INT, RAW_FLOAT, RAW_SINGLE, RAW_DOUBLE };    /* operand.base of an OPND_IMM */

struct raw {
    struct operand o;
    struct operand coords;      /* [map, {..}]: the vector */
    bool memory;                /* in [] */
    bool tensor;                /* has coords */
    bool paired;                /* followed by | */
    bool is_symbol, writable;
    uint8_t space;              /* of a symbol */
    uint64_t size;              /* of a BIND_FRAME_PARAM */
    struct name *label;         /* an unbound name: perhaps a label */
    struct binding *list;       /* .branchtargets or .callprototype */
    struct token tok;           /* where it starts */
};

enum { RAW_OPERANDS = 16 };

/* ---- module-wide state ---------------------------------------------------------------------- */

struct shared_var {
    const char *name;
    uint32_t align, offset;
    uint64_t size;
    bool dynamic;
};

struct shared_use {             /* an operand that holds a shared symbol's address */
    uint32_t pc, slot;          /* o[slot] of pc */
    uint32_t func, var;
};

struct call_edge { uint32_t from, to; };

struct shape_entry {
    const char *s;
    uint32_t len, hash;
    struct shape shape;
    struct shape_entry *next;
};

enum { SHAPE_BUCKETS = 512 };

/* in where.file until the end of the module: a number of .loc, not an index into files */
#define WHERE_NUMBERED 0x40000000u

struct parser {
    struct lex lex;
    jmp_buf bail;
    struct arena *arena;
    struct program *p;
    const struct load_options *options;
    struct load_error *error;

    struct name **names;        /* open addressing */
    uint32_t nnames, names_cap;
    struct shape_entry *shapes[SHAPE_BUCKETS];

    uint32_t insts_cap, elems_cap, funcs_cap, symbols_cap, files_cap;
    struct shared_var *shared;
    uint32_t nshared, shared_cap;
    struct shared_use *uses;
    uint32_t nuses, uses_cap;
    struct call_edge *edges;
    uint32_t nedges, edges_cap;
    struct { uint32_t number, file; } *numbered;    /* .file directives */
    uint32_t nnumbered, numbered_cap;
    const char *marker_name;    /* last marker file looked up, and its index */
    uint32_t marker_file;

    struct block *block;
    uint32_t depth;             /* of constant expressions */

    /* of the function being parsed */
    uint32_t func;
    bool in_body;
    uint64_t frame;             /* cursor */
    uint64_t frame_max;
    struct label *labels;
    uint32_t nlabels, labels_cap;
    bool has_loc;
    uint32_t loc_file, loc_line;
    bool indirect;              /* calls through a register */
    struct token opcode;        /* of the instruction being parsed, for messages */
};

/* parse.c */
_Noreturn void parse_fail(struct parser *ps, enum load_status status, const struct token *at,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));
#define FAIL(ps, at, ...) parse_fail(ps, LOAD_INVALID, at, __VA_ARGS__)
_Noreturn void parse_fail_line(struct parser *ps, const struct where *w, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void *parse_alloc(struct parser *ps, size_t size);
void *parse_grow(struct parser *ps, void *array, uint32_t *cap, uint32_t used, size_t size);
const char *parse_copy(struct parser *ps, const char *s, size_t len);
void parse_next(struct parser *ps);
bool parse_is(const struct parser *ps, int punct);
bool parse_accept(struct parser *ps, int punct);
void parse_expect(struct parser *ps, int punct);
bool parse_is_dot(const struct parser *ps, const char *word);
uint32_t parse_file(struct parser *ps, const char *s, size_t len);
void parse_file_directive(struct parser *ps);
void parse_module(struct parser *ps);

/* decl.c: .reg, variables, parameters */
void decl_reg(struct parser *ps);
void decl_variable(struct parser *ps, bool is_extern, bool visible);
bool decl_is_variable(const struct parser *ps);
void decl_params(struct parser *ps, struct function *f, bool results);

/* names.c */
struct name *names_find(struct parser *ps, const char *s, uint32_t len, bool add);
struct binding *names_bind(struct parser *ps, struct binding **where);
struct binding *names_declare(struct parser *ps, const struct token *at, enum binding_kind kind);
struct binding *names_lookup(struct parser *ps, const struct token *at, uint32_t *number);
void names_open(struct parser *ps);
void names_close(struct parser *ps);

/* expr.c */
struct constant expr_parse(struct parser *ps);
int64_t expr_integer(struct parser *ps);        /* an integer constant expression */
bool expr_starts(const struct parser *ps);

/* sreg.c: t, already taken, as a special register; false: it is none */
bool sreg_parse(struct parser *ps, const struct token *t, struct operand *o);

/* operand.c */
void operand_raw(struct parser *ps, struct raw *r);
unsigned operand_list(struct parser *ps, struct raw *raws);
void operand_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                    unsigned n, struct inst *in);
void operand_value(struct parser *ps, const struct raw *r, struct operand *o, enum type type,
                   bool dst, bool wider);
enum bank operand_bank(enum type t);
bool operand_fits(enum type want, enum type have, bool wider);
uint32_t operand_elems(struct parser *ps, uint32_t n);
void operand_use_shared(struct parser *ps, uint32_t pc, uint32_t slot, const struct operand *o);

/* special.c: fills the operands of every opcode; what isa.def cannot describe is done there */
void special_assign(struct parser *ps, const struct shape *shape, const struct raw *raws,
                    unsigned n, struct inst *in);
void special_call(struct parser *ps, struct inst *in);
void special_edge(struct parser *ps, uint32_t from, uint32_t to);     /* from calls to */

/* body.c */
void body_parse(struct parser *ps);

/* link.c: after the last line */
void link_program(struct parser *ps);
/* bytes.c: before registers share */
void bytes_settle(struct parser *ps, uint32_t func);
/* regs.c */
void regs_share(struct parser *ps, uint32_t func);

#endif
