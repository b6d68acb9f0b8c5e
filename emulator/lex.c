#include "lex.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    C_SPACE = 1,
    C_FIRST = 2,        /* may begin a name */
    C_NAME = 4,         /* may continue a name */
    C_DIGIT = 8,
    C_HEX = 16
};

#define LETTER (C_FIRST | C_NAME)
#define HEX (LETTER | C_HEX)
#define DIGIT (C_NAME | C_DIGIT | C_HEX)

static const unsigned char classes[256] = {
    [' '] = C_SPACE, ['\t'] = C_SPACE, ['\r'] = C_SPACE, ['\f'] = C_SPACE, ['\v'] = C_SPACE,
    ['0'] = DIGIT, ['1'] = DIGIT, ['2'] = DIGIT, ['3'] = DIGIT, ['4'] = DIGIT, ['5'] = DIGIT,
    ['6'] = DIGIT, ['7'] = DIGIT, ['8'] = DIGIT, ['9'] = DIGIT,
    ['a'] = HEX, ['b'] = HEX, ['c'] = HEX, ['d'] = HEX, ['e'] = HEX, ['f'] = HEX,
    ['A'] = HEX, ['B'] = HEX, ['C'] = HEX, ['D'] = HEX, ['E'] = HEX, ['F'] = HEX,
    ['g'] = LETTER, ['h'] = LETTER, ['i'] = LETTER, ['j'] = LETTER, ['k'] = LETTER,
    ['l'] = LETTER, ['m'] = LETTER, ['n'] = LETTER, ['o'] = LETTER, ['p'] = LETTER,
    ['q'] = LETTER, ['r'] = LETTER, ['s'] = LETTER, ['t'] = LETTER, ['u'] = LETTER,
    ['v'] = LETTER, ['w'] = LETTER, ['x'] = LETTER, ['y'] = LETTER, ['z'] = LETTER,
    ['G'] = LETTER, ['H'] = LETTER, ['I'] = LETTER, ['J'] = LETTER, ['K'] = LETTER,
    ['L'] = LETTER, ['M'] = LETTER, ['N'] = LETTER, ['O'] = LETTER, ['P'] = LETTER,
    ['Q'] = LETTER, ['R'] = LETTER, ['S'] = LETTER, ['T'] = LETTER, ['U'] = LETTER,
    ['V'] = LETTER, ['W'] = LETTER, ['X'] = LETTER, ['Y'] = LETTER, ['Z'] = LETTER,
    ['_'] = LETTER, ['$'] = LETTER, ['%'] = C_FIRST,
};

static inline unsigned char_class(unsigned char c)
{
    return classes[c];
}

static inline bool is(const struct lex *lex, const char *p, unsigned what)
{
    return p < lex->end && (char_class((unsigned char)*p) & what);
}

/* # 12 "file" flags, or #line; any other line that begins with # is a cpp remnant and skipped */
static const char *line_directive(struct lex *lex, const char *p)
{
    uint32_t n = 0;
    bool digits = false;

    p++;
    while (is(lex, p, C_SPACE))
        p++;
    if (lex->end - p > 4 && !memcmp(p, "line", 4))
        p += 4;
    while (is(lex, p, C_SPACE))
        p++;
    for (; is(lex, p, C_DIGIT); p++, digits = true)
        n = n * 10 + (uint32_t)(*p - '0');
    if (digits) {
        while (is(lex, p, C_SPACE))
            p++;
        lex->marker.line = n;
        lex->marker.file_len = 0;
        lex->marker_line = lex->line;
        if (p < lex->end && *p == '"') {
            const char *from = ++p;

            while (p < lex->end && *p != '"' && *p != '\n')
                p++;
            lex->marker.file = from;
            lex->marker.file_len = (uint32_t)(p - from);
        }
    }
    while (p < lex->end && *p != '\n')
        p++;
    return p;
}

