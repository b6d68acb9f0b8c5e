/* options.h -- the command line: what each command accepts, read into one struct. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "ptxmm.h"

enum { EXIT_RIGHT = 0, EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_DEVICE = 3 };

struct options {
    const char *command;
    const char *driver, *ptx_dir; /* NULL: the library's defaults */
    int device;
    bool json;

    int64_t m, n, k;              /* -1: not given */
    int64_t lda, ldb, ldc, ldd;   /* 0: not given */
    int64_t batch;                /* -1: not given, and no batch */
    int64_t stride_a, stride_b, stride_c, stride_d; /* between its matrices; -1: not given */
    enum ptxmm_type type, b_type, out_type; /* PTXMM_TYPE_NONE: not given */
    enum ptxmm_accumulate accumulate;
    int constant_a, constant_b;   /* promised */
    const char *arch;             /* "sm90" or "sm100"; NULL: not given */
    const char *kernel;
    const char *choices;          /* a file of them; NULL: none */
    int64_t sms;                  /* 0: all */
    int cluster, cluster_rows, groups, stages; /* 0: not given */
    int64_t workspace;            /* bytes that a plan may ask for */
    float alpha, beta;
    const char *a, *b, *c, *out;  /* .npy files */
    uint64_t seed;
    int64_t repeat;               /* 0: not given */

    bool full, force;
    const char *folder;           /* of export */
    const char *file;             /* of emulate */

    struct ptxmm_model model;
    bool stages_given, accumulators_given;
    const char *svg;
};

/* One command: its name, what it is in a few words, what runs it. */
struct command {
    const char *name, *words;
    int (*run)(const struct options *options);
};

/* Reads the whole command line. Returns the command to run, or NULL when all is done (help,
 * version) or wrong; *code is then the exit code, and one line has been printed on stderr if it is
 * not 0. */
const struct command *options_read(int argc, char **argv, struct options *options, int *code);

/* One line on stderr, "ptxmm COMMAND: ...", and EXIT_USAGE for convenience. */
__attribute__((format(printf, 2, 3))) int complain(const struct options *options,
                                                   const char *format, ...);

/* The commands (cmd_*.c). */
int command_devices(const struct options *options);
int command_kernels(const struct options *options);
int command_plan(const struct options *options);
int command_run(const struct options *options);
int command_verify(const struct options *options);
int command_export(const struct options *options);
int command_emulate(const struct options *options);
int command_model(const struct options *options);

#endif
