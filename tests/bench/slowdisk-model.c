/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "slowdisk-model.h"

#define STRIPE_BYTES 65536

struct model {
	struct model_config config;
	uint64_t head; /* hdd: offset behind the last request */
	uint64_t n_seeks;
	uint64_t link_nsec; /* when the head (hdd) or the link (ssd) is free */
	uint64_t channel_nsec[MODEL_CHANNELS_MAX];
};

int model_new(const struct model_config *config, struct model **ret)
{
	struct model *model;

	if (config->n_channels < 1 || config->n_channels > MODEL_CHANNELS_MAX)
		return -ERANGE;
	if (config->mbytes_per_sec <= 0 || config->size_bytes == 0)
		return -ERANGE;
	model = calloc(1, sizeof(*model));
	if (!model)
		return -ENOMEM;
	model->config = *config;
	if (model->config.span_bytes == 0)
		model->config.span_bytes = config->size_bytes;
	*ret = model;
	return 0;
}

struct model *model_free(struct model *model)
{
	free(model);
	return NULL;
}

bool model_exclusive(enum request_kind kind)
{
	return kind == REQUEST_FLUSH || kind == REQUEST_TRIM;
}

unsigned model_parallel(const struct model *model, unsigned depth)
{
	return model->config.kind == MODEL_HDD ? 1 : depth;
}

uint64_t model_distance(const struct model *model, uint64_t offset)
{
	if (model->config.kind != MODEL_HDD)
		return 0;
	return offset > model->head ? offset - model->head : model->head - offset;
}

void model_rest(struct model *model)
{
	model->link_nsec = 0;
	for (unsigned i = 0; i < model->config.n_channels; i++)
		model->channel_nsec[i] = 0;
}

uint64_t model_n_seeks(const struct model *model)
{
	return model->n_seeks;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* A megabyte per second is a byte per microsecond. */
static double transfer_nsec(const struct model *model, uint64_t length)
{
	return (double)length * 1000 / model->config.mbytes_per_sec;
}

static double seek_nsec(const struct model *model, uint64_t distance)
{
	const struct model_config *config = &model->config;
	double settle = config->seek_msec / 4;
	double stroke = (config->seek_msec - settle) * 15 / 8;
	double share = fmin(1, (double)distance / (double)config->span_bytes);

	return (settle + stroke * sqrt(share) + config->rotation_msec / 2) * 1e6;
}

static uint64_t serve_hdd(struct model *model, uint64_t offset, uint64_t length, uint64_t start)
{
	uint64_t distance = model_distance(model, offset);
	double cost = transfer_nsec(model, length);

	if (distance > 0) {
		double seek = seek_nsec(model, distance);
		double pass = transfer_nsec(model, distance);

		if (offset > model->head && pass < seek) {
			cost += pass;
		} else {
			cost += seek;
			model->n_seeks++;
		}
	}
	model->head = offset + length;
	model->link_nsec = later(model->link_nsec, start) + (uint64_t)cost;
	return model->link_nsec;
}

static uint64_t serve_ssd(struct model *model, enum request_kind kind, uint64_t offset,
			  uint64_t length, uint64_t start)
{
	const struct model_config *config = &model->config;
	uint64_t cost = (kind == REQUEST_READ ? config->read_usec : config->write_usec) * 1000;
	uint64_t end = offset + length;
	uint64_t done;

	model->link_nsec = later(model->link_nsec, start) + (uint64_t)transfer_nsec(model, length);
	done = model->link_nsec;
	for (uint64_t at = offset; at < end; at = (at / STRIPE_BYTES + 1) * STRIPE_BYTES) {
		uint64_t *channel = &model->channel_nsec[at / STRIPE_BYTES % config->n_channels];

		*channel = later(*channel, start) + cost;
		done = later(done, *channel);
	}
	return done;
}

static uint64_t serve_alone(struct model *model, enum request_kind kind, uint64_t length,
			    uint64_t start)
{
	const struct model_config *config = &model->config;
	double cost_msec = kind == REQUEST_FLUSH
				   ? config->flush_msec
				   : config->trim_msec_per_mib * (double)length / (1024 * 1024);
	uint64_t done = later(start, model->link_nsec);

	for (unsigned i = 0; i < config->n_channels; i++)
		done = later(done, model->channel_nsec[i]);
	done += (uint64_t)(cost_msec * 1e6);
	model->link_nsec = done;
	for (unsigned i = 0; i < config->n_channels; i++)
		model->channel_nsec[i] = done;
	return done;
}

uint64_t model_serve(struct model *model, enum request_kind kind, uint64_t offset, uint64_t length,
		     uint64_t start_nsec)
{
	if (model_exclusive(kind))
		return serve_alone(model, kind, length, start_nsec);
	if (model->config.kind == MODEL_HDD)
		return serve_hdd(model, offset, length, start_nsec);
	return serve_ssd(model, kind, offset, length, start_nsec);
}
