/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "reclaim-handle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error-table.h"
#include "base/escape.h"
#include "base/fd.h"

int fail(struct reclaim *r, int error, const char *format, ...)
{
	struct safe_text text;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&text, format, ap);
	va_end(ap);
	free(r->error);
	r->error = strdup(text.line);
	r->last = error;
	return error;
}

int fail_errno(struct reclaim *r, int error)
{
	free(r->error);
	r->error = NULL;
	r->last = error;
	return error;
}

/* A connection that is gone is told by many errors. */
static int lost(int error)
{
	return error == -ENOTCONN || error == -EPIPE ? -ECONNRESET : error;
}

/* The daemon's errors are in the table; of those of the bus, sd-bus has made errnos. */
static int errno_of(const struct reclaim *r, const sd_bus_error *e, int error)
{
	enum error_cause cause = error_by_bus_name(e->name);

	if (cause)
		return error_entry(cause)->error;
	/* No such service, or none that could be started. */
	if (error == -EHOSTUNREACH || error == -ENXIO)
		return -ECONNREFUSED;
	/* Said of an answer that takes too long, and of one that cannot come any more. */
	return error == -ETIMEDOUT && sd_bus_is_open(r->way.bus) <= 0 ? -ECONNRESET : lost(error);
}

int fail_answer(struct reclaim *r, const sd_bus_error *e, int error)
{
	error = errno_of(r, e, error);
	return e->message ? fail(r, error, "%s", e->message) : fail_errno(r, error);
}

int size_check(struct reclaim *r, uint64_t size)
{
	return size >= sizeof(size) ? 0
				    : fail(r, -EINVAL, "a structure does not begin with its size");
}

void result_give(void *ret, const void *known, uint64_t size, uint64_t known_size)
{
	unsigned char *to = ret;
	uint64_t both = MIN(size, known_size), head = sizeof(size);

	memcpy(to + head, (const unsigned char *)known + head, both - head);
	memset(to + both, 0, size - both);
}

static int own_check(const struct reclaim *r)
{
	return *r->own ? 0 : -ECHILD;
}

int handle_check(struct reclaim *r)
{
	int open = own_check(r);

	if (open >= 0)
		open = sd_bus_is_open(r->way.bus);
	if (open < 0)
		return fail_errno(r, open);
	return open ? 0 : fail(r, -ECONNRESET, "the connection to the daemon is closed");
}

int handle_message(struct reclaim *r, const char *member, sd_bus_message **ret)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	int error = handle_check(r);

	if (error < 0)
		return error;
	error = sd_bus_message_new_method_call(r->way.bus, &m,
					       r->way.direct ? NULL : REACH_BUS_NAME, MANAGER_PATH,
					       MANAGER_INTERFACE, member);
	if (error >= 0 && !r->start)
		error = sd_bus_message_set_auto_start(m, false);
	if (error < 0)
		return fail_errno(r, error);
	*ret = m;
	m = NULL;
	return 0;
}

int handle_send(struct reclaim *r, sd_bus_message *m, uint64_t timeout_usec, sd_bus_message **ret)
{
	_cleanup_(sd_bus_error_free) sd_bus_error e = SD_BUS_ERROR_NULL;
	/* 0 would be some default. */
	int error = sd_bus_call(r->way.bus, m, MAX(timeout_usec, 1U), &e, ret);

	return error < 0 ? fail_answer(r, &e, error) : 0;
}

int handle_call(struct reclaim *r, const char *member, uint64_t timeout_usec, sd_bus_message **ret,
		const char *types, ...)
{
	_cleanup_message_ sd_bus_message *m = NULL;
	int error = handle_message(r, member, &m);
	va_list ap;

	if (error < 0)
		return error;
	va_start(ap, types);
	error = sd_bus_message_appendv(m, types, ap);
	va_end(ap);
	return error < 0 ? fail_errno(r, error) : handle_send(r, m, timeout_usec, ret);
}

uint64_t end_of(uint64_t timeout_usec)
{
	uint64_t now = now_usec();

	return timeout_usec > UINT64_MAX - now ? UINT64_MAX : now + timeout_usec;
}

