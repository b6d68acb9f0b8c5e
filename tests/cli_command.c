/* cli_command.c -- the command without a device: its line of words, plan, kernels, model, export.
 */
#define _GNU_SOURCE
#include "cli_child.h"

#include <math.h>

#include "cli/timeline.h"
#include "cli/workload.h"
#include "ptxmm.h"

/* ---- bad words: one line that names the argument, what it was, what it must be ---- */

static void bad_words_get_one_line(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int code;
        const char *line;
    } cases[] = {
        { "", 2, "no command is given" },
        { "foo", 2, "\"foo\" is not a command" },
        { "'' kernels", 2, "\"\" is not a command" },
        { "--foo kernels", 2, "\"--foo\" is not an option that may stand before a command" },
        { "--arch sm90 kernels", 2, "\"--arch\" is not an option that may stand before" },
        { "-x", 2, "\"-x\" is not an option" },
        { "--driver", 2, "--driver has no value, must be followed by PATH" },
        { "run --driver emulator --foo 3", 2, "ptxmm run: \"--foo\" is not an option" },
        { "run --m 4 --n", 2, "ptxmm run: --n has no value, must be followed by" },
        { "plan --foo", 2, "ptxmm plan: \"--foo\" is not an option" },
        { "plan --foo=3", 2, "\"--foo\" is not an option" },
        { "plan -x", 2, "\"-x\" is not an option" },
        { "plan --m", 2, "--m has no value, must be followed by ROWS" },
        { "plan --json=3", 2, "--json is given \"3\", but takes no value" },
        { "plan 7", 2, "\"7\" is one argument too many" },
        { "plan --n 3 --k 4", 2, "--m is missing" },
        { "plan --m 3 --k 4", 2, "--n is missing" },
        { "plan --m 3 --n 4", 2, "--k is missing" },
        { "plan --m x", 2, "--m is \"x\", must be a whole number of at least 0 and below 2^63" },
        { "plan --m ''", 2, "--m is \"\", must be" },
        { "plan --m -1", 2, "--m is \"-1\", must be" },
        { "plan --m +1", 2, "--m is \"+1\", must be" },
        { "plan --m 1x", 2, "--m is \"1x\", must be" },
        { "plan --m 1.5", 2, "--m is \"1.5\", must be" },
        { "plan --m 0x10", 2, "--m is \"0x10\", must be" },
        { "plan --m 9223372036854775808", 2, "--m is \"9223372036854775808\", must be" },
        { "plan --m 99999999999999999999999999", 2,
          "--m is \"99999999999999999999999999\", must be" },
        { "plan --m --n 4", 2, "--m is \"--n\", must be" },
        { "plan --m 1 --n 1 --k 1 --lda 0", 2,
          "--lda is \"0\", must be a whole number of at least 1" },
        { "plan --m 1 --n 1 --k 9 --lda 8", 2, "--lda is 8, must be at least K = 9" },
        { "plan --type f32", 2, "--type is \"f32\", must be bf16, f16, e4m3 or e5m2" },
        { "plan --b-type s8", 2, "--b-type is \"s8\", must be bf16, f16, e4m3 or e5m2" },
        { "plan --out-type e4m3", 2, "--out-type is \"e4m3\", must be bf16, f16 or f32" },
        { "plan --accumulate slow", 2, "--accumulate is \"slow\", must be default or fast" },
        { "plan --constant c", 2, "--constant is \"c\", must be a, b or ab" },
        { "run --constant ba", 2, "--constant is \"ba\", must be a, b or ab" },
        { "run --constant abc", 2, "--constant is \"abc\", must be a, b or ab" },
        { "plan --constant ''", 2, "--constant is \"\", must be a, b or ab" },
        { "run --constant", 2, "--constant has no value, must be followed by OPERANDS" },
        { "verify --constant b", 2, "\"--constant\" is not an option" },
        { "plan --type fp8", 2, "--type is \"fp8\", must be" },
        { "plan --out-type s32", 2, "--out-type is \"s32\", must be bf16, f16 or f32" },
        { "plan --arch sm80", 2, "--arch is \"sm80\", must be sm90 or sm100" },
        { "kernels --arch 90", 2, "--arch is \"90\", must be sm90 or sm100" },
        { "plan --sms 0", 2, "--sms is \"0\", must be a whole number from 1 to 65535" },
        { "plan --cluster 0", 2, "--cluster is \"0\", must be a whole number from 1 to 8" },
        { "plan --cluster-rows 9", 2, "--cluster-rows is \"9\", must be a whole number from 1 to 8" },
        { "run --groups 65", 2, "--groups is \"65\", must be a whole number from 1 to 64" },
        { "plan --stages 3", 2, "--stages is \"3\", must be a whole number from 4 to 64" },
        { "run --stages 65", 2, "--stages is \"65\", must be a whole number from 4 to 64" },
        { "plan --m 1 --n 1 --k 1 --cluster 5", 2, "prefer.cluster is 5, must be 0, 1, 2, 3, 4 or 8" },
        { "plan --m 1 --n 1 --k 1 --cluster 2 --cluster-rows 4", 2, "cluster_rows is 4, must be 0 or divide cluster, 2" },
        { "plan --workspace -1", 2, "--workspace is \"-1\", must be a whole number of at least 0" },
        { "run --workspace 1k", 2, "--workspace is \"1k\", must be a whole number" },
        { "verify --workspace", 2, "--workspace has no value, must be followed by BYTES" },
        { "plan --kernel nosuch", 2, "--kernel is \"nosuch\", must be one of the names" },
        { "plan --beta 1e39", 2, "--beta is \"1e39\", must be a number" },
        { "plan --beta nan", 2, "--beta is \"nan\", must be a number" },
        { "run --alpha 1,5", 2, "--alpha is \"1,5\", must be a number" },
        { "run --alpha ''", 2, "--alpha is \"\", must be a number" },
        { "run --seed -1", 2, "--seed is \"-1\", must be a whole number" },
        { "run --repeat 0", 2, "--repeat is \"0\", must be a whole number from 1 to 1000000" },
        { "run --device 5000", 2, "--device is \"5000\", must be a whole number from 0 to 1023" },
        { "run --out ''", 2, "--out is \"\", must be the name of a file" },
        { "run --m 1 --n 1", 2, "--k is missing" },
        { "run --m 1 --n 1 --k 16 --lda 8", 2, "--lda is 8, must be at least K = 16" },
        { "run --m 1 --n 9 --k 16 --ldd 8", 2, "--ldd is 8, must be at least N = 9" },
        { "run --l 3", 2, "\"--l\" is the beginning of several options" },
        { "verify --slow", 2, "\"--slow\" is not an option" },
        { "model --stages 0", 2, "--stages is \"0\", must be a whole number from 1 to 1000" },
        { "model --load -1", 2, "--load is \"-1\", must be a number from 0 to 1e+15" },
        { "model --tiles 5000 --svg x.svg", 2, "--svg can show at most 4096 slices" },
        { "model --svg /nonexistent/x.svg", 2,
          "/nonexistent/x.svg cannot be written: No such file" },
        { "export", 2, "DIR is missing" },
        { "export a b", 2, "\"b\" is one argument too many" },
        { "export /dev/null/x", 2, "/dev/null/x cannot be made: Not a directory" },
        { "export /dev/null", 2, "/dev/null cannot be read: Not a directory" },
        { "export x --ptx-dir /nonexistent", 2,
          "--ptx-dir is \"/nonexistent\", must be a folder that can be read" },
        { "devices --driver /nonexistent.so", 3, "/nonexistent.so" },
        { "--driver /nonexistent.so run --m 1 --n 1 --k 1", 3, "/nonexistent.so" },
        { "verify --driver=/nonexistent.so", 3, "/nonexistent.so" },
        { "devices --driver /dev/null", 3, "/dev/null" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        child_refuses(cases[i].words, cases[i].code, cases[i].line);
}

static void help_and_version(void **state)
{
    (void)state;
    char version[32];
    snprintf(version, sizeof version, "ptxmm %d.%d.%d\n", PTXMM_VERSION_MAJOR, PTXMM_VERSION_MINOR,
             PTXMM_VERSION_PATCH);
    child_expect("--version", 0, version);
    static const char *const commands[] = { "devices", "kernels", "plan", "run",
                                            "verify",  "export",  "model" };
    child_expect("--help", 0, "Examples:");
    child_expect("help", 0, "usage: ptxmm");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char words[64], usage[64];
        child_expect("--help", 0, commands[i]);
        snprintf(words, sizeof words, "%s --help", commands[i]);
        snprintf(usage, sizeof usage, "Usage: ptxmm %s", commands[i]);
        child_expect(words, 0, usage);
    }
}

