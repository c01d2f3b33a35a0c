// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * How much a test does: all of it in builds for use, a part where a sanitizer makes each step cost
 * ten times as much and the same kind of path is taken by every case.
 */
#ifndef MOSAIC_TESTS_EFFORT_H
#define MOSAIC_TESTS_EFFORT_H

#if defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define IS_SANITIZED 1
#endif

#ifdef IS_SANITIZED
#define EFFORT(all, part) (part)
#else
#define EFFORT(all, part) (all)
#endif

#endif
