// Tensor maps: the bytes an H200 writes, the driver's refusals one rule at a time, and
// tensormap.replace.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <cuda.h>

#include "tmap.h"

#define ADDRESS 0x7f1234567890u

// A request that is right; tests change one thing.
struct ask {
    struct tmap_request r;
    uint64_t dim[5], stride[4];
    uint32_t box[5], step[5];
};

static struct ask *fresh(struct ask *a)
{
    *a = (struct ask){
        .dim = {1024, 512, 7, 5, 3},
        .stride = {2048, 1 << 20, 1 << 24, 1 << 26},
        .box = {64, 32, 2, 1, 1},
        .step = {1, 1, 1, 1, 1},
    };
    a->r = (struct tmap_request){
        .type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        .rank = 5,
        .address = ADDRESS,
        .dim = a->dim,
        .stride = a->stride,
        .box = a->box,
        .element_stride = a->step,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return a;
}

static const char *encode(const struct ask *a, unsigned part, uint8_t *map)
{
    return tmap_encode(&a->r, part, map);
}

// Compares the first 76 bytes with words as a dump shows them (bytes in order); the rest is zero.
static void same_bytes(const uint8_t *map, const char *dump)
{
    char text[200] = "";
    size_t n = 0;
    for (int i = 0; i < 76; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%02x%s", map[i],
                              i % 4 == 3 && i < 75 ? " " : "");
    assert_string_equal(text, dump);
    for (int i = 76; i < TMAP_BYTES; i++)
        assert_int_equal(map[i], 0);
}

// Read from an H200 (driver 580.159.04).
static void bytes_of_the_device(void **state)
{
    (void)state;
    struct ask a;
    uint8_t map[TMAP_BYTES];
    assert_null(encode(fresh(&a), 90, map));
    same_bytes(map, "90785634 127f0000 40650000 80000000 00000100 00001000 00004000 00000000 "
                    "ff030000 ff010000 06000000 04000000 "
                    "02000000 0000003f 1f010000 00000000 00200000 00000000 00040000");

    fresh(&a);
    a.r.rank = 1;
    assert_null(encode(&a, 90, map));
    same_bytes(map, "90785634 127f0000 00650000 00000000 00000000 00000000 00000000 00000000 "
                    "ff030000 00000000 00000000 00000000 "
                    "00000000 0000003f 00000000 00000000 80000000 00000000 00040000");

    fresh(&a);                                          // strides with more than 36 bits
    a.stride[0] = 0xfffffffff0;
    a.stride[1] = 0xabcdef1230;
    a.stride[2] = UINT64_C(0x123456789) * 16;
    a.stride[3] = 0x1000000010;
    assert_null(encode(&a, 90, map));
    same_bytes(map, "90785634 127f0000 40650000 ffffffff 23f1debc 89674523 01000000 af110000 "
                    "ff030000 ff010000 06000000 04000000 "
                    "02000000 0000003f 1f010000 00000000 00200000 00000000 00040000");

    fresh(&a); // element strides; the box in word 64 rounds down
    memcpy(a.step, (uint32_t[]){1, 2, 3, 5, 8}, sizeof a.step);
    a.r.l2_promotion = 1;
    assert_null(encode(&a, 90, map));
    same_bytes(map, "90785634 127f0000 40650200 80000000 00000100 00001000 00004000 00000000 "
                    "ff030000 ff010000 06000000 04000000 "
                    "02000000 8878003f 1f010000 00000000 00000000 00000000 00040000");

    fresh(&a);                                          // the longest dimensions
    memcpy(a.dim, (uint64_t[]){UINT64_C(1) << 32, 1, UINT64_C(1) << 32, 2, 9}, sizeof a.dim);
    a.r.l2_promotion = 3;
    assert_null(encode(&a, 90, map));
    same_bytes(map, "90785634 127f0000 40650600 80000000 00000100 00001000 00004000 00000000 "
                    "ffffffff 00000000 ffffffff 01000000 "
                    "08000000 0000003f 1f010000 00000000 00200000 00000000 00040000");

    fresh(&a);                                          // interleaved
    a.r.rank = 3;
    a.r.address &= ~UINT64_C(31);
    a.r.interleave = CU_TENSOR_MAP_INTERLEAVE_32B;
    a.r.swizzle = CU_TENSOR_MAP_SWIZZLE_32B;
    memcpy(a.box, (uint32_t[]){8, 4, 3, 1, 1}, sizeof a.box);
    assert_null(encode(&a, 90, map));
    same_bytes(map, "80785634 127f0000 20350000 80000000 00000100 00000000 00000000 00000000 "
                    "ff030000 ff010000 06000000 00000000 "
                    "00000000 00000007 03020000 00000000 c0000000 00000000 00010000");
}

static void types(void **state)
{
    (void)state;
    static const struct {
        uint32_t api, word, bytes;
        enum tmap_type type;
    } rows[] = {
        {CU_TENSOR_MAP_DATA_TYPE_UINT8, 0x0010, 1, TMAP_U8},
        {CU_TENSOR_MAP_DATA_TYPE_UINT16, 0x0090, 2, TMAP_U16},
        {CU_TENSOR_MAP_DATA_TYPE_UINT32, 0x0110, 4, TMAP_U32},
        {CU_TENSOR_MAP_DATA_TYPE_INT32, 0x0190, 4, TMAP_S32},
        {CU_TENSOR_MAP_DATA_TYPE_UINT64, 0x0210, 8, TMAP_U64},
        {CU_TENSOR_MAP_DATA_TYPE_INT64, 0x0290, 8, TMAP_S64},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 0x0310, 2, TMAP_F16},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 0x0390, 4, TMAP_F32},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT64, 0x0490, 8, TMAP_F64},
        {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 0x0510, 2, TMAP_BF16},
        {CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ, 0x0410, 4, TMAP_F32_FTZ},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, 0x10390, 4, TMAP_TF32},
        {CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ, 0x10410, 4, TMAP_TF32_FTZ},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ask a;
        struct tmap t;
        uint8_t map[TMAP_BYTES];
        uint32_t word;
        fresh(&a);
        a.r.type = rows[i].api;
        a.r.rank = 2;
        a.r.swizzle = 0;
        a.box[0] = 16;
        assert_null(encode(&a, 90, map));
        memcpy(&word, map + 8, 4);
        assert_int_equal(word, rows[i].word);
        assert_null(tmap_decode(map, 90, &t));
        assert_int_equal(t.type, rows[i].type);
        assert_int_equal(t.element_bytes, rows[i].bytes);
        assert_int_equal(tmap_type_bytes(t.type), rows[i].bytes);
        const bool floating = rows[i].type >= TMAP_F16;
        a.r.fill = 1;
        assert_int_equal(encode(&a, 90, map) == NULL, floating);
    }
}