/* Options that the whole command knows may come first; the last one given counts. */
static void options_before_the_command(void **state)
{
    (void)state;
    child_expect("--json kernels", 0, "\"kernels\": [");
    child_refuses("--driver /first.so devices", 3, "/first.so");
    child_refuses("--driver=/first.so --json devices --driver /second.so", 3, "/second.so");
}

static void a_full_disk_is_noticed(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK))
        skip();
    char words[4200];
    snprintf(words, sizeof words, "%s/../bin/ptxmm kernels > /dev/full 2> full.txt", child_folder);
    const int status = system(words);
    assert_int_equal(WEXITSTATUS(status), 2);
    size_t size;
    unsigned char *text = read_whole("full.txt", &size);
    assert_string_equal((char *)text, "ptxmm: standard output cannot be written\n");
    free(text);
}

/* ---- kernels ---- */

static void kernels_are_those_of_the_library(void **state)
{
    (void)state;
    json_t *all = child_json("kernels --json", 0), *list = member(all, "kernels");
    assert_int_equal(json_array_size(list), ptxmm_kernel_count());
    child_expect("kernels", 0, "algorithm");
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        const struct ptxmm_kernel_info *k = ptxmm_kernel(i);
        json_t *entry = json_array_get(list, i);
        assert_string_equal(string(entry, "name"), k->name);
        assert_string_equal(string(entry, "target"), k->target);
        assert_string_equal(string(entry, "a"), type_name(k->a));
        assert_string_equal(string(entry, "d"), type_name(k->d));
        assert_int_equal(integer(entry, "tile_m"), k->tile_m);
        assert_int_equal(integer(entry, "tile_n"), k->tile_n);
        assert_int_equal(integer(entry, "threads"), k->threads);
        assert_int_equal(integer(entry, "shared_bytes"), k->shared_bytes);
        assert_non_null(strstr(child.out, k->name));
    }
    json_decref(all);
    size_t count = 0;
    for (int arch = 90; arch <= 100; arch += 10) {
        char words[64], target[16];
        snprintf(words, sizeof words, "kernels --json --arch sm%d", arch);
        snprintf(target, sizeof target, "sm_%d", arch);
        all = child_json(words, 0);
        list = member(all, "kernels");
        for (size_t i = 0; i < json_array_size(list); i++)
            assert_non_null(strstr(string(json_array_get(list, i), "target"), target));
        count += json_array_size(list);
        json_decref(all);
    }
    assert_int_equal(count, ptxmm_kernel_count());
}

