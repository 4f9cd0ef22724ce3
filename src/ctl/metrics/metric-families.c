/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is read from the daemon, and each family of metrics that is written of it. The two text
 * formats differ in little: OpenMetrics names a counter without the _total that its samples have,
 * has units and an end, and kinds of its own for facts and for states. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ctl/common/answer.h"
#include "ctl/devices/daemon-devices.h"
#include "ctl/output/messages.h"
#include "metrics.h"
#include "policy/limits.h"

enum kind { GAUGE, COUNTER, HISTOGRAM, INFO, STATESET };

struct family {
	const char *name;
	enum kind kind;
	const char *unit;     /* or NULL */
	const char *property; /* of the manager: its value, or a label's values with theirs */
	const char *label;    /* of samples, or NULL */
	const char *help;
};

static const struct family of_manager[] = {
	{ "reclaimd_build", INFO, NULL, "Version", "version", "Version of the daemon." },
	{ "reclaimd_paused", GAUGE, NULL, "Paused", NULL,
	  "Whether everything rests (pause --all)." },
	{ "reclaimd_pacing_window", GAUGE, NULL, "PacingWindow", NULL,
	  "Whether a pacing window is in force." },
	{ "reclaimd_pacing_window_rate_bytes", GAUGE, "bytes", "PacingWindowRate", NULL,
	  "So much may be freed in a second while one is; 0: no job runs." },
	{ "reclaimd_configuration_error", GAUGE, NULL, "ConfigurationError", NULL,
	  "Whether the configuration on disk is wrong and therefore not in force." },
	{ "reclaimd_store_error", GAUGE, NULL, "StoreError", NULL,
	  "Whether the job store cannot be written, so that nothing new is accepted." },
	{ "reclaimd_orphans", GAUGE, NULL, "Orphans", NULL,
	  "Directories in staging that are of no job on record, and kept." },
	{ "reclaimd_jobs", GAUGE, NULL, "Jobs", "state", "Jobs that have not finished, by state." },
	{ "reclaimd_jobs_finished", COUNTER, NULL, "JobsFinished", "state",
	  "Jobs that have finished, by how." },
	{ "reclaimd_interruptions", COUNTER, NULL, "Interruptions", NULL,
	  "How often a job was interrupted and is tried again." },
	{ "reclaimd_freed_entries", COUNTER, NULL, "EntriesFreed", NULL,
	  "Entries that were removed." },
	{ "reclaimd_freed_bytes", COUNTER, "bytes", "BytesFreed", NULL, "Bytes that were freed." },
	{ "reclaimd_errors", COUNTER, NULL, "Errors", "kind",
	  "Entries that could not be deleted, by the kind of error." },
};

/* Of a host that is in a fleet. */
static const struct family of_fleet[] = {
	{ "reclaimd_fleet_connected", GAUGE, NULL, "FleetConnected", NULL,
	  "Whether this host is connected to the database of its fleet." },
	{ "reclaimd_fleet_since_timestamp_seconds", GAUGE, "seconds", "FleetSinceUSec", NULL,
	  "Since when it is, or is not." },
	{ "reclaimd_fleet_published_units", COUNTER, NULL, "FleetPublishedUnits", NULL,
	  "Parts of jobs of this host that hosts could claim." },
	{ "reclaimd_fleet_claimed_units", COUNTER, NULL, "FleetClaimedUnits", NULL,
	  "Parts of jobs of other hosts that this host has claimed." },
	{ "reclaimd_fleet_done_units", COUNTER, NULL, "FleetDoneUnits", NULL,
	  "Parts of jobs of other hosts that this host has done." },
	{ "reclaimd_fleet_done_entries", COUNTER, NULL, "FleetDoneEntries", NULL,
	  "Entries of jobs of other hosts that were removed here." },
	{ "reclaimd_fleet_done_bytes", COUNTER, "bytes", "FleetDoneBytes", NULL,
	  "Bytes of jobs of other hosts that were freed here." },
	{ "reclaimd_fleet_others_units", COUNTER, NULL, "FleetOthersUnits", NULL,
	  "Parts of jobs of this host that other hosts have done." },
	{ "reclaimd_fleet_others_entries", COUNTER, NULL, "FleetOthersEntries", NULL,
	  "Entries of jobs of this host that other hosts have removed." },
	{ "reclaimd_fleet_others_bytes", COUNTER, "bytes", "FleetOthersBytes", NULL,
	  "Bytes of jobs of this host that other hosts have freed." },
};

