/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which names are sockets that somebody has: whoever listens holds no descriptor of the name, so
 * that holders.h does not know. Read once, then asked by identity. Owns its list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct socket_name {
	uint64_t dev, ino;
};

/* All zero is an empty list. */
struct sockets {
	struct socket_name *v; /* sorted */
	size_t n, cap;
};

/* Reads those of our network namespace that are bound to an absolute path which is wanted, from
 * net/unix in `proc`, which is "/proc" but for tests. Only these are looked up: others may be where
 * asking takes forever. Returns 0 or a negative errno. */
int sockets_read(struct sockets *ret, const char *proc,
		 bool (*wanted)(void *userdata, const char *path), void *userdata);
void sockets_done(struct sockets *s);

bool sockets_has(const struct sockets *s, uint64_t dev, uint64_t ino);
