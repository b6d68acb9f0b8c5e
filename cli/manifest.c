/* manifest.c -- the pack as JSON for foreign runtimes. */
#include "manifest.h"

#include <stdio.h>
#include <string.h>

#include "report.h"

#define SCHEMA 1 /* raised when a field changes its meaning or goes; new fields do not raise it */

bool manifest_is_for(const struct ptxmm_kernel_info *k, const char *arch)
{
    /* "sm_90a" is of "sm90": the digits agree. */
    const size_t digits = strspn(k->target + 3, "0123456789");
    return strlen(arch) == 2 + digits && !strncmp(arch + 2, k->target + 3, digits);
}

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* ---- the argument block ---- */

/* X(member, how a runtime reads it, what it means) */
#define ARGUMENT_FIELDS(X)                                                                         \
    X(map_a, "tensor_map", "tensor map of A")                                                      \
    X(map_b, "tensor_map", "tensor map of B")                                                      \
    X(map_d, "tensor_map", "tensor map of D")                                                      \
    X(abi_version, "u32", "abi_version of this manifest; another value: the kernel traps")         \
    X(m, "u32", "rows of D, >= 1")                                                                 \
    X(n, "u32", "columns of D, >= 1")                                                              \
    X(k_slices, "u32", "ceil(K / tile_k); 0: the product is 0 and A and B are not read")           \
    X(tiles_m, "u32", "ceil(m / tile_m); multicast kernels: rounded up to whole clusters")         \
    X(tiles_n, "u32", "ceil(n / tile_n); multicast kernels: rounded up to whole clusters")         \
    X(raster, "u32", "rows of tiles walked column by column together, >= 1; any value is right. "   \
                     "Multicast kernels: rows of tiles in a cluster")                               \
    X(flags, "u32", "bits: see flags of this manifest; all others 0")                              \
    X(d, "address", "of D")                                                                        \
    X(ldd, "u64", "leading dimension of D in elements")                                            \
    X(c, "address", "of C, stored like D; not read when beta is 0")                                \
    X(ldc, "u64", "leading dimension of C in elements")                                            \
    X(alpha_at, "address", "of a float in device memory that replaces alpha, or 0")                \
    X(beta_at, "address", "of a float in device memory that replaces beta, or 0")                  \
    X(alpha, "f32", "factor of the product")                                                       \
    X(beta, "f32", "factor of C")                                                                  \
    X(idesc, "u32", "sm100: instruction descriptor of tcgen05.mma; sm90: 0")                       \
    X(groups, "u32", "split and multicast kernels: clusters that share a tile's K, at least 1; "   \
                     "others: 0")                                                                  \
    X(workspace, "address", "where groups > 1: see workspace of the kernel; else 0")               \
    X(batch_stride_d, "u64", "from one matrix of D to the next in elements; read when batch > 1") \
    X(batch_stride_c, "u64", "the same of C; 0: all products add the same C")                      \
    X(batch, "u32", "products of the batch, >= 1")                                                 \
    X(reserved, "u32", "0")

/* X(name, value, what it means) */
#define ARGUMENT_FLAGS(X)                                                                          \
    X("f16_out", PTXMM_FLAG_F16_OUT,                                                               \
      "kernels whose d is bf16_or_f16: D and C are f16; without it bf16")                          \
    X("constant_a", PTXMM_FLAG_CONSTANT_A,                                                         \
      "a promise: nothing that comes before this launch in its stream, and has not ended when the " \
      "launch is made, writes A; it may then be read while the kernel before still runs")          \
    X("constant_b", PTXMM_FLAG_CONSTANT_B, "the same of B")

static json_t *argument_layout(void)
{
    json_t *fields = json_array();
#define FIELD(member, how, words)                                                                  \
    json_array_append_new(fields,                                                                  \
                          json_pack("{s:s, s:i, s:i, s:s, s:s}", "name", #member, "offset",        \
                                    (int)offsetof(struct ptxmm_gemm_args, member), "bytes",        \
                                    (int)sizeof(((struct ptxmm_gemm_args *)0)->member), "type",    \
                                    how, "meaning", words));
    ARGUMENT_FIELDS(FIELD)
#undef FIELD
    json_t *flags = json_array();
#define FLAG(name, value, words)                                                                   \
    json_array_append_new(flags, json_pack("{s:s, s:i, s:s}", "name", name, "value", value,        \
                                           "meaning", words));
    ARGUMENT_FLAGS(FLAG)
#undef FLAG
    return json_pack("{s:s, s:i, s:i, s:o, s:o}", "passing", "one kernel parameter, by value",
                     "bytes", (int)sizeof(struct ptxmm_gemm_args), "alignment",
                     (int)_Alignof(struct ptxmm_gemm_args), "fields", fields, "flags", flags);
}

