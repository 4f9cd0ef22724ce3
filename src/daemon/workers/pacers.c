/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pacers.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "config/config.h"
#include "pacing/sensors/device-set.h"
#include "pacing/peers.h"
#include "pacing/debt/payer.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/macros.h"
#include "base/mounts.h"

/* Never slower than this, so that every job ends; what the configuration says if it says nothing.
 */
#define RATE_MIN MiB(8)

/* A filesystem of the fleet on which other hosts delete. */
struct sharers {
	LIST_ENTRY(sharers) list;
	char *mount;
	uint64_t n; /* hosts, this one included: 2 at least */
};

/* A set of devices in use. */
struct entry {
	LIST_ENTRY(entry) list;
	char *key;
	struct pacer *pacer;
	uint64_t rate_max; /* as the pacer has it; 0: unlimited */
	LIST_HEAD(, paced) paced;
	const struct paced *canary; /* on whose filesystem the canary's file is, or NULL */
	unsigned users;
	unsigned holds;       /* until a debt is paid */
	unsigned n_suspended; /* of them */
	unsigned urgent;      /* how many of them ask for speed */
};

/* The last hour of a set of devices, in use or not: what the pacer has counted is moved there when
 * it is freed or asked for. */
struct hour {
	LIST_ENTRY(hour) list;
	char key[PACERS_KEY_MAX];
	struct latency_hour latencies;
};

struct pacers {
	LIST_HEAD(, entry) entries;
	LIST_HEAD(, hour) hours;
	LIST_HEAD(, sharers) sharers;
	unsigned n_hours;
	struct device_totals past[PACERS_PAST_MOST]; /* of what is no longer in use */
	size_t n_past;
	const struct config *config;
	uint64_t window_rate;
};

struct debt_hold {
	struct pacers *pacers;
	struct entry *entry;
};

struct paced {
	LIST_ENTRY(paced) list;
	int canary_dirfd; /* -1: none */
	struct pacers *pacers;
	struct entry *entry;
	struct pacer_peer *peer;
	bool urgent, suspended;
};

int pacers_new(struct pacers **ret)
{
	struct pacers *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->window_rate = UINT64_MAX;
	*ret = p;
	return 0;
}

/* Adds what has happened on a set of devices to its place among others, of which there are at most
 * `most`. Returns how many there are then. */
static size_t totals_add(struct device_totals *v, size_t n, size_t most, const char *key,
			 const struct pacing_totals *totals)
{
	size_t i = 0;

	while (i < n && strcmp(v[i].key, key) != 0)
		i++;
	if (i == most || strlen(key) >= sizeof(v[i].key))
		return n;
	if (i == n) {
		v[i] = (struct device_totals){ 0 };
		(void)memcpy(v[i].key, key, strlen(key) + 1);
	}
	pacing_totals_merge(&v[i].totals, totals);
	return MAX(n, i + 1);
}

/* What has no disk has no figures. */
static bool is_watched(const struct entry *e)
{
	return e->pacer && pacer_has_disks(e->pacer);
}

static struct hour *hour_get(struct pacers *p, const char *key)
{
	struct hour *h;

	LIST_FOREACH(h, &p->hours, list)
		if (strcmp(h->key, key) == 0)
			return h;
	if (p->n_hours == PACERS_PAST_MOST || strlen(key) >= sizeof(h->key))
		return NULL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return NULL;
	(void)memcpy(h->key, key, strlen(key) + 1);
	LIST_INSERT_HEAD(&p->hours, h, list);
	p->n_hours++;
	return h;
}

/* Without memory there are no figures. */
static void hour_take(struct pacers *p, const struct entry *e)
{
	struct hour *h = hour_get(p, e->key);

	if (h)
		pacer_hour(e->pacer, &h->latencies);
}

static void entry_free(struct pacers *p, struct entry *e)
{
	struct pacing_totals totals;

	if (is_watched(e)) {
		hour_take(p, e);
		pacer_totals(e->pacer, &totals);
		p->n_past = totals_add(p->past, p->n_past, PACERS_PAST_MOST, e->key, &totals);
	}
	LIST_REMOVE(e, list);
	assert(LIST_FIRST(&p->entries) != e);
	pacer_free(e->pacer);
	free(e->key);
	free(e);
}

