/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The two text formats differ in little: OpenMetrics names a counter without the _total that its
 * samples have, has units and an end, and kinds of its own for facts and for states. */
#include <inttypes.h>
#include <string.h>

#include "metrics.h"
#include "base/units.h"

#define SECOND 1000000

struct writer {
	FILE *f;
	bool openmetrics;
	const char *family;
};

enum kind { GAUGE, COUNTER, HISTOGRAM, INFO, STATESET };

/* What a family's samples are called behind its name. */
static const char *suffix_of(enum kind kind)
{
	static const char *const suffixes[] = { [GAUGE] = "",
						[COUNTER] = "_total",
						[HISTOGRAM] = "",
						[INFO] = "_info",
						[STATESET] = "" };

	return suffixes[kind];
}

static void family(struct writer *w, const char *name, enum kind kind, const char *unit,
		   const char *help)
{
	static const char *const kinds[] = { "gauge", "counter", "histogram", "info", "stateset" };
	/* What the older format does not know is a gauge to it. */
	bool known = w->openmetrics || kind <= HISTOGRAM;
	const char *suffix = w->openmetrics ? "" : suffix_of(kind);

	w->family = name;
	(void)fprintf(w->f, "# TYPE %s%s %s\n", name, suffix, kinds[known ? kind : GAUGE]);
	if (unit && w->openmetrics)
		(void)fprintf(w->f, "# UNIT %s %s\n", name, unit);
	(void)fprintf(w->f, "# HELP %s%s %s\n", name, suffix, help);
}

/* {label="value"}; nothing without a label. */
static void label(struct writer *w, const char *name, const char *value)
{
	if (!name)
		return;
	(void)fprintf(w->f, "{%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			(void)fputc('\\', w->f);
		(void)fputc(*value, w->f);
	}
	(void)fputs("\"}", w->f);
}

static void sample(struct writer *w, enum kind kind, const char *name, const char *value,
		   uint64_t n)
{
	(void)fprintf(w->f, "%s%s", w->family, suffix_of(kind));
	label(w, name, value);
	(void)fprintf(w->f, " %" PRIu64 "\n", n);
}

/* Microseconds as seconds, with no digits behind the point that say nothing, but one. */
static char *seconds(char *buf, size_t len, uint64_t usec)
{
	int n = snprintf(buf, len, "%" PRIu64 ".%06" PRIu64, usec / SECOND, usec % SECOND);

	while (n > 2 && buf[n - 1] == '0' && buf[n - 2] != '.')
		buf[--n] = '\0';
	return buf;
}

static void counts(struct writer *w, enum kind kind, const char *name, const struct counts *c)
{
	for (size_t i = 0; i < c->n; i++)
		sample(w, kind, name, c->v[i].name, c->v[i].n);
}

static void histogram(struct writer *w, const struct metrics *m, const char *device,
		      const struct metrics_histogram *h)
{
	uint64_t sum = 0;
	char text[40];

	for (size_t i = 0; i <= m->n_bounds; i++) {
		sum += h->counts[i];
		(void)fprintf(
			w->f, "%s_bucket{device=\"%s\",le=\"%s\"} %" PRIu64 "\n", w->family, device,
			i < m->n_bounds ? seconds(text, sizeof(text), m->bounds_usec[i]) : "+Inf",
			sum);
	}
	(void)fprintf(w->f, "%s_sum{device=\"%s\"} %s\n", w->family, device,
		      seconds(text, sizeof(text), h->sum_usec));
	(void)fprintf(w->f, "%s_count{device=\"%s\"} %" PRIu64 "\n", w->family, device, sum);
}

static void write_daemon(struct writer *w, const struct metrics *m)
{
	family(w, "reclaimd_build", INFO, NULL, "Version of the daemon.");
	sample(w, INFO, "version", m->version, 1);
	family(w, "reclaimd_paused", GAUGE, NULL, "Whether everything rests (pause --all).");
	sample(w, GAUGE, NULL, NULL, m->paused ? 1 : 0);
	family(w, "reclaimd_configuration_error", GAUGE, NULL,
	       "Whether the configuration on disk is wrong and therefore not in force.");
	sample(w, GAUGE, NULL, NULL, m->configuration_error[0] ? 1 : 0);
	family(w, "reclaimd_store_error", GAUGE, NULL,
	       "Whether the job store cannot be written, so that nothing new is accepted.");
	sample(w, GAUGE, NULL, NULL, m->store_error[0] ? 1 : 0);
	family(w, "reclaimd_orphans", GAUGE, NULL,
	       "Directories in staging that are of no job on record, and kept.");
	sample(w, GAUGE, NULL, NULL, m->orphans);
}

