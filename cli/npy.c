/* npy.c -- two-dimensional float32 and float16 arrays in NumPy's file format.
 *
 *     "\x93NUMPY"  major minor  header length (2 bytes, little endian; 4 from version 2 on)
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }  padded with spaces to a multiple
 * of 64, then a newline the elements
 */
#define _GNU_SOURCE
#include "npy.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_MAX 65536 /* NumPy's own are 118 bytes here */

struct reading {
    const char *file;
    char *error;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(const struct reading *r,
                                                         const char *format, ...)
{
    const int n = snprintf(r->error, r->size, "%s ", r->file);
    if (n < 0 || (size_t)n >= r->size)
        return false;
    va_list list;
    va_start(list, format);
    vsnprintf(r->error + n, r->size - (size_t)n, format, list);
    va_end(list);
    return false;
}

/* ---- the header: a Python dictionary of three known keys ---- */

static const char *blanks(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* The value of 'key': where it begins, or NULL. The keys cannot occur in the values, which hold no
 * such words. */
static const char *value_of(const char *header, const char *key)
{
    const size_t length = strlen(key);
    for (const char *at = header; (at = strstr(at, key)) != NULL; at += length) {
        const char quote = at == header ? 0 : at[-1];
        if ((quote != '\'' && quote != '"') || at[length] != quote)
            continue;
        const char *colon = blanks(at + length + 1);
        if (*colon == ':')
            return blanks(colon + 1);
    }
    return NULL;
}

static bool read_shape(const struct reading *r, const char *at, struct npy *x)
{
    int64_t dims[2] = { 0, 0 };
    int count = 0;
    if (*at != '(')
        return refuse(r, "has a header without a shape in parentheses");
    at = blanks(at + 1);
    while (*at != ')') {
        if (!isdigit((unsigned char)*at))
            return refuse(r, "has a header whose shape is not a list of numbers");
        int64_t value = 0;
        for (; isdigit((unsigned char)*at); at++)
            if (__builtin_mul_overflow(value, 10, &value) ||
                __builtin_add_overflow(value, *at - '0', &value))
                return refuse(r, "has a dimension of 2^63 or more");
        if (count < 2)
            dims[count] = value;
        count++;
        at = blanks(at);
        if (*at == ',')
            at = blanks(at + 1);
        else if (*at != ')')
            return refuse(r, "has a header whose shape is not a list of numbers");
    }
    if (count != 2)
        return refuse(r, "has %d dimension%s, must have 2", count, count == 1 ? "" : "s");
    x->rows = dims[0];
    x->cols = dims[1];
    return true;
}

static bool read_header(const struct reading *r, const char *header, struct npy *x)
{
    const char *descr = value_of(header, "descr"), *order = value_of(header, "fortran_order"),
               *shape = value_of(header, "shape");
    if (!descr || !order || !shape)
        return refuse(r, "has a header without %s, which a .npy file must have",
                      !descr ? "descr" : !order ? "fortran_order" : "shape");
    const char quote = *descr;
    if (quote != '\'' && quote != '"')
        return refuse(r, "holds records, must hold float32 or float16");
    const int length = (int)strcspn(descr + 1, "'\"\n");
    if (length == 3 && !strncmp(descr + 1, "<f4", 3))
        x->type = PTXMM_F32;
    else if (length == 3 && !strncmp(descr + 1, "<f2", 3))
        x->type = PTXMM_F16;
    else
        return refuse(r, "holds elements of type %.*s, must hold float32 (<f4) or float16 (<f2)",
                      length > 20 ? 20 : length, descr + 1);
    if (!strncmp(order, "True", 4))
        return refuse(
            r, "is in Fortran order, must be in C order (numpy.ascontiguousarray makes it so)");
    if (strncmp(order, "False", 5))
        return refuse(r, "has a header whose fortran_order is neither True nor False");
    return read_shape(r, shape, x);
}

static bool read_file(const struct reading *r, FILE *f, struct npy *x)
{
    unsigned char start[12];
    errno = 0;
    size_t got = fread(start, 1, 10, f);
    if (ferror(f))
        return refuse(r, "cannot be read: %s", strerror(errno));
    if (got < 10 || memcmp(start, "\x93NUMPY", 6))
        return refuse(r, "is not a .npy file: it does not begin with \\x93NUMPY");
    size_t length = (size_t)start[8] | (size_t)start[9] << 8;
    if (start[6] < 1 || start[6] > 3)
        return refuse(r, "is a .npy file of version %d, must be 1, 2 or 3", start[6]);
    if (start[6] > 1) {
        if (fread(start + 10, 1, 2, f) != 2)
            return refuse(r, "ends within its header");
        length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    }
    if (length > HEADER_MAX)
        return refuse(r, "has a header of %zu bytes, must have at most %d", length, HEADER_MAX);
    char *header = malloc(length + 1);
    if (!header)
        return refuse(r, "cannot be read: host memory is exhausted");
    got = fread(header, 1, length, f);
    header[got] = 0;
    const bool whole = got == length && strlen(header) == length;
    const bool fine = whole ? read_header(r, header, x)
                            : refuse(r, got == length ? "has a zero byte in its header"
                                                      : "ends within its header");
    free(header);
    if (!fine)
        return false;

    int64_t elements, bytes;
    if (__builtin_mul_overflow(x->rows, x->cols, &elements) ||
        __builtin_mul_overflow(elements, (int64_t)type_bytes(x->type), &bytes))
        return refuse(r, "claims %lld x %lld elements, more than memory can hold",
                      (long long)x->rows, (long long)x->cols);
    struct stat info;
    const long here = ftell(f);
    if (!fstat(fileno(f), &info) && S_ISREG(info.st_mode) && here >= 0 &&
        info.st_size - here != bytes)
        return refuse(r, "has %lld bytes of data, must have %lld for its shape (%lld, %lld)",
                      (long long)(info.st_size - here), (long long)bytes, (long long)x->rows,
                      (long long)x->cols);
    x->data = malloc((size_t)bytes + 1);
    if (!x->data)
        return refuse(r, "needs %lld bytes, host memory is exhausted", (long long)bytes);
    if (fread(x->data, 1, (size_t)bytes, f) != (size_t)bytes)
        return refuse(r, "ends within its data");
    return true;
}

bool npy_read(const char *file, struct npy *x, char *error, size_t size)
{
    const struct reading r = { file, error, size };
    *x = (struct npy){ 0 };
    FILE *f = fopen(file, "rb");
    if (!f)
        return refuse(&r, "cannot be read: %s", strerror(errno));
    const bool fine = read_file(&r, f, x);
    fclose(f);
    if (!fine)
        npy_free(x);
    return fine;
}

void npy_free(struct npy *x)
{
    free(x->data);
    *x = (struct npy){ 0 };
}

double npy_get(const struct npy *x, int64_t row, int64_t col)
{
    return type_load(x->type, x->data + (size_t)(row * x->cols + col) * type_bytes(x->type));
}

/* ---- writing ---- */

static bool write_array(FILE *f, const struct matrix *x)
{
    const enum ptxmm_type type = x->type == PTXMM_F16 ? PTXMM_F16 : PTXMM_F32;
    char header[128];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", 10); /* version 1.0, 118 bytes follow */
    const int n = snprintf(header + 10, sizeof header - 10,
                           "{'descr': '<f%d', 'fortran_order': False, 'shape': (%lld, %lld), }",
                           type == PTXMM_F16 ? 2 : 4, (long long)x->rows, (long long)x->cols);
    header[10 + n] = ' ';
    header[sizeof header - 1] = '\n';
    if (fwrite(header, 1, sizeof header, f) != sizeof header)
        return false;

    const size_t bytes = type_bytes(type);
    unsigned char *row = malloc((size_t)x->cols * bytes + 1);
    bool fine = row != NULL;
    for (int64_t i = 0; fine && i < x->rows; i++) {
        for (int64_t j = 0; j < x->cols; j++)
            type_store(type, row + (size_t)j * bytes, matrix_get(x, i, j));
        fine = fwrite(row, bytes, (size_t)x->cols, f) == (size_t)x->cols;
    }
    free(row);
    return fine;
}

bool npy_write(const char *file, const struct matrix *x, char *error, size_t size)
{
    const struct reading r = { file, error, size };
    struct stat info;
    /* A pipe or a device is no place for a rename. */
    const bool direct = !stat(file, &info) && !S_ISREG(info.st_mode);
    char *temporary = NULL;
    if (asprintf(&temporary, direct ? "%s" : "%s.%ld.part", file, (long)getpid()) < 0)
        return refuse(&r, "cannot be written: host memory is exhausted");
    FILE *f = fopen(temporary, "wb");
    bool fine = f && write_array(f, x);
    int why = errno;
    if (f && fclose(f) && fine) {
        fine = false;
        why = errno;
    }
    if (fine && !direct && rename(temporary, file)) {
        fine = false;
        why = errno;
    }
    if (!fine && f && !direct)
        unlink(temporary);
    free(temporary);
    return fine || refuse(&r, "cannot be written: %s", strerror(why));
}