/* ---- plan ---- */

static json_t *candidate(json_t *plan, const char *kernel)
{
    size_t i;
    json_t *entry;
    json_array_foreach(member(plan, "candidates"), i, entry)
        if (!strcmp(string(entry, "kernel"), kernel))
            return entry;
    fail_msg("no candidate %s", kernel);
    return NULL;
}

static void plan_knows_its_arithmetic(void **state)
{
    (void)state;
    json_t *plan = child_json("plan --m 4096 --n 4096 --k 4096 --type bf16 --json", 0);
    assert_true(truth(plan, "usable"));
    assert_int_equal(json_array_size(member(plan, "candidates")), ptxmm_kernel_count());
    json_t *wide = candidate(plan, "sm90_gemm_bf16_128x256"),
           *narrow = candidate(plan, "sm90_gemm_bf16_128x128");
    assert_int_equal(integer(wide, "tiles"), 32 * 16);
    assert_int_equal(integer(narrow, "tiles"), 32 * 32);
    assert_string_equal(string(wide, "bound"), "compute");
    for (int i = 0; i < 2; i++) {
        json_t *c = i ? narrow : wide;
        assert_true(truth(c, "usable"));
        assert_true(integer(c, "ctas") >= 1 && integer(c, "ctas") <= 132);
        assert_true(fabs(number(c, "waves") -
                         (double)integer(c, "tiles") / (double)integer(c, "ctas")) < 1e-9);
        assert_true(number(c, "seconds") > number(c, "compute_seconds"));
        assert_true(number(c, "tensor_busy") > 0.5 && number(c, "tensor_busy") <= 1);
        assert_true(number(c, "seconds") < 1e-3);
    }
    /* Usable ones first, the fastest first. */
    size_t i;
    json_t *entry;
    double last = 0;
    bool rejected = false;
    json_array_foreach(member(plan, "candidates"), i, entry) {
        if (truth(entry, "usable")) {
            assert_false(rejected);
            assert_true(number(entry, "seconds") >= last);
            last = number(entry, "seconds");
        } else {
            rejected = true;
            assert_non_null(string(entry, "reason"));
            assert_non_null(strstr(string(entry, "words"), string(entry, "kernel")));
        }
    }
    json_decref(plan);

    plan = child_json("plan --m 8192 --n 8192 --k 64 --json", 0);
    assert_string_equal(string(candidate(plan, "sm90_gemm_bf16_128x256"), "bound"), "memory");
    json_decref(plan);
}

