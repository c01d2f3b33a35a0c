// SPDX-License-Identifier: GPL-3.0-or-later
/* A block is preceded by its size. */
#include "exec/ledger.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

struct head {
    _Alignas(max_align_t) size_t bytes;
};

void *ledger_take(struct ledger *ledger, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        return NULL;
    struct head *const head = calloc(1, sizeof *head + bytes);
    if (!head)
        return NULL;
    head->bytes = bytes;
    ledger->live_bytes += bytes;
    ledger->taken++;
    if (ledger->live_bytes > ledger->peak_bytes)
        ledger->peak_bytes = ledger->live_bytes;
    return head + 1;
}

void ledger_give(struct ledger *ledger, void *block) {
    if (!block)
        return;
    struct head *const head = (struct head *)block - 1;
    assert(ledger->taken > 0 && ledger->live_bytes >= head->bytes);
    ledger->live_bytes -= head->bytes;
    ledger->taken--;
    free(head);
}

void ledger_mark(struct ledger *ledger) {
    ledger->peak_bytes = ledger->live_bytes;
}
