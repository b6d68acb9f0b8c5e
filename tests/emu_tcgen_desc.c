/*
 * tcgen05's two descriptors, every field: what the manual's tables list is taken, everything else
 * is refused with a reason.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tcgen_desc.h"

struct kind {
    enum tcgen_kind kind;
    unsigned block;
    uint32_t good;              /* a descriptor that is right but for M and N: types, scale bit */
    uint32_t reserved;          /* bits that must be zero */
};

#define BITS(low, high) ((uint32_t)((UINT64_C(2) << (high)) - (UINT64_C(1) << (low))))

static const struct kind kinds[] = {
    { KIND_F16, 0, 1u << 4 | 1u << 7 | 1u << 10, BITS(0, 3) | 1u << 6 | 1u << 23 | BITS(29, 31) },
    { KIND_TF32, 0, 1u << 4 | 2u << 7 | 2u << 10, BITS(0, 3) | 1u << 6 | 1u << 23 | BITS(29, 31) },
    { KIND_F8F6F4, 0, 1u << 4, BITS(0, 3) | 1u << 6 | 1u << 23 | BITS(29, 31) },
    { KIND_I8, 0, 2u << 4, BITS(0, 2) | 1u << 6 | BITS(13, 14) | 1u << 23 | BITS(29, 31) },
    { KIND_MXF8F6F4, 32, 1u << 23, BITS(0, 3) | 1u << 6 | BITS(24, 26) | 1u << 31 },
    { KIND_MXF4, 32, 1u << 7 | 1u << 10 | 1u << 23,
      BITS(0, 4) | 1u << 6 | 1u << 12 | BITS(15, 16) | BITS(24, 26) | 1u << 29 | 1u << 31 },
    { KIND_MXF4NVF4, 16, 1u << 7 | 1u << 10,
      BITS(0, 6) | 1u << 12 | BITS(15, 16) | BITS(24, 26) | BITS(29, 31) },
    { KIND_MXF4NVF4, 32, 1u << 7 | 1u << 10 | 1u << 23,
      BITS(0, 4) | 1u << 6 | 1u << 12 | BITS(15, 16) | BITS(24, 26) | 1u << 29 | 1u << 31 },
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static bool scaled(const struct kind *k)
{
    return k->block != 0;
}

static bool packed(const struct kind *k)
{
    return k->kind == KIND_MXF4 || k->kind == KIND_MXF4NVF4;
}

static uint32_t sized(const struct kind *k, unsigned m, unsigned n)
{
    return k->good | n / 8 << 17 | (scaled(k) ? m / 128 << 27 : m / 16 << 24);
}

static const char *decode(const struct kind *k, uint32_t bits, unsigned group,
                          struct tcgen_shape_of *out)
{
    return tcgen_idesc_decode(bits, k->kind, k->block, group, out);
}

/* The manual's table of shapes. */
static bool legal(const struct kind *k, unsigned group, unsigned m, unsigned n)
{
    if (group == 1 && m != 128 && (scaled(k) || m != 64))
        return false;
    if (group == 2 && m != 128 && m != 256)
        return false;
    if (n == 0 || n > 256)
        return false;
    if (k->kind == KIND_I8)
        return group == 2 ? n % 32 == 0 : n == 8 || n == 24 || n % 16 == 0;
    return n % (8 * group) == 0;
}

static void shapes(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KINDS; i++)
        for (unsigned group = 1; group <= 2; group++)
            for (unsigned m = 0; m < (scaled(&kinds[i]) ? 4 * 128u : 32 * 16u);
                 m += scaled(&kinds[i]) ? 128 : 16)
                for (unsigned n = 0; n < 64 * 8; n += 8) {
                    struct tcgen_shape_of s;
                    const char *wrong = decode(&kinds[i], sized(&kinds[i], m, n), group, &s);

                    if (!wrong != legal(&kinds[i], group, m, n))
                        fail_msg("kind %u group %u M %u N %u: %s", i, group, m, n,
                                 wrong ? wrong : "taken");
                    assert_true(wrong || (s.m == m && s.n == n));
                }
}

static void reserved_bits(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KINDS; i++)
        for (unsigned bit = 0; bit < 32; bit++) {
            struct tcgen_shape_of s;

            assert_null(decode(&kinds[i], sized(&kinds[i], 128, 64), 1, &s));
            if (kinds[i].reserved >> bit & 1)
                assert_non_null(decode(&kinds[i], sized(&kinds[i], 128, 64) | 1u << bit, 1, &s));
        }
}

