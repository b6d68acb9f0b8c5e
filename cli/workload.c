/* workload.c -- seeded matrices with guard bands. */
#define _GNU_SOURCE
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parallel.h"

/* ---- random numbers ---- */

/* The finaliser of splitmix64: a bijection of 64 bits that passes for random on consecutive
 * counters. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

#define GOLDEN 0x9e3779b97f4a7c15u

uint64_t random_key(uint64_t seed, uint64_t stream)
{
    return mix(mix(seed + GOLDEN) + stream * GOLDEN);
}

uint64_t random_u64(uint64_t key, uint64_t counter)
{
    return mix(key + (counter + 1) * GOLDEN);
}

static int ones_in(uint64_t x)
{
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (int)(x * 0x0101010101010101u >> 56);
}

/* No logarithm or cosine, which differ between C libraries: 64 fair coins give a binomial with
 * standard deviation 4, and a triangle of width 2 between its steps makes it continuous. Variance
 * 16 + 1/6, excess kurtosis -0.03. */
double random_normal(uint64_t key, uint64_t counter)
{
    const uint64_t coins = random_u64(key, 2 * counter), noise = random_u64(key, 2 * counter + 1);
    const double triangle = ((double)(noise >> 32) + (double)(noise & 0xffffffffu)) * 0x1p-32 - 1.0;
    /* 1 / sqrt(16 + 1/6). */
    return ((double)(ones_in(coins) - 32) + triangle) * 0.24870949084662793;
}

int64_t random_range(uint64_t key, uint64_t counter, int64_t low, int64_t high)
{
    const uint64_t span = (uint64_t)high - (uint64_t)low + 1; /* 0: all 2^64 */
    const uint64_t x = random_u64(key, counter);
    if (span == 0)
        return (int64_t)x;
    /* Highest 64 bits of x * span; span is far below 2^32 everywhere here, so the bias is below
     * 2^-32. */
    const uint64_t high_part = (x >> 32) * span, low_part = (x & 0xffffffffu) * span;
    return span < 1u << 31 ? low + (int64_t)((high_part + (low_part >> 32)) >> 32)
                           : (int64_t)((uint64_t)low + x % span);
}

/* ---- element types ---- */

size_t type_bytes(enum ptxmm_type type)
{
    switch (type) {
    case PTXMM_BF16:
    case PTXMM_F16: return 2;
    case PTXMM_F32: return 4;
    case PTXMM_E4M3:
    case PTXMM_E5M2: return 1;
    default: return 0;
    }
}

bool type_is_fp8(enum ptxmm_type type)
{
    return type == PTXMM_E4M3 || type == PTXMM_E5M2;
}

static const char *const type_names[] = {
    [PTXMM_TYPE_NONE] = "none", [PTXMM_BF16] = "bf16", [PTXMM_F16] = "f16",
    [PTXMM_F32] = "f32",        [PTXMM_TF32] = "tf32", [PTXMM_E4M3] = "e4m3",
    [PTXMM_E5M2] = "e5m2",      [PTXMM_E2M3] = "e2m3", [PTXMM_E3M2] = "e3m2",
    [PTXMM_E2M1] = "e2m1",      [PTXMM_S8] = "s8",     [PTXMM_U8] = "u8",
    [PTXMM_S4] = "s4",          [PTXMM_S32] = "s32",   [PTXMM_UE8M0] = "ue8m0",
    [PTXMM_UE4M3] = "ue4m3",
};

const char *type_name(enum ptxmm_type type)
{
    if (type == PTXMM_BF16_OR_F16)
        return "bf16_or_f16";
    return (size_t)type < sizeof type_names / sizeof *type_names ? type_names[type] : "?";
}

bool type_parse(const char *text, enum ptxmm_type *type)
{
    for (enum ptxmm_type t = PTXMM_BF16; t <= PTXMM_E5M2; t++)
        if (type_bytes(t) && !strcmp(text, type_names[t])) {
            *type = t;
            return true;
        }
    return false;
}