/* Of each spool, which is an array as the daemon has it: path, state, message, settle, undo,
 * waiting. */
static const struct family of_spools[] = {
	{ "reclaimd_spool_watched", GAUGE, NULL, NULL, "path",
	  "Whether what is moved into the spool is deleted." },
	{ "reclaimd_spool_waiting", GAUGE, NULL, NULL, "path",
	  "Entries of the spool that have not settled yet." },
};

/* Of each device since the daemon was started, which is an array with these behind the name. */
static const struct family of_devices[] = {
	{ "reclaimd_device_freed_entries", COUNTER, NULL, NULL, "device",
	  "Entries removed there." },
	{ "reclaimd_device_freed_bytes", COUNTER, "bytes", NULL, "device", "Bytes freed there." },
	{ "reclaimd_device_backoffs", COUNTER, NULL, NULL, "device",
	  "How often deleting went slower: foreign I/O came, its reads suffered, a quantum or a "
	  "discard was expensive." },
	{ "reclaimd_device_read_seconds", HISTOGRAM, "seconds", NULL, "device",
	  "What the reads of all processes took while something was deleted." },
	{ "reclaimd_device_sync_seconds", HISTOGRAM, "seconds", NULL, "device",
	  "What a sync of a little took while something was deleted." },
	{ "reclaimd_device_quantum_seconds", HISTOGRAM, "seconds", NULL, "device",
	  "What quanta of deletions took, their syncs included, while foreign I/O was spared." },
	{ "reclaimd_device_written_back_bytes", COUNTER, "bytes", NULL, "device",
	  "Bytes that deletions had left dirty, written back in steps." },
	{ "reclaimd_device_gap_read_seconds", HISTOGRAM, "seconds", NULL, "device",
	  "What reads took in gaps, in which nothing was deleted." },
};

/* Of each device on which something is being deleted now. */
static const struct family of_live[] = {
	{ "reclaimd_device_latency_target_seconds", GAUGE, "seconds", NULL, "device",
	  "What a quantum of a deletion may cost there now." },
	{ "reclaimd_device_owed_bytes", GAUGE, "bytes", NULL, "device",
	  "Bytes that deletions have left dirty there, still to be written back." },
	{ "reclaimd_device_mode", STATESET, NULL, NULL, "device", "How it is paced there now." },
};

/* The last trim of each filesystem, and the keys of trim-state.h. */
static const struct trim_family {
	struct family f;
	const char *key;
} of_trims[] = {
	{ { "reclaimd_trim_last_timestamp_seconds", GAUGE, "seconds", NULL, "filesystem",
	    "Time of the last trim." },
	  "finished_usec" },
	{ { "reclaimd_trim_last_trimmed_bytes", GAUGE, "bytes", NULL, "filesystem",
	    "Bytes that the last trim trimmed." },
	  "trimmed_bytes" },
	{ { "reclaimd_trim_last_longest_step_seconds", GAUGE, "seconds", NULL, "filesystem",
	    "Duration of the longest step of the last trim." },
	  "longest_step_usec" },
	{ { "reclaimd_trim_last_failed", GAUGE, NULL, NULL, "filesystem",
	    "1 if the last trim failed or was stopped, else 0." },
	  NULL },
};

/* Of each policy, and where in what policy-state.h has of it. */
static const struct policy_family {
	struct family f;
	const char *path[4];
} of_policies[] = {
	{ { "reclaimd_policy_last_run_timestamp_seconds", GAUGE, "seconds", NULL, "policy",
	    "When the policy ran last; 0: never." },
	  { "last", "time_usec" } },
	{ { "reclaimd_policy_last_success_timestamp_seconds", GAUGE, "seconds", NULL, "policy",
	    "When a run that deleted all it was to delete had ended last; 0: never." },
	  { "success_usec" } },
	{ { "reclaimd_policy_oldest_kept_timestamp_seconds", GAUGE, "seconds", NULL, "policy",
	    "The time of the oldest entry that stayed in the last run; 0: not known." },
	  { "oldest_kept_usec" } },
	{ { "reclaimd_policy_failed", GAUGE, NULL, NULL, "policy",
	    "Whether the last run did not delete all it was to delete." },
	  { "last", "result" } },
	{ { "reclaimd_policy_deleted_entries", COUNTER, NULL, NULL, "policy",
	    "What the policy handed over and was deleted." },
	  { "deleted", "entries" } },
	{ { "reclaimd_policy_freed_bytes", COUNTER, "bytes", NULL, "policy",
	    "Bytes that were freed by that." },
	  { "deleted", "bytes" } },
	{ { "reclaimd_policy_refused_entries", GAUGE, NULL, NULL, "policy",
	    "Entries that the last run was to delete and could not." },
	  { "last", "refused", "entries" } },
	{ { "reclaimd_policy_excess_entries", GAUGE, NULL, NULL, "policy",
	    "Entries that max-delete kept from the last run." },
	  { "last", "excess", "entries" } },
};

