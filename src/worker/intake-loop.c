/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The intake role: one request after the other. */
#include <errno.h>

#include "name-check.h"
#include "serving.h"
#include "session.h"
#include "stage-names.h"
#include "staging-entry.h"

static int forget(struct serving *s)
{
	uint64_t id = wire_get(&s->in);
	int r = wire_end(&s->in);

	if (r >= 0)
		session_forget(&s->sessions, id);
	return r;
}

/* What was to be stopped has come to its end already. */
static int stop_late(struct serving *s)
{
	(void)wire_get_most(&s->in, 1);
	return wire_end(&s->in);
}

static int serve_one(struct serving *s)
{
	switch (s->in.type) {
	case REQUEST_ADD_GROUPS:
		return validate_groups_add(s);
	case REQUEST_VALIDATE:
		return validate(s);
	case REQUEST_FORGET:
		return forget(s);
	case REQUEST_STOP:
		return stop_late(s);
	case REQUEST_STAGE:
		return stage(s);
	case REQUEST_MAKE_STAGING:
		return staging_make(s);
	case REQUEST_OPEN_DIR:
		return staging_open_dir(s);
	case REQUEST_RESTORE:
		return staging_restore(s);
	case REQUEST_REMOVE_STAGING:
		return staging_remove(s);
	case REQUEST_LIST_STAGING:
		return staging_list(s);
	default:
		return -EBADMSG;
	}
}

int intake_serve(struct serving *s)
{
	int r;

	while ((r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true)) > 0) {
		s->serial = s->in.serial;
		r = serve_one(s);
		if (r < 0)
			break;
	}
	sessions_free(&s->sessions);
	return r;
}