bool constant_parse(const char *text, int *a, int *b)
{
    *a = *text == 'a';
    *b = text[*a] == 'b';
    return *text && !strcmp(text, constant_name(*a, *b));
}

const char *constant_name(int a, int b)
{
    return a && b ? "ab" : a ? "a" : b ? "b" : "";
}

/* Rounds x to a binary format with `exponent_bits` and `fraction_bits` and gives its bits: nearest
 * even, subnormals, infinity. Works on the integer form of the double, so there is exactly one
 * rounding. */
static uint32_t encode(double x, int exponent_bits, int fraction_bits)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 63) << (exponent_bits + fraction_bits);
    const int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & 0xfffffffffffffu;
    const uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    if (exponent == 0x7ff)
        return fraction ? infinity | ((1u << fraction_bits) - 1) : sign | infinity;
    if (exponent == 0)
        return sign; /* a double's subnormals are below every format's half of the smallest */

    fraction |= 1ull << 52;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    int target = exponent - 1023 + bias; /* biased exponent in the format */
    int drop = 52 - fraction_bits;       /* bits of the fraction to round away */
    if (target < 1) {                    /* subnormal: no hidden bit, more to drop */
        drop += 1 - target;
        target = 0;
        if (drop > 54)
            return sign;
    }
    uint64_t kept = fraction >> drop;
    const uint64_t rest = fraction & ((1ull << drop) - 1), half = 1ull << (drop - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    /* A carry out of the fraction lands in the exponent, which is right: also from subnormal to
     * normal and to infinity. */
    const uint64_t result = target ? ((uint64_t)(target - 1) << fraction_bits) + kept : kept;
    return result >= infinity ? sign | infinity : sign | (uint32_t)result;
}

uint16_t bf16_from_double(double x) { return (uint16_t)encode(x, 8, 7); }
uint16_t f16_from_double(double x) { return (uint16_t)encode(x, 5, 10); }
uint32_t f32_from_double(double x) { return encode(x, 8, 23); }

/* e5m2 has infinities, and three NaNs of each sign; e4m3 has one NaN of each sign behind its largest
 * number, and no infinity. Rounding a number leads to none of them. */
uint8_t e5m2_from_double(double x)
{
    const double most = 57344;
    if (isnan(x))
        return 0x7f;
    return (uint8_t)encode(isinf(x) ? x : x > most ? most : x < -most ? -most : x, 5, 2);
}

/* `encode` takes the exponent of all ones for infinity; with one bit more the number is exact there,
 * and the exponent bits above the format's own are zero. */
uint8_t e4m3_from_double(double x)
{
    const double most = 448, bounded = x > most ? most : x < -most ? -most : x;
    if (isnan(x))
        return 0x7f;
    /* With 5 exponent bits the bias is 15, not 7: 2^-8 makes up for it. */
    const uint32_t wide = encode(bounded * 0x1p-8, 5, 3);
    return (uint8_t)((wide >> 1 & 0x80) | (wide & 0x7f));
}

double f32_to_double(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

double bf16_to_double(uint16_t bits) { return f32_to_double((uint32_t)bits << 16); }

double f16_to_double(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                   fraction = bits & 1023;
    if (exponent == 31)
        return f32_to_double(sign | 0x7f800000 | fraction << 13);
    if (exponent)
        return f32_to_double(sign | (exponent + 127 - 15) << 23 | fraction << 13);
    const double magnitude = (double)fraction * 0x1p-24;
    return sign ? -magnitude : magnitude;
}

double e5m2_to_double(uint8_t bits)
{
    return f16_to_double((uint16_t)(bits << 8)); /* f16 with two fraction bits */
}

double e4m3_to_double(uint8_t bits)
{
    if ((bits & 0x7f) == 0x7f)
        return NAN;
    /* f16 with three fraction bits and a bias that is 8 more. */
    return f16_to_double((uint16_t)((bits & 0x80) << 8 | (bits & 0x7f) << 7)) * 0x1p8;
}

void type_store(enum ptxmm_type type, void *at, double x)
{
    if (type == PTXMM_F32) {
        const uint32_t bits = f32_from_double(x);
        memcpy(at, &bits, sizeof bits);
    } else if (type_is_fp8(type)) {
        *(uint8_t *)at = type == PTXMM_E4M3 ? e4m3_from_double(x) : e5m2_from_double(x);
    } else {
        const uint16_t bits = type == PTXMM_BF16 ? bf16_from_double(x) : f16_from_double(x);
        memcpy(at, &bits, sizeof bits);
    }
}

static inline double load_type(enum ptxmm_type type, const void *at)
{
    if (type == PTXMM_F32) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        return f32_to_double(bits);
    }
    if (type_is_fp8(type)) {
        const uint8_t byte = *(const uint8_t *)at;
        return type == PTXMM_E4M3 ? e4m3_to_double(byte) : e5m2_to_double(byte);
    }
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return type == PTXMM_BF16 ? bf16_to_double(bits) : f16_to_double(bits);
}

