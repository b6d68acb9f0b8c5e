/* cli_run.c -- `ptxmm run` and `ptxmm verify` on a driver that multiplies on the CPU, and the .npy
 * files they take. */
#define _GNU_SOURCE
#include "cli_child.h"

#include <math.h>
#include <sys/stat.h>

#include "cli/check.h"
#include "cli/npy.h"

/* ---- .npy files made by hand ---- */

/* A version-1 file with this dictionary and these elements. Returns its size. */
static size_t make_npy(unsigned char *to, const char *dictionary, const void *data, size_t bytes)
{
    const size_t length = strlen(dictionary) + 1;
    memcpy(to, "\x93NUMPY\x01\x00", 8);
    to[8] = (unsigned char)(length & 255);
    to[9] = (unsigned char)(length >> 8);
    memcpy(to + 10, dictionary, length - 1);
    to[10 + length - 1] = '\n';
    memcpy(to + 10 + length, data, bytes);
    return 10 + length + bytes;
}

static void write_npy(const char *path, const char *descr, int64_t rows, int64_t cols,
                      const void *data, size_t bytes)
{
    char dictionary[128];
    unsigned char *file = malloc(bytes + 256);
    assert_non_null(file);
    snprintf(dictionary, sizeof dictionary,
             "{'descr': '%s', 'fortran_order': False, 'shape': (%lld, %lld), }", descr,
             (long long)rows, (long long)cols);
    write_whole(path, file, make_npy(file, dictionary, data, bytes));
    free(file);
}

static struct npy read_npy(const char *path)
{
    struct npy x;
    char error[256];
    if (!npy_read(path, &x, error, sizeof error))
        fail_msg("%s", error);
    return x;
}

static void read_refuses(const char *path, const char *words)
{
    struct npy x;
    char error[256];
    assert_false(npy_read(path, &x, error, sizeof error));
    assert_null(x.data);
    if (strncmp(error, path, strlen(path)) || !strstr(error, words) || strchr(error, '\n'))
        fail_msg("%s: \"%s\", must say \"%s\"", path, error, words);
}

static void npy_headers(void **state)
{
    (void)state;
    static const float four[4] = { 1, 2, 3, 4 };
    static const struct {
        const char *dictionary, *words; /* NULL: fine */
        size_t bytes;
    } cases[] = {
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", NULL, 16 },
        { "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 4), }", NULL, 16 },
        { "{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"<f4\"}", NULL, 16 },
        { "  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 2 , 2 ) }  ", NULL, 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5), }", NULL, 0 },
        { "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }",
          "is in Fortran order, must be in C order", 16 },
        { "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 1), }",
          "type <f8, must hold float32 (<f4) or float16", 16 },
        { "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2), }", "type >f4, must hold",
          16 },
        { "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }", "type <i4, must hold",
          16 },
        { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2), }", "holds records",
          16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
          "has 1 dimension, must have 2", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (), }",
          "has 0 dimensions, must have 2", 4 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2), }",
          "has 3 dimensions, must have 2", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2), }",
          "shape is not a list of numbers", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2",
          "shape is not a list of numbers", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': [2, 2], }",
          "without a shape in parentheses", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 99999999999999999999), }",
          "2^63 or more", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
          "more than memory can hold", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
          "has 16 bytes of data, must have 24", 16 },
        { "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }",
          "has 16 bytes of data, must have 8", 16 },
        { "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 2), }", "neither True nor False",
          16 },
        { "{'descr': '<f4', 'shape': (2, 2), }", "without fortran_order", 16 },
        { "{'fortran_order': False, 'shape': (2, 2), }", "without descr", 16 },
        { "{'descr': '<f4', 'fortran_order': False, }", "without shape", 16 },
        { "", "without descr", 16 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char file[512];
        const size_t size = make_npy(file, cases[i].dictionary, four, cases[i].bytes);
        write_whole("h.npy", file, size);
        if (cases[i].words) {
            read_refuses("h.npy", cases[i].words);
            continue;
        }
        struct npy x = read_npy("h.npy");
        if (cases[i].bytes && x.type == PTXMM_F32)
            assert_true(npy_get(&x, 0, 1) == 2 && npy_get(&x, 1, 0) == 3);
        npy_free(&x);
        /* Cut anywhere, it is refused. */
        for (size_t cut = 0; cut < size && cases[i].bytes; cut++) {
            write_whole("cut.npy", file, cut);
            read_refuses("cut.npy", "");
        }
    }
    read_refuses("/nonexistent.npy", "cannot be read: No such file");
    read_refuses(".", "cannot be read: Is a directory");
    write_whole("empty.npy", "", 0);
    read_refuses("empty.npy", "is not a .npy file");
    write_whole("text.npy", "hello, this is no array", 23);
    read_refuses("text.npy", "is not a .npy file");
    unsigned char file[512];
    size_t size = make_npy(file, cases[0].dictionary, four, 16);
    file[6] = 9;
    write_whole("version.npy", file, size);
    read_refuses("version.npy", "version 9, must be 1, 2 or 3");
    file[6] = 1;
    file[20] = 0;
    write_whole("zero.npy", file, size);
    read_refuses("zero.npy", "zero byte");

    /* Version 2 has a longer length. */
    size = make_npy(file, cases[0].dictionary, four, 16);
    unsigned char second[512];
    memcpy(second, file, 10);
    second[6] = 2;
    second[10] = second[11] = 0;
    memcpy(second + 12, file + 10, size - 10);
    write_whole("second.npy", second, size + 2);
    struct npy x = read_npy("second.npy");
    npy_free(&x);
}

