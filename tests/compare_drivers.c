/* compare_drivers.c -- do two drivers give the same bits? One process, two driver libraries, the same random
 * products.
 *
 *     build/tests/compare_drivers                    PTXMM_DRIVER, else libcuda.so.1, against this build's emulator
 *     build/tests/compare_drivers --digest [COUNT]   of one driver, a line a product: number, digest of D, parameters
 *
 * Two digest lists, made on two machines, can be compared with diff. PTXMM_SEED chooses another list of products.
 * COUNT, or the environment variable PTXMM_COUNT, is their number (200).
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gemm_case.h"

static bool parse_count(const char *text, uint64_t *count)
{
    char *end = NULL;
    errno = 0;
    *count = strtoull(text, &end, 10);
    return !errno && end != text && !*end && *text != '-' && *count > 0;
}

static bool rig_runs_any(const struct rig *rig, char *why, size_t size)
{
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        if (rig_runs(rig, ptxmm_kernel(i), why, size)) return true;
    return false;
}

/* One product on one driver. Each driver has its own current context. */
static bool product(struct rig *rig, const struct gemm_case *c, struct gemm_run *run)
{
    memset(run, 0, sizeof *run);
    if (!gpu_ok(&rig->gpu, rig->gpu.CtxSetCurrent(rig->gpu.context), "cuCtxSetCurrent")) {
        print_message("    %s\n", rig->gpu.error);
        return false;
    }
    return gemm_result(rig, c, run);
}

static void same_bits(void **state)
{
    (void)state;
    const char *wanted = getenv("PTXMM_COUNT");
    uint64_t count = 200;
    if (wanted && *wanted && !parse_count(wanted, &count))
        fail_msg("PTXMM_COUNT is \"%s\", must be a number above 0", wanted);
    char path[1000], why[256];
    struct rig left, right;
    if (!rig_emulator_path(path, sizeof path)) {
        print_message("    skipped: no ../lib/libptxmm_emulator.so beside this program\n");
        skip();
    }
    if (!rig_open(&left, NULL)) {
        if (left.asked) fail_msg("%s", left.error);
        print_message("    skipped: %s\n", left.error);
        skip();
    }
    if (gpu_is_emulator(&left.gpu) || !rig_runs_any(&left, why, sizeof why)) {
        print_message("    skipped: no GPU that runs the kernels (%s)\n",
                      gpu_is_emulator(&left.gpu) ? left.gpu.name : why);
        rig_close(&left);
        skip();
    }
    if (!rig_open(&right, path)) {
        rig_close(&left);
        fail_msg("%s", right.error);
    }
    print_message("    %s and %s, %llu products, PTXMM_SEED=%llu\n", ptxmm_driver_path(left.mm),
                  ptxmm_driver_path(right.mm), (unsigned long long)count, (unsigned long long)left.seed);
    uint64_t done = 0, wrong = 0, progress = 0;
    for (; done < count && wrong < 10; done++) {
        struct gemm_case c;
        struct gemm_run x, y = { 0 };
        char text[600], where[200];
        gemm_random(&left, done, &c);
        bool ok = product(&left, &c, &x) && product(&right, &c, &y);
        if (ok && !gemm_same(&x, &y, where, sizeof where)) {
            print_message("    %s\n        %s\n", gemm_describe(&c, text, sizeof text), where);
            ok = false;
        }
        wrong += !ok;
        left.gpu.CtxSetCurrent(left.gpu.context);
        gemm_release(&left, &x);
        right.gpu.CtxSetCurrent(right.gpu.context);
        gemm_release(&right, &y);
        if ((done + 1) * 10 / count > progress) {
            progress = (done + 1) * 10 / count;
            print_message("    %llu of %llu\n", (unsigned long long)done + 1, (unsigned long long)count);
        }
    }
    rig_close(&right);
    left.gpu.CtxSetCurrent(left.gpu.context);
    rig_close(&left);
    if (wrong) fail_msg("%llu of %llu products differ", (unsigned long long)wrong, (unsigned long long)done);
}

static int print_digests(uint64_t count)
{
    struct rig rig;
    char text[600], why[256];
    if (!rig_open(&rig, NULL)) {
        fprintf(stderr, "%s\n", rig.error);
        return 2;
    }
    if (!rig_runs_any(&rig, why, sizeof why)) {
        fprintf(stderr, "%s\n", why);
        rig_close(&rig);
        return 2;
    }
    fprintf(stderr, "%s, %s\n", ptxmm_driver_path(rig.mm), rig.device.name);
    int code = 0;
    for (uint64_t i = 0; i < count && code == 0; i++) {
        struct gemm_case c;
        struct gemm_run run;
        gemm_random(&rig, i, &c);
        if (gemm_result(&rig, &c, &run))
            printf("%4llu %016llx %s\n", (unsigned long long)i, (unsigned long long)gemm_digest(&run),
                   gemm_describe(&c, text, sizeof text));
        else
            code = 1;
        fflush(stdout);
        gemm_release(&rig, &run);
    }
    rig_close(&rig);
    return code;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = { { "two drivers give the same bits", same_bits, NULL, NULL, NULL } };
    uint64_t count = 200;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "--digest") == 0 && argc < 4 && (argc == 2 || parse_count(argv[2], &count)))
        return print_digests(count);
    if (argc > 1) {
        fprintf(stderr, "usage: %s [--digest [COUNT]]\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
