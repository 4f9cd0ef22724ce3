/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "bus-server.h"

#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/api/dbus/bus.h"
#include "daemon/api/fields.h"
#include "daemon/api/polkit-grant.h"
#include "daemon/api/operations.h"
#include "daemon/context/context.h"
#include "daemon/fleet/fleet.h"
#include "daemon/workers/pacers.h"
#include "support.h"

#define HELD_MOST 32

struct held_call {
	operation_done_t done;
	submit_done_t submitted;
	job_seen_t seen;
	void *userdata;
};

struct operations {
	struct listener *listener;
	struct job_record jobs[3];
	struct held_call held[HELD_MOST];
	size_t n_held;
	/* What a client has been answered may have been written by the other thread: only the
	 * kernel knows, and the thread sanitizer does not. */
	pthread_mutex_t lock;
	char submitted[1024];
};

struct server {
	char dir[PATH_MAX], socket[PATH_MAX + 16];
	struct bus_options o;
	struct operations m;
	char told[1024]; /* what its client has looked at, of m.submitted */
	pthread_t thread;
	sem_t ready;
	int stop;
};

/* ---- operations --------------------------------------------------------------------------- */

static struct job_record *find(struct operations *m, const struct caller *c, uint64_t id)
{
	for (size_t i = 0; i < ELEMENTSOF(m->jobs); i++)
		if (m->jobs[i].id == id && caller_may_see(c, &m->jobs[i]))
			return &m->jobs[i];
	return NULL;
}

void grant_make(const struct operations *m, const struct caller *c, const uint64_t *ids, size_t n,
		void (*made)(int r, struct grant *g, void *userdata), void *userdata)
{
	struct grant *g = calloc(1, sizeof(*g));

	(void)m;
	(void)c;
	(void)ids;
	(void)n;
	made(g ? 0 : -ENOMEM, g, userdata);
}

struct grant *grant_free(struct grant *g)
{
	free(g);
	return NULL;
}

static void no_job(operation_done_t done, uint64_t id, void *userdata)
{
	struct failure f = { .cause = ERROR_NO_SUCH_JOB };

	safe_text_format(&f.text, "there is no job %llu", (unsigned long long)id);
	done(&f, userdata);
}

static void on_jobs(struct operations *m, const struct caller *c, const uint64_t *ids, size_t n,
		    operation_done_t done, void *userdata)
{
	struct failure none = { 0 };

	for (size_t i = 0; i < n; i++) {
		if (find(m, c, ids[i]))
			continue;
		no_job(done, ids[i], userdata);
		return;
	}
	done(&none, userdata);
}

static void answer_held(struct operations *m)
{
	struct failure none = { 0 };
	struct submitted s = { .id = 9, .accepted = 1 };

	for (size_t i = 0; i < m->n_held; i++) {
		struct held_call *h = &m->held[i];

		if (h->seen)
			h->seen(&m->jobs[2], h->userdata);
		if (h->submitted)
			h->submitted(&none, &s, h->userdata);
		else
			h->done(&none, h->userdata);
	}
	m->n_held = 0;
}

void operation_restore(struct operations *m, const struct caller *c, uint64_t id, int to_fd,
		       const char *to_name, operation_done_t done, void *userdata)
{
	(void)to_fd;
	(void)to_name;
	on_jobs(m, c, &id, 1, done, userdata);
}

static void tell_of_jobs(const struct operations *m)
{
	const struct listener *l = m->listener;

	for (size_t i = 0; i < 2; i++) {
		l->job_new(&m->jobs[i], l->userdata);
		l->job_changed(&m->jobs[i], l->userdata);
		l->job_finished(&m->jobs[i], l->userdata);
	}
	l->daemon_changed("Paused", l->userdata);
	l->daemon_changed("Jobs", l->userdata);
}

void operation_act(struct operations *m, const struct caller *c, enum act act, const uint64_t *ids,
		   size_t n, operation_done_t done, void *userdata)
{
	struct failure f = { 0 };

	if (act == ACT_PAUSE && n == 1 && ids[0] == 1 && c->id.uid == 0 && m->n_held < HELD_MOST) {
		m->held[m->n_held++] = (struct held_call){ .done = done, .userdata = userdata };
		return;
	}
	if (act <= ACT_RESUME) {
		on_jobs(m, c, ids, n, done, userdata);
		return;
	}
	if (act == ACT_RELOAD)
		tell_of_jobs(m);
	else if (c->id.uid != 0)
		f = (struct failure){ .cause = ERROR_NOT_AUTHORIZED,
				      .text = { "Only root may do that." } };
	else if (act == ACT_RESUME_ALL)
		answer_held(m);
	done(&f, userdata);
}