static struct sharers *sharers_find(const struct pacers *p, const char *mount)
{
	struct sharers *s;

	LIST_FOREACH(s, &p->sharers, list)
		if (strcmp(s->mount, mount) == 0)
			return s;
	return NULL;
}

static void sharers_free(struct sharers *s)
{
	LIST_REMOVE(s, list);
	free(s->mount);
	free(s);
}

struct pacers *pacers_free(struct pacers *p)
{
	struct sharers *s, *next;
	struct hour *h;

	while (p && !LIST_EMPTY(&p->entries))
		entry_free(p, LIST_FIRST(&p->entries));
	while (p && (h = LIST_FIRST(&p->hours))) {
		LIST_REMOVE(h, list);
		free(h);
	}
	for (s = p ? LIST_FIRST(&p->sharers) : NULL; s; s = next) {
		next = LIST_NEXT(s, list);
		sharers_free(s);
	}
	free(p);
	return NULL;
}

/* Where looking at a mount point could take for ever: the mount table tells its number, and that no
 * disk is behind it. */
static bool hangs_on_the_way(const char *path, const char *key, bool *ret_same)
{
	char number[40];
	struct mounts mounts;
	const struct mount *m;
	bool hangs;

	if (strncmp(path, "/dev/", strlen("/dev/")) == 0 ||
	    mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return false;
	hangs = mounts_may_hang(&mounts, path);
	m = mounts_by_path(&mounts, path);
	(void)snprintf(number, sizeof(number), "none:%u:%u", m ? major(m->dev) : 0,
		       m ? minor(m->dev) : 0);
	*ret_same = m && strcmp(m->target, path) == 0 && strcmp(number, key) == 0;
	mounts_done(&mounts);
	return hangs;
}

/* Is this device of the configuration the one with this key? Named as a mount point or a device
 * node, it is resolved when it is needed: what is mounted where may have changed. */
static bool names_device(const char *name, const char *key)
{
	struct devices found = { 0 };
	struct stat st;
	char number[32];
	bool same;
	int fd;

	if (name[0] != '/')
		return strcmp(name, key) == 0;
	if (hangs_on_the_way(name, key, &same))
		return same;
	if (stat(name, &st) < 0)
		return false;
	if (S_ISBLK(st.st_mode)) {
		(void)snprintf(number, sizeof(number), "%u:%u", major(st.st_rdev),
			       minor(st.st_rdev));
		return strcmp(number, key) == 0;
	}
	fd = open(name, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return false;
	same = devices_find(&found, "/sys", "/proc", fd) == 0 && strcmp(found.key, key) == 0;
	devices_done(&found);
	fd_closep(&fd);
	return same;
}

/* While it is not, the path is on the disk beneath, which is not meant. Where that cannot be told,
 * it is. */
static bool is_mounted(const char *path)
{
	struct mounts mounts;
	const struct mount *m;
	bool is;

	if (mounts_read(&mounts, "/proc/self/mountinfo") < 0)
		return true;
	m = mounts_by_path(&mounts, path);
	is = m && strcmp(m->target, path) == 0;
	mounts_done(&mounts);
	return is;
}

/* This host's part of what all hosts of the fleet may do there together. */
static uint64_t fleet_rate(const struct pacers *p, const char *key)
{
	const struct config *c = p->config;
	size_t n = c && c->fleet_database ? c->n_fleet_filesystems : 0;
	uint64_t rate = UINT64_MAX;

	for (size_t i = 0; i < n; i++) {
		const struct config_shared *fs = &c->fleet_filesystems[i];
		const struct sharers *s = sharers_find(p, fs->path);

		if (fs->rate_max != UINT64_MAX && is_mounted(fs->path) &&
		    names_device(fs->path, key))
			rate = MIN(rate, fs->rate_max / (s ? s->n : 1));
	}
	return rate;
}

/* What applies to these devices. */
static struct pacer_options options_for(const struct pacers *p, const char *key)
{
	struct config_pacing s = { .latency = LATENCY_AUTO,
				   .rate_min = RATE_MIN,
				   .rate_max = UINT64_MAX };
	size_t n = p->config ? p->config->n_devices : 0;

	if (p->config)
		s = p->config->pacing;
	for (size_t i = 0; i < n; i++)
		if (names_device(p->config->devices[i].name, key))
			s = p->config->devices[i].pacing;
	s.rate_max = MIN(MIN(s.rate_max, p->window_rate), fleet_rate(p, key));
	s.rate_min = MIN(s.rate_min, s.rate_max);
	return (struct pacer_options){ .latency_usec =
					       s.latency == LATENCY_BOUND ? s.latency_usec : 0,
				       .rate_min = s.rate_min,
				       .rate_max = s.rate_max == UINT64_MAX ? 0 : s.rate_max,
				       .off = s.latency == LATENCY_OFF,
				       .debt = s.latency != LATENCY_OFF,
				       .diskless = true };
}

static void limits_update(struct pacers *p)
{
	struct entry *e;

	LIST_FOREACH(e, &p->entries, list) {
		struct pacer_options o = options_for(p, e->key);

		if (!e->pacer)
			continue;
		if (e->rate_max != o.rate_max)
			debug_log("pacing %s: at most %" PRIu64
				  " bytes/s (0: no limit) from now on",
				  e->key, o.rate_max);
		e->rate_max = o.rate_max;
		pacer_limits(e->pacer, o.latency_usec, o.rate_min, o.rate_max);
	}
}

/* Those of filesystems that the configuration does not have any more. */
static void sharers_drop(struct pacers *p)
{
	struct sharers *s, *next;

	for (s = LIST_FIRST(&p->sharers); s; s = next) {
		size_t n = p->config ? p->config->n_fleet_filesystems : 0;

		next = LIST_NEXT(s, list);
		while (n > 0 && strcmp(p->config->fleet_filesystems[n - 1].path, s->mount) != 0)
			n--;
		if (n == 0)
			sharers_free(s);
	}
}

void pacers_configure(struct pacers *p, const struct config *c)
{
	p->config = c;
	sharers_drop(p);
	limits_update(p);
}

void pacers_mounts_changed(struct pacers *p)
{
	limits_update(p);
}

void pacers_window(struct pacers *p, uint64_t rate)
{
	p->window_rate = rate;
	limits_update(p);
}

static int sharers_set(struct pacers *p, const char *mount, uint64_t n)
{
	struct sharers *s = sharers_find(p, mount);

	if (s && n <= 1) {
		sharers_free(s);
	} else if (s) {
		s->n = n;
	} else if (n > 1) {
		s = calloc(1, sizeof(*s));
		if (s)
			s->mount = strdup(mount);
		if (!s || !s->mount) {
			free(s);
			return -ENOMEM;
		}
		s->n = n;
		LIST_INSERT_HEAD(&p->sharers, s, list);
	}
	return 0;
}

/* Without memory the part stays as it was. */
void pacers_others(struct pacers *p, const char *mount, uint64_t others)
{
	const struct sharers *s = sharers_find(p, mount);
	uint64_t n = MIN(others, (uint64_t)PACERS_HOSTS_MOST - 1) + 1;

	if (n != (s ? s->n : 1) && sharers_set(p, mount, n) >= 0)
		limits_update(p);
}

/* A window may begin while jobs run that are not paced else. */
static bool has_windows(const struct pacers *p)
{
	return p->config && p->config->n_windows > 0;
}

static int entry_make(struct pacers *p, const char *key, int fd, int canary_dirfd, bool discards,
		      struct entry **ret)
{
	struct pacer_options o = options_for(p, key);
	struct entry *e = calloc(1, sizeof(*e));
	int r = 0;

	if (!e)
		return -ENOMEM;
	LIST_INSERT_HEAD(&p->entries, e, list);
	LIST_INIT(&e->paced);
	e->key = strdup(key);
	e->rate_max = o.rate_max;
	o.discards = discards;
	if (!e->key)
		r = -ENOMEM;
	else if (!o.off || o.rate_max || has_windows(p))
		r = pacer_new(&e->pacer, &o, fd, canary_dirfd);
	if (r < 0)
		entry_free(p, e);
	else
		*ret = e;
	return r;
}

static bool suspended(const struct entry *e)
{
	return e->holds == 0 && e->users > 0 && e->n_suspended == e->users;
}

static int entry_get(struct pacers *p, int fd, int canary_dirfd, bool discards, struct entry **ret)
{
	struct devices d = { 0 };
	struct entry *e;
	int r = devices_find(&d, "/sys", "/proc", fd);

	if (r < 0)
		return r;
	LIST_FOREACH(e, &p->entries, list)
		if (strcmp(e->key, d.key) == 0)
			break;
	if (!e)
		r = entry_make(p, d.key, fd, canary_dirfd, discards, &e);
	else if (e->users == 0 && e->pacer)
		pacer_canary(e->pacer, canary_dirfd);
	if (r >= 0 && e->pacer)
		pacer_pay_for(e->pacer, &d);
	devices_done(&d);
	if (r < 0)
		return r;
	e->users++;
	if (e->pacer)
		pacer_suspend(e->pacer, false);
	/* Made for another filesystem on these disks, perhaps. */
	if (e->pacer && discards)
		pacer_discards(e->pacer);
	*ret = e;
	return 0;
}

static void entry_put(struct pacers *p, struct entry *e)
{
	if (e->users == 0 && e->holds == 0)
		entry_free(p, e);
	else if (e->pacer)
		pacer_suspend(e->pacer, suspended(e));
}

static void entry_leave(struct pacers *p, struct entry *e)
{
	assert(e->users > 0 && e->n_suspended <= e->users && e->urgent <= e->users);
	e->users--;
	entry_put(p, e);
}

static int hold(struct debt_hold **ret, struct pacers *p, struct entry *e)
{
	struct debt_hold *h = malloc(sizeof(*h));

	if (!h)
		return -ENOMEM;
	*h = (struct debt_hold){ p, e };
	e->holds++;
	*ret = h;
	return 0;
}

int debt_hold_new(struct debt_hold **ret, struct paced *d)
{
	return hold(ret, d->pacers, d->entry);
}

int debt_hold_new_for(struct debt_hold **ret, struct pacers *p, int fd, uint64_t entries,
		      uint64_t bytes)
{
	struct entry *e;
	int r = entry_get(p, fd, /* canary_dirfd= */ -1, /* discards= */ false, &e);

	*ret = NULL;
	if (r < 0)
		return r;
	if (e->pacer)
		pacer_owe(e->pacer, entries, bytes);
	if (e->pacer && pacer_owes(e->pacer)) {
		r = hold(ret, p, e);
		if (r >= 0)
			r = 1;
	}
	entry_leave(p, e);
	return r;
}

void debt_hold_settle(struct debt_hold *h)
{
	pacer_suspend(h->entry->pacer, false);
	pacer_settle_ask(h->entry->pacer);
}

bool debt_hold_is_settled(const struct debt_hold *h)
{
	return pacer_is_settled(h->entry->pacer);
}

uint64_t debt_hold_owed(const struct debt_hold *h)
{
	struct payer_view v;

	pacer_debt(h->entry->pacer, &v);
	return v.owed_bytes;
}

struct debt_hold *debt_hold_free(struct debt_hold *h)
{
	if (!h)
		return NULL;
	assert(h->entry->holds > 0);
	h->entry->holds--;
	entry_put(h->pacers, h->entry);
	free(h);
	return NULL;
}

/* For the canary, if that has none yet. That of the first on these devices entry_get has taken. */
static void canary_lend(struct paced *d, int canary_dirfd)
{
	struct entry *e = d->entry;

	d->canary_dirfd = canary_dirfd < 0 ? -1 : fcntl(canary_dirfd, F_DUPFD_CLOEXEC, 3);
	LIST_INSERT_HEAD(&e->paced, d, list);
	if (e->canary || d->canary_dirfd < 0)
		return;
	e->canary = d;
	if (e->users > 1)
		pacer_canary(e->pacer, d->canary_dirfd);
}

/* Other deletions may use these devices for long, on other filesystems: this one's may be
 * unmounted. */
static void canary_withdraw(struct paced *d)
{
	struct entry *e = d->entry;

	LIST_REMOVE(d, list);
	if (e->canary == d) {
		LIST_FOREACH(e->canary, &e->paced, list)
			if (e->canary->canary_dirfd >= 0)
				break;
		pacer_canary(e->pacer, e->canary ? e->canary->canary_dirfd : -1);
	}
	fd_closep(&d->canary_dirfd);
}

int pacers_attach(struct pacers *p, int fd, int canary_dirfd, bool discards, struct paced **ret,
		  int *ret_sock, int *ret_page_fd)
{
	struct paced *d = calloc(1, sizeof(*d));
	int r = d ? entry_get(p, fd, canary_dirfd, discards, &d->entry) : -ENOMEM;

	if (r < 0) {
		free(d);
		return r;
	}
	d->pacers = p;
	if (d->entry->pacer)
		r = pacer_peer_new(d->entry->pacer, &d->peer, ret_sock, ret_page_fd);
	if (r < 0 || !d->entry->pacer) {
		entry_leave(p, d->entry);
		free(d);
		d = NULL;
	}
	if (d)
		canary_lend(d, canary_dirfd);
	if (r >= 0)
		*ret = d;
	return r;
}

void paced_urgent(struct paced *d, bool on)
{
	struct entry *e = d->entry;

	if (d->urgent == on)
		return;
	d->urgent = on;
	e->urgent += on ? 1U : -1U;
	pacer_urgent(e->pacer, e->urgent > 0);
}

void paced_suspend(struct paced *d, bool on)
{
	struct entry *e = d->entry;

	if (d->suspended == on)
		return;
	d->suspended = on;
	e->n_suspended += on ? 1U : -1U;
	pacer_suspend(e->pacer, suspended(e));
}

struct paced *pacers_detach(struct paced *d)
{
	if (!d)
		return NULL;
	paced_urgent(d, false);
	paced_suspend(d, false);
	pacer_peer_free(d->entry->pacer, d->peer);
	canary_withdraw(d);
	entry_leave(d->pacers, d->entry);
	free(d);
	return NULL;
}

void paced_stop(struct paced *d, bool stop)
{
	pacer_peer_stop(d->peer, stop);
}

uint64_t paced_flush_from(const struct paced *d)
{
	return pacer_flush_from(d->entry->pacer);
}

void paced_progress(const struct paced *d, uint64_t *ret_entries, uint64_t *ret_bytes)
{
	pacer_peer_progress(d->peer, ret_entries, ret_bytes);
}

size_t pacers_list(struct pacers *p, struct pacer_view *views, size_t n)
{
	const struct entry *e;
	size_t found = 0;

	LIST_FOREACH(e, &p->entries, list) {
		if (!is_watched(e) || suspended(e))
			continue;
		if (found < n)
			pacer_snapshot(e->pacer, &views[found]);
		found++;
	}
	return found;
}

size_t pacers_totals(const struct pacers *p, struct device_totals *ret, size_t n)
{
	size_t found = MIN(p->n_past, n);
	struct pacing_totals totals;
	const struct entry *e;

	memcpy(ret, p->past, found * sizeof(*ret));
	LIST_FOREACH(e, &p->entries, list) {
		if (!is_watched(e))
			continue;
		pacer_totals(e->pacer, &totals);
		found = totals_add(ret, found, n, e->key, &totals);
	}
	return found;
}

static int hour_tell(const struct hour *h, uint64_t now, uint64_t realtime, device_latency_t each,
		     void *userdata)
{
	struct latency_figures f[LATENCY_FIGURES_MOST];
	size_t n = latency_hour_figures(&h->latencies, now, f);
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = each(&(struct device_latency){ .key = h->key,
						   .of = latency_kind_name(f[i].kind),
						   .deleting = f[i].deleting,
						   .begin_usec = realtime - f[i].age_usec,
						   .count = f[i].count,
						   .half_usec = f[i].half_usec,
						   .most_usec = f[i].most_usec },
			 userdata);
	return MIN(r, 0);
}

int pacers_latencies(struct pacers *p, device_latency_t each, void *userdata)
{
	uint64_t now = now_usec();
	const struct entry *e;
	const struct hour *h;
	struct timespec ts;
	int r = 0;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	LIST_FOREACH(e, &p->entries, list) {
		if (is_watched(e))
			hour_take(p, e);
	}
	LIST_FOREACH(h, &p->hours, list) {
		if (r >= 0)
			r = hour_tell(h, now,
				      (uint64_t)ts.tv_sec * USEC_PER_SEC +
					      (uint64_t)ts.tv_nsec / 1000,
				      each, userdata);
	}
	return r;
}
