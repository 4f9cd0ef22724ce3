/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Descriptors that outlive this daemon, and that the next one gets back, each with its name:
 *
 *   systemd 254 or later   the service's descriptor store (FileDescriptorStoreMax=)
 *   anything else          reclaim-keeper, a process of its own (worker/keeper.h), started with the
 *                          first of them
 *
 * systemd before 254 closes what it stores in the service manager itself, which would wait for the
 * kernel to free a large file, or for ever on a frozen filesystem. A machine that ends takes all of
 * them along. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct descriptor_store;

/* state_dir: where the keeper is found. worker_program: what it is started from. Both live as long.
 * Returns 0 or -ENOMEM. */
int descriptor_store_new(struct descriptor_store **ret, const char *state_dir,
			 const char *worker_program);
/* What is held stays held. */
struct descriptor_store *descriptor_store_free(struct descriptor_store *s);

/* Calls `each` for whatever the daemon before has left; fd is the callee's. It is held until it is
 * dropped. Once, before anything else. */
void descriptor_store_take(struct descriptor_store *s,
			   void (*each)(const char *name, int fd, void *userdata), void *userdata);

/* How many there is room for; 0: there is none to hold any. */
unsigned descriptor_store_room(struct descriptor_store *s);

/* Has a duplicate held, by a name of less than 32 bytes that no other has. False if it is not: why
 * is logged once. */
bool descriptor_store_put(struct descriptor_store *s, const char *name, int fd);
/* Has it closed, later, and not by us: the last descriptor of a large file is closed when the
 * kernel has freed it. */
void descriptor_store_drop(struct descriptor_store *s, const char *name);

/* Who holds them, and how to have them closed, for people. */
void descriptor_store_describe(const struct descriptor_store *s, char *buf, size_t size);
