/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sd-varlink has compared parameters with the description before: what they are called, of which
 * type they are, and what an enumeration may be. What is left to look at is numbers: JSON has them
 * negative, broken and of any size. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "varlink-state.h"

/* Room for a name, and for the names and values of an object. */
#define NAME_SIZE 32
#define FIELDS_MOST 40

int call_read(struct varlink_call *q, const sd_json_dispatch_field *table, void *target)
{
	const char *bad = NULL;
	int r = sd_json_dispatch_full(q->parameters, table, NULL, 0, target, &bad);

	if (r < 0 && r != -ENOMEM)
		q->bad = bad ? bad : "";
	return r;
}

static int number(sd_json_variant *v, uint64_t *ret)
{
	/* What is too large for an integer has become a real number. */
	if (sd_json_variant_type(v) == SD_JSON_VARIANT_REAL || !sd_json_variant_is_unsigned(v))
		return -ERANGE;
	*ret = sd_json_variant_unsigned(v);
	return 0;
}

int read_number(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to)
{
	(void)name;
	(void)flags;
	return sd_json_variant_is_null(v) ? 0 : number(v, to);
}

int read_priority(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to)
{
	(void)name;
	(void)flags;
	if (sd_json_variant_is_null(v))
		return 0;
	for (enum job_priority p = PRIORITY_LOW; p <= PRIORITY_HIGH; p++)
		if (strcmp(sd_json_variant_string(v), job_priority_name(p)) == 0)
			*(enum job_priority *)to = p;
	return 0;
}

int read_bool(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to)
{
	(void)name;
	(void)flags;
	if (!sd_json_variant_is_null(v))
		*(bool *)to = sd_json_variant_boolean(v);
	return 0;
}

int read_numbers(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *to)
{
	struct numbers *numbers = to;
	size_t n = sd_json_variant_elements(v);
	uint64_t *ids;
	int r = 0;

	(void)name;
	(void)flags;
	if (sd_json_variant_is_null(v))
		return 0;
	ids = calloc(MAX(n, (size_t)1), sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	for (size_t i = 0; i < n && r >= 0; i++)
		r = number(sd_json_variant_by_index(v, i), &ids[i]);
	if (r < 0) {
		free(ids);
		return r;
	}
	free(numbers->v);
	*numbers = (struct numbers){ ids, n };
	return 0;
}

static int build_safe(sd_json_variant **ret, const char *text, char *(*escape)(const char *s))
{
	_cleanup_free_ char *escaped = NULL;

	if (!text_is_safe(text)) {
		escaped = escape(text);
		if (!escaped)
			return -ENOMEM;
		text = escaped;
	}
	return sd_json_variant_new_string(ret, text);
}

int build_text(sd_json_variant **ret, const char *name, void *s)
{
	(void)name;
	return build_safe(ret, s, escape_line);
}

/* ---- objects ------------------------------------------------------------------------------ */

static int build_numbers(sd_json_variant **ret, const uint64_t *v, size_t n)
{
	int r = sd_json_variant_new_array(ret, NULL, 0);

	for (size_t i = 0; r >= 0 && i < n; i++)
		r = sd_json_variant_append_arrayb(ret, SD_JSON_BUILD_UNSIGNED(v[i]));
	return r;
}

static int build_histogram(sd_json_variant **ret, const struct histogram *h)
{
	sd_json_variant *counts = NULL;
	int r = build_numbers(&counts, h->counts, ELEMENTSOF(h->counts));

	if (r >= 0)
		r = sd_json_buildo(ret, SD_JSON_BUILD_PAIR_UNSIGNED("sumUSec", h->sum_usec),
				   SD_JSON_BUILD_PAIR_VARIANT("counts", counts));
	(void)sd_json_variant_unref(counts);
	return r;
}

static int build_counts(sd_json_variant **ret, const struct field *f, const void *object)
{
	int r = sd_json_variant_new_object(ret, NULL, 0);
	const char *name;
	unsigned i = 0;
	uint64_t n;

	while (r >= 0 && field_count(f, object, &i, &name, &n))
		r = sd_json_variant_set_field_unsigned(ret, name, n);
	return r;
}

/* A path with pathBase64 beside it is escaped so that no two look alike; without, it is the path.
 */
static int build_string(sd_json_variant **ret, const struct field *f, const void *object)
{
	_cleanup_free_ char *made = NULL;
	const char *text = field_text(f, object, &made);

	if (!text)
		return -ENOMEM;
	return build_safe(ret, text, f->kind == FIELD_PATH ? escape_name : escape_line);
}

static int build_field(sd_json_variant **ret, const struct field *f, const void *object)
{
	static const char *const none[] = { NULL };
	const void *at = (const char *)object + f->offset;
	const char *const *strings;

	switch (f->kind) {
	case FIELD_TEXT ... FIELD_STAGING:
		return build_string(ret, f, object);
	case FIELD_NUMBER:
	case FIELD_USEC:
	case FIELD_UID:
		return sd_json_variant_new_unsigned(ret, field_number(f, object));
	case FIELD_UNFINISHED ... FIELD_BACKOFFS:
		return build_counts(ret, f, object);
	case FIELD_BOOL:
		return sd_json_variant_new_boolean(ret, *(const bool *)at);
	case FIELD_ERRNO:
		return sd_json_variant_new_integer(ret, -*(const int *)at);
	case FIELD_RATE:
		return sd_json_variant_new_real(ret, *(const double *)at);
	case FIELD_HISTOGRAM:
		return build_histogram(ret, at);
	case FIELD_BOUNDS:
		return build_numbers(ret, histogram_bounds_usec, HISTOGRAM_BOUNDS);
	case FIELD_STRINGS:
		strings = *(const char *const *const *)at;
		return sd_json_variant_new_array_strv(ret, (char **)(strings ? strings : none));
	}
	return -EINVAL;
}

/* As Varlink calls it. */
static int build_name(sd_json_variant **ret, const struct field *f)
{
	char name[NAME_SIZE];

	(void)snprintf(name, sizeof(name), "%c%s", f->name[0] | ('a' - 'A'), f->name + 1);
	return sd_json_variant_new_string(ret, name);
}

int build_fields(sd_json_variant **ret, const struct field *fields, const void *object)
{
	sd_json_variant *v[2 * FIELDS_MOST] = { NULL };
	size_t n = 0;
	int r = 0;

	for (const struct field *f = fields; f->name && r >= 0; f++) {
		const char *path = f->kind == FIELD_PATH ? field_text(f, object, NULL) : "";

		assert(n + 4 <= ELEMENTSOF(v));
		r = build_name(&v[n++], f);
		if (r >= 0)
			r = build_field(&v[n++], f, object);
		if (r < 0 || text_is_safe(path))
			continue;
		r = sd_json_variant_new_string(&v[n++], "pathBase64");
		if (r >= 0)
			r = sd_json_variant_new_base64(&v[n++], path, strlen(path));
	}
	if (r >= 0)
		r = sd_json_variant_new_object(ret, v, n);
	while (n > 0)
		(void)sd_json_variant_unref(v[--n]);
	return r;
}

size_t build_bytes(const struct field *fields, const void *object)
{
	size_t bytes = 2 * fields_bytes(fields, object);

	for (; fields->name; fields++)
		bytes += NAME_SIZE;
	return bytes;
}
