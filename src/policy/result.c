/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "result.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"

#define FIRST_LINE "reclaimd-policy-result 1"

static const struct number {
	const char *name;
	size_t offset; /* of one number, or of a struct policy_sum */
	unsigned n;
} numbers[] = {
	{ "began", offsetof(struct policy_result, began_usec), 1 },
	{ "success", offsetof(struct policy_result, success_usec), 1 },
	{ "oldest", offsetof(struct policy_result, oldest_usec), 1 },
	{ "status", offsetof(struct policy_result, status), 1 },
	{ "job", offsetof(struct policy_result, job), 1 },
	{ "handed", offsetof(struct policy_result, handed), 2 },
	{ "refused", offsetof(struct policy_result, refused), 2 },
	{ "excess", offsetof(struct policy_result, excess), 2 },
	{ "pinned", offsetof(struct policy_result, pinned), 2 },
	{ "total", offsetof(struct policy_result, total), 2 },
	{ "unmet-max-files", offsetof(struct policy_result, unmet[LIMIT_FILES]), 2 },
	{ "unmet-max-size-per-series", offsetof(struct policy_result, unmet[LIMIT_SERIES_SIZE]),
	  2 },
	{ "unmet-max-size", offsetof(struct policy_result, unmet[LIMIT_SIZE]), 2 },
	{ "unmet-min-free", offsetof(struct policy_result, unmet[LIMIT_FREE]), 2 },
	{ "unmet-min-free-inodes", offsetof(struct policy_result, unmet[LIMIT_INODES]), 2 },
	{ "period", offsetof(struct policy_result, period_usec), 1 },
	{ "spent", offsetof(struct policy_result, spent), 2 },
	{ "spent-referenced", offsetof(struct policy_result, spent_referenced_bytes), 1 },
	{ "expected", offsetof(struct policy_result, expected_bytes), 1 },
	{ "gained", offsetof(struct policy_result, gained_bytes), 1 },
	{ "stalls", offsetof(struct policy_result, stalls), 1 },
};

_Static_assert(sizeof(struct policy_sum) == 2 * sizeof(uint64_t) &&
		       sizeof(struct result_job) == 2 * sizeof(uint64_t),
	       "both are two numbers");

void result_begin(struct policy_result *r, const struct policy_result *before, uint64_t now_usec)
{
	*r = (struct policy_result){
		.began_usec = now_usec,
		.success_usec = before->success_usec,
		.total = before->total,
		.period_usec = before->period_usec,
		.spent = before->spent,
		.spent_referenced_bytes = before->spent_referenced_bytes,
		.expected_bytes = before->expected_bytes,
		.gained_bytes = before->gained_bytes,
		.stalls = before->stalls,
		.n_jobs = before->n_jobs,
	};
	memcpy(r->jobs, before->jobs, sizeof(r->jobs));
}

void result_say(struct policy_result *r, const struct safe_text *line)
{
	size_t len = strlen(r->why), more = strlen(line->line);

	if (more == 0 || len + more + 2 > sizeof(r->why))
		return;
	if (len > 0)
		r->why[len++] = '\n';
	memcpy(r->why + len, line->line, more + 1);
}

void result_job_forget(struct policy_result *r, size_t i)
{
	r->n_jobs--;
	memmove(&r->jobs[i], &r->jobs[i + 1], (r->n_jobs - i) * sizeof(r->jobs[0]));
}

void result_end(struct policy_result *r, enum result_status status, uint64_t now_usec)
{
	r->status = status;
	if (r->job == 0) {
		if (status == RESULT_DONE)
			r->success_usec = now_usec;
		return;
	}
	if (r->n_jobs == RESULT_JOBS_MOST)
		result_job_forget(r, 0);
	r->jobs[r->n_jobs++] = (struct result_job){ r->job, status };
}

void result_job_ended(struct policy_result *r, size_t i, enum result_status status,
		      uint64_t ended_usec, const struct policy_sum *deleted)
{
	const struct result_job j = r->jobs[i];

	r->total.n += deleted->n;
	r->total.bytes += deleted->bytes;
	if (j.status == RESULT_DONE && status == RESULT_DONE)
		r->success_usec = MAX(r->success_usec, ended_usec);
	if (j.id == r->job)
		r->status = MAX(r->status, (uint64_t)status);
	result_job_forget(r, i);
}

const char *result_word(const struct policy_result *r)
{
	static const char *const words[RESULT_STATUSES] = { "done", "partial", "failed",
							    "cancelled", "restored" };

	return words[MIN(r->status, (uint64_t)RESULT_STATUSES - 1)];
}