/* Bytes changed at random: it is read or refused in one line, and never more is read than there is.
 */
static void npy_survives_damage(void **state)
{
    (void)state;
    static const float data[12] = { 1, 2, 3 };
    unsigned char good[512];
    const size_t size = make_npy(
        good, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }", data, sizeof data);
    int read = 0;
    for (uint64_t i = 0; i < 4000; i++) {
        unsigned char file[512];
        memcpy(file, good, size);
        const int64_t changes = random_range(77, 8 * i, 1, 3);
        for (int64_t j = 0; j < changes; j++)
            file[random_range(77, 8 * i + 1 + 2 * (uint64_t)j, 0, (int64_t)size - 1)] =
                (unsigned char)random_u64(77, 8 * i + 2 + 2 * (uint64_t)j);
        const size_t cut = i % 4 ? size : (size_t)random_range(77, 8 * i + 7, 0, (int64_t)size);
        write_whole("damaged.npy", file, cut);
        struct npy x;
        char error[256];
        if (npy_read("damaged.npy", &x, error, sizeof error)) {
            read++;
            for (int64_t e = 0; e < x.rows * x.cols; e++)
                (void)npy_get(&x, e / x.cols, e % x.cols);
            npy_free(&x);
        } else
            assert_true(!strncmp(error, "damaged.npy ", 12) && !strchr(error, '\n'));
    }
    assert_true(read > 100 && read < 3900);
}

static void npy_round_trip(void **state)
{
    (void)state;
    for (enum ptxmm_type type = PTXMM_BF16; type <= PTXMM_F32; type++) {
        struct matrix x;
        char error[256];
        assert_true(matrix_create(&x, type, 37, 21, 24, MATRIX_OUTPUT));
        matrix_fill(&x, FILL_SPECIALS, 3, STREAM_A);
        matrix_set(&x, 3, 4, NAN);
        matrix_set(&x, 5, 6, -HUGE_VAL);
        assert_true(npy_write("t.npy", &x, error, sizeof error));
        struct npy back = read_npy("t.npy");
        assert_int_equal(back.type, type == PTXMM_F16 ? PTXMM_F16 : PTXMM_F32);
        assert_true(back.rows == 37 && back.cols == 21);
        for (int64_t i = 0; i < 37 * 21; i++) {
            const double a = matrix_get(&x, i / 21, i % 21), b = npy_get(&back, i / 21, i % 21);
            assert_true(isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b));
        }
        npy_free(&back);
        assert_false(npy_write("/nonexistent/t.npy", &x, error, sizeof error));
        assert_non_null(strstr(error, "/nonexistent/t.npy cannot be written"));
        assert_false(npy_write("/dev/full", &x, error, sizeof error));
        matrix_destroy(&x);
    }
    size_t size;
    unsigned char *file = read_whole("t.npy", &size);
    assert_int_equal(size, 128 + 37 * 21 * 4); /* data begin at a multiple of 64, as NumPy wants */
    free(file);
}

/* ---- run ---- */

static void run_is_right_with(const char *options, const char *says)
{
    char words[256];
    snprintf(words, sizeof words, "run " DRIVER "%s", options);
    child_expect(words, 0, "check    right");
    child_check(words, 0, child.out, says);
}

static void run_is_right(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "--m 100 --n 101 --k 300",
        "--m 1 --n 1 --k 1",
        "--m 129 --n 257 --k 65 --type f16",
        "--m 64 --n 70 --k 50 --out-type f32",
        "--m 64 --n 70 --k 50 --type f16 --out-type f32 --alpha 0.5 --beta -2",
        "--m 30 --n 40 --k 0",
        "--m 0 --n 40 --k 8",
        "--m 40 --n 0 --k 8",
        "--m 64 --n 64 --k 64 --lda 72 --ldb 80 --ldd 88",
        "--m 70 --n 60 --k 90 --kernel sm90_gemm_bf16_128x256",
        "--m 300 --n 60 --k 90 --sms 1",
        "--m 8 --n 9 --k 40000 --kernel sm90_gemm_bf16_8x64_split",
        "--m 8 --n 9 --k 40000 --workspace 0 --kernel sm90_gemm_bf16_8x64_split",
        "--m 50 --n 60 --k 70 --alpha 0 --beta 1",
        "--m 33 --n 44 --k 55 --repeat 3 --seed 99",
        "--m 33 --n 44 --k 55 --repeat 3 --constant ab",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        run_is_right_with(cases[i], NULL);
        snprintf(words, sizeof words, "run --json " DRIVER "%s", cases[i]);
        json_t *run = child_json(words, 0);
        assert_true(truth(run, "right"));
        assert_true(truth(member(run, "check"), "right"));
        assert_int_equal(integer(member(run, "check"), "wrong"), 0);
        assert_false(truth(member(run, "device"), "emulator"));
        json_decref(run);
    }
    /* The planted clock: every launch lasts half a millisecond. */
    json_t *run = child_json("run --json " DRIVER "--m 100 --n 100 --k 100 --repeat 7", 0),
           *time = member(run, "time");
    assert_true(number(time, "median_seconds") == 0.5e-3 && integer(time, "launches") == 7);
    assert_true(fabs(number(time, "tflops") - 2e6 / 0.5e-3 * 1e-12) < 1e-9);
    json_decref(run);
}

