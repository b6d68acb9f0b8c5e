/* tcgen05.mma of every dense kind, layout and operand place against index formulas and the replay of
 * a step, by random cases. All of Tensor Memory is compared: what is not D must stay. */
#include "emu_tcgen.h"
#include "emu_replay.h"

enum packing { K_NONE, K_32, K_64, K_128, MN_NONE, MN_32, MN_64, MN_128, MN_BASE32, PLACES };

struct kind {
    const char *name;           /* with its block size */
    enum tensor_family family;
    unsigned block;
    enum tensor_scale scale;
};

static const struct kind kinds[] = {
    { "kind::f16", TENSOR_KIND_F16, 0, TENSOR_UNSCALED },
    { "kind::tf32", TENSOR_KIND_TF32, 0, TENSOR_UNSCALED },
    { "kind::f8f6f4", TENSOR_KIND_F8F6F4, 0, TENSOR_UNSCALED },
    { "kind::i8", TENSOR_KIND_I8, 0, TENSOR_UNSCALED },
    { "kind::mxf8f6f4.block_scale", TENSOR_KIND_MXF8F6F4, 32, TENSOR_UE8M0 },
    { "kind::mxf4.block_scale.scale_vec::2X", TENSOR_KIND_MXF4, 32, TENSOR_UE8M0 },
    { "kind::mxf4nvf4.block_scale.block16", TENSOR_KIND_MXF4NVF4, 16, TENSOR_UE4M3 },
    { "kind::mxf4nvf4.block_scale.scale_vec::4X", TENSOR_KIND_MXF4NVF4, 16, TENSOR_UE8M0 },
    { "kind::mxf4nvf4.block_scale.block32", TENSOR_KIND_MXF4NVF4, 32, TENSOR_UE8M0 },
};

enum { KINDS = sizeof kinds / sizeof kinds[0], MOST_K = 4 * 64, MOST_M = 256, MOST_N = 256 };

struct trial {
    const struct kind *kind;
    struct tensor_kind t;
    unsigned group, m, n, steps, base;
    enum packing pa, pb;
    bool stationary;            /* .ws */
    bool a_in_tmem, keep, negate_a, negate_b, masked;
    unsigned d_column, a_column, sfa, sfb, sfa_id, sfb_id, scale;
    uint32_t mask[8];
    uint32_t a[MOST_M][MOST_K], b[MOST_N][MOST_K];      /* encodings */
    uint8_t scale_a[MOST_M][16], scale_b[MOST_N][16];   /* by row, then step and block */
};

static uint64_t state;

static unsigned below(unsigned n)
{
    return (unsigned)(emu_random(&state) >> 20) % n;
}

/* ---- where things lie ------------------------------------------------------------------------ */

static unsigned width_of(const struct trial *x, enum tensor_format f)
{
    return x->t.groups ? 4 : f == TENSOR_E2M1 ? 4 : f == TENSOR_E2M3 || f == TENSOR_E3M2 ? 6 :
        f == TENSOR_BF16 || f == TENSOR_F16 ? 16 : f == TENSOR_TF32 ? 32 : 8;
}

/* Bytes that one element counts in a row of 32. */
static unsigned bytes_of(const struct trial *x, enum tensor_format f)
{
    return width_of(x, f) <= 8 ? 1 : width_of(x, f) / 8;
}

static unsigned span_of(enum packing p)
{
    return p == K_32 || p == MN_32 ? 32 : p == K_64 || p == MN_64 ? 64 : 128;
}

/* 16-byte chunks (32-byte ones: base32) of a span change places with the 128-byte line's number. */
static uint32_t shuffled(enum packing p, uint32_t at)
{
    const uint32_t line = at / 128;

    switch (p) {
    case K_32: case MN_32:
        return at - at % 32 + ((at % 32 / 16 ^ line % 2) * 16) + at % 16;
    case K_64: case MN_64:
        return at - at % 64 + ((at % 64 / 16 ^ line % 4) * 16) + at % 16;
    case K_128: case MN_128:
        return at - at % 128 + ((at % 128 / 16 ^ line % 8) * 16) + at % 16;
    case MN_BASE32:
        return at - at % 128 + ((at % 128 / 32 ^ line % 4) * 32) + at % 32;
    default:
        return at;
    }
}

