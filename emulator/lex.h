/*
 * PTX text to tokens. One token is current; lex_next moves on. The text is never copied.
 */
#ifndef EMULATOR_LEX_H
#define EMULATOR_LEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum token_kind {
    TOK_END,
    TOK_BAD,            /* a character or literal that PTX does not have; message says why */
    TOK_IDENT,          /* name, %name, _ */
    TOK_DOT,            /* .word, .shared::cta, .2d */
    TOK_INT,
    TOK_FLOAT,          /* decimal, 0d: value in d; 0f: exact in d too, single set */
    TOK_STRING,         /* s, len without the quotes */
    TOK_PUNCT           /* punct: the character; two-character operators as PUNCT2 */
};

#define PUNCT2(a, b) ((a) | (b) << 8)

struct token {
    enum token_kind kind;
    const char *s;              /* in the text */
    uint32_t len;
    int punct;
    uint64_t u;                 /* INT */
    double d;                   /* FLOAT */
    bool is_unsigned;           /* INT with U suffix, or beyond the signed range */
    bool single;                /* FLOAT written 0f */
    bool exact;                 /* FLOAT written 0f or 0d */
    uint32_t bits32;            /* 0f: the bits as written (a NaN keeps its payload) */
    uint64_t bits64;            /* 0d: likewise */
    uint32_t line;              /* of the text, from 1 */
    const char *message;        /* BAD */
};

struct line_marker {            /* cpp's # N "file": the next line is line N of file */
    const char *file;
    uint32_t file_len;          /* 0: the same file as before */
    uint32_t line;
};

struct lex {
    const char *begin, *end, *at;
    uint32_t line;
    struct token tok;
    struct line_marker marker;  /* the last one met; marker_line is the text line it stands on */
    uint32_t marker_line;       /* 0: none yet */
};

void lex_init(struct lex *lex, const char *text, size_t len);
void lex_next(struct lex *lex);
/* Extends a TOK_IDENT by the .modifiers glued to it (an opcode): tok.s, tok.len cover them all. */
void lex_glue_modifiers(struct lex *lex);

#endif
