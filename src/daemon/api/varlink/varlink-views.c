/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What there is to tell about devices, spools and the daemon itself: the same to all clients. */
#include <errno.h>
#include <string.h>

#include "daemon/workers/pacers.h"
#include "base/escape.h"
#include "varlink-state.h"

/* ---- spools and devices ------------------------------------------------------------------- */

static int list_spools(struct varlink_call *q)
{
	struct spool_view views[SPOOLS_MOST];
	size_t n = bus_spools_snapshot(q->varlink->bus, views);

	q->list = "spools";
	for (size_t i = 0; i < n && q->error >= 0; i++) {
		const struct spool_view *s = &views[i];
		sd_json_variant *v = NULL;
		int r = sd_json_buildo(&v, BUILD_PAIRS_PATH(s->path),
				       SD_JSON_BUILD_PAIR_STRING("state", s->state_name),
				       BUILD_PAIR_TEXT("message", s->message),
				       SD_JSON_BUILD_PAIR_UNSIGNED("settleUSec", s->settle_usec),
				       SD_JSON_BUILD_PAIR_UNSIGNED("undoUSec", s->undo_usec),
				       SD_JSON_BUILD_PAIR_UNSIGNED("waiting", s->waiting));

		call_piece(q, r, v);
	}
	call_answer(NULL, q);
	return 0;
}

static int list_devices(struct varlink_call *q)
{
	const struct device_views *views = bus_devices_snapshot(q->varlink->bus);

	q->list = "devices";
	for (size_t i = 0; views && i < views->n && q->error >= 0; i++) {
		const struct device_view *d = &views->v[i];
		sd_json_variant *v = NULL;
		int r = sd_json_buildo(
			&v, BUILD_PAIR_TEXT("name", d->name),
			SD_JSON_BUILD_PAIR_STRING("mode", d->mode),
			SD_JSON_BUILD_PAIR_BOOLEAN("observed", d->observed),
			SD_JSON_BUILD_PAIR_UNSIGNED("latencyTargetUSec", d->target_usec),
			SD_JSON_BUILD_PAIR_UNSIGNED("syncLatencyUSec", d->sync_usec),
			SD_JSON_BUILD_PAIR_UNSIGNED("pieceCostUSec", d->quantum_usec),
			SD_JSON_BUILD_PAIR_REAL("entriesPerSecond", d->entries_rate),
			SD_JSON_BUILD_PAIR_REAL("bytesPerSecond", d->bytes_rate));

		call_piece(q, r, v);
	}
	call_answer(NULL, q);
	return 0;
}

/* ---- the daemon --------------------------------------------------------------------------- */

static int build_states(sd_json_variant **ret, const uint64_t *counts, enum job_state from,
			enum job_state to)
{
	int r = 0;

	for (enum job_state s = from; r >= 0 && s < to; s++)
		r = sd_json_variant_set_field_unsigned(ret, job_state_name(s), counts[s]);
	return r;
}

static int get_status(struct varlink_call *q)
{
	static const char *const none[] = { NULL };
	const struct bus *b = q->varlink->bus;
	sd_json_variant *jobs = NULL;
	struct daemon_view v = { 0 };
	int r;

	operation_view(b->operations, &v);
	r = build_states(&jobs, v.jobs, 0, JOB_DONE);
	if (r >= 0)
		r = sd_json_buildo(
			&q->reply, SD_JSON_BUILD_PAIR_STRING("version", RECLAIM_VERSION),
			SD_JSON_BUILD_PAIR_STRV("features",
						(char **)(b->o.features ? b->o.features : none)),
			SD_JSON_BUILD_PAIR_BOOLEAN("paused", v.paused),
			BUILD_PAIR_TEXT("configurationError", v.configuration_error),
			BUILD_PAIR_TEXT("storeError", v.store_error),
			SD_JSON_BUILD_PAIR_UNSIGNED("orphans", v.orphans),
			SD_JSON_BUILD_PAIR_VARIANT("jobs", jobs),
			SD_JSON_BUILD_PAIR_UNSIGNED("entriesFreed", v.entries_freed),
			SD_JSON_BUILD_PAIR_UNSIGNED("bytesFreed", v.bytes_freed));
	(void)sd_json_variant_unref(jobs);
	q->error = r;
	call_answer(NULL, q);
	return 0;
}

/* ---- what has happened since it was started ----------------------------------------------- */

static int build_numbers(sd_json_variant **ret, const uint64_t *v, size_t n)
{
	int r = sd_json_variant_new_array(ret, NULL, 0);

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = sd_json_variant_append_arrayb(ret, SD_JSON_BUILD_UNSIGNED(v[i]));
	return r;
}