/* One kernel for both 16-bit types: what the argument block says of them is right. */
static void run_on_sm100(void **state)
{
    (void)state;
    static const char *const cases[] = { "--type bf16", "--type f16", "--type f16 --out-type bf16",
                                         "--type bf16 --out-type f32" };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        snprintf(words, sizeof words, "run " DRIVER "--m 130 --n 70 --k 90 %s", cases[i]);
        child_run_with(NULL, "100", words);
        child_check(words, 0, child.out, "check    right");
        child_check(words, 0, child.out, "kernel   sm100_");
    }
    child_run_with(NULL, "100", "verify " DRIVER "--kernel sm100_gemm_16bit_128x256");
    child_check("verify", 0, child.out, "32 of 32 products right");
}

static void run_depends_on_the_seed_alone(void **state)
{
    (void)state;
    size_t size[3];
    unsigned char *d[3];
    child_expect("run " DRIVER "--m 30 --n 40 --k 50 --seed 5 --out d0.npy", 0, "right");
    child_expect("run " DRIVER
                 "--m 30 --n 40 --k 50 --seed 5 --out d1.npy --lda 64 --ldb 72 --ldd 48",
                 0, "right");
    child_expect("run " DRIVER "--m 30 --n 40 --k 50 --seed 6 --out d2.npy", 0, "right");
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "d%d.npy", i);
        d[i] = read_whole(name, &size[i]);
    }
    assert_true(size[0] == size[1] && size[0] == size[2]);
    assert_memory_equal(d[0], d[1], size[0]);
    assert_memory_not_equal(d[0], d[2], size[0]);
    for (int i = 0; i < 3; i++)
        free(d[i]);
}

