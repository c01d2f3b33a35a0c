// SPDX-License-Identifier: GPL-3.0-or-later
/* HMAC over libmd's SHA-256. */
#include "measure/secret.h"

#include <sha2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static void to_hex(const uint8_t *bytes, size_t count, char *out) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; ++i) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * count] = '\0';
}

/* SHA-256 of a pad of the key, then the bytes. */
static void padded(const uint8_t key[SHA256_BLOCK_LENGTH], uint8_t pad, const void *bytes,
                   size_t size, uint8_t out[SHA256_DIGEST_LENGTH]) {
    uint8_t block[SHA256_BLOCK_LENGTH];
    SHA2_CTX context;
    for (size_t i = 0; i < sizeof block; ++i)
        block[i] = key[i] ^ pad;
    SHA256Init(&context);
    SHA256Update(&context, block, sizeof block);
    SHA256Update(&context, bytes, size);
    SHA256Final(out, &context);
}

void secret_proof(const char *secret, const char *text, char out[SECRET_HEX]) {
    enum { INNER = 0x36, OUTER = 0x5c };
    uint8_t key[SHA256_BLOCK_LENGTH] = {0}, inner[SHA256_DIGEST_LENGTH];
    uint8_t digest[SHA256_DIGEST_LENGTH];
    const size_t length = strlen(secret);
    if (length > sizeof key) {
        SHA2_CTX context;
        SHA256Init(&context);
        SHA256Update(&context, (const uint8_t *)secret, length);
        SHA256Final(key, &context);
    } else {
        for (size_t i = 0; i < length; ++i)
            key[i] = (uint8_t)secret[i];
    }
    padded(key, INNER, text, strlen(text), inner);
    padded(key, OUTER, inner, sizeof inner, digest);
    to_hex(digest, sizeof digest, out);
}

bool secret_equal(const char *a, const char *b) {
    const size_t length = strlen(a);
    unsigned differs = 0;
    if (strlen(b) != length)
        return false;
    for (size_t i = 0; i < length; ++i)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

enum mosaic_status secret_challenge(char out[SECRET_CHALLENGE], struct status_error *err) {
    uint8_t bytes[(SECRET_CHALLENGE - 1) / 2];
    FILE *const source = fopen("/dev/urandom", "rb");
    const bool ok = source && fread(bytes, 1, sizeof bytes, source) == sizeof bytes;
    if (source)
        (void)fclose(source);
    if (!ok)
        return status_set(err, MOSAIC_IO, "cannot read /dev/urandom");
    to_hex(bytes, sizeof bytes, out);
    return MOSAIC_OK;
}