// One rule each: what is changed, and whether the part takes it.
static void refusals(void **state)
{
    (void)state;
    struct ask a;
    uint8_t map[TMAP_BYTES];
#define OK(change) do { fresh(&a); change; assert_null(encode(&a, 90, map)); } while (0)
#define NO(change)                             \
    do {                                       \
        fresh(&a);                             \
        change;                                \
        assert_non_null(encode(&a, 90, map));  \
        assert_non_null(tmap_check(&a.r, 90)); \
    } while (0)
    NO(a.r.rank = 0);
    NO(a.r.rank = 6);
    NO(a.r.type = 13); // packed types and wide atoms belong to newer parts
    NO(a.r.type = 14);
    NO(a.r.type = 15);
    NO(a.r.type = 16);
    NO(a.r.type = UINT32_MAX);
    NO(a.r.address += 8);
    OK(a.r.address = 0);                                // nobody looks at the memory
    OK(a.r.address = UINT64_C(1) << 56);
    NO(a.r.address = UINT64_C(1) << 57);
    NO(a.dim[0] = 0);
    NO(a.dim[4] = 0);
    NO(a.dim[1] = (UINT64_C(1) << 32) + 1);
    OK(a.stride[0] = 0);                                // broadcast
    OK(a.stride[0] = 16);                               // smaller than a row
    NO(a.stride[0] = 2056);
    NO(a.stride[3] = UINT64_C(1) << 40);
    OK(a.stride[3] = (UINT64_C(1) << 40) - 16);
    NO(a.box[1] = 0);
    NO(a.box[1] = 257);
    NO(a.box[0] = 0);
    NO(a.step[0] = 0); // not used without interleave, and yet checked
    NO(a.step[0] = 9);
    OK(a.step[0] = 8);
    NO(a.step[1] = 0);
    NO(a.step[1] = 9);
    NO(a.r.swizzle = 4);
    NO(a.r.swizzle = 5);
    NO(a.r.swizzle = 6);
    NO(a.r.swizzle = 7);
    NO(a.r.l2_promotion = 4);
    NO(a.r.fill = 2);
    NO(a.r.interleave = 3);
    NO(a.r.dim = NULL);
    NO(a.r.stride = NULL);
    NO(a.r.box = NULL);
    NO(a.r.element_stride = NULL);
    NO((a.r.rank = 1, a.r.stride = NULL));              // also where no stride is read
    NO((a.r.rank = 2, a.r.interleave = 1));
    NO((a.r.interleave = 2, a.box[0] = 16));            // address only 16-aligned
    NO((a.r.interleave = 2, a.box[0] = 16, a.r.address = 4096, a.stride[0] = 2064));
    OK((a.r.interleave = 2, a.box[0] = 16, a.r.address = 4096));
    NO((a.r.interleave = 1, a.box[0] = 5));
    OK((a.r.interleave = 1, a.box[0] = 64));

    for (uint32_t n = 1; n <= 128; n++) { // inner box: multiples of 16 bytes, at most the span
        static const uint32_t span[] = {512, 32, 64, 128};
        for (uint32_t s = 0; s < 4; s++) {
            fresh(&a);
            a.box[0] = n;
            a.r.swizzle = s;
            assert_int_equal(encode(&a, 90, map) == NULL, 2 * n % 16 == 0 && 2 * n <= span[s]);
        }
    }

    static const struct {                               // the whole box: 228 KB
        uint32_t type, box[3];
        bool ok;
    } boxes[] = {
        {9, {256, 256, 1}, true},  {9, {256, 256, 2}, false}, {9, {64, 256, 7}, true},
        {9, {64, 256, 8}, false},  {0, {256, 256, 3}, true},  {0, {256, 256, 4}, false},
        {4, {256, 114, 1}, true},  {4, {256, 120, 1}, false}, {7, {256, 227, 1}, true},
        {7, {256, 256, 1}, false}, {9, {8, 256, 57}, true},   {9, {8, 256, 60}, false},
    };
    for (size_t i = 0; i < sizeof boxes / sizeof *boxes; i++) {
        fresh(&a);
        a.r.type = boxes[i].type;
        a.r.rank = 3;
        a.r.swizzle = 0;
        memcpy(a.box, boxes[i].box, sizeof boxes[i].box);
        assert_int_equal(encode(&a, 90, map) == NULL, boxes[i].ok);
    }
    fresh(&a);
    a.r.rank = 3;
    a.r.swizzle = 0;
    memcpy(a.box, (uint32_t[]){256, 256, 2}, 12);
    a.step[1] = 2;
    assert_null(encode(&a, 90, map));                   // element strides shrink it
}

