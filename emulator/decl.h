/*
 * A declaration between its state space and its initial value.
 */
#ifndef EMULATOR_DECL_H
#define EMULATOR_DECL_H

#include "parse.h"

enum { DECL_DIMS = 8 };

struct declaration {
    enum space space;
    enum type type;
    unsigned vec;
    uint64_t align;             /* 0: natural */
    uint64_t dims[DECL_DIMS];    /* 0: [] */
    unsigned ndims;
    bool pointer;
    uint32_t ptr_align;
    enum space ptr_space;
    bool in_reg;
};

struct token decl_name(struct parser *ps);      /* takes a name, or fails */
uint64_t decl_element_size(const struct declaration *d);

/* Bytes of an element of dimension `level`; level == ndims is one scalar (or vector). */
uint64_t decl_span(struct parser *ps, const struct declaration *d, unsigned level,
                   const struct token *at);

/* init.c: the values behind =, into sym; completes an open first dimension. */
void init_parse(struct parser *ps, struct declaration *d, struct symbol *sym,
                const struct token *at);

#endif
