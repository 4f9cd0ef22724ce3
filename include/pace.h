/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the engine asks the code that paces it: how much next, and when. The engine does not know
 * why.
 *
 * A lane calls `begin` before each slice of work and `spent` after it. If `spent` says that the
 * work is due, the lane syncs what it freed and calls `synced`. Slices of one lane do not nest, and
 * no lane waits for another within one.
 *
 * What has to be durable whether it is due or not, as at a job's end, is a slice of its own:
 * `begin`, the flush, `synced`, and no `spent`. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A slice of so few entries says that foreign requests wait for each single one of ours, as on a
 * disk with a head: what takes several, like reading a directory, is better done in as many
 * slices. */
#define PACE_FEW 16

#define PACE_OP_AUTO UINT64_MAX

struct pace_budget {
	uint64_t entries, bytes; /* of the next slice, each at least 1; UINT64_MAX: no limit */
};

struct pace {
	/* Waits until work may go on. False if it was cancelled: then nothing has begun. */
	bool (*begin)(void *userdata, const _Atomic bool *cancelled, struct pace_budget *ret);
	/* A slice is done: so many entries removed, bytes freed, and what it took. True: due. */
	bool (*spent)(void *userdata, uint64_t entries, uint64_t bytes, uint64_t cost_usec);
	/* It was synced, which took so long. */
	void (*synced)(void *userdata, uint64_t cost_usec);
	/* From which size on a file is to be freed in steps at the moment; UINT64_MAX: there are no
	 * limits at the moment. Cheap. */
	uint64_t (*step)(void *userdata);
	/* What an operation may take at the moment where a server answers, in microseconds; 0:
	 * anything; PACE_OP_AUTO: half more than alone. Cheap. NULL: as the engine's options say.
	 */
	uint64_t (*op_latency)(void *userdata);
	void *userdata;
};