/* Leaves blanks, comments and line markers behind. False: a comment is not closed. */
static bool skip_blanks(struct lex *lex)
{
    const char *p = lex->at;

    for (;;) {
        while (is(lex, p, C_SPACE))
            p++;
        if (p == lex->end)
            break;
        if (*p == '\n') {
            lex->line++;
            p++;
            const char *q = p;

            while (is(lex, q, C_SPACE))
                q++;
            if (q < lex->end && *q == '#')
                p = line_directive(lex, q);
        } else if (*p == '/' && p + 1 < lex->end && p[1] == '/') {
            p = memchr(p, '\n', (size_t)(lex->end - p));
            if (!p)
                p = lex->end;
        } else if (*p == '/' && p + 1 < lex->end && p[1] == '*') {
            const char *from = p;
            const uint32_t line = lex->line;

            for (p += 2; p + 1 < lex->end && !(p[0] == '*' && p[1] == '/'); p++)
                lex->line += *p == '\n';
            if (p + 1 >= lex->end) {
                lex->at = from;
                lex->line = line;
                return false;
            }
            p += 2;
        } else {
            break;
        }
    }
    lex->at = p;
    return true;
}

static void bad(struct lex *lex, const char *message)
{
    lex->tok.kind = TOK_BAD;
    lex->tok.message = message;
    if (!lex->tok.len && lex->tok.s < lex->end)
        lex->tok.len = 1;
}

static unsigned hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 32) - 'a') + 10;
}

/* 0f and 0d: exactly 8 or 16 hexadecimal digits */
static void hex_float(struct lex *lex, bool single)
{
    const char *p = lex->at + 2;
    const int want = single ? 8 : 16;
    uint64_t bits = 0;
    int n = 0;

    for (; n < want && is(lex, p, C_HEX); p++, n++)
        bits = bits << 4 | hex_value(*p);
    lex->tok.len = (uint32_t)(p - lex->at);
    lex->at = p;
    if (n < want || is(lex, p, C_NAME)) {
        bad(lex, single ? "0f needs 8 hexadecimal digits" : "0d needs 16 hexadecimal digits");
        return;
    }
    lex->tok.kind = TOK_FLOAT;
    lex->tok.exact = true;
    lex->tok.single = single;
    if (single) {
        float f;

        lex->tok.bits32 = (uint32_t)bits;
        memcpy(&f, &lex->tok.bits32, sizeof f);
        lex->tok.d = (double)f;
    } else {
        lex->tok.bits64 = bits;
        memcpy(&lex->tok.d, &bits, sizeof bits);
    }
}

/* Copies the literal: the text need not end with a byte that stops strtod. */
static void decimal_float(struct lex *lex)
{
    char copy[64];
    const char *p = lex->at;
    size_t n = 0;

    for (; n < sizeof copy - 1 && p < lex->end; p++) {
        const bool sign = (*p == '+' || *p == '-') && n && (copy[n - 1] | 32) == 'e';

        if (!(is(lex, p, C_DIGIT) || *p == '.' || (*p | 32) == 'e' || sign))
            break;
        copy[n++] = *p;
    }
    copy[n] = 0;

    char *end;
    const double value = strtod(copy, &end);

    lex->tok.len = (uint32_t)n;
    lex->at = p;
    if (end != copy + n || is(lex, p, C_NAME) || n == sizeof copy - 1) {
        bad(lex, "malformed floating-point number");
        return;
    }
    lex->tok.kind = TOK_FLOAT;
    lex->tok.d = value;
}

static void number(struct lex *lex)
{
    const char *p = lex->at;
    const char second = p + 1 < lex->end ? p[1] : 0;
    unsigned base = 10;

    if (*p == '0') {
        if (second == 'f' || second == 'F' || second == 'd' || second == 'D') {
            hex_float(lex, (second | 32) == 'f');
            return;
        }
        if (second == 'x' || second == 'X')
            base = 16, p += 2;
        else if (second == 'b' || second == 'B')
            base = 2, p += 2;
        else if (char_class((unsigned char)second) & C_DIGIT)
            base = 8, p += 1;
    }

    const char *digits = p;
    uint64_t u = 0;
    bool overflow = false, wrong = false;

    for (; is(lex, p, C_HEX); p++) {
        const unsigned v = hex_value(*p);

        if (base != 16 && v >= 10)
            break;
        wrong |= v >= base;
        overflow |= u > (UINT64_MAX - v) / base;
        u = u * base + v;
    }
    if ((base == 10 || base == 8) && p < lex->end && (*p == '.' || (*p | 32) == 'e')) {
        decimal_float(lex);
        return;
    }

    const bool suffix = p < lex->end && *p == 'U';

    p += suffix;
    lex->tok.len = (uint32_t)(p - lex->at);
    if (p == digits || wrong || is(lex, p, C_NAME)) {
        lex->at = p;
        bad(lex, "malformed number");
        return;
    }
    lex->tok.kind = TOK_INT;
    lex->tok.u = overflow ? UINT64_MAX : u;
    lex->tok.is_unsigned = suffix || u > INT64_MAX || overflow;
    lex->at = p;
}