/* A tile of `rows` of M or N and `deep` bytes of K (elements * es in MN-major). */
struct tile {
    enum packing p;
    uint32_t start;
    unsigned rows, deep, es;
};

/* Byte kb of row r, K-major. */
static uint32_t at_k(const struct tile *t, unsigned r, unsigned kb)
{
    const unsigned w = span_of(t->p);

    if (t->p == K_NONE)
        return t->start + kb / 16 * t->rows * 16 + r * 16 + kb % 16;
    return shuffled(t->p, t->start + kb / w * t->rows * w + r * w + kb % w);
}

/* Element (i, k), MN-major. */
static uint32_t at_mn(const struct tile *t, unsigned i, unsigned k)
{
    const unsigned w = span_of(t->p), per = w / t->es, ks = t->deep / t->es, few = 16 / t->es;

    if (t->p == MN_NONE)
        return t->start + i / few * 128 * (ks / 8) + k / 8 * 128 + k % 8 * 16 + i % few * t->es;
    return shuffled(t->p, t->start + i / per * ks * w + k * w + i % per * t->es);
}

static uint64_t descriptor(const struct tile *t, unsigned step)
{
    static const unsigned layouts[PLACES] = {
        [K_NONE] = 0, [K_32] = 6, [K_64] = 4, [K_128] = 2, [MN_NONE] = 0, [MN_32] = 6, [MN_64] = 4,
        [MN_128] = 2, [MN_BASE32] = 1,
    };
    const unsigned w = span_of(t->p), ks = t->deep / t->es, each = 32 / t->es;
    uint32_t start = t->start, lbo = 0, sbo;

    if (t->p == K_NONE) {
        start += 2 * step * t->rows * 16;
        lbo = t->rows * 16;
        sbo = 128;
    } else if (t->p < MN_NONE) {
        start += 32 * step / w * t->rows * w + 32 * step % w;
        sbo = 8 * w;
    } else if (t->p == MN_NONE) {
        start += step * each / 8 * 128;
        lbo = 128;
        sbo = 128 * (ks / 8);
    } else {
        start += step * each * w;
        lbo = ks * w;
        sbo = t->p == MN_BASE32 ? 4 * w : 8 * w;
    }
    return start >> 4 | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           UINT64_C(1) << 46 | (uint64_t)layouts[t->p] << 61;
}

static void put_bits(uint8_t *at, unsigned bit, unsigned width, uint32_t code)
{
    for (unsigned i = 0; i < width; i++) {
        const unsigned b = bit + i;

        at[b / 8] = (uint8_t)((at[b / 8] & ~(1u << b % 8)) | (code >> i & 1) << b % 8);
    }
}

/* Element k of row r to the image of one CTA's shared memory. */
static void put_element(const struct trial *x, const struct tile *t, enum tensor_format f,
                        uint8_t *image, unsigned r, unsigned k, uint32_t code)
{
    const unsigned width = width_of(x, f);

    if (t->p >= MN_NONE) {
        put_bits(image + at_mn(t, r, k) - SMEM_AT, 0, width, code);
    } else if (x->t.groups) {
        put_bits(image + at_k(t, r, k / 2) - SMEM_AT, k % 2 * 4, 4, code);
    } else if (width < 8) {     /* sixteen elements at the start of 16 bytes */
        put_bits(image + at_k(t, r, k / 16 * 16) - SMEM_AT, k % 16 * width, width, code);
    } else {
        put_bits(image + at_k(t, r, k * width / 8) - SMEM_AT, 0, width, code);
    }
}

