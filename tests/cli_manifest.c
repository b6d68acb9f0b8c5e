/* cli_manifest.c -- what `ptxmm export` writes, held against ptx/kernels.def, ptxmm_abi.h and the files beside it. The rows are
 * read here as text, not through the loader's tables. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "ptxmm.h"

enum { COLUMNS = 16, LENGTH = 64 };

#define KERNEL(...) #__VA_ARGS__,
static const char *const rows[] = {
#include "ptx/kernels.def"
};
#undef KERNEL
#define ROWS (sizeof rows / sizeof *rows)

static char folder[] = "/tmp/ptxmm-manifest-XXXXXX";
static json_t *manifest;

/* Splits a row into its columns; the schedule stands before the last column. Returns their number. */
static int split(const char *row, char column[COLUMNS][LENGTH])
{
    int count = 0;
    while (*row) {
        const size_t length = strcspn(row, ",");
        const char *start = row + strspn(row, " ");
        assert_true(count < COLUMNS && length < LENGTH);
        snprintf(column[count++], LENGTH, "%.*s", (int)(row + length - start), start);
        row += length + (row[length] == ',');
    }
    return count;
}

/* Without ptxas there are no cubins, and nothing is exported. */
static void need_cubins(void)
{
    struct ptxmm_image image;
    struct ptxmm_error error;
    if (!ptxmm_kernel_image(0, &image, &error)) return;
    print_message("skipped: %s\n", error.text);
    skip();
}

static json_t *at(json_t *object, const char *path)
{
    char key[LENGTH];
    while (*path) {
        const size_t length = strcspn(path, ".");
        snprintf(key, sizeof key, "%.*s", (int)length, path);
        object = json_object_get(object, key);
        if (!object) fail_msg("manifest.json has no \"%s\"", key);
        path += length + (path[length] == '.');
    }
    return object;
}

static const char *text_at(json_t *object, const char *path)
{
    json_t *value = at(object, path);
    if (!json_is_string(value)) fail_msg("\"%s\" is not a string", path);
    return json_string_value(value);
}

static int64_t number_at(json_t *object, const char *path)
{
    json_t *value = at(object, path);
    if (!json_is_integer(value)) fail_msg("\"%s\" is not an integer", path);
    return json_integer_value(value);
}

/* Runs a command and keeps the first word it prints. */
static int run(char *word, const char *format, ...)
{
    char command[1024], line[256] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        if (word && sscanf(line, "%64s", word) == 1) word = NULL;
    return pclose(pipe);
}

static int export_pack(void **state)
{
    char self[512], path[600];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    struct ptxmm_image image;
    (void)state;
    if (ptxmm_kernel_image(0, &image, NULL)) return 0;
    if (length < 0 || !mkdtemp(folder)) return -1;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    if (run(NULL, "'%s/../bin/ptxmm' export '%s'", self, folder)) return -1;
    snprintf(path, sizeof path, "%s/manifest.json", folder);
    manifest = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    return manifest ? 0 : -1;
}

static int clean(void **state)
{
    (void)state;
    if (!manifest) return 0;
    json_decref(manifest);
    return run(NULL, "rm -r '%s'", folder);
}

static const char *type_word(const char *column)
{
    return strcmp(column, "h16") == 0        ? "bf16_or_f16"
           : strcmp(column, "promoted") == 0 ? "f32"
                                             : column;
}

