/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "base/escape.h"
#include "base/fd.h"

#define OPTIONS_MOST 16

static const struct option *find_option(const struct option *options, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(options[i].name, name) == 0)
			return &options[i];
	return NULL;
}

static int refuse_option(struct bus_request *q, const char *key)
{
	_cleanup_free_ char *shown = escape_name(key);

	return request_refuse(q, ERROR_INVALID_ARGUMENT, "%s has no option \"%.200s\".",
			      q->call->member, shown ? shown : "");
}

static int read_option(struct bus_request *q, const struct option *o, void *target)
{
	void *to = (char *)target + o->offset;
	const char *contents = NULL;
	char type = 0;
	int on = 0, r = sd_bus_message_peek_type(q->m, &type, &contents);

	if (r < 0)
		return r;
	if (type != 'v' || strcmp(contents, o->type) != 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "The option %s is of type %s, not %.100s.", o->name, o->type,
				      contents ? contents : "");
	r = sd_bus_message_enter_container(q->m, 'v', o->type);
	if (r >= 0 && o->set)
		r = o->set(q, q->m, to);
	else if (r >= 0)
		r = sd_bus_message_read_basic(q->m, o->type[0],
					      o->type[0] == 'b' ? (void *)&on : to);
	if (r >= 0 && !o->set && o->type[0] == 'b')
		*(bool *)to = on;
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

int arguments_options(struct bus_request *q, const struct option *options, size_t n, void *target)
{
	bool given[OPTIONS_MOST] = { false };
	int r = sd_bus_message_enter_container(q->m, 'a', "{sv}");

	while (r >= 0 && (r = sd_bus_message_enter_container(q->m, 'e', "sv")) > 0) {
		const struct option *o;
		const char *key;

		r = sd_bus_message_read(q->m, "s", &key);
		if (r < 0)
			return r;
		o = find_option(options, n, key);
		if (!o)
			return refuse_option(q, key);
		if (given[o - options])
			return request_refuse(q, ERROR_INVALID_ARGUMENT,
					      "The option %s is given twice.", key);
		given[o - options] = true;
		r = read_option(q, o, target);
		if (r >= 0)
			r = sd_bus_message_exit_container(q->m);
	}
	return r < 0 ? r : sd_bus_message_exit_container(q->m);
}

int arguments_string(sd_bus_message *m, const char **ret, size_t *ret_len)
{
	const void *p;
	size_t len;
	int r = sd_bus_message_read_array(m, 'y', &p, &len);

	if (r < 0)
		return r;
	*ret = len > 0 ? p : "";
	*ret_len = len - (len > 0 && (*ret)[len - 1] == '\0');
	return 0;
}

int arguments_bytes(struct bus_request *q, sd_bus_message *m, const char *what, char **ret)
{
	const char *p;
	size_t len;
	int r = arguments_string(m, &p, &len);

	if (r < 0)
		return r;
	if (len == 0 || len >= PATH_MAX)
		return request_refuse(q, ERROR_INVALID_ARGUMENT,
				      "The %s has %zu bytes: 1 to %d can be.", what, len,
				      PATH_MAX - 1);
	if (memchr(p, '\0', len))
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "The %s has a NUL in it.", what);
	*ret = strndup(p, len);
	return *ret ? 0 : -ENOMEM;
}

int arguments_directory(struct bus_request *q, int fd, const char *what, size_t i)
{
	if (fd_is_directory(fd))
		return 0;
	return request_refuse(q, ERROR_INVALID_ARGUMENT, "The %s %zu is not a directory.", what, i);
}

int arguments_list_file(struct bus_request *q, int fd, size_t i)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & (O_PATH | O_DIRECTORY)) && (flags & O_ACCMODE) != O_WRONLY)
		return 0;
	return request_refuse(q, ERROR_INVALID_ARGUMENT,
			      "The file of names %zu is neither a memfd nor a regular file on a "
			      "local filesystem, or is not open for reading: copy it into a memfd.",
			      i);
}

int arguments_ids(struct bus_request *q, sd_bus_message *m, const uint64_t **ret, size_t *ret_n)
{
	const void *p;
	size_t size;
	int r = sd_bus_message_read_array(m, 't', &p, &size);

	if (r < 0)
		return r;
	if (size == 0)
		return request_refuse(q, ERROR_INVALID_ARGUMENT, "%s: no job is named.",
				      q->call->member);
	*ret = p;
	*ret_n = size / sizeof(uint64_t);
	return 0;
}

int arguments_priority(struct bus_request *q, sd_bus_message *m, void *to)
{
	const char *name;
	int r = sd_bus_message_read(m, "s", &name);

	if (r < 0)
		return r;
	for (enum job_priority p = PRIORITY_LOW; p <= PRIORITY_HIGH; p++) {
		if (strcmp(name, job_priority_name(p)) != 0)
			continue;
		*(enum job_priority *)to = p;
		return 0;
	}
	return request_refuse(q, ERROR_INVALID_ARGUMENT, "priority is low, normal or high.");
}

const char *arguments_name_wrong(const char *name, size_t len)
{
	if (len == 0)
		return "is empty";
	if (len > NAME_MAX)
		return "is longer than 255 bytes";
	if (memchr(name, '\0', len))
		return "has a NUL in it";
	if (memchr(name, '/', len))
		return "has a slash in it: names are single components of a path";
	if (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')))
		return "is no name of an entry";
	return NULL;
}

void job_path(char *buf, uint64_t id)
{
	(void)snprintf(buf, JOB_PATH_MAX, JOB_PREFIX "/%" PRIu64, id);
}

uint64_t job_path_parse(const char *path)
{
	const char *digits = path + strlen(JOB_PREFIX "/");
	char canonical[JOB_PATH_MAX];
	uint64_t id;

	if (strncmp(path, JOB_PREFIX "/", strlen(JOB_PREFIX "/")) != 0)
		return 0;
	id = strtoull(digits, NULL, 10);
	job_path(canonical, id);
	return strcmp(canonical, path) == 0 ? id : 0;
}
