/* gemm_topics.c -- what the topics share. */
#include "gemm_topics.h"

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