/* ---- one kernel ---- */

/* cuda.h's CUtensorMapDataType. */
static const char *map_type(enum ptxmm_type type)
{
    switch (type) {
    case PTXMM_BF16: return "BFLOAT16";
    case PTXMM_F16: return "FLOAT16";
    case PTXMM_F32: return "FLOAT32";
    case PTXMM_BF16_OR_F16: return "BFLOAT16 or FLOAT16";
    default: return "UINT8";
    }
}

static size_t bytes_of(enum ptxmm_type type)
{
    return type == PTXMM_BF16_OR_F16 ? 2 : type_bytes(type);
}

/* A tensor map as arguments of cuTensorMapEncodeTiled. */
static json_t *map_recipe(const char *base, enum ptxmm_type type, const char *inner,
                          const char *outer, const char *ld, uint32_t box_outer,
                          const char *shares)
{
    const int bytes = (int)bytes_of(type);
    char pitch[64], apart[64];
    snprintf(pitch, sizeof pitch, "%s * %d", ld, bytes);
    snprintf(apart, sizeof apart, "batch_stride_%s * %d", base, bytes);
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:[s,s,s], s:[s,s], s:[i,i,i], s:[i,i,i], s:s, s:s, s:s}",
                     "data_type", map_type(type), "address", base, "rank", 3, "global_dim", inner,
                     outer, "batch", "global_stride_bytes", pitch, apart, "box_dim", 128 / bytes,
                     (int)box_outer, 1, "element_stride", 1, 1, 1, "interleave", "NONE", "swizzle",
                     "128B", "fill", "zero");
    if (shares) /* rows of a box depend on the launch; those above are for a cluster of 1 */
        put(o, "box_rows_divided_by", json_string(shares));
    return o;
}

static json_t *maps_of(const struct ptxmm_kernel_info *k)
{
    const bool multicast = k->algorithm == PTXMM_MULTICAST;
    return json_pack("{s:o, s:o, s:o}",
                     "map_a", map_recipe("a", k->a, "K", "M", "lda", k->tile_m / k->cluster,
                                         multicast ? "cluster / raster" : NULL),
                     "map_b", map_recipe("b", k->b, "K", "N", "ldb", k->tile_n / k->cluster,
                                         multicast ? "raster" : NULL),
                     "map_d", map_recipe("d", k->d, "N", "M", "ldd", 64, NULL));
}

static json_t *constraints_of(const struct ptxmm_kernel_info *k)
{
    return json_pack("{s:i, s:{s:i, s:i, s:i, s:i}, s:s, s:s, s:s, s:s, s:s, s:s, s:s}",
                     "address_multiple_bytes", 16, "leading_dimension_multiple", "a",
                     (int)(16 / bytes_of(k->a)), "b", (int)(16 / bytes_of(k->b)), "c",
                     (int)(16 / bytes_of(k->d)), "d", (int)(16 / bytes_of(k->d)), "a_layout",
                     "K-major: stored [M][K]", "b_layout", "K-major: stored [N][K]", "c_layout",
                     "row-major: stored [M][N]", "d_layout", "row-major: stored [M][N]", "sizes",
                     "1 <= M, N < 2^31; 0 <= K < 2^31; leading dimensions at least the row",
                     "batch",
                     "batch strides are multiples of 16 bytes below 2^40; 0 in A, B or C: one "
                     "matrix for all products; those of D do not overlap; batch * tiles_m * "
                     "tiles_n < 2^31",
                     "rows_behind", "nothing outside the M x N elements of D is written");
}

