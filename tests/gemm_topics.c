/* gemm_topics.c -- what the topics share. */
#include "gemm_topics.h"

#include <string.h>

struct rig topic_rig;

const struct ptxmm_kernel_info *topic_begin(void **state)
{
    char why[256];
    const struct ptxmm_kernel_info *kernel = ptxmm_kernel_by_name(*state);
    assert_non_null(kernel);
    if (!topic_rig.mm) skip(); /* main said why, once */
    if (!rig_runs(&topic_rig, kernel, why, sizeof why)) {
        print_message("    skipped: %s\n", why);
        skip();
    }
    if (!rig_revive(&topic_rig)) fail_msg("the context is lost to an earlier test's fault and could not be made anew");
    return kernel;
}

/* Are x and y one text but for the types of A and B? */
static bool is_sibling(const struct ptxmm_kernel_info *x, const struct ptxmm_kernel_info *y)
{
    return strcmp(x->target, y->target) == 0 && x->algorithm == y->algorithm && x->schedule == y->schedule &&
           type_bytes(x->a) == type_bytes(y->a) && x->d == y->d && x->promotion == y->promotion &&
           x->tile_m == y->tile_m && x->tile_n == y->tile_n && x->stages == y->stages && x->cluster == y->cluster;
}

const struct ptxmm_kernel_info *topic_begin_once(void **state)
{
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    for (size_t i = 0; !topic_rig.full && ptxmm_kernel(i) != kernel; i++)
        if (is_sibling(ptxmm_kernel(i), kernel)) {
            print_message("    skipped: quick tests try this with %s\n", ptxmm_kernel(i)->name);
            skip();
        }
    return kernel;
}

void topic_skip(const char *why)
{
    print_message("    skipped: %s\n", why);
    skip();
}

void topic_try(struct tally *tally, const struct gemm_case *c)
{
    struct gemm_case typed = *c;
    if (tally->wrong >= 4) return;
    if (!typed.a && tally->cases % 2) typed.a = typed.b = typed.d = PTXMM_F16;
    tally->cases++;
    if (gemm_check(&topic_rig, &typed)) return;
    tally->wrong++;
    if (!rig_revive(&topic_rig)) tally->wrong = 4;
}

void topic_finish(const struct tally *tally)
{
    if (tally->wrong) fail_msg("%d of %d cases wrong", tally->wrong, tally->cases);
}

struct gemm_case topic_case(const struct ptxmm_kernel_info *kernel, int64_t m, int64_t n, int64_t k,
                            enum matrix_fill fill)
{
    return (struct gemm_case){
        .kernel = kernel, .m = m, .n = n, .k = k, .fill = fill, .seed = topic_rig.seed, .alpha = 1
    };
}