/* Lane and column of D; `cta` of the pair. */
static void place_d(const struct trial *x, unsigned m, unsigned n, unsigned *cta, unsigned *lane,
                    unsigned *column)
{
    *cta = 0;
    *lane = m;
    *column = n;
    if (x->stationary) {
        const unsigned part = x->n / (128 / x->m);

        *lane = m + n / part * x->m;
        *column = n % part;
    } else if (x->group == 1 && x->m == 64) {
        *lane = m / 16 * 32 + m % 16 + x->base;
    } else if (x->group == 2 && x->m == 256) {
        *cta = m / 128;
        *lane = m % 128;
    } else if (x->group == 2) {
        *cta = m / 64;
        *lane = m % 64 + (n < x->n / 2 ? 0 : 64);
        *column = n % (x->n / 2);
    }
    *column += x->d_column;
}

/* ---- a trial --------------------------------------------------------------------------------- */

static uint32_t random_code(const struct trial *x, enum tensor_format f, bool wild)
{
    const uint32_t r = (uint32_t)emu_random(&state);
    const unsigned width = width_of(x, f);

    if (width < 32 && (width < 16 || wild))
        return wild || f >= TENSOR_E3M2 || f == TENSOR_S8 || f == TENSOR_U8
            ? r & ((1u << width) - 1) : r & 0xbf;
    if (wild)
        return r;
    /* around one */
    if (f == TENSOR_TF32)
        return (r & 0x807fffff) | (120 + r % 14) << 23;
    if (f == TENSOR_BF16)
        return (r & 0x807f) | (120 + (r >> 16) % 14) << 7;
    return (r & 0x83ff) | (10 + (r >> 16) % 10) << 10;
}

static bool choose_types(struct trial *x)
{
    static const enum tensor_format narrow[] = {
        TENSOR_E4M3, TENSOR_E5M2, TENSOR_E2M3, TENSOR_E3M2, TENSOR_E2M1,
    };
    enum tensor_format a = TENSOR_E2M1, b = TENSOR_E2M1;
    enum tensor_result d = TENSOR_TO_F32;
    bool saturate = false;

    switch (x->kind->family) {
    case TENSOR_KIND_F16:
        a = below(2) ? TENSOR_F16 : TENSOR_BF16;
        b = below(4) ? a : a == TENSOR_F16 ? TENSOR_BF16 : TENSOR_F16;
        if (a == TENSOR_F16 && b == TENSOR_F16 && below(2))
            d = TENSOR_TO_F16;
        break;
    case TENSOR_KIND_TF32:
        a = b = TENSOR_TF32;
        break;
    case TENSOR_KIND_F8F6F4: case TENSOR_KIND_MXF8F6F4:
        a = narrow[below(5)];
        b = narrow[below(5)];
        if (x->kind->family == TENSOR_KIND_F8F6F4 && below(3) == 0)
            d = TENSOR_TO_F16;
        break;
    case TENSOR_KIND_I8:
        a = below(2) ? TENSOR_S8 : TENSOR_U8;
        b = below(2) ? TENSOR_S8 : TENSOR_U8;
        d = TENSOR_TO_S32;
        saturate = below(2);
        break;
    default:
        break;
    }
    return tensor_kind_tcgen05(&x->t, x->kind->family, a, b, d, x->kind->scale, x->kind->block,
                               saturate);
}

static enum packing choose_place(const struct trial *x, enum tensor_format f)
{
    const unsigned width = width_of(x, f);
    const enum packing k_major = (enum packing)(K_NONE + below(4));

    if (width < 8 || below(2))
        return k_major;
    return width == 32 ? MN_BASE32 : (enum packing)(MN_NONE + below(4));
}

