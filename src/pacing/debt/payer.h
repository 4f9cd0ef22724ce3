/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Pays what deletions leave for the kernel to write back later (the debt), in steps of the pacer's
 * size, while the work goes on and after it.
 *
 * A thread of its own: it has a writeback (writeback.h), and asks the pacer before each step as a
 * lane does. During the work it makes a pass over the device every ten seconds, so that nothing
 * becomes as old as what the kernel writes back by itself (30 s); at the end, as many as it takes.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct payer;

/* Has so much been deleted that what it leaves may hurt another program? Less than 128 entries are
 * some blocks of inodes, with 16 in each; a block of a bitmap stands for 128 MiB. */
static inline bool payer_matters(uint64_t entries, uint64_t bytes)
{
	return entries >= 128 || bytes >= UINT64_C(1) << 30;
}

/* What it asks its pacer. */
struct payer_turn {
	/* Waits until a step may begin, of at most so many bytes. False if it was cancelled. */
	bool (*begin)(void *userdata, const _Atomic bool *cancelled, uint64_t *ret_bytes);
	/* It has written so many, which took so long. */
	void (*end)(void *userdata, uint64_t bytes, uint64_t cost_usec);
	void *userdata;
};

/* What is known of the debt, for output. */
struct payer_view {
	uint64_t owed_bytes; /* dirty on the device, as of the last look */
	uint64_t paid_bytes; /* written back since it was made */
	uint64_t steps;
	bool estimated;     /* the kernel does not tell what is dirty: these are at most so many */
	bool discards_held; /* on btrfs: the discards that follow are made in small steps */
	bool works;         /* false: the device cannot be opened, or what is dirty is unknown */
};

/* For the filesystem on this block device. turn is copied, and may be called before this returns.
 * Returns 0 or a negative errno: -ENOMEM, or what making a thread says. */
int payer_new(struct payer **ret, dev_t device, const struct payer_turn *turn);

/* Something was deleted: there will be something to pay. Any thread. */
void payer_work(struct payer *p);

/* All that was deleted so far is to be paid now. Any thread. */
void payer_ask(struct payer *p);
/* Is all paid that was asked for, or can it not be? Any thread. */
bool payer_is_settled(struct payer *p);
/* Asks, and waits until that is so, or *cancelled. Any thread. */
void payer_settle(struct payer *p, const _Atomic bool *cancelled);

/* Any thread. */
void payer_snapshot(struct payer *p, struct payer_view *ret);

/* NULL is accepted; returns NULL. Nothing may wait in payer_settle. Takes no longer than a step. */
struct payer *payer_free(struct payer *p);
