/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * What a request costs on the simulated disk. Knows no clock and no thread: it is told when a
 * request may start and says when it is done, so it can be tested with made-up times. All times are
 * nanoseconds on one and the same clock.
 *
 * hdd: one head. A request costs
 *
 *     seek(distance) + half a rotation if there was a seek + length / transfer rate
 *     seek(distance) = settle + stroke x sqrt(distance / span), 0 for no distance
 *
 * the curve of an arm that accelerates half the way and brakes the other half. The distance between
 * two random places has the density 2 (1 - x), the mean of its root is 8/15; with settle = average
 * / 4 and stroke = (average - settle) x 15/8 a random seek over the span, which is the whole disk
 * or the part of it that a scenario uses, takes the average that was asked for. Passing over a
 * short distance forwards is no seek if reading over it is faster. There is no write cache: a write
 * is done when it is on the platter, as on disks that databases are put on. Nor is a rotation lost
 * between two sequential requests.
 *
 * ssd: channels that work in parallel, and one link. The disk is striped over the channels; each
 * stripe of a request costs its channel the read or the write time, all of it the link its length.
 * A request is done when its last stripe and its transfer are.
 *
 * Both: a flush or a trim runs alone, as FLUSH CACHE EXT and DATA SET MANAGEMENT do on a SATA disk:
 * what came before is finished first, what came later waits. A trim costs its length times a
 * constant. That is what makes cheap SSDs stall during a storm of discards.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum request_kind {
	REQUEST_READ,
	REQUEST_WRITE,
	REQUEST_FLUSH,
	REQUEST_TRIM,
	N_REQUEST_KINDS,
};

enum model_kind {
	MODEL_HDD,
	MODEL_SSD,
};

#define MODEL_CHANNELS_MAX 64

struct model_config {
	enum model_kind kind;
	uint64_t size_bytes;
	uint64_t span_bytes; /* the part of it that is used; 0: all */
	unsigned n_channels;
	double seek_msec;
	double rotation_msec; /* a whole one; 0: rotation is not simulated */
	double mbytes_per_sec;
	double read_usec;
	double write_usec;
	double flush_msec;
	double trim_msec_per_mib;
};

struct model;

/* Returns 0 or a negative errno. */
int model_new(const struct model_config *config, struct model **ret);
struct model *model_free(struct model *model);

/* Whether requests of a kind wait until nothing else is going on, and run alone. */
bool model_exclusive(enum request_kind kind);

/* How many requests can be worked on at once; depth is what the queue would allow. */
unsigned model_parallel(const struct model *model, unsigned depth);

/* How far the head is from an offset; 0 where there is no head. */
uint64_t model_distance(const struct model *model, uint64_t offset);

/* Start a request that may begin at start or later; returns when it is done. */
uint64_t model_serve(struct model *model, enum request_kind kind, uint64_t offset, uint64_t length,
		     uint64_t start_nsec);

/* Nothing is going on any more, whatever was promised; for when the disk was fast for a while. */
void model_rest(struct model *model);

uint64_t model_n_seeks(const struct model *model);
