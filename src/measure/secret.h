// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Proofs of a shared secret that is never sent: HMAC-SHA-256 (RFC 2104) of what both sides chose.
 */
#ifndef MOSAIC_MEASURE_SECRET_H
#define MOSAIC_MEASURE_SECRET_H

#include "base/status.h"

#include <stdbool.h>

enum { SECRET_HEX = 65, SECRET_CHALLENGE = 33 };

/* HMAC of the text in hexadecimal. */
void secret_proof(const char *secret, const char *text, char out[SECRET_HEX]);
/* Takes as long whatever differs. */
bool secret_equal(const char *a, const char *b);
/* Sixteen random bytes in hexadecimal. */
MOSAIC_MUST_USE enum mosaic_status secret_challenge(char out[SECRET_CHALLENGE],
                                                    struct status_error *err);

#endif