static void newer_part(void **state)
{
    (void)state;
    struct ask a;
    struct tmap t;
    uint8_t map[TMAP_BYTES];
    for (uint32_t s = 4; s <= 6; s++) {
        fresh(&a);
        a.r.swizzle = s;
        assert_null(encode(&a, 100, map));
        assert_null(tmap_decode(map, 100, &t));
        assert_int_equal(t.swizzle, s);
    }
    fresh(&a);                                          // 4-bit, packed
    a.r.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B;
    a.box[0] = 128;
    assert_null(encode(&a, 100, map));
    a.dim[0] = 1023;
    assert_non_null(encode(&a, 100, map));
    fresh(&a);                                          // 4-bit, with gaps
    a.r.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B;
    a.r.address = 4096;
    a.box[0] = 128;
    assert_null(encode(&a, 100, map));
    a.box[0] = 64;
    assert_non_null(encode(&a, 100, map));
    a.box[0] = 128;
    a.r.address = 4096 + 16;
    assert_non_null(encode(&a, 100, map));
    a.r.address = 4096;
    a.r.swizzle = CU_TENSOR_MAP_SWIZZLE_64B;
    assert_non_null(encode(&a, 100, map));
    a.r.type = CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B;
    a.r.swizzle = CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B;
    assert_null(encode(&a, 100, map));
    a.r.fill = 1;
    assert_non_null(encode(&a, 100, map));
}

static void decode_gives_back(void **state)
{
    (void)state;
    struct ask a;
    struct tmap t;
    uint8_t map[TMAP_BYTES];
    for (uint32_t rank = 1; rank <= 5; rank++) {
        fresh(&a);
        a.r.rank = rank;
        a.r.l2_promotion = 2;
        a.r.fill = 1;
        a.step[1] = 3;
        assert_null(encode(&a, 90, map));
        assert_null(tmap_decode(map, 90, &t));
        assert_int_equal(t.rank, rank);
        assert_int_equal(t.address, ADDRESS);
        assert_int_equal(t.swizzle, TMAP_SWIZZLE_128B);
        assert_int_equal(t.l2_promotion, 2);
        assert_int_equal(t.fill, TMAP_FILL_NAN);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(t.dim[i], i < rank ? a.dim[i] : 1);
            assert_int_equal(t.box[i], i < rank ? a.box[i] : 1);
            assert_int_equal(t.element_stride[i], i == 1 && rank > 1 ? 3 : 1);
            assert_int_equal(t.stride[i], i == 0 ? 2 : i < rank ? a.stride[i - 1] : 0);
        }
    }
    memset(map, 0, sizeof map);
    assert_non_null(tmap_decode(map, 90, &t));          // illegal instruction on the device
    memset(map, 0xff, sizeof map);
    assert_non_null(tmap_decode(map, 90, &t));
}

