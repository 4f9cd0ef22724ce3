/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The node of a block device, opened for reading and for nothing else. In two parts, as the second
 * is for a process that was forked from among threads. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

struct block_node {
	dev_t number;
	char path[2][64]; /* where it may be */
};

/* Where udev and devtmpfs have the node of this device. */
struct block_node block_node_find(dev_t number);

/* System calls only. Returns a descriptor, and how many bytes the device has, or a negative errno:
 * -ENODEV if what is there is another device, or what opening says. */
int block_node_open(const struct block_node *n, uint64_t *ret_size);