static int build_histogram(sd_json_variant **ret, const char *name, void *userdata)
{
	const struct histogram *h = userdata;
	sd_json_variant *counts = NULL;
	int r = build_numbers(&counts, h->counts, ELEMENTSOF(h->counts));

	(void)name;
	if (r >= 0)
		r = sd_json_buildo(ret, SD_JSON_BUILD_PAIR_UNSIGNED("sumUSec", h->sum_usec),
				   SD_JSON_BUILD_PAIR_VARIANT("counts", counts));
	(void)sd_json_variant_unref(counts);
	return r;
}

static int build_backoffs(sd_json_variant **ret, const char *name, void *userdata)
{
	const struct pacing_totals *t = userdata;
	int r = 0;

	(void)name;
	for (enum pacing_backoff b = 0; r >= 0 && b < PACING_BACKOFFS; b++)
		r = sd_json_variant_set_field_unsigned(ret, pacing_backoff_name(b), t->backoffs[b]);
	return r;
}

static int build_errors(sd_json_variant **ret, const char *name, void *userdata)
{
	const struct daemon_view *v = userdata;
	int r = sd_json_variant_new_object(ret, NULL, 0);

	(void)name;
	for (int error = 0; r >= 0 && error < ERROR_KINDS; error++) {
		const char *word = error > 0 ? strerrorname_np(error) : "other";

		if (v->errors[error] > 0 && word)
			r = sd_json_variant_set_field_unsigned(ret, word, v->errors[error]);
	}
	return r;
}

static int build_finished(sd_json_variant **ret, const char *name, void *userdata)
{
	const struct daemon_view *v = userdata;

	(void)name;
	return build_states(ret, v->finished, JOB_DONE, JOB_STATES);
}

static int build_bounds(sd_json_variant **ret, const char *name, void *userdata)
{
	(void)name;
	(void)userdata;
	return build_numbers(ret, histogram_bounds_usec, HISTOGRAM_BOUNDS);
}

static int build_totals(sd_json_variant **ret, const struct device_totals *d)
{
	return sd_json_buildo(
		ret, BUILD_PAIR_TEXT("name", d->key),
		SD_JSON_BUILD_PAIR_UNSIGNED("entries", d->totals.entries),
		SD_JSON_BUILD_PAIR_UNSIGNED("bytes", d->totals.bytes),
		SD_JSON_BUILD_PAIR_CALLBACK("backoffs", build_backoffs, (void *)&d->totals),
		SD_JSON_BUILD_PAIR_CALLBACK("reads", build_histogram, (void *)&d->totals.reads),
		SD_JSON_BUILD_PAIR_CALLBACK("syncs", build_histogram, (void *)&d->totals.syncs),
		SD_JSON_BUILD_PAIR_CALLBACK("pieces", build_histogram, (void *)&d->totals.quanta));
}

static int get_metrics(struct varlink_call *q)
{
	struct pacers *pacers = operation_pacers(q->varlink->bus->operations);
	struct device_totals totals[PACERS_PAST_MOST];
	struct daemon_view v = { 0 };
	size_t n = pacers ? pacers_totals(pacers, totals, ELEMENTSOF(totals)) : 0;

	for (size_t i = 0; i < n && q->error >= 0; i++) {
		sd_json_variant *piece = NULL;
		int r = build_totals(&piece, &totals[i]);

		call_piece(q, r, piece);
	}
	operation_view(q->varlink->bus->operations, &v);
	if (q->error >= 0)
		q->error = sd_json_buildo(
			&q->reply, SD_JSON_BUILD_PAIR_CALLBACK("jobsFinished", build_finished, &v),
			SD_JSON_BUILD_PAIR_UNSIGNED("interruptions", v.interruptions),
			SD_JSON_BUILD_PAIR_CALLBACK("errors", build_errors, &v),
			SD_JSON_BUILD_PAIR_CALLBACK("latencyBoundsUSec", build_bounds, NULL),
			SD_JSON_BUILD_PAIR_VARIANT_ARRAY("devices", q->pieces, q->n_pieces));
	call_answer(NULL, q);
	return 0;
}

VARLINK_METHOD(on_list_spools, list_spools)
VARLINK_METHOD(on_list_devices, list_devices)
VARLINK_METHOD(on_get_status, get_status)
VARLINK_METHOD(on_get_metrics, get_metrics)

int call_bind_views(sd_varlink_server *s)
{
	return sd_varlink_server_bind_method_many(
		s, VARLINK_INTERFACE ".ListSpools", on_list_spools,
		VARLINK_INTERFACE ".ListDevices", on_list_devices, VARLINK_INTERFACE ".GetStatus",
		on_get_status, VARLINK_INTERFACE ".GetMetrics", on_get_metrics);
}