static void rows_agree(void **state)
{
    (void)state;
    need_cubins();
    json_t *kernels = at(manifest, "kernels");
    assert_int_equal(json_array_size(kernels), ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        static const char *const types[] = { "types.a", "types.b", "types.accumulator", "types.d" };
        static const char *const sizes[] = { "tile.m", "tile.n", "tile.k", "stages" };
        char column[COLUMNS][LENGTH], name[2 * LENGTH + 8], target[2 * LENGTH + 8];
        json_t *kernel = json_array_get(kernels, i);
        const int count = split(rows[i], column);
        print_message("%s\n", text_at(kernel, "id"));
        snprintf(name, sizeof name, "sm%s_%s", column[0], column[3]);
        snprintf(target, sizeof target, "sm_%s%s", column[0], column[1]);
        assert_string_equal(text_at(kernel, "id"), name);
        assert_string_equal(text_at(kernel, "entry"), name);
        assert_string_equal(text_at(kernel, "target"), target);
        assert_string_equal(text_at(kernel, "architecture.match"), column[1][0] == 'a' ? "exact" : "family");
        for (int j = 0; j < 4; j++)
            assert_string_equal(text_at(kernel, types[j]), type_word(column[4 + j]));
        for (int j = 0; j < 4; j++)
            assert_int_equal(number_at(kernel, sizes[j]), atoi(column[8 + j]));
        if (strcmp(column[6], "promoted"))
            assert_true(json_is_null(at(kernel, "precision.promotion_interval")));
        else
            assert_int_equal(number_at(kernel, "precision.promotion_interval"), atoi(column[10]));
        assert_int_equal(json_integer_value(json_array_get(at(kernel, "launch.block"), 0)), atoi(column[12]));
        assert_int_equal(number_at(kernel, "launch.cluster"), atoi(column[13]));
        assert_int_equal(number_at(kernel, "launch.dynamic_shared_bytes"), atoi(column[count - 1]));
        assert_int_equal(number_at(kernel, "abi_version"), PTXMM_ABI_VERSION);
        assert_true(number_at(kernel, "min_driver_version") >= 12000);
        assert_true(json_is_boolean(at(kernel, "deterministic")));
        assert_true(json_is_boolean(at(kernel, "batch_invariant")));
        const int multicast = !strcmp(column[2], "multicast");
        if (multicast || !strcmp(column[2], "split")) {
            char bytes[96];
            snprintf(bytes, sizeof bytes, "%d + batch * tiles_m * tiles_n * groups * %d", PTXMM_WORKSPACE_COUNTERS,
                     atoi(column[8]) * atoi(column[9]) * 4);
            assert_string_equal(text_at(kernel, "workspace.bytes"), bytes);
            assert_int_equal(number_at(kernel, "workspace.zero_bytes"), PTXMM_WORKSPACE_COUNTERS);
            assert_non_null(strstr(text_at(kernel, "launch.cluster_choice"), multicast ? "1, 2, 4 or 8" : "1 to 8"));
            assert_non_null(strstr(text_at(kernel, "workspace.limit"), multicast ? "tiles_n * 8" : "cluster * 4"));
            assert_non_null(strstr(text_at(kernel, "precision.partials"), multicast ? "`groups` parts" : "cluster * groups"));
        } else
            assert_null(json_object_get(kernel, "workspace"));
        if (multicast) {
            assert_non_null(strstr(text_at(kernel, "launch.grid"), "tiles_n * groups, 1, 1], exactly"));
            assert_non_null(strstr(text_at(kernel, "launch.cooperative"), "groups > 1"));
        } else
            assert_null(json_object_get(at(kernel, "launch"), "cooperative"));
    }
}

/* The tensor-map recipes, as ptxmm_abi.h tells them. */
static void maps_agree(void **state)
{
    (void)state;
    need_cubins();
    for (size_t i = 0; i < ROWS; i++) {
        char column[COLUMNS][LENGTH];
        json_t *kernel = json_array_get(at(manifest, "kernels"), i);
        split(rows[i], column);
        for (int operand = 0; operand < 3; operand++) {
            static const char *const maps[] = { "tensor_maps.map_a", "tensor_maps.map_b", "tensor_maps.map_d" };
            const char *type = column[operand == 2 ? 7 : 4 + operand];
            const int bytes = strcmp(type, "f32") == 0                                  ? 4
                              : strcmp(type, "e4m3") == 0 || strcmp(type, "e5m2") == 0 ? 1
                                                                                       : 2;
            const int cluster = atoi(column[13]);
            const int outer = operand == 2 ? 64 : atoi(column[8 + operand]) / cluster;
            json_t *map = at(kernel, maps[operand]);
            json_t *box = at(map, "box_dim");
            assert_int_equal(number_at(map, "rank"), 3);
            assert_int_equal(json_integer_value(json_array_get(box, 0)), 128 / bytes);
            assert_int_equal(json_integer_value(json_array_get(box, 1)), outer);
            assert_int_equal(json_integer_value(json_array_get(box, 2)), 1);
            if (operand < 2 && !strcmp(column[2], "multicast"))
                assert_string_equal(text_at(map, "box_rows_divided_by"), operand ? "raster" : "cluster / raster");
            else
                assert_null(json_object_get(map, "box_rows_divided_by"));
            assert_string_equal(text_at(map, "swizzle"), "128B");
            assert_string_equal(text_at(map, "interleave"), "NONE");
        }
    }
}

