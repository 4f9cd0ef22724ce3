/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check-fleet.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/mounts.h"
#include "ctl/fleet/fleet-call.h"

struct fleet_check {
	const struct config *c;
	struct mounts mounts;
	fleet_tell_t tell;
	void *userdata;
};

static _printf_(4, 5) void say(const struct fleet_check *f, const struct config_place *place,
			       bool is_warning, const char *format, ...)
{
	char text[2 * PATH_MAX + 512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	f->tell(place, is_warning, text, f->userdata);
}

/* The mount at a path, or NULL. The table's last one is what is seen there. */
static const struct mount *mount_at(const struct fleet_check *f, const char *path)
{
	const struct mount *m = mounts_by_path(&f->mounts, path);

	return m && strcmp(m->target, path) == 0 ? m : NULL;
}

static void filesystem_check(const struct fleet_check *f, size_t i)
{
	const struct config_shared *s = &f->c->fleet_filesystems[i];
	const struct mount *m = mount_at(f, s->path), *other;

	if (!m) {
		say(f, &s->place, /* is_warning= */ true,
		    "fleet: filesystems: %s is no mount point (now), so nothing is shared there",
		    s->path);
		return;
	}
	for (size_t j = 0; j < i; j++) {
		other = mount_at(f, f->c->fleet_filesystems[j].path);
		if (other && other->dev == m->dev)
			say(f, &s->place, /* is_warning= */ false,
			    "fleet: filesystems: %s is the same filesystem as %s, which is "
			    "called \"%s\": expected each filesystem once",
			    s->path, other->target, f->c->fleet_filesystems[j].name);
	}
}

/* What is no connection string is an error; that there is no such database may change. */
static void database_check(const struct fleet_check *f, bool asks)
{
	const struct config *c = f->c;
	struct safe_text why;
	json_t *v = NULL;
	int r = fleet_call(c->fleet_database, (const char *const[]){ "parse", NULL }, &v, &why);

	if (r < 0) {
		say(f, &c->fleet_database_place, /* is_warning= */ false, "fleet: %s%s",
		    r == -ENOENT ? "" : "database: ", why.line);
	} else if (asks) {
		json_decref(v);
		v = NULL;
		if (fleet_call(c->fleet_database, (const char *const[]){ "check", NULL }, &v,
			       &why) < 0)
			say(f, &c->fleet_database_place, /* is_warning= */ true,
			    "fleet: database: (now) %s", why.line);
	}
	json_decref(v);
}

void fleet_check(const struct config *c, bool asks, fleet_tell_t tell, void *userdata)
{
	struct fleet_check f = { .c = c, .tell = tell, .userdata = userdata };
	char name[FLEET_NAME_SIZE];

	database_check(&f, asks);
	if (config_fleet_name(c, name) < 0)
		say(&f, &c->fleet_database_place, /* is_warning= */ false,
		    "fleet: this host's name cannot be its name in the fleet: expected name: and "
		    "1 to 63 letters a to z, digits, - and .");
	/* Without the table nothing is known of them. */
	if (mounts_read(&f.mounts, "/proc/self/mountinfo") < 0)
		return;
	for (size_t i = 0; i < c->n_fleet_filesystems; i++)
		filesystem_check(&f, i);
	mounts_done(&f.mounts);
}
