/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* sd-varlink has compared parameters with the description before: what they are called, of which
 * type they are, and what an enumeration may be. What is left to look at is numbers: JSON has them
 * negative, broken and of any size. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>

#include "base/escape.h"
#include "varlink-state.h"

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
	return build_safe(ret, s ? s : "", escape_line);
}

/* With pathBase64 beside it it is escaped so that no two look alike; without, it is the path. */
int build_path(sd_json_variant **ret, const char *name, void *s)
{
	(void)name;
	return build_safe(ret, s ? s : "", escape_name);
}

int build_job(sd_json_variant **ret, const struct job_record *r)
{
	_cleanup_free_ char *staging = job_staging(r);
	const char *path = r->path ? r->path : "";
	sd_id128_t uuid;

	if (!staging)
		return -ENOMEM;
	memcpy(uuid.bytes, r->uuid, sizeof(uuid.bytes));
	return sd_json_buildo(
		ret, SD_JSON_BUILD_PAIR_UNSIGNED("id", r->id),
		SD_JSON_BUILD_PAIR_ID128("uuid", uuid),
		SD_JSON_BUILD_PAIR_STRING("state", job_state_name(r->state)),
		SD_JSON_BUILD_PAIR_UNSIGNED("uid", r->uid), BUILD_PAIR_TEXT("origin", r->origin),
		SD_JSON_BUILD_PAIR_STRING("priority", job_priority_name(r->priority)),
		BUILD_PAIRS_PATH(path), BUILD_PAIR_TEXT("staging", staging),
		BUILD_PAIR_TEXT("inplace", r->inplace), BUILD_PAIR_TEXT("mount", r->mount),
		SD_JSON_BUILD_PAIR_UNSIGNED("names", r->names),
		SD_JSON_BUILD_PAIR_UNSIGNED("entries", r->entries),
		SD_JSON_BUILD_PAIR_UNSIGNED("entriesDone", r->entries_done),
		SD_JSON_BUILD_PAIR_UNSIGNED("bytes", r->bytes),
		SD_JSON_BUILD_PAIR_UNSIGNED("bytesFreed", r->bytes_freed),
		SD_JSON_BUILD_PAIR_UNSIGNED("errors", r->errors),
		SD_JSON_BUILD_PAIR_UNSIGNED("skipped", r->skipped),
		SD_JSON_BUILD_PAIR_UNSIGNED("createdUSec", r->created_usec),
		SD_JSON_BUILD_PAIR_UNSIGNED("heldUntilUSec", r->held_until_usec),
		SD_JSON_BUILD_PAIR_UNSIGNED("byUSec", r->by_usec),
		SD_JSON_BUILD_PAIR_UNSIGNED("startedUSec", r->started_usec),
		SD_JSON_BUILD_PAIR_UNSIGNED("finishedUSec", r->finished_usec),
		BUILD_PAIR_TEXT("message", r->message), BUILD_PAIR_TEXT("strategy", r->strategy));
}

static size_t text_bytes(const char *s)
{
	return s ? strlen(s) : 0;
}

size_t job_bytes(const struct job_record *r)
{
	return KiB(1) + text_bytes(r->path) + text_bytes(r->mount) + text_bytes(r->message) +
	       text_bytes(r->strategy) + text_bytes(r->origin);
}