int handle_listen(struct reclaim *r, const bool *stop, uint64_t end_usec)
{
	if (own_check(r) < 0)
		return -ECHILD;
	for (;;) {
		int error = sd_bus_process(r->way.bus, NULL);
		uint64_t now;

		if (error < 0)
			return lost(error);
		if (stop && *stop)
			return 0;
		if (error > 0)
			continue;
		now = now_usec();
		if (now >= end_usec)
			return 0;
		error = sd_bus_wait(r->way.bus,
				    end_usec == UINT64_MAX ? UINT64_MAX : end_usec - now);
		if (error < 0 && error != -EINTR)
			return lost(error);
	}
}

/* That no daemon runs is told by many errors. */
static int open_error(int error)
{
	if (error == -EPERM)
		return -EACCES;
	error = lost(error);
	return error == -EACCES || error == -ECONNRESET || error == -ENOMEM || error == -EMFILE ||
			       error == -ENFILE || error == -ETIMEDOUT
		       ? error
		       : -ECONNREFUSED;
}

static int own_mark(struct reclaim *r)
{
	void *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -ENOMEM;
	r->own = page;
	*r->own = 1;
	return madvise(page, 1, MADV_WIPEONFORK) < 0 ? -errno : 0;
}

int reclaim_open(struct reclaim **ret, unsigned flags)
{
	struct route w = { .dir = reach_environment_dir(),
			   .socket_first = true, /* a submit passes descriptors */
			   .start = !(flags & RECLAIM_NO_START) };
	struct reclaim *r;
	sd_id128_t id;
	int error;

	if (flags & ~RECLAIM_NO_START)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->start = w.start;
	error = own_mark(r);
	if (error >= 0)
		error = reach_daemon(&r->way, &w);
	/* Waits until the greetings are over, so that no later call waits for them; as long as
	 * sd-bus waits, 90 seconds. */
	if (error >= 0)
		error = sd_bus_get_bus_id(r->way.bus, &id);
	if (error >= 0)
		error = r->fd = sd_bus_get_fd(r->way.bus);
	if (error < 0) {
		(void)reclaim_close(r);
		return open_error(error);
	}
	*ret = r;
	return 0;
}

struct reclaim *reclaim_close(struct reclaim *r)
{
	if (!r)
		return NULL;
	if (!r->own || own_check(r) >= 0) {
		sd_bus_slot_unref(r->finished_slot);
		reach_close(&r->way);
	} else {
		/* All else would be said on the connection, which is the parent's. */
		(void)close(r->fd);
	}
	if (r->own)
		(void)munmap((void *)(uintptr_t)r->own, 1);
	free(r->error);
	free(r);
	return NULL;
}

const char *reclaim_error(const struct reclaim *r)
{
	/* Not strerror(3), whose text another thread may change. */
	const char *known = r->last < 0 ? strerrordesc_np(-r->last) : NULL;

	if (r->error)
		return r->error;
	return known ? known : "";
}

/* What a call on the connection has said. */
static int told(struct reclaim *r, int value)
{
	return value < 0 ? fail_errno(r, lost(value)) : value;
}

int reclaim_fd(struct reclaim *r)
{
	return told(r, own_check(r) < 0 ? -ECHILD : sd_bus_get_fd(r->way.bus));
}

int reclaim_events(struct reclaim *r)
{
	return told(r, own_check(r) < 0 ? -ECHILD : sd_bus_get_events(r->way.bus));
}

int reclaim_timeout(struct reclaim *r, uint64_t *ret_usec)
{
	return MIN(told(r, own_check(r) < 0 ? -ECHILD : sd_bus_get_timeout(r->way.bus, ret_usec)),
		   0);
}

int reclaim_process(struct reclaim *r)
{
	int error = handle_listen(r, NULL, 0);

	if (error >= 0)
		error = sd_bus_is_open(r->way.bus) == 0 ? -ECONNRESET : 0;
	return error < 0 ? fail_errno(r, error) : 0;
}
