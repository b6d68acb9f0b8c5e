/* gemm_replay.c -- a topic: every bit of D, by replaying what the kernel does.
 *
 * replay.h has one instruction; around it stands what the sources of ptx/sm90 and ptx/sm100 say: K in instructions of 32
 * bytes, in ascending order, the first of a tile forgetting the old accumulator; beyond K there are zeros, which are no
 * terms. A promoted kernel begins a new sum every so many elements and adds each to a total in f32, to nearest. Then
 * alpha (unless it is 1) and beta * C in f32, each rounded to nearest, and one rounding into D.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gemm_topics.h"
#include "replay.h"

static bool replay_type(enum ptxmm_type type, enum replay_format *format)
{
    switch (type) {
    case PTXMM_BF16: *format = REPLAY_BF16; return true;
    case PTXMM_F16: *format = REPLAY_F16; return true;
    case PTXMM_TF32: *format = REPLAY_TF32; return true;
    case PTXMM_E4M3: *format = REPLAY_E4M3; return true;
    case PTXMM_E5M2: *format = REPLAY_E5M2; return true;
    default: return false;
    }
}

static uint32_t encoding(const struct matrix *x, int64_t row, int64_t col)
{
    uint32_t code = 0;
    memcpy(&code, x->data + (size_t)(row * x->ld + col) * x->size, x->size);
    return code;
}

static float real(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The tensor core's sum over [from, end) of K. */
static uint32_t accumulate(const struct gemm_run *run, const struct replay_step *step, int64_t m, int64_t n,
                           int64_t from, int64_t end)
{
    uint32_t sum = 0;
    for (int64_t first = from; first < end; first += step->k) {
        uint32_t a[32] = { 0 }, b[32] = { 0 };
        for (unsigned i = 0; i < step->k && first + i < end; i++) {
            a[i] = encoding(&run->a, m, first + i);
            b[i] = encoding(&run->b, n, first + i);
        }
        sum = replay_instruction(step, a, b, sum, NULL, NULL);
    }
    return sum;
}

/* The sum of one element. */
static float total(const struct gemm_run *run, const struct replay_step *step, int64_t m, int64_t n)
{
    const int64_t k = run->c->k, part = run->c->kernel->promotion ? run->c->kernel->promotion : k;
    float sum = 0;
    if (part == k) return real(accumulate(run, step, m, n, 0, k));
    for (int64_t from = 0; from < k; from += part)
        sum += real(accumulate(run, step, m, n, from, from + part < k ? from + part : k));
    return sum;
}

/* What the epilogue makes of it; `old` is the element of C as a value. */
static void finish(const struct gemm_case *c, enum ptxmm_type type, float sum, double old, void *out)
{
    float v = c->alpha == 0 ? 0 : sum;
    if (c->alpha != 1) v = v * c->alpha;
    if (c->beta != 0) v = fmaf(c->beta, (float)old, v);
    type_store(type, out, (double)v);
}

/* Every element of D; says where the first wrong one is. */
static bool same_bits(const struct gemm_run *run, const struct replay_step *step)
{
    const struct gemm_case *c = run->c;
    for (int64_t m = 0; m < c->m; m++)
        for (int64_t n = 0; n < c->n; n++) {
            unsigned char want[8];
            const float sum = total(run, step, m, n);
            finish(c, run->d.type, sum, c->beta != 0 ? matrix_get(&run->cm, m, n) : 0, want);
            const unsigned char *got = run->d.data + (size_t)(m * run->d.ld + n) * run->d.size;
            if (memcmp(got, want, run->d.size) == 0) continue;
            uint32_t x = 0, y = 0;
            memcpy(&x, got, run->d.size);
            memcpy(&y, want, run->d.size);
            char text[600];
            print_message("    %s\n        D[%lld][%lld] is 0x%x, replayed 0x%x (the sum is %a)\n",
                          gemm_describe(c, text, sizeof text), (long long)m, (long long)n, x, y, (double)sum);
            return false;
        }
    return true;
}

static bool replayed(const struct gemm_case *c)
{
    enum replay_format a, b;
    if (!replay_type(gemm_type_a(c), &a) || !replay_type(gemm_type_b(c), &b)) return false;
    const struct replay_step step = replay_step_of(a, b, false, strncmp(c->kernel->target, "sm_9", 4) == 0);
    struct gemm_run run = { 0 };
    const bool ok = gemm_result(&topic_rig, c, &run) && same_bits(&run, &step);
    gemm_release(&topic_rig, &run);
    return ok;
}

/* Shapes with edges in every direction, several slices and tiles; alpha, beta and C; values of every size, subnormals
 * and zeros among them, NaN and infinity. */
void topic_replay(void **state)
{
    static const struct {
        float alpha, beta;
        bool with_c;
        enum c_content c;
    } scalars[] = { { 1, 0, false, C_NORMAL },        { 0.3f, 0.7f, true, C_NORMAL }, { -1.7f, 0, false, C_NORMAL },
                    { 1, -1.5f, true, C_IS_D },       { 1e-30f, 1, true, C_NORMAL },  { 0, 0.5f, true, C_NORMAL } };
    static const enum matrix_fill fills[] = { FILL_NORMAL, FILL_WIDE, FILL_SPECIALS, FILL_ALTERNATING };
    const struct ptxmm_kernel_info *kernel = topic_begin(state);
    const int64_t tm = kernel->tile_m, tn = kernel->tile_n, tk = kernel->tile_k;
    const struct {
        int64_t m, n, k;
    } shapes[] = { { 37, 41, 3 * tk + 9 },     { tm + 3, 21, tk + 17 },   { 5, tn + 11, 2 * tk },
                   { 19, 8, kernel->stages * tk + 40 }, { 3, 70, 1000 },  { tm, tn, tk } };
    enum replay_format unused;
    const struct gemm_case types = { .kernel = kernel };
    if (kernel->algorithm == PTXMM_SPLIT) topic_skip("a split kernel adds partial sums in an order of its own");
    if (!replay_type(gemm_type_a(&types), &unused) || !replay_type(gemm_type_b(&types), &unused))
        topic_skip("no replay of this kernel's types");
    int cases = 0, wrong = 0;
    for (size_t i = 0; i < LENGTH(shapes); i++)
        for (size_t j = 0; j < LENGTH(scalars); j++) {
            if (!topic_rig.full && i != j) continue;
            struct gemm_case c =
                topic_case(kernel, shapes[i].m, shapes[i].n, shapes[i].k, fills[(i + 2 * j) % LENGTH(fills)]);
            c.seed += 100 * i + j;
            c.alpha = scalars[j].alpha;
            c.beta = scalars[j].beta;
            c.with_c = scalars[j].with_c;
            c.c = scalars[j].c;
            c.scalars = j % 2 ? SCALARS_ON_DEVICE : SCALARS_ON_HOST;
            if (i == 1) c.nan_row = 2;
            if (i == 2) c.inf_at = 3 * c.k + 5;
            if (kernel->a == PTXMM_BF16_OR_F16) {
                c.a = (i + j) / 2 % 2 ? PTXMM_F16 : PTXMM_BF16;
                c.b = (i + j) / 2 % 4 == 2 ? PTXMM_F16 : c.a; /* now and then mixed */
                c.d = i % 2 ? PTXMM_F16 : PTXMM_BF16;
            }
            cases++;
            if (replayed(&c)) continue;
            if (++wrong == 4 || !rig_revive(&topic_rig)) break;
        }
    if (wrong) fail_msg("%d of %d cases wrong", wrong, cases);
}