static void plan_gives_reasons(void **state)
{
    (void)state;
    static const struct {
        const char *words, *kernel, *reason, *field;
        long long has, needs;
    } cases[] = {
        { "--lda 65", "sm90_gemm_bf16_128x256", "ALIGNMENT", "a.ld", 130, 16 },
        { "--ldb 68", "sm90_gemm_bf16_128x256", "ALIGNMENT", "b.ld", 136, 16 },
        { "--ldd 65", "sm90_gemm_bf16_128x256", "ALIGNMENT", "d.ld", 130, 16 },
        { "--type f16", "sm90_gemm_bf16_128x256", "TYPE", "a.type", PTXMM_F16, PTXMM_BF16 },
        { "--out-type f32", "sm90_gemm_bf16_128x256", "TYPE", "d.type", PTXMM_F32, PTXMM_BF16 },
        { "--type e4m3 --b-type e5m2", "sm90_gemm_e4m3_e4m3_128x256", "TYPE", "b.type", PTXMM_E5M2,
          PTXMM_E4M3 },
        { "--type e4m3", "sm90_gemm_e4m3_e4m3_128x256", "ACCUMULATE", "accumulate",
          PTXMM_ACCUMULATE_DEFAULT, PTXMM_ACCUMULATE_FAST },
        { "--type e4m3 --lda 65", "sm90_gemm_e4m3_e4m3_128x64_promoted", "ALIGNMENT", "a.ld", 65, 16 },
        { "--arch sm100", "sm90_gemm_bf16_128x256", "ARCHITECTURE", "arch", 100, 90 },
        { "--kernel sm90_gemm_bf16_128x128", "sm90_gemm_bf16_128x256", "NOT_ASKED", "prefer.kernel",
          -1, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        snprintf(words, sizeof words, "plan --m 64 --n 64 --k 64 --json %s", cases[i].words);
        child_run(words);
        json_t *plan = json_loads(child.out, 0, NULL);
        assert_non_null(plan);
        json_t *c = candidate(plan, cases[i].kernel);
        assert_false(truth(c, "usable"));
        assert_string_equal(string(c, "reason"), cases[i].reason);
        assert_string_equal(string(c, "field"), cases[i].field);
        if (cases[i].needs >= 0) {
            assert_int_equal(integer(c, "has"), cases[i].has);
            assert_int_equal(integer(c, "needs"), cases[i].needs);
        }
        assert_int_equal(child.code, truth(plan, "usable") ? 0 : 1);
        json_decref(plan);
    }
    json_t *fast = child_json("plan --m 8192 --n 8192 --k 8192 --type e4m3 --accumulate fast --json", 0);
    json_t *problem = member(fast, "problem");
    assert_string_equal(string(problem, "accumulate"), "fast");
    assert_string_equal(string(member(problem, "d"), "type"), "bf16");
    assert_true(truth(candidate(fast, "sm90_gemm_e4m3_e4m3_128x256"), "usable"));
    assert_true(truth(candidate(fast, "sm90_gemm_e4m3_e4m3_128x192_promoted"), "usable"));
    json_decref(fast);

    child_run("plan --m 64 --n 64 --k 64 --lda 65");
    child_check("plan --lda 65", 1, child.out, "no kernel of the pack can run this");
    child_check("plan --lda 65", 1, child.out, "a.ld");
}

/* The text says the same numbers as the JSON. */
static void plan_text_agrees_with_json(void **state)
{
    (void)state;
    json_t *plan =
        child_json("plan --m 4096 --n 4000 --k 500 --type f16 --out-type f32 --sms 100 --json", 0);
    child_expect("plan --m 4096 --n 4000 --k 500 --type f16 --out-type f32 --sms 100", 0,
                 "at most 100 SMs");
    size_t i;
    json_t *entry;
    json_array_foreach(member(plan, "candidates"), i, entry) {
        const char *line = strstr(child.out, string(entry, "kernel"));
        assert_non_null(line);
        if (!truth(entry, "usable"))
            continue;
        char name[96], unit[8], over[16], split[32], cluster[16], shape[32];
        double time, tflops, busy, waves;
        long long tiles, ctas;
        int stages;
        assert_int_equal(sscanf(line, "%95s %lf %7s %lf %lf %% %lld %15s %15s %lld %lf %d", name, &time,
                                unit, &tflops, &busy, &tiles, over, cluster, &ctas, &waves, &stages),
                         11);
        const int is_split = strstr(name, "_split") != NULL;
        const long long groups = integer(entry, "groups"), ctas_of_one = integer(entry, "cluster"),
                        rows = integer(entry, "cluster_rows");
        if (is_split)
            snprintf(split, sizeof split, groups > 1 ? "%lldx%lld" : "%lld", ctas_of_one, groups);
        else
            snprintf(split, sizeof split, "%lld", groups);
        assert_string_equal(over, split);
        snprintf(shape, sizeof shape, "%lld", ctas_of_one);
        if (strstr(name, "_multicast") && ctas_of_one > 1)
            snprintf(shape, sizeof shape, "%lldx%lld", rows, ctas_of_one / rows);
        assert_string_equal(cluster, shape);
        assert_true(fabs(time * 1e-6 - number(entry, "seconds")) < 1e-7);
        assert_true(fabs(tflops - 2.0 * 4096 * 4000 * 500 * 1e-12 / number(entry, "seconds")) <
                    0.1);
        assert_true(fabs(busy / 100 - number(entry, "tensor_busy")) < 1e-3);
        assert_true(tiles == integer(entry, "tiles") && ctas == integer(entry, "ctas") &&
                    stages == integer(entry, "stages"));
        assert_true(ctas <= 100);
    }
    json_decref(plan);
}

/* A promise is part of the problem, and changes no choice. */
static void plan_with_constants(void **state)
{
    (void)state;
    json_t *plain = child_json("plan --m 64 --n 4096 --k 4096 --json", 0);
    assert_null(json_object_get(member(plain, "problem"), "constant"));
    static const char *const promises[] = { "a", "b", "ab" };
    for (size_t i = 0; i < sizeof promises / sizeof *promises; i++) {
        char words[128], piece[32];
        snprintf(words, sizeof words, "plan --m 64 --n 4096 --k 4096 --json --constant %s", promises[i]);
        json_t *plan = child_json(words, 0);
        assert_string_equal(string(member(plan, "problem"), "constant"), promises[i]);
        assert_true(json_equal(member(plan, "candidates"), member(plain, "candidates")));
        json_decref(plan);
        snprintf(words, sizeof words, "plan --m 64 --n 4096 --k 4096 --constant %s", promises[i]);
        snprintf(piece, sizeof piece, "-> bf16, constant %s\n", promises[i]);
        child_expect(words, 0, piece);
    }
    json_decref(plain);
}

/* With a workspace, groups; without, none, and never more than the limit. */
static void plan_with_workspace(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        long long limit;
    } rows[] = { { "", 64 << 20 }, { " --workspace 100000", 100000 }, { " --workspace 0", 0 } };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char words[128];
        snprintf(words, sizeof words, "plan --m 64 --n 64 --k 131072 --json%s", rows[r].words);
        json_t *plan = child_json(words, 0), *entry;
        size_t i;
        long long most = 0;
        json_array_foreach(member(plan, "candidates"), i, entry) {
            if (!truth(entry, "usable"))
                continue;
            const long long bytes = integer(entry, "workspace_bytes");
            assert_true(bytes <= rows[r].limit && (bytes > 0) == (integer(entry, "groups") > 1));
            most = bytes > most ? bytes : most;
        }
        assert_true((most > 0) == (rows[r].limit > 0));
        json_decref(plan);
    }
}

