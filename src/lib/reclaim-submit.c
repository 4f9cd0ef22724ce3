/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Handing over: a name goes with its identity at the call (wire/records.h), so that an answer that
 * is not waited for does no harm, whatever has been called so since. The other way round, a program
 * that goes on without an answer and finds the name gone must not see it come back: what has been
 * moved by then stays accepted. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "reclaim-handle.h"
#include "base/fd.h"
#include "base/sealed-file.h"
#include "wire/records.h"

struct submitted_name {
	const char *name;
	struct identity id;
};

/* Copies a structure that the caller's header may know less or more of, over the defaults; NULL is
 * nothing but these. */
static int options_take(struct reclaim *r, const struct reclaim_options *o,
			struct reclaim_options *ret)
{
	struct reclaim_options known = RECLAIM_OPTIONS_INIT;
	uint64_t size = known.size;

	if (!o)
		return 0;
	if (size_check(r, o->size) < 0)
		return r->last;
	for (uint64_t i = size; i < o->size; i++)
		if (((const unsigned char *)o)[i] != 0)
			return fail(r, -E2BIG, "the options are those of a newer libreclaim");
	memcpy(&known, o, MIN(o->size, size));
	if (known.reserved != 0 || known.priority > RECLAIM_PRIORITY_HIGH)
		return fail(r, -EINVAL, "the options have a value that has no meaning");
	*ret = known;
	return 0;
}

static void record_write(FILE *f, const void *what)
{
	const struct submitted_name *e = what;
	const struct record_header h = { .ino = e->id.ino,
					 .btime_nsec = e->id.btime_nsec,
					 .type = e->id.mode & S_IFMT };

	(void)fwrite(&h, sizeof(h), 1, f);
	(void)fwrite(e->name, 1, strlen(e->name) + 1, f);
}

static int options_append(sd_bus_message *m, const struct reclaim_options *o, bool dry_run)
{
	static const char *const priorities[] = { [RECLAIM_PRIORITY_NORMAL] = "normal",
						  [RECLAIM_PRIORITY_LOW] = "low",
						  [RECLAIM_PRIORITY_HIGH] = "high" };
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	if (r >= 0)
		r = sd_bus_message_append(m, "{sv}{sv}{sv}{sv}", "records", "b", 1, "keep-moved",
					  "b", 1, "dry-run", "b", (int)dry_run, "priority", "s",
					  priorities[o->priority]);
	if (r >= 0 && o->undo_usec != RECLAIM_UNDO_DEFAULT)
		r = sd_bus_message_append(m, "{sv}", "undo-usec", "t", o->undo_usec);
	if (r >= 0 && o->by_usec > 0)
		r = sd_bus_message_append(m, "{sv}", "deadline-usec", "t", o->by_usec);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

/* The whole message; what there is at the name is *ret_id. */
static int message_make(struct reclaim *r, int dirfd, const char *name,
			const struct reclaim_options *o, bool dry_run, struct identity *ret_id,
			sd_bus_message **ret)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	_cleanup_close_ int here = -1, records = -1;
	struct submitted_name e = { .name = name };
	int error = handle_message(r, "SubmitLists", &m);

	if (error < 0)
		return error;
	if (!name[0] || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return fail(r, -EINVAL, "\"%s\" is not a name in one directory", name);
	error = fd_identity(dirfd, name, &e.id);
	if (error >= 0 && dirfd == AT_FDCWD) {
		dirfd = here = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
		error = here < 0 ? -errno : 0;
	}
	if (error >= 0)
		error = records = sealed_file(record_write, &e);
	if (error >= 0)
		error = sd_bus_message_append(m, "a(hh)", 1, dirfd, records);
	if (error >= 0)
		error = options_append(m, o, dry_run);
	if (error < 0)
		return fail_errno(r, error);
	*ret_id = e.id;
	*ret = m;
	m = NULL;
	return 0;
}

static int job_read(struct reclaim *r, sd_bus_message *reply, uint64_t *ret_job)
{
	int error = sd_bus_message_read(reply, "t", ret_job);

	return error < 0 ? fail_errno(r, -EBADMSG) : 0;
}

int reclaim_submit_at(struct reclaim *r, int dirfd, const char *name,
		      const struct reclaim_options *options, uint64_t *ret_job)
{
	_cleanup_message_ sd_bus_message *m = NULL, *reply = NULL;
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct identity id = { 0 };
	uint64_t job = 0;
	int error = options_take(r, options, &o);

	if (error >= 0)
		error = message_make(r, dirfd, name, &o, /* dry_run= */ false, &id, &m);
	if (error >= 0)
		error = handle_send(r, m, o.timeout_usec, &reply);
	if (error >= 0)
		error = job_read(r, reply, &job);
	if (error < 0)
		return error;
	if (ret_job)
		*ret_job = job;
	return 0;
}

struct pending {
	struct reclaim *r;
	reclaim_submitted_fn callback;
	void *userdata;
};

static int on_submitted(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const struct pending *p = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(m);
	uint64_t job = 0;
	int error =
		e ? fail_answer(p->r, e, -sd_bus_message_get_errno(m)) : job_read(p->r, m, &job);

	(void)ret_error;
	p->callback(p->r, error, job, p->userdata);
	return 0;
}

int reclaim_submit_at_async(struct reclaim *r, int dirfd, const char *name,
			    const struct reclaim_options *options, reclaim_submitted_fn callback,
			    void *userdata)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	struct identity id = { 0 };
	sd_bus_slot *slot = NULL;
	struct pending *p;
	int error = options_take(r, options, &o);

	if (error >= 0)
		error = message_make(r, dirfd, name, &o, /* dry_run= */ false, &id, &m);
	if (error < 0)
		return error;
	p = malloc(sizeof(*p));
	if (!p)
		return fail_errno(r, -ENOMEM);
	*p = (struct pending){ r, callback, userdata };
	error = sd_bus_call_async(r->way.bus, &slot, m, on_submitted, p, MAX(o.timeout_usec, 1U));
	if (error < 0) {
		free(p);
		return fail_errno(r, error);
	}
	/* What is waited for belongs to the connection. */
	(void)sd_bus_slot_set_destroy_callback(slot, free);
	(void)sd_bus_slot_set_floating(slot, true);
	sd_bus_slot_unref(slot);
	return 0;
}

int reclaim_plan(struct reclaim *r, int dirfd, const char *name, struct reclaim_plan *ret)
{
	const struct reclaim_options o = RECLAIM_OPTIONS_INIT;
	_cleanup_message_ sd_bus_message *m = NULL, *reply = NULL;
	struct reclaim_plan plan = RECLAIM_PLAN_INIT;
	struct identity id = { 0 };
	int error = size_check(r, ret->size);

	if (error >= 0)
		error = message_make(r, dirfd, name, &o, /* dry_run= */ true, &id, &m);
	if (error >= 0)
		error = handle_send(r, m, o.timeout_usec, &reply);
	if (error < 0)
		return error;
	if (S_ISREG(id.mode)) {
		plan.length_bytes = id.size_bytes;
		plan.frees_bytes = id.nlink == 1 ? id.blocks_bytes : 0;
	}
	plan.links = id.nlink;
	plan.mode = id.mode;
	result_give(ret, &plan, ret->size, sizeof(plan));
	return 0;
}