void operation_change(struct operations *m, const struct caller *c, const struct job_change *to,
		      const uint64_t *ids, size_t n, operation_done_t done, void *userdata)
{
	pthread_mutex_lock(&m->lock);
	(void)snprintf(m->submitted, sizeof(m->submitted), "change %d %u %d %llu", to->has_priority,
		       to->priority, to->has_deadline, (unsigned long long)to->deadline_usec);
	pthread_mutex_unlock(&m->lock);
	on_jobs(m, c, ids, n, done, userdata);
}

void operation_settle(struct operations *m, int dirfd, uint64_t entries, uint64_t bytes,
		      operation_done_t done, void *userdata)
{
	(void)dirfd;
	(void)entries;
	(void)bytes;
	if (m->n_held < HELD_MOST)
		m->held[m->n_held++] = (struct held_call){ .done = done, .userdata = userdata };
	else
		done(&(struct failure){ .cause = ERROR_NONE }, userdata);
}

void operation_submit(struct operations *m, const struct caller *c,
		      const struct intake_group *groups, size_t n, const struct submit_options *o,
		      submit_done_t done, void *userdata)
{
	struct submitted s = { .id = o->dry_run ? 0 : 9, .accepted = 5, .missing = 2 };
	struct failure none = { 0 };
	size_t len;

	pthread_mutex_lock(&m->lock);
	len = (size_t)snprintf(m->submitted, sizeof(m->submitted),
			       "uid %u gid %u groups %zu undo %llu priority %u:", c->id.uid,
			       c->id.gid, c->id.n_groups, (unsigned long long)o->undo_usec,
			       o->priority);
	for (size_t i = 0; i < n && len < sizeof(m->submitted); i++) {
		len += (size_t)snprintf(m->submitted + len, sizeof(m->submitted) - len, " [%s%s%s",
					groups[i].path ? groups[i].path : "",
					groups[i].display ? groups[i].display : "",
					groups[i].list ? " list" : "");
		for (size_t at = 0; at < groups[i].names.len && len < sizeof(m->submitted);
		     at += strlen((const char *)groups[i].names.data + at) + 1)
			len += (size_t)snprintf(m->submitted + len, sizeof(m->submitted) - len,
						" %s", (const char *)groups[i].names.data + at);
		if (len < sizeof(m->submitted))
			len += (size_t)snprintf(m->submitted + len, sizeof(m->submitted) - len,
						"]");
	}
	pthread_mutex_unlock(&m->lock);
	if (o->has_undo && o->undo_usec == 7 && m->n_held < HELD_MOST)
		m->held[m->n_held++] =
			(struct held_call){ .submitted = done, .userdata = userdata };
	else
		done(&none, &s, userdata);
}

void operation_list(struct operations *m, const struct caller *c, const struct job_query *q,
		    job_seen_t seen, operation_done_t done, void *userdata)
{
	struct failure none = { 0 };
	uint32_t found = 0;

	if (q->n_ids == 1 && q->ids[0] == 3 && find(m, c, 3) && m->n_held < HELD_MOST) {
		m->held[m->n_held++] =
			(struct held_call){ .seen = seen, .done = done, .userdata = userdata };
		return;
	}
	for (size_t i = 0; i < 2; i++)
		if (caller_may_see(c, &m->jobs[i]) && m->jobs[i].id >= q->since_id &&
		    (q->n_ids == 0 || q->ids[0] == m->jobs[i].id) && found++ < q->limit)
			seen(&m->jobs[i], userdata);
	if (q->n_ids == 1 && found == 0)
		no_job(done, q->ids[0], userdata);
	else
		done(&none, userdata);
}

void operation_pieces(struct operations *m, const struct caller *c, uint64_t id, enum pieces_of of,
		      uint64_t offset, uint64_t limit, piece_seen_t seen, operation_done_t done,
		      void *userdata)
{
	struct problem_record p = { "/a/\xff\x1b", "is \xff", -EACCES, true };
	char path[PATH_MAX];
	struct entry_view e = { .path = path, .state = ENTRY_STAGED };
	bool problems = of == PIECES_PROBLEMS;
	const struct field *fields = problems            ? problem_fields
				     : of == PIECES_KEPT ? kept_fields
							 : entry_fields;
	struct failure none = { 0 };
	uint64_t most = problems ? 3 - MIN(offset, (uint64_t)3) : 1000;
	uint64_t end = offset + (limit == 0 ? most : MIN(limit, most));

	if (!find(m, c, id)) {
		no_job(done, id, userdata);
		return;
	}
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	for (uint64_t i = offset; i < end; i++)
		seen(fields, problems ? (void *)&p : &e, userdata);
	done(&none, userdata);
}

void operation_listen(struct operations *m, struct listener *l)
{
	m->listener = l;
}

