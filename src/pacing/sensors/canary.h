/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What an fdatasync of another process costs: a process of our own that appends 4 KiB to a nameless
 * file and syncs it when it is asked to. The file is never larger than 1 MiB. No function here
 * waits for the disk. A canary belongs to one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct canary;

struct canary_sample {
	uint64_t count;     /* how many have ended well */
	uint64_t last_usec; /* what the last of these took, write and fdatasync together */
	bool ready;         /* it has its file: until then none is asked for */
	bool busy;          /* one was asked for and has not ended */
	bool gone;          /* its process has ended: there will be no more */
};

/* Makes a canary with its file in the directory open as dirfd, which the caller keeps. Returns 0 or
 * a negative errno. Where nameless files are not supported, it is gone at once. */
int canary_new(struct canary **ret, int dirfd);

/* Asks for one. Does nothing before it is ready, while one is busy, or within 200 ms after the last
 * was asked for. */
void canary_ask(struct canary *c);

/* What is known of it by now. */
void canary_sample(struct canary *c, struct canary_sample *ret);

/* Ends it; NULL is accepted. Returns NULL. If the disk hangs, its process and file are left
 * behind and go when it does not any more. */
struct canary *canary_free(struct canary *c);