double type_load(enum ptxmm_type type, const void *at)
{
    return load_type(type, at);
}

double type_round(enum ptxmm_type type, double x)
{
    uint32_t bits;
    type_store(type, &bits, x);
    return type_load(type, &bits);
}

/* ---- matrices ---- */

/* 0xff is NaN in every type. The output pattern depends on the place, so that shifted copies show
 * as well. */
static unsigned char poison_byte(const struct matrix *x, size_t offset)
{
    return x->role == MATRIX_INPUT ? 0xff
                                   : (unsigned char)(offset * 0x9d + (offset >> 8) * 0x3b + 0x5c);
}

bool matrix_create(struct matrix *x, enum ptxmm_type type, int64_t rows, int64_t cols, int64_t ld,
                   enum matrix_role role)
{
    *x = (struct matrix){ .type = type, .role = role, .rows = rows, .cols = cols,
                          .ld = ld ? ld : cols, .size = type_bytes(type), .guard = MATRIX_GUARD };
    if (rows < 0 || cols < 0 || x->ld < cols || x->size == 0)
        return false;
    int64_t elements;
    if (__builtin_mul_overflow(rows, x->ld, &elements) || elements > INT64_MAX / 8)
        return false;
    x->bytes = (size_t)elements * x->size + 2 * x->guard;
    if (x->bytes / (size_t)sysconf(_SC_PAGESIZE) >=
        (size_t)sysconf(_SC_PHYS_PAGES)) /* an allocation could succeed all the same */
        return false;
    x->base = aligned_alloc(256, (x->bytes + 255) / 256 * 256);
    if (!x->base)
        return false;
    x->data = x->base + x->guard;
    matrix_poison(x);
    return true;
}

void matrix_destroy(struct matrix *x)
{
    free(x->base);
    *x = (struct matrix){ 0 };
}

static void poison_range(void *user, int64_t first, int64_t last)
{
    const struct matrix *x = user;
    if (x->role == MATRIX_INPUT)
        memset(x->base + first, 0xff, (size_t)(last - first));
    else
        for (int64_t i = first; i < last; i++)
            x->base[i] = poison_byte(x, (size_t)i);
}

static void unwrite_rows(void *user, int64_t first, int64_t last)
{
    const struct matrix *x = user;
    for (int64_t row = first; row < last; row++)
        memset(x->data + (size_t)(row * x->ld) * x->size, 0xff, (size_t)x->cols * x->size);
}

void matrix_poison(struct matrix *x)
{
    parallel_for((int64_t)x->bytes, 1 << 20, poison_range, x);
    if (x->role == MATRIX_OUTPUT)
        parallel_for(x->rows, 64, unwrite_rows, x);
}

static unsigned char *element(const struct matrix *x, int64_t row, int64_t col)
{
    return x->data + (size_t)(row * x->ld + col) * x->size;
}

double matrix_get(const struct matrix *x, int64_t row, int64_t col)
{
    return type_load(x->type, element(x, row, col));
}

void matrix_set(struct matrix *x, int64_t row, int64_t col, double value)
{
    type_store(x->type, element(x, row, col), value);
}