void operation_ignore(struct operations *m, struct listener *l)
{
	(void)l;
	m->listener = NULL;
}

void operation_view(struct operations *m, struct daemon_view *ret)
{
	static const char *const features[] = { "one", "two", NULL };

	(void)m;
	*ret = (struct daemon_view){ .version = "0",
				     .features = features,
				     .paused = true,
				     .configuration_error = "line \xff",
				     .store_error = "",
				     .jobs = { [JOB_QUEUED] = 2 },
				     .bytes_freed = 5,
				     .interruptions = 3,
				     .finished = { [JOB_PARTIAL] = 4 },
				     .errors = { [0] = 6, [EACCES] = 7 } };
}

size_t operation_policies(struct operations *m, struct policy_view *views, size_t n)
{
	static char match[] = "*.tar", *matches[] = { match, NULL };

	(void)m;
	if (n > 0)
		*views = (struct policy_view){ .name = "daily-1",
					       .path = "/p/\xff",
					       .schedule = "daily",
					       .match = matches,
					       .undo_usec = 30,
					       .max_delete = 0.25 };
	return 1;
}

void operation_policy_plan(struct operations *m, const struct caller *c, const char *name,
			   policy_planned_t done, void *userdata)
{
	struct failure f = { .cause = c->id.uid == 0 ? ERROR_NONE : ERROR_NOT_AUTHORIZED,
			     .text = { "Only root may do that." } };

	(void)m;
	done(&f, name, userdata);
}

void operation_policy_run(struct operations *m, const struct caller *c, const char *name,
			  policy_ran_t done, void *userdata)
{
	struct failure f = { .cause = c->id.uid == 0 ? ERROR_NONE : ERROR_NOT_AUTHORIZED,
			     .text = { "Only root may do that." } };

	(void)m;
	done(&f, strlen(name), userdata);
}

struct pacers *operation_pacers(struct operations *m)
{
	(void)m;
	return NULL;
}

size_t pacers_totals(const struct pacers *p, struct device_totals *ret, size_t n)
{
	(void)p;
	(void)ret;
	(void)n;
	return 0;
}

int pacers_latencies(struct pacers *p, device_latency_t each, void *userdata)
{
	(void)p;
	(void)each;
	(void)userdata;
	return 0;
}

size_t pacers_list(struct pacers *p, struct pacer_view *views, size_t n)
{
	(void)p;
	(void)views;
	(void)n;
	return 0;
}

const char *job_state_name(enum job_state s)
{
	static const char *const names[] = { "accepted",  "held",    "queued",  "running",
					     "paused",    "done",    "partial", "failed",
					     "cancelled", "restored" };

	return names[s];
}

const char *job_kind_name(enum job_kind k)
{
	return k == JOB_RMDIR ? "rmdir" : "delete";
}

const char *job_priority_name(enum job_priority p)
{
	static const char *const names[] = { "low", "normal", "high" };

	return names[p];
}

const char *entry_state_name(enum entry_state s)
{
	(void)s;
	return "staged";
}

/* ---- its thread --------------------------------------------------------------------------- */

static size_t spools(struct spool_view *views, size_t n, void *userdata)
{
	(void)n;
	(void)userdata;
	views[0] = (struct spool_view){ .path = "/s/\xff.trash",
					.state_name = "watching",
					.message = "",
					.settle_usec = 10,
					.undo_usec = 20,
					.waiting = 3 };
	return 1;
}

static void operations_make(struct operations *m)
{
	pthread_mutex_init(&m->lock, NULL);
	for (size_t i = 0; i < ELEMENTSOF(m->jobs); i++)
		m->jobs[i] = (struct job_record){ .id = i + 1,
						  .uid = i == 1 ? USER : 0,
						  .state = i == 2 ? JOB_DONE : JOB_HELD,
						  .priority = PRIORITY_NORMAL,
						  .origin = "spool:/\xff",
						  .path = "/a/\xff",
						  .mount = "/a",
						  .staging = "12",
						  .inplace = "",
						  .message = "",
						  .strategy = "",
						  .names = 4 };
}

static void *serve(void *arg)
{
	struct server *s = arg;
	sd_event *e = NULL;
	struct bus *b = NULL;

	ck_assert_int_ge(sd_event_new(&e), 0);
	ck_assert_int_eq(bus_new(&b, &s->m, e, &s->o), 0);
	ck_assert_int_ge(sd_event_add_io(e, NULL, s->stop, EPOLLIN, NULL, NULL), 0);
	ck_assert_int_eq(sem_post(&s->ready), 0);
	ck_assert_int_ge(sd_event_loop(e), 0);
	ck_assert_ptr_null(bus_free(b));
	answer_held(&s->m);
	(void)sd_event_unref(e);
	return NULL;
}

struct server *server_start(const char *bus_address)
{
	struct server *s = calloc(1, sizeof(*s));