/* Signs, major-ness, factor ids and saturation come out as they went in. */
static void fields(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KINDS; i++) {
        const struct kind *k = &kinds[i];
        const uint32_t base = sized(k, 128, 64);
        struct tcgen_shape_of s;

        if (k->kind != KIND_I8) {
            assert_null(decode(k, base | 1u << 13, 1, &s));
            assert_true(s.negate_a && !s.negate_b);
            assert_null(decode(k, base | 1u << 14, 1, &s));
            assert_true(!s.negate_a && s.negate_b);
        } else {
            assert_null(decode(k, base | 1u << 3, 1, &s));
            assert_true(s.kind.saturate);
        }
        if (!packed(k)) {
            assert_null(decode(k, base | 1u << 15, 1, &s));
            assert_true(s.mn_a && !s.mn_b);
            assert_null(decode(k, base | 1u << 16, 1, &s));
            assert_true(!s.mn_a && s.mn_b);
        }
        for (unsigned id = 0; scaled(k) && id < 4; id++) {
            const bool good = k->kind == KIND_MXF8F6F4 || id == 0 || (k->block == 32 && id == 2);

            assert_true(!decode(k, base | id << 4, 1, &s) == good);
            assert_true(!good || (s.sfb_id == id && s.sfa_id == 0));
            assert_true(!decode(k, base | id << 29, 1, &s) == good);
            assert_true(!good || (s.sfa_id == id && s.sfb_id == 0));
        }
    }
}

/* All codes of A, B and D. */
static void types(void **state)
{
    static const int narrow[8] = { TENSOR_E4M3, TENSOR_E5M2, -1, TENSOR_E2M3, TENSOR_E3M2,
                                   TENSOR_E2M1, -1, -1 };

    (void)state;
    for (unsigned i = 0; i < KINDS; i++)
        for (unsigned code = 0; code < 256; code++) {
            const struct kind *k = &kinds[i];
            const unsigned a = code & 7, b = code >> 3 & 7, d = code >> 6;
            uint32_t bits = sized(k, 128, 64) & ~BITS(7, 12);
            struct tcgen_shape_of s;
            bool good = false;
            int fa = -1, fb = -1;

            bits |= a << 7 | b << 10;
            if (!scaled(k))
                bits = (bits & ~BITS(4, 5)) | d << 4;
            switch (k->kind) {
            case KIND_F16:
                good = a < 2 && b < 2 && (d == 1 || (d == 0 && a == 0 && b == 0));
                fa = a ? TENSOR_BF16 : TENSOR_F16;
                fb = b ? TENSOR_BF16 : TENSOR_F16;
                break;
            case KIND_TF32:
                good = a == 2 && b == 2 && d == 1;
                fa = fb = TENSOR_TF32;
                break;
            case KIND_F8F6F4: case KIND_MXF8F6F4:
                fa = narrow[a];
                fb = narrow[b];
                good = fa >= 0 && fb >= 0 && (scaled(k) || d < 2);
                break;
            case KIND_I8:
                good = a < 2 && b < 2 && d == 2;
                fa = a ? TENSOR_S8 : TENSOR_U8;
                fb = b ? TENSOR_S8 : TENSOR_U8;
                break;
            default:
                good = a == 1 && b == 1;
                fa = fb = TENSOR_E2M1;
                break;
            }

            const char *wrong = decode(k, bits, 1, &s);

            if (!wrong != good)
                fail_msg("kind %u, types %u %u %u: %s", i, a, b, d, wrong ? wrong : "taken");
            assert_true(wrong || ((int)s.kind.a == fa && (int)s.kind.b == fb));
        }
}

/* MN-major: 8-bit B wants N in sixteens, by a pair in thirty-twos; narrower ones are K-major. */
static void major_ness(void **state)
{
    const struct kind *k = &kinds[2];           /* f8f6f4 */
    struct tcgen_shape_of s;

    (void)state;
    for (unsigned group = 1; group <= 2; group++)
        for (unsigned n = 8 * group; n <= 256; n += 8 * group)
            assert_int_equal(!decode(k, sized(k, 128, n) | 1u << 16, group, &s),
                             n % (16 * group) == 0);
    for (unsigned code = 3; code <= 5; code++) {
        assert_null(decode(k, sized(k, 128, 64) | code << 7, 1, &s));
        assert_non_null(decode(k, sized(k, 128, 64) | code << 7 | 1u << 15, 1, &s));
        assert_non_null(decode(k, sized(k, 128, 64) | code << 10 | 1u << 16, 1, &s));
        assert_null(decode(k, sized(k, 128, 64) | code << 10 | 1u << 15, 1, &s));
    }
}