void matrix_span(const struct matrix *x, int64_t row, int64_t first, int64_t count, double *out)
{
    const unsigned char *at = element(x, row, first);
    if (x->type == PTXMM_F32)
        for (int64_t i = 0; i < count; i++)
            out[i] = load_type(PTXMM_F32, at + 4 * i);
    else if (x->type == PTXMM_BF16)
        for (int64_t i = 0; i < count; i++)
            out[i] = load_type(PTXMM_BF16, at + 2 * i);
    else if (type_is_fp8(x->type))
        for (int64_t i = 0; i < count; i++)
            out[i] = load_type(x->type, at + i);
    else
        for (int64_t i = 0; i < count; i++)
            out[i] = load_type(PTXMM_F16, at + 2 * i);
}

void matrix_row(const struct matrix *x, int64_t row, double *out)
{
    matrix_span(x, row, 0, x->cols, out);
}

/* First byte in [first, last) of the whole buffer that is not poison; last if none. */
static size_t first_touched(const struct matrix *x, size_t first, size_t last)
{
    while (first < last && x->base[first] == poison_byte(x, first))
        first++;
    return first;
}

bool matrix_intact(const struct matrix *x, char *text, size_t size)
{
    const size_t end = x->bytes - x->guard;
    size_t at = first_touched(x, 0, x->guard);
    if (at < x->guard) {
        size_t touched = 0, last = at;
        for (size_t i = at; i < x->guard; i++)
            if (x->base[i] != poison_byte(x, i)) {
                touched++;
                last = i;
            }
        snprintf(text, size,
                 "%zu byte%s before the matrix: from %zu to %zu bytes before its first element",
                 touched, touched == 1 ? "" : "s", x->guard - at, x->guard - last);
        return false;
    }
    for (int64_t row = 0; row < x->rows; row++) {
        const size_t begin = x->guard + (size_t)(row * x->ld + x->cols) * x->size,
                     stop = x->guard + (size_t)((row + 1) * x->ld) * x->size;
        at = first_touched(x, begin, stop);
        if (at < stop) {
            snprintf(text, size,
                     "the padding of row %lld at column %lld (of %lld, leading dimension %lld)",
                     (long long)row, (long long)(x->cols + (int64_t)((at - begin) / x->size)),
                     (long long)x->cols, (long long)x->ld);
            return false;
        }
    }
    at = first_touched(x, end, x->bytes);
    if (at < x->bytes) {
        size_t touched = 0;
        for (size_t i = at; i < x->bytes; i++)
            touched += x->base[i] != poison_byte(x, i);
        snprintf(text, size, "%zu byte%s behind the last row, from byte %zu behind it on", touched,
                 touched == 1 ? "" : "s", at - end);
        return false;
    }
    if (size)
        *text = 0;
    return true;
}

/* ---- batches ---- */

/* A stack of several is, as a matrix, one row from the first element to the last. */
bool stack_create(struct stack *x, enum ptxmm_type type, int64_t count, int64_t rows, int64_t cols,
                  int64_t ld, int64_t apart, enum matrix_role role)
{
    *x = (struct stack){ .count = count, .rows = rows, .cols = cols, .ld = ld ? ld : cols,
                         .apart = apart };
    if (count < 0 || rows < 0 || cols < 0 || x->ld < cols || apart < 0)
        return false;
    if (apart == 0 || count == 1) {
        x->count = 1;
        x->apart = 0;
        return matrix_create(&x->whole, type, rows, cols, ld, role);
    }
    int64_t span = 0, all = 0;
    if (count && rows && cols) {
        if (__builtin_mul_overflow(rows - 1, x->ld, &span) ||
            __builtin_add_overflow(span, cols, &span) ||
            __builtin_mul_overflow(count - 1, apart, &all) ||
            (apart < span && (apart < cols || all + cols > x->ld)) ||
            __builtin_add_overflow(all, span, &all))
            return false;
    }
    if (!matrix_create(&x->whole, type, 1, all, all, role))
        return false;
    stack_poison(x);
    return true;
}

