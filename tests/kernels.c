/* kernels.c -- every kernel of the pack against a reference, on whatever driver there is.
 *
 *     build/tests/kernels ['*gemm_bf16_128x256*']
 *
 * The driver is PTXMM_DRIVER's, else libcuda.so.1, else this build's emulator; without one every test is skipped with
 * the reason. PTXMM_TEST=quick (an emulator's default: seconds) or full (a GPU's default), PTXMM_SEED=n (printed). A
 * failure prints the case, the first wrong element, what was expected, and a map. compute-sanitizer may run it:
 * compute-sanitizer build/tests/kernels '*edges*'
 *
 * One test is one topic of one row of kernels.def. Inputs are chosen by regime first: where sums are exact the bits
 * must be, so an index that is wrong anywhere shows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gemm_topics.h"

/* A row per topic, for one kernel. */
#define TEST(topic, label, id) { label " " #topic, topic_##topic, NULL, NULL, (void *)(uintptr_t)id },

int main(int argc, char **argv)
{
    static const struct CMUnitTest kernels[] = {
#define KERNEL(sm, suffix, source, name, ...) TOPIC_LIST(TEST, "sm" #sm "/" #name, "sm" #sm "_" #name)
#include "ptx/kernels.def"
#undef KERNEL
    };
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 4 && strcmp(argv[1], "--foreign") == 0) {
        const int code = topic_foreign_child(argv[2], argv[3]);
        fflush(stdout);
        _exit(code); /* the context may be lost: nothing to take down */
    }
    if (argc > 2) {
        fprintf(stderr, "usage: %s [PATTERN]\n", argv[0]);
        return 2;
    }
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    if (rig_open(&topic_rig, NULL))
        printf("driver %s, device %s, %s tests, PTXMM_SEED=%llu\n", ptxmm_driver_path(topic_rig.mm),
               topic_rig.device.name, topic_rig.full ? "full" : "quick", (unsigned long long)topic_rig.seed);
    else if (topic_rig.asked)
        return fprintf(stderr, "%s: %s\n", argv[0], topic_rig.error), 2;
    else
        printf("every test is skipped: %s\n", topic_rig.error);
    const int failures = cmocka_run_group_tests(kernels, NULL, NULL);
    if (topic_rig.mm) rig_close(&topic_rig);
    return failures != 0;
}
