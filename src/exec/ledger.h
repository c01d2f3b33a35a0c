// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * Memory of one kind (device, host) of one rank, counted: every block that an executor holds comes
 * from a ledger, which knows the bytes alive now and the most there ever were.
 */
#ifndef MOSAIC_EXEC_LEDGER_H
#define MOSAIC_EXEC_LEDGER_H

#include "base/status.h"

#include <stddef.h>

/* All zero is empty. One thread's. */
struct ledger {
    size_t live_bytes, peak_bytes;
    size_t taken; /* blocks alive */
};

/* A zeroed block that counts as so many bytes (0 is a block as well), or NULL for lack of memory.
 */
void *ledger_take(struct ledger *ledger, size_t bytes);
/* NULL is accepted. */
void ledger_give(struct ledger *ledger, void *block);
/* Count the peak anew from what is alive now. */
void ledger_mark(struct ledger *ledger);

#endif
