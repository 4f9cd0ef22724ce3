/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The intake role: one request after the other. */
#include <errno.h>

#include "intake.h"
#include "session.h"
#include "base/macros.h"

static const struct {
	enum protocol_request type;
	int (*serve)(struct serving *s);
} requests[] = {
	{ REQUEST_ADD_GROUPS, validate_groups_add },
	{ REQUEST_VALIDATE, validate },
	{ REQUEST_STAGE, stage },
	{ REQUEST_MAKE_STAGING, staging_make },
	{ REQUEST_OPEN_DIR, staging_open_dir },
	{ REQUEST_RESTORE, staging_restore },
	{ REQUEST_REMOVE_STAGING, staging_remove },
	{ REQUEST_LIST_STAGING, staging_list },
	{ REQUEST_FILESYSTEM_ID, filesystem_id_tell },
	{ REQUEST_WRITE_MARK, mark_write },
	{ REQUEST_READ_MARK, mark_read },
	{ REQUEST_WITHDRAW_MARK, mark_withdraw },
	{ REQUEST_REMOVE_MARK, mark_remove },
};

static int serve_one(struct serving *s)
{
	if (s->in.type == REQUEST_FORGET)
		session_forget(&s->sessions, s->m.forget_message.session);
	/* What was to be stopped has come to its end already. */
	if (s->in.type == REQUEST_FORGET || s->in.type == REQUEST_STOP)
		return 0;
	for (size_t i = 0; i < ELEMENTSOF(requests); i++)
		if (requests[i].type == s->in.type)
			return requests[i].serve(s);
	return -EBADMSG;
}

int intake_serve(struct serving *s)
{
	int r;

	while ((r = wire_receive(s->sock, &s->in, 0, /* allow_long= */ true)) > 0) {
		s->serial = s->in.serial;
		r = protocol_get(&s->in, &s->m);
		if (r >= 0)
			r = serve_one(s);
		if (r < 0)
			break;
		wire_in_clear(&s->in);
	}
	sessions_free(&s->sessions);
	return r;
}