/* Batches: behind one another, beside one another, shared; and what is wrong in one of them. */
static void run_batches(void **state)
{
    (void)state;
    static const char *const right[] = {
        "--m 40 --n 30 --k 50 --batch 3",
        "--m 40 --n 30 --k 50 --batch 3 --stride-a 0 --beta 1 --stride-c 0",
        "--m 40 --n 30 --k 50 --batch 3 --stride-b 4000 --stride-d 2000 --beta -1",
        "--m 40 --n 30 --k 50 --batch 3 --lda 168 --stride-a 56 --ldd 96 --stride-d 32",
        "--m 40 --n 30 --k 0 --batch 2",
        "--m 40 --n 30 --k 50 --batch 1 --stride-d 8",
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        run_is_right_with(right[i], " times D[40,30]");
    child_expect("run " DRIVER "--m 40 --n 30 --k 50 --batch 0", 0, "kernel   none");
    json_t *run = child_json("run --json " DRIVER
                             "--m 100 --n 100 --k 100 --batch 4 --stride-b 0 --repeat 2",
                             0);
    json_t *problem = member(run, "problem");
    assert_true(integer(problem, "batch") == 4 && number(problem, "flops") == 8e6);
    assert_int_equal(integer(member(problem, "a"), "batch_stride"), 100 * 104);
    assert_int_equal(integer(member(problem, "b"), "batch_stride"), 0);
    assert_int_equal(integer(member(run, "check"), "elements"), 4 * 100 * 100);
    json_decref(run);

    static const struct {
        const char *fault, *strides, *words;
    } wrong[] = {
        { "element", "", "3 are wrong; first at matrix 0 [50, 50]" },
        { "before", "", "memory around D was written: 1 byte before the matrix" },
        { "padding", "", "written: what is not D at row 50, column 101 of matrix 0 (of 100 x 101" },
        { "behind", "--stride-d 20000", "memory around D was written: 1 byte behind the last row" },
        { "padding", "--ldd 320 --stride-d 104",
          "written: what is not D at row 50, column 101 of matrix 0" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char words[256];
        snprintf(words, sizeof words, "run " DRIVER "--m 100 --n 101 --k 30 --batch 3 %s",
                 wrong[i].strides);
        child_run_with(wrong[i].fault, NULL, words);
        child_check(words, 1, child.out, wrong[i].words);
    }
    child_refuses("run " DRIVER "--m 40 --n 30 --k 50 --stride-a 0", 2,
                  "--stride-a is given without --batch, must come with it");
    child_refuses("run " DRIVER "--m 40 --n 30 --k 50 --batch 2 --stride-d 1000", 2,
                  "problem.d.batch_stride is 1000, must be at least 1278");
    child_refuses("run " DRIVER "--m 40 --n 30 --k 50 --batch 2 --stride-d 0", 2,
                  "problem.d.batch_stride is 0, must be at least 1278");
    child_refuses("run " DRIVER "--m 40 --n 30 --k 50 --batch 2 --stride-a 8", 2,
                  "the matrices A are 8 elements apart, must be at least");
    child_refuses("run " DRIVER "--m 40 --n 30 --k 50 --batch 2 --stride-b 2804", 2,
                  "b.batch_stride is 5608 bytes, must be a multiple of 16");
    child_refuses("run " DRIVER "--batch 2 --a A.npy --b B.npy", 2,
                  "--batch is given with --a, must be left away");
    child_refuses("run " DRIVER "--m 4 --n 4 --k 4 --batch 2 --out D.npy", 2,
                  "--batch is given with --out, must be left away");
    child_refuses("run " DRIVER "--m 4 --n 4 --k 4 --batch x", 2, "--batch is \"x\"");
}

/* What a kernel may get wrong, and what the command says: exit code and words. */
static void run_catches_planted_errors(void **state)
{
    (void)state;
    static const struct {
        const char *fault;
        int code;
        bool printed; /* on stdout as a result, or on stderr */
        const char *words;
    } cases[] = {
        { "element", 1, true, "1 is wrong; first at [50, 50]" },
        { "nan", 1, true, "first at [50, 50]: expected" },
        { "skip", 1, true, "got nan" },
        { "swap", 1, true, "202 are wrong; first at [0, 0]" },
        { "before", 1, true, "memory around D was written: 1 byte before the matrix" },
        { "behind", 1, true, "memory around D was written: 1 byte behind the last row" },
        { "padding", 1, true, "memory around D was written: the padding of row 50 at column 101" },
        { "flaky", 1, true, "the launches gave different bits" },
        { "launch", 3, false, "CUDA_ERROR_LAUNCH_FAILED" },
        { "wait", 3, false, "CUDA_ERROR_LAUNCH_FAILED" },
        { "memory", 3, false, "CUDA_ERROR_OUT_OF_MEMORY" },
        { "nodevice", 3, false, "device 0 does not exist: the driver has 0 devices" },
    };
    const char *words = "run " DRIVER "--m 100 --n 101 --k 300 --repeat 2";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        child_run_with(cases[i].fault, NULL, words);
        child_check(words, cases[i].code, cases[i].printed ? child.out : child.err, cases[i].words);
        assert_true(cases[i].printed ? !*child.err : !*child.out);
        if (!cases[i].printed)
            continue;
        child_run_with(cases[i].fault, NULL,
                       "run --json " DRIVER "--m 100 --n 101 --k 300 --repeat 2");
        json_t *run = json_loads(child.out, 0, NULL);
        assert_non_null(run);
        assert_int_equal(child.code, 1);
        assert_false(truth(run, "right"));
        json_decref(run);
    }
    child_run_with(NULL, "121", words);
    child_check(words, 3, child.err, "121");
    child_run_with(NULL, NULL, "run --device 1 " DRIVER "--m 1 --n 1 --k 1");
    child_check(words, 3, child.err, "device 1 does not exist: the driver has 1 device");
}

static void run_refuses_what_no_kernel_can(void **state)
{
    (void)state;
    child_refuses("run " DRIVER "--m 64 --n 64 --k 64 --lda 65", 2, "a.ld");
    child_refuses("run " DRIVER "--m 64 --n 64 --k 64 --type f16 --kernel sm90_gemm_bf16_128x128",
                  2, "a.type");
    child_refuses("run " DRIVER "--m 4000000000000000 --n 4000000000000000 --k 8", 2,
                  "more than host memory has");
}

/* A x B with small integers, by hand: A is M x K and B is K x N, as they are written on paper. */
enum { M = 5, N = 3, K = 4 };

static void small_product(float a[M * K], float b[K * N], float d[M * N])
{
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 5 - 1);
    for (int i = 0; i < M * N; i++) {
        d[i] = 0;
        for (int k = 0; k < K; k++)
            d[i] += a[i / N * K + k] * b[k * N + i % N];
    }
}