static const struct family policy_shortage = {
	"reclaimd_policy_shortage",
	GAUGE,
	NULL,
	NULL,
	"limit",
	"Bytes, entries or inodes by which the last run of the policy did not meet a limit."
};

void metrics_done(struct metrics *m)
{
	json_decref(m->policies);
	json_decref(m->trims);
	json_decref(m->manager);
	json_decref(m->spools);
	json_decref(m->devices);
	*m = (struct metrics){ 0 };
}

int metrics_get(struct client *c, struct metrics *ret)
{
	sd_bus_message *reply = NULL;
	json_t *totals, *d;
	size_t k;
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, NULL, 0, &ret->manager);

	if (r == 0)
		r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListSpools", &reply, NULL);
	if (r == 0)
		r = answer_take(reply, "a(ayssttt)", NULL, &ret->spools);
	if (r == 0)
		r = daemon_devices_get(c, &ret->devices);
	if (r)
		return r;
	/* A counter that is 0 because it was not told is worse than none. */
	for (size_t i = 0; i < ELEMENTSOF(of_manager); i++)
		if (!json_object_get(ret->manager, of_manager[i].property))
			return client_broken(-ENODATA);
	totals = json_object_get(ret->manager, "DeviceTotals");
	if (!totals || !json_object_get(ret->manager, "LatencyBoundsUSec"))
		return client_broken(-ENODATA);
	json_array_foreach(totals, k, d) {
		const json_t *h;
		size_t i;

		/* Of a histogram, the counts: one for each bound, and one above all. */
		json_array_foreach(d, i, h)
			if (json_is_array(json_array_get(h, 1)) &&
			    json_array_size(json_array_get(h, 1)) !=
				    json_array_size(
					    json_object_get(ret->manager, "LatencyBoundsUSec")) +
					    1)
				return client_broken(-EBADMSG);
	}
	json_array_foreach(totals, k, d)
		(void)json_array_set_new(d, 0,
					 device_set_name(json_string_value(json_array_get(d, 0))));
	return 0;
}

struct writer {
	FILE *f;
	bool openmetrics;
};

/* What a family's samples are called behind its name. */
static const char *suffix_of(enum kind kind)
{
	return kind == COUNTER ? "_total" : kind == INFO ? "_info" : "";
}

static void head_write(const struct writer *w, const struct family *f)
{
	static const char *const kinds[] = { "gauge", "counter", "histogram", "info", "stateset" };
	/* What the older format does not know is a gauge to it. */
	bool known = w->openmetrics || f->kind <= HISTOGRAM;
	const char *suffix = w->openmetrics ? "" : suffix_of(f->kind);

	(void)fprintf(w->f, "# TYPE %s%s %s\n", f->name, suffix, kinds[known ? f->kind : GAUGE]);
	if (f->unit && w->openmetrics)
		(void)fprintf(w->f, "# UNIT %s %s\n", f->name, f->unit);
	(void)fprintf(w->f, "# HELP %s%s %s\n", f->name, suffix, f->help);
}

static void label_write(FILE *f, const char *value)
{
	for (; *value; value++)
		(void)fprintf(f, *value == '"' || *value == '\\' ? "\\%c" : "%c", *value);
}

/* {label="value"}; nothing without a value. */
static void sample_write(const struct writer *w, const struct family *f, const char *value,
			 uint64_t n)
{
	(void)fprintf(w->f, "%s%s", f->name, suffix_of(f->kind));
	if (value) {
		(void)fprintf(w->f, "{%s=\"", f->label);
		label_write(w->f, value);
		(void)fputs("\"}", w->f);
	}
	(void)fprintf(w->f, " %" PRIu64 "\n", n);
}

