/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The intake role: one request after the other. */
#include <errno.h>

#include "name-check.h"
#include "serving.h"
#include "session.h"
#include "stage-names.h"
#include "staging-entry.h"
#include "base/macros.h"

static int forget(struct serving *s)
{
	session_forget(&s->sessions, s->m.forget_message.session);
	return 0;
}

/* What was to be stopped has come to its end already. */
static int stop_late(struct serving *s)
{
	(void)s;
	return 0;
}

static const struct {
	enum protocol_request type;
	int (*serve)(struct serving *s);
} requests[] = {
	{ REQUEST_ADD_GROUPS, validate_groups_add },
	{ REQUEST_VALIDATE, validate },
	{ REQUEST_FORGET, forget },
	{ REQUEST_STOP, stop_late },
	{ REQUEST_STAGE, stage },
	{ REQUEST_MAKE_STAGING, staging_make },
	{ REQUEST_OPEN_DIR, staging_open_dir },
	{ REQUEST_RESTORE, staging_restore },
	{ REQUEST_REMOVE_STAGING, staging_remove },
	{ REQUEST_LIST_STAGING, staging_list },
};

static int serve_one(struct serving *s)
{
	uint32_t type = s->in.type;
	int r = protocol_get(&s->in, &s->m);

	if (r < 0)
		return r;
	r = -EBADMSG;
	for (size_t i = 0; i < ELEMENTSOF(requests); i++)
		if (requests[i].type == type)
			r = requests[i].serve(s);
	wire_in_clear(&s->in);
	return r;
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
