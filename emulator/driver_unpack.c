// Compressed text of a fat binary. nvcc packs it with zstd, older ones with LZ4; the library that
// unpacks it is looked for on the machine when it is needed, and nothing else needs it.
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXT = 1 << 30 };

// dlsym gives an object pointer, as POSIX wants it: its bits are the function's address.
static bool look_up(const char *library, const char *name, void *function, size_t size)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *symbol;
    if (!handle)
        return false;
    symbol = dlsym(handle, name); // the library stays
    if (symbol)
        memcpy(function, &symbol, size);
    return symbol != NULL;
}

static bool unpack_zstd(char *text, size_t bytes, const void *packed, size_t packed_bytes,
                        const char **why)
{
    size_t (*decompress)(void *, size_t, const void *, size_t);
    if (!look_up("libzstd.so.1", "ZSTD_decompress", &decompress, sizeof decompress)) {
        *why = "the PTX in the fat binary is compressed, and libzstd.so.1, which could unpack it, is "
               "not on this machine (nvcc --no-compress leaves it as it is)";
        return false;
    }
    return decompress(text, bytes, packed, packed_bytes) == bytes; // errors are huge numbers
}

static bool unpack_lz4(char *text, size_t bytes, const void *packed, size_t packed_bytes,
                       const char **why)
{
    int (*decompress)(const char *, char *, int, int);
    if (!look_up("liblz4.so.1", "LZ4_decompress_safe", &decompress, sizeof decompress)) {
        *why = "the PTX in the fat binary is compressed, and liblz4.so.1, which could unpack it, is "
               "not on this machine (nvcc --no-compress leaves it as it is)";
        return false;
    }
    return decompress(packed, text, (int)packed_bytes, (int)bytes) == (int)bytes;
}

char *text_unpack(enum packing packing, const void *packed, size_t packed_bytes, uint64_t bytes,
                  const char **why)
{
    *why = "the compressed PTX in the fat binary is damaged";
    if (bytes == 0 || bytes > MOST_TEXT || packed_bytes > MOST_TEXT)
        return NULL;
    char *text = malloc((size_t)bytes + 1);
    if (!text) {
        *why = "memory is exhausted";
        return NULL;
    }
    const bool ok = packing == PACKED_ZSTD ? unpack_zstd(text, (size_t)bytes, packed, packed_bytes, why)
                                           : unpack_lz4(text, (size_t)bytes, packed, packed_bytes, why);
    if (!ok) {
        free(text);
        return NULL;
    }
    text[bytes] = 0;
    return text;
}
