// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * A stream of copies that run beside the caller, in order, as a device's copy engine does: a thread
 * with a queue.  A ticket stands for a job; whoever needs its result waits for the ticket.
 */
#ifndef MOSAIC_EXEC_COPY_STREAM_H
#define MOSAIC_EXEC_COPY_STREAM_H

#include "base/status.h"

#include <stddef.h>

struct copy_stream;

/* 0 is a job that has ended. */
typedef unsigned long copy_ticket;

MOSAIC_MUST_USE enum mosaic_status copy_stream_create(struct copy_stream **out,
                                                      struct status_error *err);
/* Waits for what is queued, then ends the thread; NULL is accepted. */
void copy_stream_free(struct copy_stream *stream);

/* Queue a copy; the blocks stay valid until its ticket has been waited for.  Waits for a place
 * where the queue is full. */
copy_ticket copy_stream_copy(struct copy_stream *stream, void *to, const void *from, size_t bytes);
/* Later jobs of `stream` begin after that job of `other`, another stream. */
void copy_stream_after(struct copy_stream *stream, struct copy_stream *other, copy_ticket ticket);
void copy_stream_wait(struct copy_stream *stream, copy_ticket ticket);

#endif