static void run_takes_arrays(void **state)
{
    (void)state;
    float a[M * K], b[K * N], c[M * N], expected[M * N];
    small_product(a, b, expected);
    for (int i = 0; i < M * N; i++)
        c[i] = (float)i;
    write_npy("a.npy", "<f4", M, K, a, sizeof a);
    write_npy("b.npy", "<f4", K, N, b, sizeof b);
    write_npy("c.npy", "<f4", M, N, c, sizeof c);
    uint16_t a16[M * K], b16[K * N];
    for (int i = 0; i < M * K; i++)
        a16[i] = f16_from_double((double)a[i]);
    for (int i = 0; i < K * N; i++)
        b16[i] = f16_from_double((double)b[i]);
    write_npy("a16.npy", "<f2", M, K, a16, sizeof a16);
    write_npy("b16.npy", "<f2", K, N, b16, sizeof b16);

    static const struct {
        const char *words;
        enum ptxmm_type out;
        float alpha, beta;
        const char *says;
    } cases[] = {
        { "--a a.npy --b b.npy", PTXMM_F32, 1, 0,
          "bf16 x bf16 -> f32 -> bf16; A from a.npy, B from b.npy" },
        { "--a a.npy --b b.npy --type f16", PTXMM_F16, 1, 0, "f16 x f16 -> f32 -> f16" },
        { "--a a16.npy --b b16.npy", PTXMM_F16, 1, 0, "f16 x f16 -> f32 -> f16" },
        { "--a a16.npy --b b.npy --out-type f32", PTXMM_F32, 1, 0, "bf16 x bf16 -> f32 -> f32" },
        { "--a a.npy --b b.npy --c c.npy", PTXMM_F32, 1, 1, "+ C" },
        { "--a a.npy --b b.npy --c c.npy --alpha 2 --beta 0.5", PTXMM_F32, 2, 0.5F, "+ C" },
        { "--a a.npy --b b.npy --m 5 --n 3 --k 4", PTXMM_F32, 1, 0, "D[5,3] = A[5,4] B[4,3]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        snprintf(words, sizeof words, "run " DRIVER "%s --out d.npy", cases[i].words);
        child_expect(words, 0, cases[i].says);
        struct npy d = read_npy("d.npy");
        assert_true(d.type == cases[i].out && d.rows == M && d.cols == N);
        for (int e = 0; e < M * N; e++)
            assert_true(npy_get(&d, e / N, e % N) ==
                        (double)(cases[i].alpha * expected[e] + cases[i].beta * c[e]));
        npy_free(&d);
        unlink("d.npy");
    }

    write_npy("wide.npy", "<f4", 5, 3, a, 60);
    write_npy("double.npy", "<f8", 2, 2, a, 32);
    child_refuses("run --a a.npy", 2, "--a is given without --b, must come with it");
    child_refuses("run --b a.npy", 2, "--b is given without --a");
    child_refuses(
        "run --a a.npy --b wide.npy", 2,
        "a.npy is 5 x 4 and wide.npy is 5 x 3: the 4 columns of A must equal the 5 rows of B");
    child_refuses("run --a a.npy --b b.npy --m 6", 2,
                  "--m is 6, must be 5 as in a.npy, or left away");
    child_refuses("run --a a.npy --b b.npy --n 6", 2, "--n is 6, must be 3 as in b.npy");
    child_refuses("run --a a.npy --b b.npy --c a.npy", 2, "a.npy is 5 x 4, must be 5 x 3 like D");
    child_refuses("run --a double.npy --b b.npy", 2, "double.npy holds elements of type <f8");
    child_refuses("run --a nosuch.npy --b b.npy", 2, "nosuch.npy cannot be read");
    child_run("run " DRIVER "--a a.npy --b b.npy --out /nonexistent/d.npy");
    child_check("run --out", 2, child.err, "/nonexistent/d.npy cannot be written");
}

/* NaN and infinity of the user's own are no errors. */
static void run_follows_nan(void **state)
{
    (void)state;
    float a[64 * 64], b[64 * 64];
    for (int i = 0; i < 64 * 64; i++) {
        a[i] = (float)(i % 11) - 5;
        b[i] = (float)(i % 13) - 6;
    }
    a[70] = NAN;
    b[200] = INFINITY;
    write_npy("na.npy", "<f4", 64, 64, a, sizeof a);
    write_npy("nb.npy", "<f4", 64, 64, b, sizeof b);
    child_expect("run " DRIVER "--a na.npy --b nb.npy --out nd.npy", 0, "right");
    struct npy d = read_npy("nd.npy");
    for (int i = 0; i < 64; i++)
        assert_true(isnan(npy_get(&d, 1, i)));
    npy_free(&d);
}

/* ---- the emulator ---- */

static void need_emulator(void)
{
    char path[2200];
    snprintf(path, sizeof path, "%s/../lib/libptxmm_emulator.so", child_folder);
    if (access(path, R_OK))
        skip();
}

/* The word alone finds the library and the kernels' text; time is said not to be a GPU's. */
static void the_emulator_is_found(void **state)
{
    (void)state;
    need_emulator();
    child_expect("devices --driver emulator", 0, "emulator");
    child_expect("run --driver emulator --m 130 --n 70 --k 100", 0, "says nothing about a GPU");
    json_t *run = child_json("run --json --driver emulator --m 130 --n 70 --k 100 --type f16", 0);
    assert_true(truth(run, "right") && truth(member(run, "device"), "emulator"));
    assert_true(truth(member(run, "time"), "of_the_emulator"));
    assert_true(json_is_null(member(member(run, "time"), "tflops")));
    assert_int_equal(integer(member(run, "time"), "launches"), 1);
    json_decref(run);
    child_expect("run --driver emulator --arch sm100 --m 130 --n 70 --k 100", 0, "sm100_gemm_16bit");
    child_run_with(NULL, NULL, "run " DRIVER "--arch sm100 --m 8 --n 8 --k 8");
    assert_int_equal(child.code, 3);
    assert_non_null(strstr(child.err, "--arch is sm100, but device 0 is sm_90"));
}

/* Small integers as e4m3 and e5m2, by hand; and each kind of sum where it is asked for. */
static void the_emulator_multiplies_fp8(void **state)
{
    (void)state;
    float a[M * K], b[K * N], expected[M * N];
    need_emulator();
    small_product(a, b, expected);
    write_npy("a8.npy", "<f4", M, K, a, sizeof a);
    write_npy("b8.npy", "<f4", K, N, b, sizeof b);
    static const struct {
        const char *words, *says;
        enum ptxmm_type out;
    } cases[] = {
        { "--type e4m3 --b-type e5m2", "rounded to e4m3 and e5m2", PTXMM_F32 },
        { "--type e5m2 --out-type f16", "e5m2 x e5m2 -> f32 -> f16", PTXMM_F16 },
        { "--type e5m2 --b-type e4m3 --out-type f32", "_promoted", PTXMM_F32 },
        { "--type e4m3 --accumulate fast --kernel sm90_gemm_e4m3_e4m3_128x192",
          "e4m3 x e4m3 -> f32 -> bf16", PTXMM_F32 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[256];
        snprintf(words, sizeof words, "run --driver emulator --a a8.npy --b b8.npy %s --out d8.npy",
                 cases[i].words);
        child_expect(words, 0, cases[i].says);
        struct npy d = read_npy("d8.npy");
        assert_true(d.type == cases[i].out && d.rows == M && d.cols == N);
        for (int e = 0; e < M * N; e++)
            assert_true(npy_get(&d, e / N, e % N) == (double)expected[e]);
        npy_free(&d);
    }
    child_refuses("run --driver emulator --m 8 --n 8 --k 8 --type e4m3 --kernel "
                  "sm90_gemm_e4m3_e4m3_128x256",
                  2, "accumulate is DEFAULT, must be FAST");
}

/* A PTX file that says how to run itself; what it expects holds, or not, or it traps. */
static void ptx_files_are_emulated(void **state)
{
    (void)state;
    need_emulator();
    static const char body[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".visible .entry k(.param .u64 a) { .reg .b64 p; .reg .b32 x;\n"
                               "ld.param.u64 p, [a]; ld.global.u32 x, [p + 4]; add.u32 x, x, 1;\n"
                               "st.global.u32 [p], x; ret; }\n";
    static const struct {
        const char *head;
        int code;
        const char *words;
    } cases[] = {
        { "//run: grid 1 block 1\n//arg: a u32[2] = 41\n//expect: a[0] = 42\n", 0,
          "right    1 expectations hold" },
        { "//run: grid 1 block 1\n//arg: a u32[2] = 41\n", 0, "a        u32[2]: 42 41" },
        { "//run: grid 1 block 1\n//arg: a u32[2] = 41\n//expect: a[0] = 43\n", 1, "wrong" },
        { "//run: grid 1 block 1\n//arg: a u32[1] = 41\n//trap: BOUNDS\n", 0, "right    it traps" },
        { "//run: grid 1 block 1\n//arg: a u32[1] = 41\n", 1, "BOUNDS" },
        { "//run: grid 1 block 1\n//arg: a u32[2] = 41\n//trap: BOUNDS\n", 1, "ran to its end" },
        { "", 2, "there is no //run: line" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *f = fopen("k.ptx", "w");
        assert_non_null(f);
        fprintf(f, "%s%s", cases[i].head, body);
        fclose(f);
        child_run_with(NULL, NULL, "emulate k.ptx");
        if (child.code != cases[i].code ||
            !(strstr(child.out, cases[i].words) || strstr(child.err, cases[i].words)))
            fail_msg("case %zu: code %d\n%s%s", i, child.code, child.out, child.err);
    }
    child_run_with(NULL, NULL, "emulate /none/such.ptx");
    assert_int_equal(child.code, 2);
    assert_non_null(strstr(child.err, "/none/such.ptx cannot be read"));
    child_run_with(NULL, NULL, "emulate");
    assert_int_equal(child.code, 2);
    assert_non_null(strstr(child.err, "no file is given"));
}

/* Repeated launches are counted and compared there too. */
static void the_emulator_repeats(void **state)
{
    (void)state;
    need_emulator();
    json_t *run = child_json("run --json --driver emulator --m 64 --n 64 --k 64 --repeat 2", 0);
    assert_int_equal(integer(member(run, "time"), "launches"), 2);
    assert_true(truth(member(run, "time"), "repeats_equal"));
    json_decref(run);
    run = child_json("run --json --driver emulator --m 64 --n 64 --k 64 --repeat 2 --constant b", 0);
    assert_true(truth(run, "right") && truth(member(run, "time"), "repeats_equal"));
    assert_string_equal(string(member(run, "problem"), "constant"), "b");
    json_decref(run);
}

/* A kernel that announces more bytes than TMA delivers: the report names the place. */
static void the_emulators_report_is_printed(void **state)
{
    (void)state;
    need_emulator();
    char path[2300];
    size_t size;
    snprintf(path, sizeof path, "%s/../ptx/sm90_gemm_bf16_128x128.ptx", child_folder);
    char *text = (char *)read_whole(path, &size), *bytes = strstr(text, "expect_tx");
    assert_non_null(bytes);
    bytes = strchr(bytes, ',') + 1; /* behind the state, then behind the barrier */
    bytes = strchr(bytes, ',') + 1;
    char *broken = malloc(size + 16);
    assert_non_null(broken);
    const size_t head = (size_t)(bytes - text);
    memcpy(broken, text, head);
    memcpy(broken + head, " 128 +", 6);
    memcpy(broken + head + 6, text + head, size - head);
    mkdir("broken", 0777);
    write_whole("broken/sm90_gemm_bf16_128x128.ptx", broken, size + 6);
    free(broken);
    free(text);
    const char *words = "run --driver emulator --ptx-dir broken --m 64 --n 64 --k 64 "
                        "--kernel sm90_gemm_bf16_128x128";
    child_run(words);
    child_check(words, 3, child.err, "DEADLOCK");
    child_check(words, 3, child.err, "128 bytes outstanding");
    assert_false(*child.out);
}

/* ---- devices and verify ---- */

/* A file of choices decides for its product and device, and for no other; what is wrong with one is said. */
static void run_takes_choices(void **state)
{
    (void)state;
#define CHOICE(members) "{ \"device\": \"test device\", \"m\": 64, \"n\": 128, \"k\": 96, " members " }"
#define BF16 "\"a\": \"bf16\", \"b\": \"bf16\", \"d\": \"bf16\""
    static const char right[] = "{ \"schema\": 1, \"choices\": [ "
        CHOICE(BF16 ", \"batch\": 1, \"accumulate\": \"fast\", \"kernel\": \"sm90_gemm_bf16_128x192\", \"us\": 4.5") ", "
        CHOICE("\"a\": \"f16\", \"b\": \"f16\", \"d\": \"f32\", \"kernel\": \"sm90_of_another_version\"") " ] }";
    write_whole("choices.json", right, sizeof right - 1);
    child_expect("run " DRIVER "--m 64 --n 128 --k 96 --choices choices.json", 0, "sm90_gemm_bf16_128x192");
    child_expect("run " DRIVER "--m 64 --n 128 --k 96 --kernel sm90_gemm_bf16_128x64 --choices choices.json", 0,
                 "sm90_gemm_bf16_128x64");
    static const char launch[] = "{ \"schema\": 1, \"choices\": [ "
        CHOICE(BF16 ", \"kernel\": \"sm90_gemm_bf16_128x64_multicast\", \"cluster\": 4, \"cluster_rows\": 2, \"groups\": 2") " ] }";
    write_whole("launch.json", launch, sizeof launch - 1);
    child_expect("run " DRIVER "--m 64 --n 128 --k 96 --choices launch.json", 0, "loads shared by 2x2 tiles, K over 2 groups");
    child_expect("run " DRIVER "--m 64 --n 128 --k 96 --choices launch.json --groups 1 --cluster 2 --cluster-rows 1", 0,
                 "loads shared by 1x2 tiles");
    child_run("run " DRIVER "--m 64 --n 128 --k 104 --choices choices.json");
    assert_int_equal(child.code, 0);
    assert_null(strstr(child.out, "128x192"));
    child_expect("run " DRIVER "--m 64 --n 128 --k 96 --type f16 --out-type f32 --choices choices.json", 0, "sm90_gemm_f16_f32_");

    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "{", "choices.json: line 1: " },
        { "[]", "choices.json: \"schema\" must be 1, with an array \"choices\"" },
        { "{ \"schema\": 2, \"choices\": [] }", "\"schema\" must be 1" },
        { "{ \"schema\": 1, \"choices\": {} }", "with an array \"choices\"" },
        { "{ \"schema\": 1, \"choices\": [ 7 ] }", "choices[0].device must be a name of 1 to 63 characters" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE(BF16) " ] }", "choices[0].kernel must be a name" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"a\": \"s8\"") " ] }",
          "choices[0].a must be bf16, f16, f32, e4m3 or e5m2" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"batch\": 1.5, " BF16) " ] }",
          "choices[0].batch must be a whole number of at least 0" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"cluster\": 5, " BF16) " ] }",
          "choices[0].cluster must be 0, 1, 2, 3, 4 or 8" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"cluster\": 2, \"cluster_rows\": 4, " BF16) " ] }",
          "choices[0].cluster_rows must be 0, 1, 2, 4 or 8, and divide the cluster" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"groups\": \"2\", " BF16) " ] }",
          "choices[0].groups must be a whole number of at least 0" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"groups\": 65, " BF16) " ] }",
          "choices[0].groups must be from 0 to 64" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"stages\": 3, " BF16) " ] }",
          "choices[0].stages must be 0 or from 4 to 64" },
        { "{ \"schema\": 1, \"choices\": [ " CHOICE("\"kernel\": \"x\", \"accumulate\": \"slow\", " BF16) " ] }",
          "choices[0].accumulate must be default or fast" },
        { "{ \"schema\": 1, \"choices\": [ { \"device\": \"d\", \"kernel\": \"x\", \"m\": 1, \"n\": 0, \"k\": 1, " BF16 " } ] }",
          "choices[0].n must be a whole number of at least 1" },
        { "{ \"schema\": 1, \"choices\": [ { \"device\": \"d\", \"kernel\": \"x\", \"m\": 1, \"k\": 1, " BF16 " } ] }",
          "choices[0].n must be a whole number" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_whole("choices.json", wrong[i].text, strlen(wrong[i].text));
        child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices choices.json", 2, wrong[i].words);
    }
    /* What was no JSON is quoted, on one line and without what steers terminals. */
    static const char steers[] = "{ \"schema\": \"a\nb";
    write_whole("choices.json", steers, sizeof steers - 1);
    child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices choices.json", 2, "choices.json: line 1: ");
    write_whole("choices.json", "\033[31m", 5);
    child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices choices.json", 2, "choices.json: line 1: ");
    assert_null(strchr(child.err, '\033'));
    child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices none.json", 2, "none.json cannot be read: No such file");
    child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices .", 2, ". cannot be read: Is a directory");
    child_refuses("run " DRIVER "--m 64 --n 128 --k 96 --choices ''", 2, "--choices is \"\", must be the name of a file");