static void choose(struct trial *x, unsigned kind, bool stationary)
{
    const bool scaled = kinds[kind].block != 0;
    unsigned unit;

    memset(x, 0, sizeof *x);
    x->kind = &kinds[kind];
    assert_true(choose_types(x));
    x->stationary = stationary;
    x->group = stationary ? 1 : 1 + below(2);
    x->m = stationary ? 32u << below(3) : x->group == 2 ? (below(2) ? 256 : 128) : scaled || below(2) ? 128 : 64;
    x->pa = choose_place(x, x->t.a);
    x->pb = choose_place(x, x->t.b);
    unit = x->group == 2 ? 16 : 8;
    if (x->t.d == TENSOR_TO_S32)
        unit *= 2;
    if (x->pb >= MN_NONE && bytes_of(x, x->t.b) == 1)
        unit = 16 * x->group;
    x->n = unit * (1 + below(256 / unit));
    if (x->n > 96 && below(3))
        x->n = unit * (1 + below(96 / unit));   /* mostly small: the plain model is slow */
    /* MN-major tiles are whole spans wide */
    if (x->pb >= MN_NONE) {
        const unsigned wide = x->pb == MN_NONE ? 16 / bytes_of(x, x->t.b)
                                               : span_of(x->pb) / bytes_of(x, x->t.b);

        x->n = (x->n + wide * x->group - 1) / (wide * x->group) * wide * x->group;
        if (x->n > 256)
            x->n = 256;
    }
    if (stationary)
        x->n = 64u << below(3);
    x->steps = x->t.k <= 16 ? 1 + below(4) : 1 + below(3);
    x->a_in_tmem = below(3) == 0 && width_of(x, x->t.a) != 6;
    if (x->a_in_tmem)
        x->pa = K_NONE;
    x->base = !stationary && x->m == 64 && below(2) ? 16 : 0;
    x->keep = below(2);
    x->negate_a = x->t.d != TENSOR_TO_S32 && below(3) == 0;
    x->negate_b = x->t.d != TENSOR_TO_S32 && below(3) == 0;
    x->d_column = 4 * below(32);
    x->a_column = 400 + 8 * below(2);
    x->sfa = 440;
    x->sfb = 460;
    if (scaled && x->t.k == 32) {
        x->sfa_id = below(5 - x->steps);
        x->sfb_id = below(5 - x->steps);
    } else if (scaled && x->kind->block == 32) {
        x->steps = 1 + below(2);
        x->sfa_id = x->steps == 1 ? 2 * below(2) : 0;
        x->sfb_id = x->steps == 1 ? 2 * below(2) : 0;
    } else if (scaled) {
        x->steps = 1;
    }
    x->masked = !scaled && !stationary && below(4) == 0;
    for (unsigned i = 0; i < 4; i++)    /* the same lanes in both CTAs */
        x->mask[i] = x->mask[i + 4] = x->masked ? (uint32_t)emu_random(&state) : 0;
    x->scale = !stationary && (x->kind->family == TENSOR_KIND_F16 || x->kind->family == TENSOR_KIND_TF32) &&
               x->t.d == TENSOR_TO_F32 && x->keep && below(3) == 0 ? 1 + below(15) : 0;
}

static unsigned blocks_of(const struct trial *x)
{
    return x->kind->block ? x->t.k / x->kind->block : 0;
}

static void random_data(struct trial *x)
{
    const bool wild = below(4) == 0;

    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->steps * x->t.k; k++)
            x->a[m][k] = random_code(x, x->t.a, wild);
    for (unsigned n = 0; n < x->n; n++)
        for (unsigned k = 0; k < x->steps * x->t.k; k++)
            x->b[n][k] = random_code(x, x->t.b, wild);
    for (unsigned i = 0; i < MOST_M; i++)
        for (unsigned k = 0; k < 16; k++) {
            x->scale_a[i][k] = wild ? (uint8_t)below(256) : x->kind->scale == TENSOR_UE8M0
                ? (uint8_t)(120 + below(14)) : (uint8_t)(0x28 + below(32));
            x->scale_b[i][k] = wild ? (uint8_t)below(256) : x->kind->scale == TENSOR_UE8M0
                ? (uint8_t)(120 + below(14)) : (uint8_t)(0x28 + below(32));
        }
}

/* Byte of the cell that holds factor f of a row: four copies, or two in the halves of layout B. */
static void put_scale(struct tcgen_bench *bench, unsigned cta, unsigned column, unsigned row,
                      unsigned byte, unsigned first, unsigned end, uint8_t code)
{
    for (unsigned q = first; q < end; q++) {
        uint32_t *cell = &bench->in[cta][32 * q + row % 32][column + row / 32];

        *cell = (*cell & ~(0xffu << 8 * byte)) | (uint32_t)code << 8 * byte;
    }
}

