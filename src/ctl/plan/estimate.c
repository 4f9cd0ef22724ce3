/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* How long a deletion will take, unpaced: a range, from measured costs. */
#include <string.h>

#include "base/macros.h"
#include "plan.h"

/* Microseconds for one entry, warm. Local ones: 300,000 empty files on two CPUs, in one directory
 * and in 300, inode order: ext4 2.5 and 1.25 s, XFS 3.8 and 2.0 s, btrfs 4.6 s either way (more
 * than one lane loses there), tmpfs 0.9 and 0.46 s; on an overlay over ext4 whose lower layer holds
 * them all, 100,000 in 4.6 and 2.8 s. A file with data costs more by
 * what is written there: 100,000 of 8 KiB on ext4 2.6 s instead of 0.65 s; for XFS, btrfs and tmpfs
 * a rough share of that. Servers, near: one on the same machine, 40,000 entries in 6.2 s; far:
 * behind 1 ms of delay, 6,400 entries in 16.7 s with one lane and in 1.9 s with many. MooseFS,
 * likewise: 50,000 in 2 directories in 9.3 s, in 200 directories 25,000 in 2.2 s; far: 6,400 in 9.5
 * s and in 1.4 s. Others were not measured and are taken to be like the slower of the local ones.
 */
static const struct cost {
	const char *family;
	double serial_usec, spread_usec;         /* in one directory, in many; remote: near */
	double far_serial_usec, far_spread_usec; /* 0: local */
	double data_usec;                        /* more, for a file with data */
} costs[] = {
	{ "ext", 8.3, 4.2, 0, 0, 20 },     { "xfs", 12.7, 6.7, 0, 0, 17 },
	{ "btrfs", 15.3, 15.3, 0, 0, 12 }, { "memory", 3, 1.5, 0, 0, 4 },
	{ "overlay", 46, 28, 0, 0, 0 },    { "moosefs", 190, 87, 1500, 225, 0 },
	{ "other", 15.3, 15.3, 0, 0, 20 },
};

/* Any other server. */
static const struct cost server_cost = { "server", 155, 18, 2600, 300, 0 };

/* A read that no cache answers. A turning disk: the seek of a common one. Others: the median read
 * of the simulated SSD of the pacing measurements, 0.41 ms. */
#define SEEK_USEC 8000.0
#define READ_USEC 410.0

/* Inodes that come with one such read: a block of 4 KiB has 16 of ext4's 256 bytes, and the kernel
 * reads ahead; XFS keeps 64 in a chunk, btrfs some 30 in a leaf. */
#define INODES_PER_READ 32

/* Freeing an extent, 128 MiB at most on ext4, is one change of a bitmap and a journal record. */
#define EXTENT_MIB 128.0
#define EXTENT_USEC 1000.0

/* ext3 keeps a block of pointers for each 4 MiB: 40 GB in memory's reach took 2 s. */
#define POINTERS_MIB 4.0
#define POINTERS_USEC 200.0

/* The SSD on which a delete of 20 GB with discard stalled foreign I/O for 9 s took this for a TRIM.
 */
#define DISCARD_USEC_PER_MIB 500.0

static const struct cost *cost_of(const struct plan *p)
{
	size_t i = 0;

	while (i + 1 < ELEMENTSOF(costs) && strcmp(costs[i].family, p->profile.family) != 0)
		i++;
	return p->profile.server && i + 1 == ELEMENTSOF(costs) ? &server_cost : &costs[i];
}

/* Entries of one directory hold each other up, so the largest one is a lower bound however many
 * lanes there are. */
static double names_usec(const struct plan *p, double serial, double spread)
{
	double all = (double)p->f.entries * (plan_spreads(p) ? spread : serial);

	return MAX(all, (double)p->f.most_entries * serial);
}

void plan_estimate(struct plan *p)
{
	const struct cost *c = cost_of(p);
	const struct blockdevs *devices = &p->around.devices;
	bool pointers = plan_is_on(p, "ext2") || plan_is_on(p, "ext3");
	double mib = (double)p->f.bytes / (double)MiB(1);
	/* A file with data has a block at least. */
	uint64_t blocks = p->f.bytes / KiB(4);
	double with_data = (double)MIN(p->f.files, blocks);
	double reads = (double)p->f.directories + (double)p->f.entries / INODES_PER_READ;
	double warm = names_usec(p, c->serial_usec, c->spread_usec), cold;

	if (c->far_serial_usec > 0) {
		/* The server frees blocks later. */
		cold = names_usec(p, c->far_serial_usec, c->far_spread_usec);
	} else {
		warm += with_data * c->data_usec + (pointers ? mib / POINTERS_MIB * POINTERS_USEC
							     : mib / EXTENT_MIB * EXTENT_USEC);
		if (pointers)
			reads += mib / POINTERS_MIB;
		cold = warm;
		if (devices->n > 0)
			cold += reads * (blockdevs_rotating(devices) ? SEEK_USEC : READ_USEC);
		if (p->around.mounted_with_discard && blockdevs_discard(devices))
			cold += mib * DISCARD_USEC_PER_MIB;
	}
	p->warm_usec = (uint64_t)warm;
	p->cold_usec = (uint64_t)cold;
}

double plan_spread_gain(const struct plan *p)
{
	const struct cost *c = cost_of(p);

	return plan_spreads(p) ? c->serial_usec / c->spread_usec : 1;
}
