/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A slice of a directory: those of its names whose hash, modulo how many slices there are, is the
 * slice's number. So several hosts work in one directory without a word about single names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In all of one directory. */
#define NAME_SLICES 4096

/* All zero is the whole directory. A slice can be cut again: part i of `parts` is then slice number
 * slice + i * slices of slices * parts. */
struct name_slice {
	uint16_t slice, slices; /* 0 or 1 slices: all names */
	/* It was cut into so many parts (0: it was not), of which those from 1 to `gone` are
	 * another host's. */
	uint16_t parts, gone;
};

/* The same on all hosts: FNV-1a of 64 bits over the bytes of the name, its two halves folded into
 * one by XOR, as its authors have it. */
uint32_t name_hash(const char *name);

bool name_slice_has(const struct name_slice *s, const char *name);

/* Cuts it into so many parts, 2 at least, none of which is gone yet. Returns 0; -EBUSY if only some
 * of the parts that it was cut into are gone; or -E2BIG. */
int name_slice_cut(struct name_slice *s, unsigned parts);
/* The part of it that goes next; that it is gone is the caller's to count. */
struct name_slice name_slice_next(const struct name_slice *s);