struct policy_set result_spent(const struct policy_result *r, uint64_t now_usec)
{
	/* If the clock was set back, the period lasts. */
	if (r->spent.n == 0 ||
	    (now_usec >= r->period_usec && now_usec - r->period_usec >= PERIOD_USEC))
		return (struct policy_set){ 0 };
	return (struct policy_set){ .n = r->spent.n,
				    .bytes = r->spent.bytes,
				    .referenced_bytes = r->spent_referenced_bytes };
}

void result_spend(struct policy_result *r, const struct policy_set *limited, uint64_t now_usec)
{
	struct policy_set spent = result_spent(r, now_usec);

	if (limited->n == 0)
		return;
	/* A beginning that lies ahead of the clock would make the period too long. */
	if (spent.n == 0 || r->period_usec > now_usec)
		r->period_usec = now_usec;
	r->spent = (struct policy_sum){ spent.n + limited->n, spent.bytes + limited->bytes };
	r->spent_referenced_bytes = spent.referenced_bytes + limited->referenced_bytes;
}

void result_measured(struct policy_result *r, uint64_t expected_bytes, uint64_t gained_bytes)
{
	r->expected_bytes = expected_bytes;
	r->gained_bytes = gained_bytes;
	r->stalls = gained_bytes < expected_bytes / 10 ? r->stalls + 1 : 0;
}

void result_note_unmet(struct policy_result *r, const struct policy_plan *plan)
{
	for (enum limit limit = 0; limit < LIMITS; limit++) {
		const struct limit_shortage *s = &plan->shortages[limit];

		if (s->is_unmet)
			r->unmet[limit] = (struct result_unmet){ s->have, s->wanted };
	}
}

void result_write(FILE *f, const struct policy_result *r)
{
	(void)fputs(FIRST_LINE "\n", f);
	for (size_t i = 0; i < ELEMENTSOF(numbers); i++) {
		const uint64_t *n = (const void *)((const char *)r + numbers[i].offset);

		(void)fprintf(f, "%s %" PRIu64, numbers[i].name, n[0]);
		if (numbers[i].n > 1)
			(void)fprintf(f, " %" PRIu64, n[1]);
		(void)fputc('\n', f);
	}
	for (size_t i = 0; i < r->n_jobs; i++)
		(void)fprintf(f, "open %" PRIu64 " %" PRIu64 "\n", r->jobs[i].id,
			      r->jobs[i].status);
	for (const char *s = r->why; *s;
	     s += s[strcspn(s, "\n")] ? strcspn(s, "\n") + 1 : strlen(s))
		(void)fprintf(f, "why %.*s\n", (int)strcspn(s, "\n"), s);
}

/* So many numbers with a blank before each, and nothing behind the last. */
static int numbers_parse(const char *s, uint64_t *ret, unsigned n)
{
	for (; n > 0; n--, ret++) {
		char *end;

		if (s[0] != ' ' || !isdigit((unsigned char)s[1]))
			return -EBADMSG;
		errno = 0;
		*ret = strtoull(s + 1, &end, 10);
		if (errno != 0)
			return -EBADMSG;
		s = end;
	}
	return *s == '\0' ? 0 : -EBADMSG;
}

static int line_parse(struct policy_result *r, const char *line)
{
	size_t len = strcspn(line, " ");
	struct safe_text t;

	for (size_t i = 0; i < ELEMENTSOF(numbers); i++)
		if (strlen(numbers[i].name) == len && strncmp(line, numbers[i].name, len) == 0)
			return numbers_parse(line + len, (void *)((char *)r + numbers[i].offset),
					     numbers[i].n);
	if (strncmp(line, "why ", 4) == 0) {
		safe_text_format(&t, "%s", line + 4);
		result_say(r, &t);
	} else if (strncmp(line, "open ", 5) == 0 && r->n_jobs < RESULT_JOBS_MOST) {
		return numbers_parse(line + 4, (void *)&r->jobs[r->n_jobs++], 2);
	}
	return 0;
}

int result_parse(const char *text, struct policy_result *ret)
{
	struct policy_result r = { 0 };
	char line[RESULT_WHY_SIZE + 16];

	if (strncmp(text, FIRST_LINE "\n", strlen(FIRST_LINE "\n")) != 0)
		return -EBADMSG;
	for (const char *s = strchr(text, '\n') + 1; *s;) {
		size_t len = strcspn(s, "\n");

		if (len >= sizeof(line) || s[len] == '\0')
			return -EBADMSG;
		memcpy(line, s, len);
		line[len] = '\0';
		if (line_parse(&r, line) < 0)
			return -EBADMSG;
		s += len + 1;
	}
	if (r.status >= RESULT_STATUSES)
		return -EBADMSG;
	*ret = r;
	return 0;
}