/* Microseconds as seconds, with no digits behind the point that say nothing, but one. */
static const char *seconds(char buf[static 40], const json_t *usec)
{
	lldiv_t s = lldiv(json_integer_value(usec), (long long)USEC_PER_SEC);
	int n = snprintf(buf, 40, "%lld.%06lld", s.quot, s.rem);

	while (n > 2 && buf[n - 1] == '0' && buf[n - 2] != '.')
		buf[--n] = '\0';
	return buf;
}

/* Whether there is a text, or it is true, or how many. */
static uint64_t number_of(const json_t *v)
{
	const char *s = json_string_value(v);

	return s ? s[0] != '\0' : json_is_true(v) ? 1 : (uint64_t)json_integer_value(v);
}

/* Which has the sum, and how many there were up to each bound, but above the one before. */
static void histogram_write(const struct writer *w, const struct family *f, const char *device,
			    const json_t *bounds, const json_t *histogram)
{
	const json_t *counts = json_array_get(histogram, 1), *n;
	uint64_t sum = 0;
	char text[40];
	size_t i;

	json_array_foreach(counts, i, n) {
		const json_t *bound = json_array_get(bounds, i);

		sum += (uint64_t)json_integer_value(n);
		(void)fprintf(w->f, "%s_bucket{device=\"%s\",le=\"%s\"} %" PRIu64 "\n", f->name,
			      device, bound ? seconds(text, bound) : "+Inf", sum);
	}
	(void)fprintf(w->f, "%s_sum{device=\"%s\"} %s\n", f->name, device,
		      seconds(text, json_array_get(histogram, 0)));
	(void)fprintf(w->f, "%s_count{device=\"%s\"} %" PRIu64 "\n", f->name, device, sum);
}

static void manager_write(const struct writer *w, const struct metrics *m,
			  const struct family *families, size_t n_families)
{
	for (size_t i = 0; i < n_families; i++) {
		const struct family *f = &families[i];
		json_t *v = json_object_get(m->manager, f->property), *n;
		const char *name;
		char text[40];

		head_write(w, f);
		if (f->unit && strcmp(f->unit, "seconds") == 0)
			(void)fprintf(w->f, "%s %s\n", f->name, seconds(text, v));
		else if (!json_is_object(v))
			sample_write(w, f, f->label ? json_string_value(v) : NULL, number_of(v));
		json_object_foreach(v, name, n)
			sample_write(w, f, name, number_of(n));
	}
}

static void spools_write(const struct writer *w, const struct metrics *m)
{
	const json_t *s;
	size_t k;

	for (size_t i = 0; i < ELEMENTSOF(of_spools) && json_array_size(m->spools) > 0; i++) {
		head_write(w, &of_spools[i]);
		json_array_foreach(m->spools, k, s) {
			const char *state = json_string_value(json_array_get(s, 1));

			sample_write(w, &of_spools[i], json_string_value(json_array_get(s, 0)),
				     i == 0 ? state && strcmp(state, "watching") == 0
					    : number_of(json_array_get(s, 5)));
		}
	}
}

static void totals_write(const struct writer *w, const struct metrics *m)
{
	const json_t *totals = json_object_get(m->manager, "DeviceTotals"), *d;
	const json_t *bounds = json_object_get(m->manager, "LatencyBoundsUSec");
	size_t k;

	for (size_t i = 0; i < ELEMENTSOF(of_devices); i++) {
		const struct family *f = &of_devices[i];

		head_write(w, f);
		json_array_foreach(totals, k, d) {
			const char *name = json_string_value(json_array_get(d, 0)), *reason;
			json_t *v = json_array_get(d, i + 1), *n;

			if (f->kind == HISTOGRAM)
				histogram_write(w, f, name, bounds, v);
			else if (!json_is_object(v))
				sample_write(w, f, name, number_of(v));
			json_object_foreach(v, reason, n)
				(void)fprintf(w->f,
					      "%s_total{device=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
					      f->name, name, reason, number_of(n));
		}
	}
}

static void trims_write(const struct writer *w, const struct metrics *m)
{
	const json_t *t;
	char text[40];
	size_t k;

	for (size_t i = 0; i < ELEMENTSOF(of_trims); i++) {
		const struct trim_family *f = &of_trims[i];

		head_write(w, &f->f);
		json_array_foreach(m->trims, k, t) {
			bool failed = strcmp(json_text(t, "outcome"), "trimmed") != 0;
			const json_t *n = f->key ? json_object_get(t, f->key) : NULL;

			(void)fprintf(w->f, "%s{filesystem=\"", f->f.name);
			label_write(w->f, json_text(t, "mount"));
			if (!f->key)
				(void)fprintf(w->f, "\"} %d\n", (int)failed);
			else if (strcmp(f->f.unit, "seconds") == 0)
				(void)fprintf(w->f, "\"} %s\n", seconds(text, n));
			else
				(void)fprintf(w->f, "\"} %" PRIu64 "\n", number_of(n));
		}
	}
}

