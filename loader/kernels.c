/* kernels.c -- ptx/kernels.def as a table. */
#include "kernels.h"

#include <cuda.h>
#include <stdlib.h>
#include <string.h>

/* A cubin runs on every driver of its toolkit's major version or a later one. */
#ifndef PTXMM_MIN_DRIVER
#define PTXMM_MIN_DRIVER (CUDA_VERSION / 1000 * 1000)
#endif

/* Words of the table in the header's terms. */
enum {
    type_bf16 = PTXMM_BF16,
    type_f16 = PTXMM_F16,
    type_f32 = PTXMM_F32,
    type_h16 = PTXMM_BF16_OR_F16,
    type_e4m3 = PTXMM_E4M3,
    type_e5m2 = PTXMM_E5M2,
    type_promoted = PTXMM_F32,
    promotions_f32 = 0, /* in a K-slice */
    promotions_promoted = 1,
    algorithm_90_gemm = PTXMM_COOPERATIVE,
    algorithm_90_pingpong = PTXMM_PINGPONG,
    algorithm_90_split = PTXMM_SPLIT,
    algorithm_90_multicast = PTXMM_MULTICAST,
    algorithm_100_gemm = PTXMM_ONE_CTA,
    algorithm_100_pair = PTXMM_CTA_PAIR,
    schedule_static = PTXMM_SCHEDULE_STATIC,
    schedule_clc = PTXMM_SCHEDULE_LAUNCH_CONTROL
};

/* Every row adds up in an order that depends on nothing that happens at run time, so equal inputs
 * give equal bits. All but the split and multicast rows add up the K-steps of an output element in order, in one
 * accumulator, in one CTA: those bits do not depend on M, the grid or the SM budget either. */
static const struct ptxmm_kernel_info kernels[KERNEL_COUNT] = {
#define KERNEL(sm, suffix, source, kernel_name, a_type, b_type, acc_type, d_type, m_, n_, k_, \
               stages_, threads_, cluster_, next_, shared_)                                   \
    { .name = "sm" #sm "_" #kernel_name,                                                      \
      .target = "sm_" #sm #suffix,                                                            \
      .algorithm = (enum ptxmm_algorithm)algorithm_##sm##_##source,                           \
      .schedule = (enum ptxmm_schedule)schedule_##next_,                                      \
      .a = (enum ptxmm_type)type_##a_type,                                                    \
      .b = (enum ptxmm_type)type_##b_type,                                                    \
      .accumulator = (enum ptxmm_type)type_##acc_type,                                        \
      .d = (enum ptxmm_type)type_##d_type,                                                    \
      .tile_m = m_,                                                                           \
      .tile_n = n_,                                                                           \
      .tile_k = k_,                                                                           \
      .stages = stages_,                                                                      \
      .threads = threads_,                                                                    \
      .cluster = cluster_,                                                                    \
      .shared_bytes = shared_,                                                                \
      .abi_version = PTXMM_ABI_VERSION,                                                       \
      .min_driver = PTXMM_MIN_DRIVER,                                                         \
      .deterministic = 1,                                                                     \
      .batch_invariant = algorithm_##sm##_##source != (int)PTXMM_SPLIT &&                     \
                         algorithm_##sm##_##source != (int)PTXMM_MULTICAST,                   \
      .promotion = promotions_##acc_type * k_ },
#include "ptx/kernels.def"
#undef KERNEL
};

size_t ptxmm_kernel_count(void)
{
    return KERNEL_COUNT;
}

const struct ptxmm_kernel_info *ptxmm_kernel(size_t index)
{
    return index < KERNEL_COUNT ? &kernels[index] : NULL;
}

const struct ptxmm_kernel_info *ptxmm_kernel_by_name(const char *name)
{
    for (size_t i = 0; name && i < KERNEL_COUNT; i++)
        if (!strcmp(kernels[i].name, name))
            return &kernels[i];
    return NULL;
}

int kernels_is_fast(const struct ptxmm_kernel_info *kernel)
{
    int is_fp8 = kernel->a == PTXMM_E4M3 || kernel->a == PTXMM_E5M2;
    return is_fp8 && kernels_target_arch(kernel->target) == 90 && !kernel->promotion;
}

size_t kernels_index(const struct ptxmm_kernel_info *kernel)
{
    return (size_t)(kernel - kernels);
}

int kernels_min_driver(void)
{
    uint32_t least = kernels[0].min_driver;
    for (size_t i = 1; i < KERNEL_COUNT; i++)
        if (kernels[i].min_driver < least)
            least = kernels[i].min_driver;
    return (int)least;
}

int kernels_target_arch(const char *target)
{
    return atoi(target + strlen("sm_"));
}

/* A family is a row: the architecture that opens it and all that run its f code ("Family-specific
 * features" of the PTX manual). A later member opens a smaller family of itself and its successors.
 */
static const int families[][3] = {
    { 100, 103 },
    { 110 },
    { 120, 121 },
};

int kernels_target_runs_on(const char *target, int arch)
{
    int made_for = kernels_target_arch(target);
    char suffix = target[strlen(target) - 1];
    if (suffix == 'a')
        return arch == made_for;
    if (suffix != 'f' || arch < made_for)
        return 0;
    for (size_t family = 0; family < sizeof families / sizeof families[0]; family++) {
        int has_target = 0, has_arch = 0;
        for (int i = 0; i < 3 && families[family][i]; i++) {
            has_target |= families[family][i] == made_for;
            has_arch |= families[family][i] == arch;
        }
        if (has_target)
            return has_arch;
    }
    return 0;
}