void stack_destroy(struct stack *x)
{
    matrix_destroy(&x->whole);
    *x = (struct stack){ 0 };
}

struct matrix stack_at(const struct stack *x, int64_t z)
{
    struct matrix view = x->whole;
    view.rows = x->rows;
    view.cols = x->cols;
    view.ld = x->ld;
    view.base = NULL;
    view.guard = view.bytes = 0;
    view.data += (size_t)(z * x->apart) * view.size;
    return view;
}

/* Is element `at` of the whole one of a matrix? If not, *z is the matrix before it, *row and *col
 * are where it is as seen from that. */
static bool stack_has(const struct stack *x, int64_t at, int64_t *z, int64_t *row, int64_t *col)
{
    if (x->apart < (x->rows - 1) * x->ld + x->cols) { // beside one another
        *row = at / x->ld;
        *z = at % x->ld / x->apart;
        *z = *z < x->count ? *z : x->count - 1;
        *col = at % x->ld - *z * x->apart;
    } else {
        *z = at / x->apart;
        *row = at % x->apart / x->ld;
        *col = at % x->apart % x->ld;
    }
    return *row < x->rows && *col < x->cols;
}

void stack_poison(struct stack *x)
{
    matrix_poison(&x->whole);
    if (x->count <= 1 || x->whole.role == MATRIX_INPUT)
        return;
    // As if the elements of the whole were padding; then those of the matrices.
    for (size_t i = x->whole.guard; i < x->whole.bytes - x->whole.guard; i++)
        x->whole.base[i] = poison_byte(&x->whole, i);
    for (int64_t z = 0; z < x->count; z++) {
        struct matrix view = stack_at(x, z);
        unwrite_rows(&view, 0, view.rows);
    }
}

bool stack_intact(const struct stack *x, char *text, size_t size)
{
    if (!matrix_intact(&x->whole, text, size))
        return false;
    if (x->count <= 1)
        return true;
    const struct matrix *whole = &x->whole;
    int64_t z, row, col;
    for (int64_t at = 0; at < whole->cols; at++) {
        if (stack_has(x, at, &z, &row, &col))
            continue;
        const size_t byte = whole->guard + (size_t)at * whole->size;
        if (first_touched(whole, byte, byte + whole->size) == byte + whole->size)
            continue;
        snprintf(text, size,
                 "what is not D at row %lld, column %lld of matrix %lld (of %lld x %lld, leading "
                 "dimension %lld, %lld matrices %lld apart)",
                 (long long)row, (long long)col, (long long)z, (long long)x->rows,
                 (long long)x->cols, (long long)x->ld, (long long)x->count, (long long)x->apart);
        return false;
    }
    return true;
}

/* ---- fills ---- */

const char *fill_name(enum matrix_fill fill)
{
    static const char *const names[] = { "normal",         "zeros",         "ones",
                                         "small integers", "powers of two", "alternating",
                                         "wide range",     "specials" };
    return (size_t)fill < sizeof names / sizeof *names ? names[fill] : "?";
}

bool fill_is_exact(enum matrix_fill fill)
{
    return fill != FILL_NORMAL && fill != FILL_WIDE && fill != FILL_SPECIALS;
}

/* 14 bits are enough while sums stay below 2^14 units of the products' last place. Ones and signs
 * count to K. The others have random signs, and no sum of K products is further than 16 standard
 * deviations from 0: products of small integers have variance 16, and 16 * 4 * sqrt(K) <= 2^14 up to
 * 65536; powers of fp8 are multiples of 1/4 with variance (1/4 + 1 + 4)^2 / 9 < 3.1, and
 * 16 * 1.76 * sqrt(K) < 2^12 up to 20000. */
static bool is_exact_fast(enum matrix_fill fill, int64_t k)
{
    switch (fill) {
    case FILL_ZEROS: return true;
    case FILL_ONES:
    case FILL_ALTERNATING: return k <= 16384;
    case FILL_SMALL_INT: return k <= 65536;
    case FILL_POWERS: return k <= 16384;
    default: return false;
    }
}