static void put_scales(const struct trial *x, struct tcgen_bench *bench)
{
    const unsigned factors = blocks_of(x), rows = x->m / x->group;
    const bool halves = x->group == 2 && x->m == 128;

    for (unsigned cta = 0; cta < x->group; cta++)
        for (unsigned f = 0; f < x->steps * factors; f++) {
            for (unsigned r = 0; r < rows; r++)
                put_scale(bench, cta, x->sfa, r, x->sfa_id + f, 0, 4,
                          x->scale_a[cta * rows + r][f]);
            for (unsigned n = 0; n < x->n; n++)
                if (!halves)
                    put_scale(bench, cta, x->sfb, n, x->sfb_id + f, 0, 4, x->scale_b[n][f]);
                else if (n < x->n / 2)
                    put_scale(bench, cta, x->sfb, n, x->sfb_id + f, 0, 2, x->scale_b[n][f]);
                else
                    put_scale(bench, cta, x->sfb, n - x->n / 2, x->sfb_id + f, 2, 4,
                              x->scale_b[n][f]);
        }
}

static void put_a_in_tmem(const struct trial *x, struct tcgen_bench *bench)
{
    const unsigned rows = x->m / x->group, width = width_of(x, x->t.a);
    const unsigned copies = x->stationary ? 128 / x->m : x->group == 2 && x->m == 128 ? 2 : 1;

    for (unsigned m = 0; m < x->m; m++)
        for (unsigned k = 0; k < x->steps * x->t.k; k++)
            for (unsigned copy = 0; copy < copies; copy++) {
                const unsigned r = m % rows;
                const unsigned lane = x->stationary ? r + x->m * copy
                    : x->group == 1 && x->m == 64 ? r / 16 * 32 + r % 16 + x->base : r + 64 * copy;
                const unsigned per = width == 32 ? 1 : width == 16 ? 2 : x->t.groups ? 8 : 4;
                uint32_t *cell = &bench->in[m / rows][lane][x->a_column + k / per];
                uint32_t code = x->a[m][k];

                if (!x->t.groups && width == 4)
                    code <<= 2;         /* e2m1 in bits 2 to 5 of its byte */
                put_bits((uint8_t *)cell, k % per * (32 / per), 32 / per, code);
            }
}

static uint32_t idesc_of(const struct trial *x, unsigned step)
{
    static const unsigned codes[] = {
        [TENSOR_BF16] = 1, [TENSOR_F16] = 0, [TENSOR_TF32] = 2, [TENSOR_E4M3] = 0,
        [TENSOR_E5M2] = 1, [TENSOR_E2M3] = 3, [TENSOR_E3M2] = 4, [TENSOR_E2M1] = 5,
        [TENSOR_S8] = 1, [TENSOR_U8] = 0,
    };
    const unsigned a = x->t.groups ? 1 : codes[x->t.a], b = x->t.groups ? 1 : codes[x->t.b];
    uint32_t d = a << 7 | b << 10 | (uint32_t)x->negate_a << 13 | (uint32_t)x->negate_b << 14 |
                 (uint32_t)(x->pa >= MN_NONE) << 15 | (uint32_t)(x->pb >= MN_NONE) << 16 |
                 x->n / 8 << 17;

    if (x->kind->block) {
        const unsigned f = step * blocks_of(x);

        return d | (x->sfb_id + f) << 4 | (uint32_t)(x->kind->scale == TENSOR_UE8M0) << 23 |
               x->m / 128 << 27 | (x->sfa_id + f) << 29;
    }
    d |= (x->t.d == TENSOR_TO_F16 ? 0u : x->t.d == TENSOR_TO_F32 ? 1u : 2u) << 4;
    return d | (uint32_t)x->t.saturate << 3 | x->m / 16 << 24;
}

static uint32_t negated(const struct trial *x, enum tensor_format f, bool negate, uint32_t code)
{
    const unsigned width = width_of(x, f);

    return negate ? code ^ 1u << (width - 1) : code;
}