/* Of a result, whether it is a bad one. */
static uint64_t policy_number(const json_t *v)
{
	const char *result = json_string_value(v);

	return result ? strcmp(result, "partial") == 0 || strcmp(result, "failed") == 0
		      : (uint64_t)json_integer_value(v);
}

static void policies_write(const struct writer *w, const struct metrics *m)
{
	const json_t *p;
	char text[40];
	size_t k;

	for (size_t i = 0; i < ELEMENTSOF(of_policies) && json_array_size(m->policies) > 0; i++) {
		const struct policy_family *of = &of_policies[i];

		head_write(w, &of->f);
		json_array_foreach(m->policies, k, p) {
			const char *name = json_text(p, "name");
			const json_t *v = p;

			for (const char *const *key = of->path; *key; key++)
				v = json_object_get(v, *key);
			if (of->f.kind == GAUGE && of->f.unit)
				(void)fprintf(w->f, "%s{policy=\"%s\"} %s\n", of->f.name, name,
					      seconds(text, v));
			else
				sample_write(w, &of->f, name, policy_number(v));
		}
	}
}

/* Writes 0 for limits that the last run met. */
static void shortages_write(const struct writer *w, const struct metrics *m)
{
	const json_t *p, *unmet;
	size_t k, i;

	if (json_array_size(m->policies) > 0)
		head_write(w, &policy_shortage);
	json_array_foreach(m->policies, k, p)
		for (enum limit limit = 0; limit < LIMITS; limit++) {
			json_int_t missing = 0;

			json_array_foreach(json_object_get(json_object_get(p, "last"), "unmet"), i,
					   unmet)
				if (strcmp(json_text(unmet, "limit"), limit_name(limit)) == 0)
					missing =
						json_integer_value(json_object_get(unmet, "have")) -
						json_integer_value(
							json_object_get(unmet, "wanted"));
			(void)fprintf(w->f, "%s{policy=\"%s\",limit=\"%s\"} %lld\n",
				      policy_shortage.name, json_text(p, "name"), limit_name(limit),
				      (long long)(missing < 0 ? -missing : missing));
		}
}

static void live_write(const struct writer *w, const struct metrics *m)
{
	static const char *const modes[] = { "fast", "check", "paced", "urgent" };
	const struct family *target = &of_live[0], *owed = &of_live[1], *mode = &of_live[2];
	const json_t *d;
	char text[40];
	size_t k;

	head_write(w, target);
	json_array_foreach(m->devices, k, d)
		(void)fprintf(w->f, "%s{device=\"%s\"} %s\n", target->name, json_text(d, "name"),
			      seconds(text, json_object_get(d, "target_usec")));
	head_write(w, owed);
	json_array_foreach(m->devices, k, d)
		sample_write(w, owed, json_text(d, "name"), json_number(d, "owed_bytes"));
	head_write(w, mode);
	json_array_foreach(m->devices, k, d)
		for (size_t i = 0; i < ELEMENTSOF(modes); i++)
			(void)fprintf(w->f, "%s{device=\"%s\",%s=\"%s\"} %d\n", mode->name,
				      json_text(d, "name"), mode->name, modes[i],
				      strcmp(json_text(d, "mode"), modes[i]) == 0);
}

void metrics_write(FILE *f, const struct metrics *m, bool openmetrics)
{
	static const struct family up = { "reclaimd_up", GAUGE, NULL,
					  NULL,          NULL,  "Whether the daemon answers." };
	const struct writer w = { .f = f, .openmetrics = openmetrics };

	head_write(&w, &up);
	sample_write(&w, &up, NULL, m ? 1 : 0);
	if (m) {
		manager_write(&w, m, of_manager, ELEMENTSOF(of_manager));
		if (json_text(m->manager, "FleetHost")[0])
			manager_write(&w, m, of_fleet, ELEMENTSOF(of_fleet));
		spools_write(&w, m);
		totals_write(&w, m);
		trims_write(&w, m);
		policies_write(&w, m);
		shortages_write(&w, m);
		live_write(&w, m);
	}
	if (openmetrics)
		(void)fputs("# EOF\n", f);
}
