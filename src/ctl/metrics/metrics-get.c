/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics.h"
#include "base/escape.h"

void metrics_done(struct metrics *m)
{
	for (size_t i = 0; i < m->n_devices; i++)
		free(m->devices[i].name);
	for (size_t i = 0; i < m->n_spools; i++)
		free(m->spools[i].path);
	free(m->devices);
	free(m->spools);
	daemon_devices_done(&m->live);
	sd_bus_message_unref(m->manager);
	sd_bus_message_unref(m->spool_list);
	*m = (struct metrics){ 0 };
}

/* Appends the name of one device, "8:0", to a set's. */
static int name_append(char **name, const char *number, size_t len)
{
	char path[64], target[256], *grown;
	const char *last = NULL;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%.*s", (int)len, number);
	n = readlink(path, target, sizeof(target) - 1);
	if (n > 0) {
		target[n] = '\0';
		last = strrchr(target, '/');
	}
	if (asprintf(&grown, "%s%s%.*s", *name ? *name : "", *name ? "+" : "",
		     last ? (int)strlen(last + 1) : (int)len, last ? last + 1 : number) < 0)
		return -ENOMEM;
	free(*name);
	*name = grown;
	return 0;
}

char *metrics_device_name(const char *key)
{
	char *name = NULL;

	for (const char *at = key; *at;) {
		size_t len = strcspn(at, "+");

		if (name_append(&name, at, len) < 0) {
			free(name);
			return NULL;
		}
		at += len + (at[len] == '+');
	}
	return name ? name : strdup(key);
}

/* Each of these reads a value from where the message stands; 0 or more, or a negative errno. */
static int numbers_read(sd_bus_message *m, const uint64_t **ret, size_t *ret_n)
{
	size_t bytes = 0;
	int r = sd_bus_message_read_array(m, 't', (const void **)ret, &bytes);

	*ret_n = bytes / sizeof(uint64_t);
	return r;
}

static int histogram_read(sd_bus_message *m, struct metrics_histogram *h, size_t n_bounds)
{
	size_t n = 0;
	int r = sd_bus_message_enter_container(m, 'r', "tat");

	if (r >= 0)
		r = sd_bus_message_read(m, "t", &h->sum_usec);
	if (r >= 0)
		r = numbers_read(m, &h->counts, &n);
	if (r >= 0 && n != n_bounds + 1)
		return -EBADMSG;
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

/* Returns 1, 0 at the end, or a negative errno. */
static int device_read(sd_bus_message *m, struct metrics *to)
{
	struct metrics_device *grown, d = { 0 };
	const char *key = NULL;
	int r = sd_bus_message_enter_container(m, 'r', "stta{st}(tat)(tat)(tat)");

	if (r <= 0)
		return r;
	r = sd_bus_message_read(m, "stt", &key, &d.entries, &d.bytes);
	if (r >= 0)
		r = property_counts(m, &d.backoffs);
	for (int i = 0; r >= 0 && i < METRICS_LATENCIES; i++)
		r = histogram_read(m, &d.latencies[i], to->n_bounds);
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	if (r < 0)
		return r;
	grown = reallocarray(to->devices, to->n_devices + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	to->devices = grown;
	d.name = metrics_device_name(key);
	if (!d.name)
		return -ENOMEM;
	to->devices[to->n_devices++] = d;
	return 1;
}

static int devices_read(sd_bus_message *m, void *to)
{
	int r = sd_bus_message_enter_container(m, 'a', "(stta{st}(tat)(tat)(tat))");

	while (r > 0)
		r = device_read(m, to);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

static int bounds_read(sd_bus_message *m, void *to)
{
	struct metrics *all = to;

	return numbers_read(m, &all->bounds_usec, &all->n_bounds);
}

/* All of them must be there: a counter that is 0 because it was not told is worse than none. */
static int table_read(struct metrics *m, const struct property *table, size_t n)
{
	int r = properties_read(m->manager, table, n, m);

	return r >= 0 && (size_t)r < n ? -ENODATA : r;
}

static int manager_read(struct metrics *m)
{
	static const struct property properties[] = {
		{ "Version", "s", offsetof(struct metrics, version), NULL },
		{ "Paused", "b", offsetof(struct metrics, paused), NULL },
		{ "ConfigurationError", "s", offsetof(struct metrics, configuration_error), NULL },
		{ "StoreError", "s", offsetof(struct metrics, store_error), NULL },
		{ "EntriesFreed", "t", offsetof(struct metrics, entries_freed), NULL },
		{ "BytesFreed", "t", offsetof(struct metrics, bytes_freed), NULL },
		{ "Interruptions", "t", offsetof(struct metrics, interruptions), NULL },
		{ "Orphans", "t", offsetof(struct metrics, orphans), NULL },
		{ "Jobs", "a{st}", offsetof(struct metrics, jobs), property_counts },
		{ "JobsFinished", "a{st}", offsetof(struct metrics, finished), property_counts },
		{ "Errors", "a{st}", offsetof(struct metrics, errors), property_counts },
		{ "LatencyBounds", "at", 0, bounds_read },
	};
	/* Their histograms have as many counts as there are bounds, which must be known. */
	static const struct property devices = { "DeviceTotals", "a(stta{st}(tat)(tat)(tat))", 0,
						 devices_read };
	int r = table_read(m, properties, ELEMENTSOF(properties));

	return r < 0 ? r : table_read(m, &devices, 1);
}

/* Returns 1, 0 at the end, or a negative errno. */
static int spool_read(sd_bus_message *m, struct metrics *to)
{
	struct metrics_spool *grown, s = { 0 };
	const char *state = NULL;
	const void *path = NULL;
	size_t len = 0;
	int r = sd_bus_message_enter_container(m, 'r', "ayssttt");

	if (r <= 0)
		return r;
	r = sd_bus_message_read_array(m, 'y', &path, &len);
	if (r >= 0)
		r = sd_bus_message_read(m, "ssttt", &state, NULL, NULL, NULL, &s.waiting);
	if (r >= 0)
		r = sd_bus_message_exit_container(m);
	if (r < 0)
		return r;
	grown = reallocarray(to->spools, to->n_spools + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	to->spools = grown;
	s.watched = strcmp(state, "watching") == 0;
	s.path = escape_bytes(len > 0 ? path : "", len);
	if (!s.path)
		return -ENOMEM;
	to->spools[to->n_spools++] = s;
	return 1;
}

int metrics_get(struct client *c, struct metrics *ret)
{
	int r = properties_get(c, MANAGER_PATH, MANAGER_INTERFACE, &ret->manager);

	if (r == 0)
		r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "ListSpools", &ret->spool_list,
				NULL);
	if (r == 0)
		r = daemon_devices_ask(c, &ret->live);
	if (r)
		return r;
	r = manager_read(ret);
	if (r >= 0)
		r = sd_bus_message_enter_container(ret->spool_list, 'a', "(ayssttt)");
	while (r > 0)
		r = spool_read(ret->spool_list, ret);
	return r < 0 ? client_broken(r) : 0;
}