/* Old D times 2^-scale is exact, or the trial is not for this. */
static bool scale_exact(const struct trial *x, uint32_t *c)
{
    float f, g;

    memcpy(&f, c, 4);
    g = f;
    for (unsigned i = 0; i < x->scale; i++)
        g *= 0.5f;
    memcpy(c, &g, 4);
    for (unsigned i = 0; i < x->scale; i++)
        g *= 2;
    return f != f || g == f;
}

static bool expect(const struct trial *x, uint32_t (*want)[LANES_ALL][COLUMNS_ALL])
{
    const unsigned k = x->t.k, factors = blocks_of(x);

    for (unsigned m = 0; m < x->m; m++)
        for (unsigned n = 0; n < x->n; n++) {
            unsigned cta, lane, column;
            uint32_t c;

            place_d(x, m, n, &cta, &lane, &column);
            if (x->mask[lane / 32] >> lane % 32 & 1)
                continue;
            c = x->keep ? want[cta][lane][column] : 0;
            for (unsigned s = 0; s < x->steps; s++) {
                uint32_t a[64], b[64], sa[4], sb[4];

                if (x->scale && !scale_exact(x, &c))
                    return false;
                for (unsigned i = 0; i < k; i++) {
                    a[i] = negated(x, x->t.a, x->negate_a, x->a[m][s * k + i]);
                    b[i] = negated(x, x->t.b, x->negate_b, x->b[n][s * k + i]);
                }
                for (unsigned i = 0; i < factors; i++) {
                    sa[i] = x->scale_a[m][s * factors + i];
                    sb[i] = x->scale_b[n][s * factors + i];
                }
                c = replay_kind(&x->t, a, b, c, sa, sb);
            }
            want[cta][lane][column] = c;
        }
    return true;
}

static void instruction_of(const struct trial *x, char *text, size_t room)
{
    const char *mask = !x->masked ? "" : x->group == 1 ? "{v0,v1,v2,v3}, "
                                                       : "{v0,v1,v2,v3,v4,v5,v6,v7}, ";
    char scale[16] = "";
    size_t used = 0;

    for (unsigned i = 0; x->masked && i < 8; i++)
        used += (size_t)snprintf(text + used, room - used, "mov.b32 v%u, 0x%x;\n", i, x->mask[i]);
    if (x->scale)
        snprintf(scale, sizeof scale, ", %u", x->scale);
    if (x->stationary)          /* with and without a mask that zeroes nothing */
        snprintf(scale, sizeof scale, "%s", below(2) ? ", 0" : "");
    snprintf(text + used, room - used, "tcgen05.mma%s.cta_group::%u.%s [dt], %s, bd, id, %s%skeep%s;",
             x->stationary ? ".ws" : "", x->group, x->kind->name, x->a_in_tmem ? "[at]" : "ad", x->kind->block ? "[sa], [sb], " : "",
             mask, scale);
}

static void put_operand(const struct trial *x, struct tcgen_bench *bench, bool is_a, uint32_t start,
                        struct tile *t)
{
    const enum tensor_format f = is_a ? x->t.a : x->t.b;
    const unsigned rows = (is_a ? x->m : x->n) / x->group;

    *t = (struct tile){ is_a ? x->pa : x->pb, start, rows, 32 * x->steps, bytes_of(x, f) };
    for (unsigned cta = 0; cta < x->group; cta++)
        for (unsigned r = 0; r < rows; r++)
            for (unsigned k = 0; k < x->steps * x->t.k; k++)
                put_element(x, t, f, bench->smem[cta], r, k,
                            is_a ? x->a[cta * rows + r][k] : x->b[cta * rows + r][k]);
}