/* Values that published kernels and tables use. */
static void worked(void **state)
{
    static const struct {
        uint32_t bits;
        unsigned kind, group, m, n, a, b, sfa, sfb;
    } rows[] = {
        { 0x08400490, 0, 1, 128, 256, TENSOR_BF16, TENSOR_BF16, 0, 0 },
        { 0x10400490, 0, 2, 256, 256, TENSOR_BF16, TENSOR_BF16, 0, 0 },
        { 0x04400490, 0, 1, 64, 256, TENSOR_BF16, TENSOR_BF16, 0, 0 },
        { 0x08400010, 0, 1, 128, 256, TENSOR_F16, TENSOR_F16, 0, 0 },
        { 0x08400910, 1, 1, 128, 256, TENSOR_TF32, TENSOR_TF32, 0, 0 },
        { 0x08400410, 2, 1, 128, 256, TENSOR_E4M3, TENSOR_E5M2, 0, 0 },
        { 0x08201410, 2, 1, 128, 128, TENSOR_E4M3, TENSOR_E2M1, 0, 0 },
        { 0x084004a0, 3, 1, 128, 256, TENSOR_S8, TENSOR_S8, 0, 0 },
        { 0x08400020, 3, 1, 128, 256, TENSOR_U8, TENSOR_U8, 0, 0 },
        { 0x08a00000, 4, 1, 128, 128, TENSOR_E4M3, TENSOR_E4M3, 0, 0 },
        { 0x28a00010, 4, 1, 128, 128, TENSOR_E4M3, TENSOR_E4M3, 1, 1 },
        { 0x68a00030, 4, 1, 128, 128, TENSOR_E4M3, TENSOR_E4M3, 3, 3 },
        { 0x10c00000, 4, 2, 256, 256, TENSOR_E4M3, TENSOR_E4M3, 0, 0 },
        { 0x08c00080, 4, 1, 128, 256, TENSOR_E5M2, TENSOR_E4M3, 0, 0 },
        { 0x48c004a0, 5, 1, 128, 256, TENSOR_E2M1, TENSOR_E2M1, 2, 2 },
        { 0x08400480, 6, 1, 128, 256, TENSOR_E2M1, TENSOR_E2M1, 0, 0 },
        { 0x10400480, 6, 2, 256, 256, TENSOR_E2M1, TENSOR_E2M1, 0, 0 },
    };
    struct tcgen_shape_of s;

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_null(decode(&kinds[rows[i].kind], rows[i].bits, rows[i].group, &s));
        assert_int_equal(s.m, rows[i].m);
        assert_int_equal(s.n, rows[i].n);
        assert_int_equal(s.kind.a, rows[i].a);
        assert_int_equal(s.kind.b, rows[i].b);
        assert_int_equal(s.sfa_id, rows[i].sfa);
        assert_int_equal(s.sfb_id, rows[i].sfb);
    }
    assert_non_null(decode(&kinds[6], 0x88400480, 1, &s));      /* K = 96: a part of its own */
}

/* ---- shared memory --------------------------------------------------------------------------- */

static void matrices(void **state)
{
    static const int layouts[8] = { TCGEN_NONE, TCGEN_BASE32B, TCGEN_128B, -1, TCGEN_64B, -1,
                                    TCGEN_32B, -1 };
    struct tcgen_matrix m;

    (void)state;
    for (unsigned layout = 0; layout < 8; layout++)
        for (unsigned constant = 0; constant < 8; constant++) {
            const uint64_t bits = UINT64_C(0x1234) | UINT64_C(0x2345) << 16 |
                                  UINT64_C(0x0567) << 32 | (uint64_t)constant << 46 |
                                  (uint64_t)layout << 61;

            assert_true(!tcgen_matrix_decode(bits, &m) == (constant == 1 && layouts[layout] >= 0));
            if (constant != 1 || layouts[layout] < 0)
                continue;
            assert_int_equal(m.start, 0x12340);
            assert_int_equal(m.leading, 0x23450);
            assert_int_equal(m.stride, 0x5670);
            assert_int_equal(m.swizzle, layouts[layout]);
            for (unsigned bit = 0; bit < 64; bit++) {
                const bool reserved = bit == 14 || bit == 15 || bit == 30 || bit == 31 ||
                                      (bit >= 52 && bit <= 60);

                if (reserved)
                    assert_non_null(tcgen_matrix_decode(bits | UINT64_C(1) << bit, &m));
            }
            for (unsigned base = 0; base < 8; base++) {
                assert_null(tcgen_matrix_decode(bits | (uint64_t)base << 49, &m));
                assert_int_equal(m.base, base);
            }
        }
}

/* Layouts that an operand may have: 32-byte atoms are MN-major tf32's, and the only ones it has. */
static void layouts_of_operands(void **state)
{
    static const enum tcgen_swizzle all[] = { TCGEN_NONE, TCGEN_BASE32B, TCGEN_128B, TCGEN_64B,
                                              TCGEN_32B };

    (void)state;
    for (unsigned i = 0; i < 5; i++)
        for (unsigned bytes = 1; bytes <= 4; bytes *= 2)
            for (unsigned mn = 0; mn < 2; mn++) {
                const struct tcgen_matrix m = { .swizzle = all[i] };
                const struct tcgen_access how = { .mn_major = mn, .bytes = (uint8_t)bytes,
                                                  .chunks = 2 };
                const bool atoms = all[i] == TCGEN_BASE32B;

                assert_int_equal(!tcgen_matrix_check(&m, &how), mn && bytes == 4 ? atoms : !atoms);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes), cmocka_unit_test(reserved_bits), cmocka_unit_test(fields),
        cmocka_unit_test(types), cmocka_unit_test(major_ness), cmocka_unit_test(worked),
        cmocka_unit_test(matrices), cmocka_unit_test(layouts_of_operands),
    };

    return cmocka_run_group_tests_name("descriptors", tests, NULL, NULL);
}