bool fill_is_exact_in(enum matrix_fill fill, const struct ptxmm_kernel_info *kernel, int64_t k)
{
    const bool fast = type_is_fp8(kernel->a) && !kernel->promotion;
    return fill_is_exact(fill) && (!fast || is_exact_fast(fill, k));
}

static double special(enum ptxmm_type type, uint64_t which)
{
    const bool half = type == PTXMM_F16;
    if (type_is_fp8(type)) { /* smallest subnormal and normal, large subnormal, largest */
        static const double of_e4m3[] = { 0, -0.0, 0x1p-9, -0x1p-6, 7 * 0x1p-9, -448 },
                            of_e5m2[] = { 0, -0.0, 0x1p-16, -0x1p-14, 3 * 0x1p-16, -57344 };
        return (type == PTXMM_E4M3 ? of_e4m3 : of_e5m2)[which % 6];
    }
    switch (which % 6) {
    case 0: return 0.0;
    case 1: return -0.0;
    /* The smallest subnormal, the smallest normal, a large subnormal. */
    case 2: return half ? 0x1p-24 : type == PTXMM_BF16 ? 0x1p-133 : 0x1p-149;
    case 3: return half ? -0x1p-14 : -0x1p-126;
    case 4: return half ? 0x3ffp-24 : 0x7fp-133;
    default: return half ? -65504.0 : -0x1.fcp60; /* large; squares of the bf16 one still fit f32 */
    }
}

static double fill_value(enum matrix_fill fill, enum ptxmm_type type, uint64_t key, uint64_t index,
                         int64_t col)
{
    switch (fill) {
    case FILL_NORMAL: return random_normal(key, index);
    case FILL_ZEROS: return 0;
    case FILL_ONES: return 1;
    case FILL_SMALL_INT: return (double)random_range(key, index, -3, 3);
    case FILL_POWERS: {
        const uint64_t x = random_u64(key, index);
        const uint64_t range = type_is_fp8(type) ? 1 : 3, values = 2 * range + 1;
        const double magnitude = ldexp(1, (int)((x >> 32) * values >> 32) - (int)range);
        return x & 1 ? -magnitude : magnitude;
    }
    case FILL_ALTERNATING: return col & 1 ? -1 : 1;
    case FILL_WIDE: {
        const int range = type == PTXMM_F16 ? 6 : type_is_fp8(type) ? 4 : 12;
        const int e = (int)random_range(key ^ GOLDEN, index, -range, range);
        return ldexp(random_normal(key, index), e);
    }
    default: {
        const uint64_t x = random_u64(key ^ GOLDEN, index);
        return x >> 58 ? random_normal(key, index) : special(type, x & 0xffff);
    }
    }
}

struct filling {
    struct matrix *x;
    enum matrix_fill fill;
    uint64_t key;
};

static void fill_rows(void *user, int64_t first, int64_t last)
{
    const struct filling *f = user;
    struct matrix *x = f->x;
    for (int64_t row = first; row < last; row++) {
        const uint64_t index = (uint64_t)row * (uint64_t)x->cols;
        unsigned char *at = element(x, row, 0);
        for (int64_t col = 0; col < x->cols; col++)
            type_store(x->type, at + (size_t)col * x->size,
                       fill_value(f->fill, x->type, f->key, index + (uint64_t)col, col));
    }
}

void matrix_fill(struct matrix *x, enum matrix_fill fill, uint64_t seed, uint64_t stream)
{
    struct filling filling = { x, fill, random_key(seed, stream) };
    const int64_t grain = 65536 / (x->cols + 1) + 1;
    parallel_for(x->rows, grain, fill_rows, &filling);
}

void stack_fill(struct stack *x, enum matrix_fill fill, uint64_t seed, uint64_t stream)
{
    for (int64_t z = 0; z < x->count; z++) {
        struct matrix view = stack_at(x, z);
        matrix_fill(&view, fill, seed + (uint64_t)z, stream);
    }
}
