/* The rows of tests/data/numerics_*.txt: an instruction's types, its operands and the accumulator
 * after it. Each is handed to a check, once for each unit that it holds for. */
#ifndef TESTS_NUMERICS_ROWS_H
#define TESTS_NUMERICS_ROWS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NUMERICS_K = 64, NUMERICS_SCALES = 4 };      /* the most of a row */

struct numerics_row {
    bool wgmma;                         /* else tcgen05 */
    char a_type[8], b_type[8], d_type[8], scale_type[8];
    unsigned block;                     /* elements of K that share a factor; 0: no factors */
    unsigned k;                         /* 0: the row does not say */
    uint32_t a[NUMERICS_K], b[NUMERICS_K], c, sa[NUMERICS_SCALES], sb[NUMERICS_SCALES], d;
    char what[160];                     /* for a message */
};

typedef void numerics_check(const struct numerics_row *row);

/* Numbers in hex, up to the end of the text. */
static inline unsigned numerics_hex(char *text, uint32_t *out, unsigned room)
{
    unsigned n = 0;

    for (char *t = strtok(text, " \n"); t; t = strtok(NULL, " \n")) {
        assert_true(n < room);
        out[n++] = (uint32_t)strtoul(t, NULL, 16);
    }
    return n;
}

/* The text before the next bar, which is stepped over. */
static inline char *numerics_field(char **rest)
{
    char *start = *rest, *bar = strchr(start, '|');

    if (bar) {
        *bar = 0;
        *rest = bar + 1;
    }
    return start;
}

static inline void numerics_type(char to[8], const char *name)
{
    assert_true(strlen(name) < 8);
    strcpy(to, name);
}

/* arch shape.[block.]d.a.b[.scale] K nscales a.. b.. c scaleA.. scaleB.. d */
static inline void numerics_vectors(numerics_check *check)
{
    FILE *f = fopen("tests/data/numerics_vectors.txt", "r");
    char line[4096];
    unsigned rows = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        struct numerics_row row = { .block = 0 };
        uint32_t v[2 * NUMERICS_K + 2 * NUMERICS_SCALES + 2];
        char arch[16], qualifier[64], *part[8] = { NULL };
        unsigned scales, parts = 0, at = 1;
        int used;

        assert_int_equal(sscanf(line, "%15s %63s %u %u %n", arch, qualifier, &row.k, &scales,
                                &used), 4);
        assert_true(row.k <= NUMERICS_K && scales <= NUMERICS_SCALES);
        snprintf(row.what, sizeof row.what, "row %u, %s %s", rows + 1, arch, qualifier);
        row.wgmma = arch[0] == 'H';
        for (char *t = strtok(qualifier, "."); t; t = strtok(NULL, ".")) {
            assert_true(parts < 8);
            part[parts++] = t;
        }
        if (parts > 1 && strncmp(part[1], "block", 5) == 0)
            row.block = (unsigned)atoi(part[at++] + 5);
        assert_int_equal(parts, at + (row.block ? 4 : 3));
        numerics_type(row.d_type, part[at]);
        numerics_type(row.a_type, part[at + 1]);
        numerics_type(row.b_type, part[at + 2]);
        if (row.block)
            numerics_type(row.scale_type, part[at + 3]);
        assert_int_equal(numerics_hex(line + used, v, sizeof v / sizeof v[0]),
                         2 * row.k + 2 * scales + 2);
        memcpy(row.a, v, row.k * sizeof *v);
        memcpy(row.b, v + row.k, row.k * sizeof *v);
        row.c = v[2 * row.k];
        memcpy(row.sa, v + 2 * row.k + 1, scales * sizeof *v);
        memcpy(row.sb, v + 2 * row.k + 1 + scales, scales * sizeof *v);
        row.d = v[2 * row.k + 1 + 2 * scales];
        check(&row);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 744);
}

/* unit types | a | b | c | scales of A | scales of B | d | what; elements left out are zero */
static inline void numerics_worked(numerics_check *check)
{
    FILE *f = fopen("tests/data/numerics_rows.txt", "r");
    char line[4096];
    unsigned rows = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        struct numerics_row row = { .block = 0 };
        char unit[16], *rest = line;

        if (line[0] == '#')
            continue;
        assert_true(sscanf(numerics_field(&rest),
                           "%15s %7[a-z0-9]*%7[a-z0-9]->%7[a-z0-9].block%u.%7[a-z0-9]", unit,
                           row.a_type, row.b_type, row.d_type, &row.block, row.scale_type) >= 4);
        numerics_hex(numerics_field(&rest), row.a, NUMERICS_K);
        numerics_hex(numerics_field(&rest), row.b, NUMERICS_K);
        numerics_hex(numerics_field(&rest), &row.c, 1);
        numerics_hex(numerics_field(&rest), row.sa, NUMERICS_SCALES);
        numerics_hex(numerics_field(&rest), row.sb, NUMERICS_SCALES);
        numerics_hex(numerics_field(&rest), &row.d, 1);
        snprintf(row.what, sizeof row.what, "%s %s %.100s", unit, row.a_type, rest);
        row.wgmma = true;
        if (strcmp(unit, "tcgen05") != 0 && strcmp(unit, "B200") != 0)
            check(&row);
        row.wgmma = false;
        if (strcmp(unit, "wgmma") != 0 && strcmp(unit, "H200") != 0)
            check(&row);
        rows++;
    }
    fclose(f);
    assert_int_equal(rows, 110);
}

#endif
