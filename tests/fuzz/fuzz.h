/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What fuzzers share. Each is two functions: one takes an input, the other makes one that is as it
 * should be. libFuzzer (the fuzz preset, mutate.c) mixes such inputs with what it makes of them and
 * of those that it found before; replay.c (every other build) takes the ones that were kept, and
 * some that are made on the spot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. */
#define must(x)                                                                                    \
	do {                                                                                       \
		if (!(x))                                                                          \
			__builtin_trap();                                                          \
	} while (0)

/* An input in the making. What is beyond `most` is left out. */
struct words {
	uint64_t state; /* of the choices: the same one leads to the same input */
	uint8_t *v;
	size_t n, most;
};

/* Makes an input that should be accepted, or nearly. Where inputs are streams of messages and there
 * is something already, it appends one. */
void grammar(struct words *w);

/* 0 to n - 1. */
uint32_t choose(struct words *w, uint32_t n);
/* True so often of a hundred. */
bool chance(struct words *w, uint32_t percent);
/* A small number, or one of those at which types end. */
uint64_t any_number(struct words *w);
void say(struct words *w, const void *data, size_t len);
void sayf(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *choose_text(struct words *w, const char *const *v, size_t n);
#define CHOOSE(w, ...)                                                                             \
	choose_text((w), (const char *const[]){ __VA_ARGS__ },                                     \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))
/* Overwrites what is there; nothing if it was left out. */
void put_back(struct words *w, size_t at, const void *data, size_t len);

/* Counts one message (or whatever is accepted or refused as a whole). The shares are shown at the
 * end. */
void told(bool accepted);
/* Of a hundred. */
unsigned told_share(void);