static json_t *launch_of(const struct ptxmm_kernel_info *k)
{
    const bool persistent = k->schedule == PTXMM_SCHEDULE_STATIC;
    if (k->algorithm == PTXMM_SPLIT)
        return json_pack(
            "{s:[i,i,i], s:i, s:s, s:i, s:i, s:s, s:s, s:s}", "block", (int)k->threads, 1, 1,
            "cluster", (int)k->cluster, "cluster_choice",
            "any from 1 to 8, by the launch attribute alone: its CTAs share each tile's K; 1, 2, "
            "3, 4 and 8 are worth a try. Boxes do not depend on it",
            "dynamic_shared_bytes", (int)k->shared_bytes, "least_shared_bytes",
            (int)(k->shared_bytes - (k->stages - PTXMM_LEAST_STAGES) * (k->tile_m + k->tile_n) * 128), "shared_choice",
            "anything between: the load ring has as many slots as fit, at most `stages`", "grid",
            "[g, 1, 1], g any multiple of the chosen cluster from it to batch * tiles_m * tiles_n * "
            "groups * cluster; best: as many CTAs as SMs",
            "programmatic_stream_serialization",
            "allowed: the kernel waits before it touches memory, save what flags promise");
    if (k->algorithm == PTXMM_MULTICAST)
        return json_pack(
            "{s:[i,i,i], s:i, s:s, s:i, s:s, s:s, s:s}", "block", (int)k->threads, 1, 1, "cluster",
            (int)k->cluster, "cluster_choice",
            "1, 2, 4 or 8, by the launch attribute alone: its CTAs compute raster rows of cluster / "
            "raster tiles, raster being 1, 2, 4 or 8 and at most the cluster, and share loads. "
            "Boxes, tiles_m and tiles_n depend on it",
            "dynamic_shared_bytes", (int)k->shared_bytes, "grid",
            "[batch * tiles_m * tiles_n * groups, 1, 1], exactly; a multiple of the chosen cluster "
            "because tiles_m is one of raster and tiles_n of cluster / raster",
            "cooperative",
            "needed if groups > 1: CTAs wait for one another, and all must run at a time",
            "programmatic_stream_serialization",
            "allowed: the kernel waits before it touches memory");
    return json_pack("{s:[i,i,i], s:i, s:i, s:s, s:s}", "block", (int)k->threads, 1, 1, "cluster",
                     (int)k->cluster, "dynamic_shared_bytes", (int)k->shared_bytes, "grid",
                     persistent ? "[g, 1, 1], g any multiple of cluster from cluster to batch * "
                                  "tiles_m * tiles_n * cluster; best: as many CTAs as SMs"
                                : "[batch * tiles_m * tiles_n * cluster, 1, 1]",
                     "programmatic_stream_serialization",
                     "allowed: the kernel waits before it touches memory, save what flags promise");
}

static json_t *precision_of(const struct ptxmm_kernel_info *k)
{
    json_t *o = json_object();
    put(o, "products", json_string("exact"));
    put(o, "accumulator", json_string(type_name(k->accumulator)));
    put(o, "step",
        json_string(type_is_fp8(k->a)
                        ? "32 products and the accumulator, each cut 13 bits below the largest "
                          "exponent among them, added exactly, the sum cut to 14 bits"
                        : "16 products and the accumulator, each cut 25 bits below the largest "
                          "exponent among them, added exactly, the sum cut to 24 bits"));
    const bool split = k->algorithm == PTXMM_SPLIT, multicast = k->algorithm == PTXMM_MULTICAST;
    put(o, "order",
        json_string(split || multicast ? "K ascending within each part, one chain of steps"
                          : "K ascending, one chain of steps"));
    put(o, "promotion_interval", k->promotion ? json_integer(k->promotion) : json_null());
    if (k->promotion)
        put(o, "promotion",
            json_string("the sum of so many products of K starts at 0 and is added to one in f32, "
                        "rounded to nearest even"));
    put(o, "partials",
        json_string(split ? "K in cluster * groups parts of equal length, up to a slice; sums in f32 "
                            "are added by rank within a cluster, then by group, rounded to nearest "
                            "even each time"
                    : multicast ? "K in `groups` parts: group g has the slices of tile_k g, g + groups, "
                                  "...; sums in f32 are added by group, rounded to nearest even each "
                                  "time"
                                : "none: K is never split"));
    put(o, "epilogue", json_string("alpha * sum + beta * C in f32, rounded to nearest even"));
    put(o, "output_rounding", json_string("once, to nearest even"));
    put(o, "saturation", json_string("none: overflow gives infinity"));
    put(o, "subnormals", json_string("kept"));
    put(o, "nan",
        json_string(
            "a NaN in a row of A spoils that row of D and no other; the same for columns of B"));
    return o;
}

