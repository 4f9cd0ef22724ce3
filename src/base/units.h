/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes and times as people write and read them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A number without a unit is surely a slip, and refused; but 0 needs none. */

/* Parses "10G", "1.5 MiB", "200MB", "4096B": K/M/G/T/P/E alone or with iB are powers of 1024, with
 * B powers of 1000. Returns 0, -EINVAL (not a size) or -ERANGE (negative or past 2^64-1). */
int size_parse(const char *s, uint64_t *ret_bytes);

/* Parses "5%" or "12.5 %", 0 to 1 then. Returns 0, -EINVAL or -ERANGE. */
int share_parse(const char *s, double *ret);

/* Parses systemd's time spans: "90s", "1h 30min", "2ms", "1.5d". Returns 0, -EINVAL or
 * -ERANGE. "infinity" is not accepted here. */
int timespan_parse(const char *s, uint64_t *ret_usec);

/* Writes the digits without a NUL behind them, at most 20. Returns their end. */
char *number_put(char *at, uint64_t n);

/* Writes "1.5 GiB", "312 B" into buf and returns buf. 16 bytes are always enough. */
char *size_format(char *buf, size_t len, uint64_t bytes);

/* Writes "2h 5min", "12s", "340ms" into buf and returns buf. 32 bytes are always enough. */
char *timespan_format(char *buf, size_t len, uint64_t usec);

/* Writes 1234567 as "1,234,567" into buf and returns buf. 28 bytes are always enough. */
char *count_format(char *buf, size_t len, uint64_t n);

/* Writes "1 name" or "1,500 names" into buf and returns buf. COUNTED_SIZE bytes are enough for any
 * word of ours. */
#define COUNTED_SIZE 48
char *counted_format(char *buf, size_t len, uint64_t n, const char *one, const char *many);