#undef CHOICE
#undef BF16
}

static void devices_are_listed(void **state)
{
    (void)state;
    child_expect("devices " DRIVER, 0, "test device");
    json_t *all = child_json("--json " DRIVER "devices", 0),
           *device = json_array_get(member(all, "devices"), 0);
    assert_string_equal(string(device, "name"), "test device");
    assert_true(integer(device, "arch") == 90 && integer(device, "sm_count") == 132);
    int made = 0;
    for (size_t i = 0; i < ptxmm_kernel_count(); i++)
        made += !strncmp(ptxmm_kernel(i)->target, "sm_90", 5);
    assert_int_equal(integer(device, "kernels"), made);
    json_decref(all);
    child_run_with("nodevice", NULL, "devices " DRIVER);
    assert_int_equal(child.code, 3);
}

static void verify_sweeps(void **state)
{
    (void)state;
    child_expect("verify " DRIVER "--kernel sm90_gemm_f16_128x128", 0, "products right");
    json_t *all = child_json("verify --json " DRIVER "--kernel sm90_gemm_bf16_f32_128x128", 0);
    assert_true(truth(all, "right"));
    assert_true(integer(all, "done") == integer(all, "products") && integer(all, "products") >= 14);
    assert_int_equal(json_array_size(member(all, "failures")), 0);
    assert_true(number(all, "max_error_in_tolerances") <= 1);
    json_decref(all);

    static const char *const faults[] = { "element", "nan", "skip", "before", "behind" };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        child_run_with(faults[i], NULL, "verify --json " DRIVER "--kernel sm90_gemm_bf16_128x128");
        all = json_loads(child.out, 0, NULL);
        assert_non_null(all);
        assert_int_equal(child.code, 1);
        assert_false(truth(all, "right"));
        /* before and behind are planted into the first launch alone */
        assert_int_equal(integer(all, "failed"), i < 3 ? integer(all, "products") : 1);
        assert_int_equal(json_array_size(member(all, "failures")), integer(all, "failed"));
        json_decref(all);
    }
    child_run_with("wait", NULL, "verify " DRIVER);
    child_check("verify", 1, child.out, "stopped, because the context is lost");
    child_run_with("element", NULL, "verify " DRIVER "--kernel sm90_gemm_bf16_128x128");
    child_check("verify", 1, child.out, "failures\n");
    child_check("verify", 1, child.out, "128x128x64");
    child_run_with(NULL, "121", "verify " DRIVER);
    child_check("verify", 3, child.err, "no kernel of the pack is made for the device, sm_121");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_headers),
        cmocka_unit_test(npy_survives_damage),
        cmocka_unit_test(npy_round_trip),
        cmocka_unit_test(run_is_right),
        cmocka_unit_test(run_on_sm100),
        cmocka_unit_test(run_depends_on_the_seed_alone),
        cmocka_unit_test(run_batches),
        cmocka_unit_test(run_catches_planted_errors),
        cmocka_unit_test(run_refuses_what_no_kernel_can),
        cmocka_unit_test(run_takes_arrays),
        cmocka_unit_test(run_follows_nan),
        cmocka_unit_test(run_takes_choices),
        cmocka_unit_test(the_emulator_is_found),
        cmocka_unit_test(the_emulator_multiplies_fp8),
        cmocka_unit_test(the_emulator_repeats),
        cmocka_unit_test(ptx_files_are_emulated),
        cmocka_unit_test(the_emulators_report_is_printed),
        cmocka_unit_test(devices_are_listed),
        cmocka_unit_test(verify_sweeps),
    };
    return cmocka_run_group_tests_name("cli_run", tests, child_setup, child_clean);
}
