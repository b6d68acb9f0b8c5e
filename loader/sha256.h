/* sha256.h -- FIPS 180-4. */
#ifndef LOADER_SHA256_H
#define LOADER_SHA256_H

#include <stddef.h>

/* Writes 64 lower-case hexadecimal digits and a terminator. */
void sha256(const void *bytes, size_t size, char hex[65]);

#endif