/* A launch that is asked for; kernels that have no choice are rejected. */
static void plan_with_a_launch(void **state)
{
    (void)state;
    json_t *plan = child_json("plan --m 512 --n 512 --k 4096 --cluster 4 --cluster-rows 2 --groups 2 --json", 0), *entry;
    size_t i, usable = 0, rejected = 0;
    json_array_foreach(member(plan, "candidates"), i, entry) {
        if (truth(entry, "usable")) {
            assert_true(integer(entry, "cluster") == 4 && integer(entry, "cluster_rows") == 2 && integer(entry, "groups") == 2);
            usable++;
        } else if (!strcmp(string(entry, "reason"), "LAUNCH")) {
            assert_true(integer(entry, "needs") == 1 && !strncmp(string(entry, "field"), "prefer.", 7));
            rejected++;
        }
    }
    assert_true(usable > 0 && rejected > 5);
    json_decref(plan);
}

static void plan_takes_any_size(void **state)
{
    (void)state;
    child_run("plan --m 0 --n 64 --k 64 --json");
    assert_true(child.code == 0 || child.code == 1);
    child_run("plan --m 64 --n 64 --k 0 --json");
    assert_true(child.code == 0 || child.code == 1);
    child_run("plan --m 9223372036854775807 --n 9223372036854775807 --k 9223372036854775800");
    assert_true(child.code == 1 || child.code == 2);
    child_run("plan --m 4000000000 --n 64 --k 64");
    assert_true(child.code == 0 || child.code == 1);
}