static void compare(const struct trial *x, const struct tcgen_bench *bench,
                    uint32_t (*want)[LANES_ALL][COLUMNS_ALL], const char *instruction)
{
    for (unsigned cta = 0; cta < x->group; cta++)
        for (unsigned l = 0; l < LANES_ALL; l++)
            for (unsigned c = 0; c < COLUMNS_ALL; c++) {
                const bool half = x->t.d == TENSOR_TO_F16 &&
                                  want[cta][l][c] != bench->in[cta][l][c];
                const uint32_t mask = half ? 0xffff : UINT32_MAX;

                if (!((bench->out[cta][l][c] ^ want[cta][l][c]) & mask))
                    continue;
                /* an f16 result that equals the old low half has a new upper half */
                if (x->t.d == TENSOR_TO_F16 && !((bench->out[cta][l][c] ^ want[cta][l][c]) & 0xffff))
                    continue;
                fail_msg("%s  M %u N %u steps %u formats %d %d places %d %d base %u keep %d: CTA %u "
                         "lane %u column %u is %08x, want %08x (was %08x)", instruction, x->m, x->n,
                         x->steps, x->t.a, x->t.b, x->pa, x->pb, x->base, x->keep, cta, l, c,
                         bench->out[cta][l][c], want[cta][l][c], bench->in[cta][l][c]);
            }
}

static bool attempt(unsigned kind, bool stationary, uint64_t seed)
{
    static struct trial x;
    static uint32_t want[2][LANES_ALL][COLUMNS_ALL];
    struct tcgen_bench bench;
    struct tile a, b;
    char text[512];
    bool possible;

    state = seed;
    choose(&x, kind, stationary);
    random_data(&x);
    bench_open(&bench, x.group, (enum machine_policy)(seed % 3), seed,
               RULE_STRICT_PROXY | (x.t.a != x.t.b ? RULE_MIXED : 0));
    bench_fill(&bench, seed);
    /* tiles begin where every layout's pattern does */
    put_operand(&x, &bench, true, SMEM_AT, &a);
    put_operand(&x, &bench, false, SMEM_AT + 0x9000, &b);
    if (x.a_in_tmem)
        put_a_in_tmem(&x, &bench);
    if (x.kind->block)
        put_scales(&x, &bench);
    for (unsigned s = 0; s < x.steps; s++)
        bench.steps[s] = (struct tcgen_step){
            .a = descriptor(&a, s), .b = descriptor(&b, s), .at = x.base << 16 | (x.a_column + 8 * s),
            .idesc = idesc_of(&x, s), .sfa = x.sfa | (uint32_t)below(4) << 30, .sfb = x.sfb,
            .d = x.base << 16 | x.d_column, .keep = s || x.keep,
        };
    bench.count = x.steps;
    memcpy(want, bench.in, x.group * sizeof want[0]);
    possible = expect(&x, want);
    instruction_of(&x, text, sizeof text);
    if (possible) {
        bench_must(&bench, text);
        compare(&x, &bench, want, text);
    }
    bench_close(&bench);
    return possible;
}

static void of_kind(unsigned kind, bool stationary, unsigned trials)
{
    for (unsigned i = 0; i < trials; i++)
        attempt(kind, stationary, 1000 * kind + i);
}

#define TEST(name, kind, stationary, trials) \
    static void name(void **unused) \
    { \
        (void)unused; \
        of_kind(kind, stationary, trials); \
    }

TEST(f16, 0, false, 40)
TEST(tf32, 1, false, 30)
TEST(f8f6f4, 2, false, 40)
TEST(i8, 3, false, 30)
TEST(mxf8f6f4, 4, false, 30)
TEST(mxf4, 5, false, 16)
TEST(nvf4, 6, false, 16)
TEST(nvf4_ue8m0, 7, false, 12)
TEST(nvf4_block32, 8, false, 12)
TEST(f16_ws, 0, true, 40)
TEST(tf32_ws, 1, true, 20)
TEST(f8f6f4_ws, 2, true, 30)
TEST(i8_ws, 3, true, 20)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16), cmocka_unit_test(tf32), cmocka_unit_test(f8f6f4),
        cmocka_unit_test(i8), cmocka_unit_test(mxf8f6f4), cmocka_unit_test(mxf4),
        cmocka_unit_test(nvf4), cmocka_unit_test(nvf4_ue8m0), cmocka_unit_test(nvf4_block32),
        cmocka_unit_test(f16_ws), cmocka_unit_test(tf32_ws), cmocka_unit_test(f8f6f4_ws),
        cmocka_unit_test(i8_ws),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
