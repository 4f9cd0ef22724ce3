/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "serving.h"

#include "engine/guard/protect.h"
#include "base/fd.h"

/* reclaimd takes a worker for hung that says nothing for much longer. */
#define SILENCE USEC_PER_SEC

/* Accounts and swap files may have come. */
#define PROTECT_AGE (10 * USEC_PER_SEC)

const struct protect *serving_protect(struct serving *s, char **ret_culprit, int *ret_error)
{
	uint64_t now = now_usec();
	int r;

	*ret_culprit = NULL;
	if (s->protect && !protect_outdated(s->protect) && now - s->protect_usec < PROTECT_AGE)
		return s->protect;
	s->protect = protect_free(s->protect);
	r = protect_new(&s->protect, (const char *const *)s->protect_extra, ret_culprit);
	if (r < 0) {
		*ret_error = r;
		return NULL;
	}
	s->protect_usec = now;
	return s->protect;
}

struct wire_out *answer_begin(struct serving *s, enum protocol_answer type)
{
	wire_begin(&s->out, type, s->serial);
	return &s->out;
}

int answer_send(struct serving *s)
{
	s->said_usec = now_usec();
	return wire_post(s->sock, &s->out);
}

int answer(struct serving *s, enum protocol_answer type, const void *once)
{
	protocol_put(answer_begin(s, type), once);
	return answer_send(s);
}

int answer_flush(struct serving *s, enum protocol_answer type, size_t room)
{
	bool empty = s->out.len <= sizeof(struct wire_header);
	int r;

	if (wire_room(&s->out) >= room && (empty || now_usec() - s->said_usec < SILENCE))
		return s->out.error;
	r = answer_send(s);
	answer_begin(s, type);
	return r;
}

int answer_alive(struct serving *s)
{
	if (now_usec() - s->said_usec < SILENCE)
		return 0;
	return answer(s, ANSWER_ALIVE, NULL);
}
