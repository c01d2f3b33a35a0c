// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * The attention core through cuDNN: the graph of products, masks and sums that its fused engines
 * recognise, scores in FP32, statistics of the rows kept for the backward.
 */
#ifndef MOSAIC_CALIBRATION_DNN_ATTENTION_H
#define MOSAIC_CALIBRATION_DNN_ATTENTION_H

#include "attention.h"

struct dnn_attention;

/* Whether there is a library that should do it. */
bool dnn_attention_is_there(void);
/* A failure while it ran: it is asked no more. */
void dnn_attention_give_up(const char *why);

/* Forward alone, or the backward too, on the blocks of `a`; NULL and why where cuDNN is not there
 * or does not do it.  Scratch is taken memory. */
struct dnn_attention *dnn_attention_make(struct probe *probe, const struct attention *a,
                                         bool is_backward, char why[PROBE_TEXT]);
void dnn_attention_forward(struct probe *probe, const struct dnn_attention *made);
void dnn_attention_backward(struct probe *probe, const struct dnn_attention *made);
/* Ends what is not taken memory; NULL is nothing. */
void dnn_attention_free(struct dnn_attention *made);

#endif