static void arguments_agree(void **state)
{
#define FIELD(name) { #name, offsetof(struct ptxmm_gemm_args, name), sizeof(((struct ptxmm_gemm_args *)0)->name) }
    static const struct { const char *name; size_t offset, bytes; } fields[] = {
        FIELD(map_a), FIELD(map_b), FIELD(map_d), FIELD(abi_version), FIELD(m), FIELD(n), FIELD(k_slices), FIELD(tiles_m),
        FIELD(tiles_n), FIELD(raster), FIELD(flags), FIELD(d), FIELD(ldd), FIELD(c), FIELD(ldc), FIELD(alpha_at), FIELD(beta_at),
        FIELD(alpha), FIELD(beta), FIELD(idesc), FIELD(groups), FIELD(workspace), FIELD(batch_stride_d),
        FIELD(batch_stride_c), FIELD(batch),
    };
    (void)state;
    need_cubins();
    json_t *listed = at(manifest, "arguments.fields");
    int64_t end = 0;
    assert_int_equal(number_at(manifest, "arguments.bytes"), sizeof(struct ptxmm_gemm_args));
    assert_int_equal(number_at(manifest, "arguments.alignment"), _Alignof(struct ptxmm_gemm_args));
    /* Every byte of the block belongs to one field, in order. */
    for (size_t i = 0; i < json_array_size(listed); i++) {
        json_t *field = json_array_get(listed, i);
        assert_int_equal(number_at(field, "offset"), end);
        end += number_at(field, "bytes");
    }
    assert_int_equal(end, sizeof(struct ptxmm_gemm_args));
    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
        json_t *found = NULL;
        for (size_t i = 0; i < json_array_size(listed) && !found; i++)
            if (!strcmp(text_at(json_array_get(listed, i), "name"), fields[f].name)) found = json_array_get(listed, i);
        if (!found) fail_msg("arguments.fields has no \"%s\"", fields[f].name);
        assert_int_equal(number_at(found, "offset"), fields[f].offset);
        assert_int_equal(number_at(found, "bytes"), fields[f].bytes);
    }
    static const struct { const char *name; int value; } flags[] = {
        { "f16_out", PTXMM_FLAG_F16_OUT }, { "constant_a", PTXMM_FLAG_CONSTANT_A }, { "constant_b", PTXMM_FLAG_CONSTANT_B },
    };
    listed = at(manifest, "arguments.flags");
    assert_int_equal(json_array_size(listed), sizeof flags / sizeof *flags);
    for (size_t i = 0; i < json_array_size(listed); i++) {
        assert_string_equal(text_at(json_array_get(listed, i), "name"), flags[i].name);
        assert_int_equal(number_at(json_array_get(listed, i), "value"), flags[i].value);
    }
}

/* Files, sizes and hashes; the hash by sha256sum, which shares no code with the loader. */
static void files_agree(void **state)
{
    (void)state;
    need_cubins();
    for (size_t i = 0; i < ROWS; i++) {
        json_t *kernel = json_array_get(at(manifest, "kernels"), i);
        struct ptxmm_image image;
        char word[65] = "";
        assert_int_equal(ptxmm_kernel_image(i, &image, NULL), PTXMM_OK);
        assert_int_equal(number_at(kernel, "cubin.bytes"), image.size);
        assert_string_equal(text_at(kernel, "cubin.sha256"), image.sha256);
        assert_int_equal(run(word, "sha256sum '%s/%s'", folder, text_at(kernel, "cubin.file")), 0);
        assert_string_equal(word, image.sha256);
        assert_int_equal(run(word, "wc -c < '%s/%s'", folder, text_at(kernel, "ptx.file")), 0);
        assert_int_equal(number_at(kernel, "ptx.bytes"), atoll(word));
        assert_int_equal(run(NULL, "grep -q '\\.entry %s(' '%s/%s'", text_at(kernel, "entry"), folder,
                             text_at(kernel, "ptx.file")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree),
        cmocka_unit_test(maps_agree),
        cmocka_unit_test(arguments_agree),
        cmocka_unit_test(files_agree),
    };
    return cmocka_run_group_tests_name("manifest", tests, export_pack, clean);
}
