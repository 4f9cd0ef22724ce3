/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/messages.h"

static int value_take(sd_bus_message *m, const char *const *keys, json_t **ret);

static int basic_take(sd_bus_message *m, char type, json_t **ret)
{
	union {
		int b;
		int32_t i;
		uint32_t u;
		uint64_t t;
		double d;
		const char *s;
	} v;
	int r = sd_bus_message_read_basic(m, type, &v);

	if (r < 0)
		return r;
	switch (type) {
	case 'b':
		*ret = json_boolean(v.b);
		break;
	case 'i':
		*ret = json_integer(v.i);
		break;
	case 'u':
		*ret = json_integer(v.u);
		break;
	case 't':
		*ret = json_integer((json_int_t)v.t);
		break;
	case 'd':
		*ret = json_real(v.d);
		break;
	case 's':
		*ret = json_words(v.s);
		break;
	default:
		*ret = json_null();
	}
	return *ret ? 0 : -ENOMEM;
}

static int bytes_take(sd_bus_message *m, json_t **ret)
{
	_cleanup_free_ char *copy = NULL;
	const void *p = NULL;
	size_t len = 0;
	int r = sd_bus_message_read_array(m, 'y', &p, &len);

	if (r < 0)
		return r;
	if (asprintf(&copy, "%.*s", (int)len, len > 0 ? (const char *)p : "") < 0) {
		copy = NULL;
		return -ENOMEM;
	}
	*ret = json_path(copy);
	return *ret ? 0 : -ENOMEM;
}

/* All that is in the array, dictionary or structure that has been entered. */
static int members_take(sd_bus_message *m, char type, bool dictionary, const char *const *keys,
			json_t **ret)
{
	bool named = dictionary || (type == 'r' && keys);
	json_auto_t *to = named ? json_object() : json_array();
	int r = to ? 0 : -ENOMEM;

	for (size_t i = 0; r >= 0 && (r = sd_bus_message_at_end(m, /* complete= */ false)) == 0;
	     i++) {
		const char *key = named && !dictionary ? keys[i] : NULL;
		json_t *v = NULL;

		if (dictionary)
			r = sd_bus_message_enter_container(m, 'e', NULL);
		if (r >= 0 && dictionary)
			r = sd_bus_message_read_basic(m, 's', &key);
		if (r >= 0)
			r = value_take(m, type == 'a' ? keys : NULL, &v);
		if (r >= 0 &&
		    (named ? json_object_set_new(to, key, v) : json_array_append_new(to, v)) < 0)
			r = -ENOMEM;
		if (r >= 0 && dictionary)
			r = sd_bus_message_exit_container(m);
	}
	if (r >= 0)
		*ret = json_incref(to);
	return r;
}

static int value_take(sd_bus_message *m, const char *const *keys, json_t **ret)
{
	const char *contents;
	char type;
	int r = sd_bus_message_peek_type(m, &type, &contents);

	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	if (!contents)
		return basic_take(m, type, ret);
	if (type == 'a' && strcmp(contents, "y") == 0)
		return bytes_take(m, ret);
	r = sd_bus_message_enter_container(m, type, NULL);
	if (r >= 0)
		r = type == 'v' ? value_take(m, keys, ret)
				: members_take(m, type, contents[0] == '{', keys, ret);
	return r < 0 ? r : sd_bus_message_exit_container(m);
}

int answer_take(sd_bus_message *reply, const char *signature, const char *const *keys, json_t **ret)
{
	json_t *v = NULL;
	int r = -EBADMSG;

	if (strcmp(sd_bus_message_get_signature(reply, /* complete= */ true), signature) == 0)
		r = value_take(reply, keys, &v);

	sd_bus_message_unref(reply);
	if (r < 0) {
		json_decref(v);
		return client_broken(r);
	}
	*ret = v;
	return 0;
}

int properties_get(struct client *c, const char *path, const char *interface,
		   const struct printed_property *table, size_t n, json_t **ret)
{
	json_auto_t *all = NULL;
	sd_bus_message *reply = NULL;
	int r = client_call(c, path, "org.freedesktop.DBus.Properties", "GetAll", &reply, "s",
			    interface);

	if (r == 0)
		r = answer_take(reply, "a{sv}", NULL, &all);
	if (r == 0)
		*ret = table ? json_object() : json_incref(all);
	for (size_t i = 0; r == 0 && table && i < n; i++) {
		json_t *v = json_object_get(all, table[i].property);

		(void)json_object_set(*ret, table[i].key, v ? v : json_null());
	}
	return r;
}