/* ---- model ---- */

static double modelled(json_t *model, int stages, int accumulators, const char *what)
{
    size_t i;
    json_t *entry;
    json_array_foreach(member(model, "results"), i, entry)
        if (integer(entry, "stages") == stages && integer(entry, "accumulators") == accumulators)
            return number(entry, what);
    fail_msg("no result for %d stages, %d accumulators", stages, accumulators);
    return 0;
}

static void model_gives_the_known_values(void **state)
{
    (void)state;
    json_t *model = child_json("model --json", 0);
    static const int busy[] = { 24, 46, 64, 78 };
    for (int stages = 1; stages <= 4; stages++)
        assert_int_equal(lround(100 * modelled(model, stages, 2, "tensor_busy")), busy[stages - 1]);
    assert_true(modelled(model, 4, 2, "time") == 92 && modelled(model, 4, 1, "time") == 108);
    json_decref(model);
    model = child_json("model --epilogue 30 --stages 4 --json", 0);
    assert_int_equal(json_array_size(member(model, "results")), 2);
    assert_true(modelled(model, 4, 2, "time") == 126 && modelled(model, 4, 1, "time") == 174);
    json_decref(model);
    child_expect("model --stages 4 --accumulators 1", 0, "     4             1   108       66.7 %");
}

/* The drawing's own recurrences give the library's time. */
static void the_drawing_agrees_with_the_library(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        const uint64_t c = 16 * i;
        const struct ptxmm_model model = {
            .tiles = random_range(5, c, 1, 9),
            .slices = random_range(5, c + 1, 1, 12),
            .stages = (int)random_range(5, c + 2, 1, 7),
            .accumulators = (int)random_range(5, c + 3, 1, 3),
            .issue = (double)random_range(5, c + 4, 0, 5),
            .load = (double)random_range(5, c + 5, 0, 30),
            .mma = (double)random_range(5, c + 6, 1, 9),
            .epilogue = (double)random_range(5, c + 7, 0, 40),
        };
        struct ptxmm_model_result result;
        struct timeline t;
        assert_int_equal(ptxmm_model_run(&model, &result, NULL), PTXMM_OK);
        assert_true(timeline_create(&t, &model));
        assert_true(t.time == result.time);
        for (int64_t g = 0; g < t.slices; g++)
            assert_true(t.issue[g] + model.load == t.ready[g] && t.ready[g] <= t.start[g] &&
                        t.start[g] + model.mma == t.end[g]);
        timeline_destroy(&t);
    }
}