// Every field replaced in a map gives the bytes of a map encoded so, but for word 64, which goes
// stale.
static void replace(void **state)
{
    (void)state;
    struct ask a;
    uint8_t map[TMAP_BYTES], want[TMAP_BYTES];
#define SAME()                                      \
    do {                                            \
        memcpy(want + 64, map + 64, 16);            \
        assert_memory_equal(map, want, TMAP_BYTES); \
    } while (0)
    assert_null(encode(fresh(&a), 90, map));
    assert_null(tmap_replace(map, TMAP_GLOBAL_ADDRESS, 0, 0x7f0000001000));
    a.r.address = 0x7f0000001000;
    assert_null(encode(&a, 90, want));
    SAME();
    for (uint32_t i = 0; i < 5; i++) {
        assert_null(tmap_replace(map, TMAP_GLOBAL_DIM, i, 100 + i));
        a.dim[i] = 100 + i;
        assert_null(tmap_replace(map, TMAP_ELEMENT_STRIDE, i, i + 1));
        a.step[i] = i + 1;
        if (i < 4) {
            assert_null(tmap_replace(map, TMAP_GLOBAL_STRIDE, i, UINT64_C(0x9876543210) + 16 * i));
            a.stride[i] = UINT64_C(0x9876543210) + 16 * i;
        }
        assert_null(tmap_replace(map, TMAP_BOX_DIM, i, i ? 3 : 32));
        a.box[i] = i ? 3 : 32;
    }
    assert_null(encode(&a, 90, want));
    SAME();
    assert_null(tmap_replace(map, TMAP_GLOBAL_DIM, 1, 0)); // 2^32 wraps to 0 in a 32-bit register
    a.dim[1] = UINT64_C(1) << 32;
    assert_null(tmap_replace(map, TMAP_SWIZZLE_MODE, 0, 2));
    a.r.swizzle = 2;
    assert_null(tmap_replace(map, TMAP_FILL_MODE, 0, 1));
    a.r.fill = 1;
    assert_null(encode(&a, 90, want));
    SAME();
    static const struct { uint32_t device, api;
    } numbers[] = {
        {0, 0}, {1, 1},  {2, 2}, {3, 3},  {4, 4},   {5, 5},   {6, 6},
        {7, 7}, {8, 10}, {9, 8}, {10, 9}, {11, 11}, {12, 12},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        fresh(&a);
        a.r.swizzle = 0;
        a.box[0] = 16;
        assert_null(encode(&a, 90, map));
        assert_null(tmap_replace(map, TMAP_ELEMTYPE, 0, numbers[i].device));
        a.r.type = numbers[i].api;
        assert_null(encode(&a, 90, want));
        SAME();
    }
    assert_null(tmap_replace(map, TMAP_RANK, 0, 2));
    struct tmap t;
    assert_null(tmap_decode(map, 90, &t));
    assert_int_equal(t.rank, 3);
    assert_non_null(tmap_replace(map, TMAP_RANK, 0, 5));
    assert_non_null(tmap_replace(map, TMAP_BOX_DIM, 0, 0));
    assert_non_null(tmap_replace(map, TMAP_BOX_DIM, 0, 257));
    assert_non_null(tmap_replace(map, TMAP_BOX_DIM, 5, 1));
    assert_non_null(tmap_replace(map, TMAP_ELEMENT_STRIDE, 0, 9));
    assert_non_null(tmap_replace(map, TMAP_GLOBAL_STRIDE, 0, 24));
    assert_null(
        tmap_replace(map, TMAP_GLOBAL_STRIDE, 4, 16)); // assembles, and has no place in the map
    assert_non_null(tmap_replace(map, TMAP_ELEMTYPE, 0, 16));
    assert_non_null(tmap_replace(map, TMAP_SWIZZLE_MODE, 0, 4));
    assert_non_null(tmap_replace(map, TMAP_FILL_MODE, 0, 2));
    assert_non_null(tmap_replace(map, TMAP_INTERLEAVE_LAYOUT, 0, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_the_device),
        cmocka_unit_test(types),
        cmocka_unit_test(refusals),
        cmocka_unit_test(newer_part),
        cmocka_unit_test(decode_gives_back),
        cmocka_unit_test(replace),
    };
    return cmocka_run_group_tests_name("emu/tmap", tests, NULL, NULL);
}