static void write_jobs(struct writer *w, const struct metrics *m)
{
	family(w, "reclaimd_jobs", GAUGE, NULL, "Jobs that have not finished, by state.");
	counts(w, GAUGE, "state", &m->jobs);
	family(w, "reclaimd_jobs_finished", COUNTER, NULL, "Jobs that have finished, by how.");
	counts(w, COUNTER, "state", &m->finished);
	family(w, "reclaimd_interruptions", COUNTER, NULL,
	       "How often a job was interrupted and is tried again.");
	sample(w, COUNTER, NULL, NULL, m->interruptions);
	family(w, "reclaimd_freed_entries", COUNTER, NULL, "Entries that were removed.");
	sample(w, COUNTER, NULL, NULL, m->entries_freed);
	family(w, "reclaimd_freed_bytes", COUNTER, "bytes", "Bytes that were freed.");
	sample(w, COUNTER, NULL, NULL, m->bytes_freed);
	family(w, "reclaimd_errors", COUNTER, NULL,
	       "Entries that could not be deleted, by the kind of error.");
	counts(w, COUNTER, "kind", &m->errors);
}

static void write_spools(struct writer *w, const struct metrics *m)
{
	if (m->n_spools == 0)
		return;
	family(w, "reclaimd_spool_watched", GAUGE, NULL,
	       "Whether what is moved into the spool is deleted.");
	for (size_t i = 0; i < m->n_spools; i++)
		sample(w, GAUGE, "path", m->spools[i].path, m->spools[i].watched ? 1 : 0);
	family(w, "reclaimd_spool_waiting", GAUGE, NULL,
	       "Entries of the spool that have not settled yet.");
	for (size_t i = 0; i < m->n_spools; i++)
		sample(w, GAUGE, "path", m->spools[i].path, m->spools[i].waiting);
}

static void write_totals(struct writer *w, const struct metrics *m)
{
	static const struct {
		const char *name, *help;
	} latencies[METRICS_LATENCIES] = {
		[METRICS_READS] = { "reclaimd_device_read_seconds",
				    "What the reads of all processes took while something was "
				    "deleted." },
		[METRICS_SYNCS] = { "reclaimd_device_sync_seconds",
				    "What a sync of a little took while something was deleted." },
		[METRICS_QUANTA] = { "reclaimd_device_quantum_seconds",
				     "What quanta of deletions took, their syncs included, while "
				     "foreign I/O was spared." },
	};

	family(w, "reclaimd_device_freed_entries", COUNTER, NULL, "Entries removed there.");
	for (size_t i = 0; i < m->n_devices; i++)
		sample(w, COUNTER, "device", m->devices[i].name, m->devices[i].entries);
	family(w, "reclaimd_device_freed_bytes", COUNTER, "bytes", "Bytes freed there.");
	for (size_t i = 0; i < m->n_devices; i++)
		sample(w, COUNTER, "device", m->devices[i].name, m->devices[i].bytes);
	family(w, "reclaimd_device_backoffs", COUNTER, NULL,
	       "How often deleting went slower: foreign I/O came, its reads suffered, a quantum "
	       "or a discard was expensive.");
	for (size_t i = 0; i < m->n_devices; i++)
		for (size_t k = 0; k < m->devices[i].backoffs.n; k++)
			(void)fprintf(w->f, "%s_total{device=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
				      w->family, m->devices[i].name,
				      m->devices[i].backoffs.v[k].name,
				      m->devices[i].backoffs.v[k].n);
	for (int l = 0; l < METRICS_LATENCIES; l++) {
		family(w, latencies[l].name, HISTOGRAM, "seconds", latencies[l].help);
		for (size_t i = 0; i < m->n_devices; i++)
			histogram(w, m, m->devices[i].name, &m->devices[i].latencies[l]);
	}
}

static void write_mode(struct writer *w, const char *device, const char *mode)
{
	static const char *const modes[] = { "fast", "check", "paced", "urgent" };

	for (size_t i = 0; i < ELEMENTSOF(modes); i++)
		(void)fprintf(w->f, "%s{device=\"%s\",%s=\"%s\"} %d\n", w->family, device,
			      w->family, modes[i], strcmp(mode, modes[i]) == 0);
}

/* Of the devices on which something is being deleted now. */
static void write_live(struct writer *w, const struct metrics *m)
{
	char name[40];

	family(w, "reclaimd_device_latency_target_seconds", GAUGE, "seconds",
	       "What a quantum of a deletion may cost there now.");
	for (size_t i = 0; i < m->live.n; i++) {
		_cleanup_free_ char *device = metrics_device_name(m->live.v[i].key);

		if (device)
			(void)fprintf(w->f, "%s{device=\"%s\"} %s\n", w->family, device,
				      seconds(name, sizeof(name), m->live.v[i].target_usec));
	}
	family(w, "reclaimd_device_mode", STATESET, NULL, "How it is paced there now.");
	for (size_t i = 0; i < m->live.n; i++) {
		_cleanup_free_ char *device = metrics_device_name(m->live.v[i].key);

		if (device)
			write_mode(w, device, m->live.v[i].mode);
	}
}

void metrics_write(FILE *f, const struct metrics *m, bool openmetrics)
{
	struct writer w = { .f = f, .openmetrics = openmetrics };

	family(&w, "reclaimd_up", GAUGE, NULL, "Whether the daemon answers.");
	sample(&w, GAUGE, NULL, NULL, m ? 1 : 0);
	if (m) {
		write_daemon(&w, m);
		write_jobs(&w, m);
		write_spools(&w, m);
		write_totals(&w, m);
		write_live(&w, m);
	}
	if (openmetrics)
		(void)fputs("# EOF\n", f);
}
