/* product.h -- one product on the device: host matrices, device copies, plan, launch, result,
 * check. Shared by run and verify. */
#ifndef PRODUCT_H
#define PRODUCT_H

#include "check.h"
#include "session.h"

struct product {
    struct session *session;
    struct ptxmm_problem problem;
    struct stack a, b, c, d;   /* c is empty when the problem has no C */
    CUdeviceptr at[4];         /* device copies of all four, guards included */
    CUdeviceptr workspace;     /* as much as the plan asks for */
    float alpha, beta;
    struct ptxmm_plan *plan;
    bool faulted;              /* the kernel failed while it ran: the context is lost */
    bool device_is_cause;      /* no kernel is for the device, or none can be loaded */
    char error[1200];          /* what failed, one line */
};

/* Fills in what the options leave open: types; leading dimensions, the least whose bytes are a
 * multiple of 16; strides of a batch, without gaps. Returns 0, or EXIT_USAGE after a line if one
 * that is given is too small, or is given without --batch. */
int product_leading(struct options *options);
/* The problem that the options describe. */
void product_problem(const struct options *options, struct ptxmm_problem *problem);
/* "D[8,16] = A[8,32] B[32,16], bf16 x bf16 -> bf16", "3 times" of a batch, ", constant b" of what
 * is promised. */
void product_words(const struct ptxmm_problem *problem, char *text, size_t size);
/* Of all products of a batch. */
double product_flops(const struct ptxmm_problem *problem);
/* The least leading dimension of at least `columns` elements whose bytes are a multiple of 16. */
int64_t aligned_ld(enum ptxmm_type type, int64_t columns);

/* All return false with p->error (and p->faulted). product_destroy is due in any case after
 * product_create. */
bool product_create(struct product *p, struct session *session, const struct ptxmm_problem *problem,
                    float alpha, float beta);
bool product_plan(struct product *p);
bool product_upload(struct product *p);                 /* allocates and copies all four, and the
                                                           plan's workspace */
bool product_launch(struct product *p, CUstream stream);
bool product_download(struct product *p);               /* waits, then fetches D */
/* Guards first, then every element. False if wrong; `text` then has lines for people that say
 * where. */
bool product_check(const struct product *p, bool exact, uint64_t seed, struct check_result *result,
                   char *text, size_t size);
void product_destroy(struct product *p);

#endif