static void string(struct lex *lex)
{
    const char *p = lex->at + 1;

    while (p < lex->end && *p != '"' && *p != '\n')
        p += *p == '\\' && p + 1 < lex->end && p[1] != '\n' ? 2 : 1;
    lex->tok.s = lex->at + 1;
    lex->tok.len = (uint32_t)(p - lex->tok.s);
    if (p >= lex->end || *p != '"') {
        lex->at = p < lex->end ? p : lex->end;
        bad(lex, "string is not closed");
        return;
    }
    lex->tok.kind = TOK_STRING;
    lex->at = p + 1;
}

static const char *modifier_end(const struct lex *lex, const char *p)
{
    for (;;) {
        while (is(lex, p, C_NAME))
            p++;
        if (lex->end - p > 2 && p[0] == ':' && p[1] == ':' && is(lex, p + 2, C_NAME))
            p += 2;
        else
            return p;
    }
}

void lex_glue_modifiers(struct lex *lex)
{
    const char *p = lex->at;

    while (lex->end - p > 1 && *p == '.' && is(lex, p + 1, C_NAME))
        p = modifier_end(lex, p + 1);
    lex->tok.len = (uint32_t)(p - lex->tok.s);
    lex->at = p;
}

void lex_next(struct lex *lex)
{
    struct token *tok = &lex->tok;
    const bool closed = skip_blanks(lex);
    const char *p = lex->at;

    tok->s = p;
    tok->len = 0;
    tok->line = lex->line;
    tok->exact = tok->single = tok->is_unsigned = false;
    if (!closed) {
        lex->at = lex->end;
        bad(lex, "comment is not closed");
        return;
    }
    if (p == lex->end) {
        tok->kind = TOK_END;
        return;
    }

    const unsigned class = char_class((unsigned char)*p);

    if (class & C_FIRST) {
        do
            p++;
        while (is(lex, p, C_NAME));
        tok->len = (uint32_t)(p - tok->s);
        tok->kind = TOK_IDENT;
        lex->at = p;
        if (tok->len == 1 && *tok->s == '%') {
            tok->kind = TOK_PUNCT;
            tok->punct = '%';
        }
        return;
    }
    if (class & C_DIGIT) {
        number(lex);
        return;
    }
    if (*p == '.' && is(lex, p + 1, C_NAME)) {
        p = modifier_end(lex, p + 1);
        tok->len = (uint32_t)(p - tok->s);
        tok->kind = TOK_DOT;
        lex->at = p;
        return;
    }
    if (*p == '"') {
        string(lex);
        return;
    }

    static const char twos[][3] = {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"};

    tok->kind = TOK_PUNCT;
    tok->punct = (unsigned char)*p;
    tok->len = 1;
    if (lex->end - p > 1)
        for (size_t i = 0; i < sizeof twos / sizeof *twos; i++)
            if (p[0] == twos[i][0] && p[1] == twos[i][1]) {
                tok->punct = PUNCT2(p[0], p[1]);
                tok->len = 2;
            }
    lex->at = p + tok->len;
    if (!strchr("{}[]()<>,;:|!@+-*/~&^=?.", *p) || !*p)
        bad(lex, "character that PTX does not have");
}

void lex_init(struct lex *lex, const char *text, size_t len)
{
    memset(lex, 0, sizeof *lex);
    lex->begin = lex->at = text;
    lex->end = text + len;
    lex->line = 1;

    /* a marker on the first line */
    const char *p = text;

    while (is(lex, p, C_SPACE))
        p++;
    if (p < lex->end && *p == '#')
        lex->at = line_directive(lex, p);
    lex_next(lex);
}