static size_t occurrences(const char *text, const char *word)
{
    size_t count = 0;
    for (; (text = strstr(text, word)) != NULL; text += strlen(word))
        count++;
    return count;
}

static void the_drawing_shows_every_slice(void **state)
{
    (void)state;
    child_expect("model --svg t.svg", 0, "t.svg shows 4 stages and 2 accumulators");
    size_t size;
    char *svg = (char *)read_whole("t.svg", &size);
    assert_int_equal(strlen(svg), size);
    assert_true(strncmp(svg, "<svg ", 5) == 0 && strcmp(svg + size - 7, "</svg>\n") == 0);
    assert_int_equal(occurrences(svg, "load of slice"), 18);
    assert_int_equal(occurrences(svg, "multiplication of slice"), 18);
    assert_int_equal(occurrences(svg, "epilogue 0 of tile") +
                         occurrences(svg, "epilogue 1 of tile") +
                         occurrences(svg, "epilogue 2 of tile"),
                     3);
    assert_int_equal(occurrences(svg, "<rect"), occurrences(svg, "</rect>") + 1);
    assert_int_equal(occurrences(svg, "<text"), occurrences(svg, "</text>"));
    assert_non_null(strstr(svg, "time 92, tensor core busy 78.3 %"));
    free(svg);
    child_expect("model --epilogue 0 --load 0 --issue 0 --mma 0 --svg z.svg", 0, "z.svg");
}

/* ---- export ---- */

static bool no_images(void)
{
    struct ptxmm_image image;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        if (ptxmm_kernel_image(i, &image, NULL))
            return true;
    return false;
}