/* What only split and multicast kernels need. */
static json_t *workspace_of(const struct ptxmm_kernel_info *k)
{
    char bytes[96];
    snprintf(bytes, sizeof bytes, "%d + batch * tiles_m * tiles_n * groups * %d", PTXMM_WORKSPACE_COUNTERS,
             (int)(k->tile_m * k->tile_n * sizeof(float)));
    return json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "needed", "if groups > 1", "bytes", bytes,
                     "zero_bytes", PTXMM_WORKSPACE_COUNTERS, "zero",
                     "the first zero_bytes, before the first launch; every launch leaves zeros",
                     "limit",
                     k->algorithm == PTXMM_MULTICAST
                         ? "batch * tiles_m * tiles_n * 8 at most zero_bytes, or the kernel traps"
                         : "batch * tiles_m * tiles_n * cluster * 4 at most zero_bytes, or the kernel "
                           "traps",
                     "sharing",
                     "launches in the order of a stream may share one, whatever their shapes and "
                     "kernels; launches that may overlap must not");
}

/* What only sm100 needs. */
static json_t *tcgen05_of(const struct ptxmm_kernel_info *k)
{
    const json_int_t base = (json_int_t)(k->tile_m / 16 << 24 | k->tile_n / 8 << 17 | 1u << 4);
    return json_pack("{s:s, s:I, s:i, s:i, s:s}", "idesc",
                     "1 << 4 | bf16(A) << 7 | bf16(B) << 10 | tile_n / 8 << 17 | tile_m / 16 << 24",
                     "idesc_for_f16", base, "idesc_add_if_a_is_bf16",
                     1 << 7, "idesc_add_if_b_is_bf16", 1 << 10, "tensor_map_remedy",
                     "after encoding a map of less than 128 KiB whose rows are not packed, clear "
                     "bit 21 of its second 64-bit word");
}

json_t *manifest_kernel(const struct ptxmm_kernel_info *k)
{
    json_t *o = json_object();
    const size_t digits = strspn(k->target + 3, "0123456789");
    const bool family = k->target[3 + digits] == 'f';
    char arch[16];
    snprintf(arch, sizeof arch, "%s", k->target + 3);
    put(o, "id", json_string(k->name));
    put(o, "entry", json_string(k->name));
    put(o, "target", json_string(k->target));
    put(o, "architecture",
        json_pack("{s:s, s:s}", "match", family ? "family" : "exact", "compute_capability", arch));
    put(o, "min_driver_version", json_integer(k->min_driver));
    put(o, "abi_version", json_integer(k->abi_version));
    put(o, "algorithm", json_string(algorithm_name(k->algorithm)));
    put(o, "schedule", json_string(schedule_name(k->schedule)));
    put(o, "types",
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "a", type_name(k->a), "b", type_name(k->b),
                  "accumulator", type_name(k->accumulator), "c", type_name(k->d), "d",
                  type_name(k->d)));
    put(o, "tile",
        json_pack("{s:i, s:i, s:i}", "m", (int)k->tile_m, "n", (int)k->tile_n, "k",
                  (int)k->tile_k));
    put(o, "stages", json_integer(k->stages));
    put(o, "launch", launch_of(k));
    put(o, "tensor_maps", maps_of(k));
    put(o, "constraints", constraints_of(k));
    put(o, "precision", precision_of(k));
    if (k->algorithm == PTXMM_ONE_CTA || k->algorithm == PTXMM_CTA_PAIR)
        put(o, "tcgen05", tcgen05_of(k));
    if (k->algorithm == PTXMM_SPLIT || k->algorithm == PTXMM_MULTICAST)
        put(o, "workspace", workspace_of(k));
    put(o, "deterministic", json_boolean(k->deterministic));
    put(o, "batch_invariant", json_boolean(k->batch_invariant));
    return o;
}

json_t *manifest_create(json_t *kernels)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", PTXMM_VERSION_MAJOR, PTXMM_VERSION_MINOR,
             PTXMM_VERSION_PATCH);
    json_t *o = json_object();
    put(o, "schema", json_integer(SCHEMA));
    put(o, "pack", json_string("ptxmm"));
    put(o, "version", json_string(version));
    put(o, "abi_version", json_integer(PTXMM_ABI_VERSION));
    put(o, "formula",
        json_string("D[m,n] = alpha * sum over k of A[m,k] * B[k,n] + beta * C[m,n]"));
    put(o, "arguments", argument_layout());
    put(o, "kernels", kernels);
    return o;
}