	ck_assert_ptr_nonnull(s);
	scratch_make(s->dir, sizeof(s->dir));
	ck_assert_int_eq(chmod(s->dir, 0755), 0);
	(void)snprintf(s->socket, sizeof(s->socket), "%s/private", s->dir);
	s->o = (struct bus_options){ .socket = s->socket,
				     .proxy_program = RECLAIM_WORKER,
				     .no_bus = !bus_address,
				     .bus_address = bus_address,
				     .spools = spools };
	operations_make(&s->m);
	s->stop = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_eq(sem_init(&s->ready, 0, 0), 0);
	ck_assert_int_eq(pthread_create(&s->thread, NULL, serve, s), 0);
	while (sem_wait(&s->ready) < 0)
		;
	return s;
}

struct operations *server_operations_new(void)
{
	struct operations *m = calloc(1, sizeof(*m));

	if (!m)
		abort(); /* outside of tests nothing is asserted */
	operations_make(m);
	return m;
}

void server_operations_free(struct operations *m)
{
	answer_held(m);
	free(m);
}

const char *server_submitted(struct server *s)
{
	pthread_mutex_lock(&s->m.lock);
	memcpy(s->told, s->m.submitted, sizeof(s->told));
	pthread_mutex_unlock(&s->m.lock);
	return s->told;
}

const char *server_socket(const struct server *s)
{
	return s->socket;
}

void server_stop(struct server *s)
{
	ck_assert_int_eq(eventfd_write(s->stop, 1), 0);
	ck_assert_int_eq(pthread_join(s->thread, NULL), 0);
	ck_assert_int_ne(access(s->socket, F_OK), 0);
	(void)close(s->stop);
	(void)sem_destroy(&s->ready);
	scratch_remove(s->dir);
	free(s);
}

/* ---- clients ------------------------------------------------------------------------------ */

/* The system calls change this thread only, as the C library's functions would not. */
static void become(uid_t uid, gid_t gid, gid_t group, size_t n)
{
	ck_assert_int_eq(syscall(SYS_setresuid, -1, 0, -1), 0);
	ck_assert_int_eq(syscall(SYS_setgroups, n, &group), 0);
	ck_assert_int_eq(syscall(SYS_setresgid, -1, gid, -1), 0);
	ck_assert_int_eq(syscall(SYS_setresuid, -1, uid, -1), 0);
}

void become_user(void)
{
	become(USER, USER, GROUP, 1);
}

void become_root(void)
{
	become(0, 0, 0, 0);
}

sd_bus *client_open(const struct server *s)
{
	char address[PATH_MAX + 32];
	sd_bus *c = NULL;

	(void)snprintf(address, sizeof(address), "unix:path=%s", s->socket);
	ck_assert_int_ge(sd_bus_new(&c), 0);
	ck_assert_int_ge(sd_bus_set_address(c, address), 0);
	ck_assert_int_ge(sd_bus_set_method_call_timeout(c, TIMEOUT_USEC), 0);
	if (sd_bus_start(c) < 0)
		c = sd_bus_close_unref(c);
	return c;
}

static char error_text[1200];

const char *call_error(void)
{
	return error_text;
}

const char *send_message(sd_bus *c, sd_bus_message *m, sd_bus_message **ret)
{
	_cleanup_(sd_bus_error_free) sd_bus_error error = SD_BUS_ERROR_NULL;
	static const char prefix[] = "org.reclaimd1.Error.";
	static char name[128];
	int r = sd_bus_call(c, m, TIMEOUT_USEC, &error, ret);

	(void)sd_bus_message_unref(m);
	if (r >= 0)
		return "";
	(void)snprintf(error_text, sizeof(error_text), "%s", error.message ? error.message : "");
	ck_assert_ptr_nonnull(error.name);
	(void)snprintf(name, sizeof(name), "%s",
		       strncmp(error.name, prefix, strlen(prefix)) == 0
			       ? error.name + strlen(prefix)
			       : error.name);
	return name;
}

const char *call(sd_bus *c, const char *path, const char *member, sd_bus_message **ret,
		 const char *types, ...)
{
	sd_bus_message *m = NULL;
	va_list ap;
	int r = sd_bus_message_new_method_call(
		c, &m, "org.reclaimd1", path ? path : "/org/reclaimd1",
		path ? "org.reclaimd1.Job" : "org.reclaimd1.Manager", member);

	/* A client that is not let in may see that already. */
	if (r == -ENOTCONN)
		return "NotConnected";
	ck_assert_int_ge(r, 0);
	va_start(ap, types);
	if (types)
		ck_assert_int_ge(sd_bus_message_appendv(m, types, ap), 0);
	va_end(ap);
	return send_message(c, m, ret);
}