static void the_manifest_is_the_library(void **state)
{
    (void)state;
    if (no_images())
        skip(); /* built without ptxas */
    child_expect("export out", 0, "manifest.json");
    size_t size;
    char *text = (char *)read_whole("out/manifest.json", &size);
    json_t *manifest = json_loads(text, JSON_REJECT_DUPLICATES, NULL),
           *kernels = member(manifest, "kernels");
    free(text);
    assert_int_equal(integer(manifest, "schema"), 1);
    assert_int_equal(integer(manifest, "abi_version"), PTXMM_ABI_VERSION);
    assert_int_equal(json_array_size(kernels), ptxmm_kernel_count());
    for (size_t i = 0; i < ptxmm_kernel_count(); i++) {
        const struct ptxmm_kernel_info *k = ptxmm_kernel(i);
        json_t *entry = json_array_get(kernels, i), *cubin = member(entry, "cubin"),
               *launch = member(entry, "launch");
        struct ptxmm_image image;
        assert_int_equal(ptxmm_kernel_image(i, &image, NULL), PTXMM_OK);
        assert_string_equal(string(entry, "id"), k->name);
        assert_string_equal(string(entry, "entry"), k->name);
        assert_string_equal(string(entry, "target"), k->target);
        assert_string_equal(string(member(entry, "architecture"), "match"),
                            strchr(k->target, 'f') ? "family" : "exact");
        assert_int_equal(integer(entry, "min_driver_version"), k->min_driver);
        assert_int_equal(integer(entry, "abi_version"), k->abi_version);
        assert_int_equal(integer(entry, "stages"), k->stages);
        assert_int_equal(integer(member(entry, "tile"), "m"), k->tile_m);
        assert_int_equal(integer(member(entry, "tile"), "n"), k->tile_n);
        assert_int_equal(integer(member(entry, "tile"), "k"), k->tile_k);
        assert_int_equal(json_integer_value(json_array_get(member(launch, "block"), 0)),
                         k->threads);
        assert_int_equal(integer(launch, "cluster"), k->cluster);
        assert_int_equal(integer(launch, "dynamic_shared_bytes"), k->shared_bytes);
        if (k->algorithm == PTXMM_SPLIT)
            assert_int_equal(integer(launch, "least_shared_bytes"),
                             k->shared_bytes - (k->stages - 4) * (k->tile_m + k->tile_n) * 128);
        assert_string_equal(string(member(entry, "types"), "accumulator"),
                            type_name(k->accumulator));
        assert_int_equal(truth(entry, "deterministic"), k->deterministic != 0);
        assert_int_equal(truth(entry, "batch_invariant"), k->batch_invariant != 0);
        assert_non_null(member(entry, "precision"));
        assert_non_null(member(entry, "constraints"));
        assert_int_equal(integer(cubin, "bytes"), image.size);
        assert_string_equal(string(cubin, "sha256"), image.sha256);
        assert_int_equal(strlen(image.sha256), 64);

        json_t *box = member(member(member(entry, "tensor_maps"), "map_a"), "box_dim");
        assert_int_equal(json_integer_value(json_array_get(box, 1)), k->tile_m / k->cluster);

        char path[256];
        snprintf(path, sizeof path, "out/%s", string(cubin, "file"));
        unsigned char *bytes = read_whole(path, &size);
        assert_int_equal(size, image.size);
        assert_memory_equal(bytes, image.bytes, size);
        free(bytes);
        json_t *ptx = member(entry, "ptx");
        if (json_is_object(ptx)) {
            snprintf(path, sizeof path, "out/%s", string(ptx, "file"));
            bytes = read_whole(path, &size);
            assert_int_equal(size, integer(ptx, "bytes"));
            assert_non_null(strstr((char *)bytes, k->name));
            free(bytes);
        }
    }

    /* The fields cover the argument block, in order, without a gap. */
    json_t *arguments = member(manifest, "arguments"), *field;
    long long at = 0;
    size_t i;
    json_array_foreach(member(arguments, "fields"), i, field) {
        assert_int_equal(integer(field, "offset"), at);
        at += integer(field, "bytes");
    }
    assert_int_equal(at, sizeof(struct ptxmm_gemm_args));
    assert_int_equal(integer(arguments, "bytes"), at);
    assert_int_equal(integer(arguments, "alignment"), 64);
    json_decref(manifest);
}

static int visible_files(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return count;
}

static void export_respects_what_is_there(void **state)
{
    (void)state;
    if (no_images())
        skip();
    child_expect("export twice --arch sm90", 0, "twice: ");
    const int files = visible_files("twice");
    child_refuses("export twice", 2, "twice is not empty, must be, or --force given");
    write_whole("twice/mine.txt", "mine", 4);
    write_whole("twice/manifest.json", "old", 3);
    child_expect("export twice --arch sm90 --force", 0, "twice: ");
    assert_int_equal(visible_files("twice"), files + 1); /* nothing temporary is left */
    size_t size;
    char *text = (char *)read_whole("twice/mine.txt", &size);
    assert_string_equal(text, "mine");
    free(text);
    text = (char *)read_whole("twice/manifest.json", &size);
    json_t *manifest = json_loads(text, 0, NULL);
    assert_non_null(manifest);
    json_decref(manifest);
    free(text);
    child_expect("export --arch sm100 hundred", 0, "hundred: ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_words_get_one_line),
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(options_before_the_command),
        cmocka_unit_test(a_full_disk_is_noticed),
        cmocka_unit_test(kernels_are_those_of_the_library),
        cmocka_unit_test(plan_knows_its_arithmetic),
        cmocka_unit_test(plan_gives_reasons),
        cmocka_unit_test(plan_text_agrees_with_json),
        cmocka_unit_test(plan_with_constants),
        cmocka_unit_test(plan_with_workspace),
        cmocka_unit_test(plan_with_a_launch),
        cmocka_unit_test(plan_takes_any_size),
        cmocka_unit_test(model_gives_the_known_values),
        cmocka_unit_test(the_drawing_agrees_with_the_library),
        cmocka_unit_test(the_drawing_shows_every_slice),
        cmocka_unit_test(the_manifest_is_the_library),
        cmocka_unit_test(export_respects_what_is_there),
    };
    return cmocka_run_group_tests_name("cli_command", tests, child_setup, child_clean);
}
