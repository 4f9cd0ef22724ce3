/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Fields of objects (fields.h) in messages. sd-bus itself only gets properties that are there at
 * once; jobs that have ended must be read from the store first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bus-state.h"
#include "base/escape.h"

int message_append_text(sd_bus_message *m, const char *s)
{
	_cleanup_free_ char *escaped = NULL;

	if (!text_is_safe(s)) {
		escaped = escape_line(s);
		if (!escaped)
			return -ENOMEM;
		s = escaped;
	}
	return sd_bus_message_append_basic(m, 's', s);
}

static int append_counts(sd_bus_message *m, const struct field *f, const void *object)
{
	int r = sd_bus_message_open_container(m, 'a', "{st}");
	const char *name;
	unsigned i = 0;
	uint64_t n;

	while (r >= 0 && field_count(f, object, &i, &name, &n))
		r = sd_bus_message_append(m, "{st}", name, n);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_histogram(sd_bus_message *m, const struct histogram *h)
{
	int r = sd_bus_message_open_container(m, 'r', "tat");

	if (r >= 0)
		r = sd_bus_message_append(m, "t", h->sum_usec);
	if (r >= 0)
		r = sd_bus_message_append_array(m, 't', h->counts, sizeof(h->counts));
	return r < 0 ? r : sd_bus_message_close_container(m);
}

static int append_string(sd_bus_message *m, const struct field *f, const void *object)
{
	_cleanup_free_ char *made = NULL;
	const char *text = field_text(f, object, &made);

	if (!text)
		return -ENOMEM;
	return f->type[0] == 's' ? message_append_text(m, text)
				 : sd_bus_message_append_array(m, 'y', text, strlen(text) + 1);
}

int message_append_field(sd_bus_message *m, const struct field *f, const void *object)
{
	static const char *const none[] = { NULL };
	const void *at = (const char *)object + f->offset;
	const char *const *strings;

	switch (f->kind) {
	case FIELD_TEXT ... FIELD_STAGING:
		return append_string(m, f, object);
	case FIELD_NUMBER:
	case FIELD_USEC:
	case FIELD_UID:
	case FIELD_RATE:
		return sd_bus_message_append_basic(m, f->type[0], at);
	case FIELD_BOOL:
		return sd_bus_message_append(m, "b", *(const bool *)at);
	case FIELD_ERRNO:
		return sd_bus_message_append(m, "i", -*(const int *)at);
	case FIELD_UNFINISHED ... FIELD_BACKOFFS:
		return append_counts(m, f, object);
	case FIELD_HISTOGRAM:
		return append_histogram(m, at);
	case FIELD_BOUNDS:
		return sd_bus_message_append_array(m, 't', histogram_bounds_usec,
						   sizeof(histogram_bounds_usec));
	case FIELD_STRINGS:
		strings = *(const char *const *const *)at;
		return sd_bus_message_append_strv(m, (char **)(strings ? strings : none));
	}
	return -EINVAL;
}

char *fields_signature(const struct field *fields, char *ret)
{
	for (*ret = '\0'; fields->name; fields++)
		ret = stpcpy(ret, fields->type);
	return ret;
}

int message_append_struct(sd_bus_message *m, const struct field *fields, const void *object)
{
	char signature[SIGNATURE_SIZE];
	int r;

	fields_signature(fields, signature);
	r = sd_bus_message_open_container(m, 'r', signature);
	for (; r >= 0 && fields->name; fields++)
		r = message_append_field(m, fields, object);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int message_append_variant(sd_bus_message *m, const struct field *f, const void *object)
{
	int r = sd_bus_message_open_container(m, 'v', f->type);

	if (r >= 0)
		r = message_append_field(m, f, object);
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int message_append_properties(sd_bus_message *m, const struct field *fields, const void *object)
{
	int r = sd_bus_message_open_container(m, 'a', "{sv}");

	for (; r >= 0 && fields->name; fields++) {
		r = sd_bus_message_open_container(m, 'e', "sv");
		if (r >= 0)
			r = sd_bus_message_append(m, "s", fields->name);
		if (r >= 0)
			r = message_append_variant(m, fields, object);
		if (r >= 0)
			r = sd_bus_message_close_container(m);
	}
	return r < 0 ? r : sd_bus_message_close_container(m);
}

int message_append_managed(sd_bus_message *m, const char *path, const char *interface,
			   const struct field *fields, const void *object)
{
	int r = sd_bus_message_open_container(m, 'e', "oa{sa{sv}}");

	if (r >= 0)
		r = sd_bus_message_append(m, "o", path);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "{sa{sv}}");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'e', "sa{sv}");
	if (r >= 0)
		r = sd_bus_message_append(m, "s", interface);
	if (r >= 0)
		r = message_append_properties(m, fields, object);
	for (unsigned depth = 0; r >= 0 && depth < 3; depth++)
		r = sd_bus_message_close_container(m);
	return r;
}
