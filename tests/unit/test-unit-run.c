/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Units that this host is given (src/daemon/fleet/unit-run.c), as what is in the database
 * can be of any make: one that is none ends the program that has brought it; any other is answered
 * once, and nothing is touched but names that the job's mark allows. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "engine/core/name-slice.h"
#include "fleet-world.h"

#define NOBODY 65534
#define JOB 7
#define UUID "0123456789abcdef0123456789abcdef"
#define PART ".reclaim/@b"
#define DIR PART "/65534/" UUID
#define MARK PART "/marks/7"

static struct job_world w;
static size_t n_entries; /* beneath the mount, before anything was said */
static unsigned n_flows;

/* A unit, and names of it. */
struct unit {
	struct claimed_message m;
	struct unit_name names[FLEET_NAMES + 1];
	size_t n;
};

/* ---- another host's part of staging -------------------------------------------------------- */

static const char *at(const char *name)
{
	return job_world_path(&w, name);
}

static void dir(const char *name, mode_t mode, uid_t uid)
{
	ck_assert_int_eq(mkdir(at(name), 0700), 0);
	ck_assert_int_eq(chmod(at(name), mode), 0);
	ck_assert_int_eq(chown(at(name), uid, uid), 0);
}

static void file(const char *name, uid_t uid)
{
	file_make(w.mount, name, name);
	ck_assert_int_eq(chown(at(name), uid, uid), 0);
}

/* What root of the other host says of its job. */
static void mark(const char *space, uid_t uid)
{
	struct lasting_identity id = fleet_identity(at(DIR));
	char name[256];

	dir(MARK, 0700, 0);
	dir(MARK "/mark=1", 0700, 0);
	dir(MARK "/name=" UUID, 0700, 0);
	(void)snprintf(name, sizeof(name), MARK "/space=%s", space);
	dir(name, 0700, 0);
	(void)snprintf(name, sizeof(name), MARK "/owner=%u.%u.0", (unsigned)uid, (unsigned)uid);
	dir(name, 0700, 0);
	(void)snprintf(name, sizeof(name), MARK "/directory=%" PRIu64 ".%" PRId64, id.ino,
		       id.btime_nsec);
	dir(name, 0700, 0);
}

static void begin_marked(const char *space, uid_t uid)
{
	fleet_world_begin(&w);
	dir(PART, 0711, 0);
	dir(PART "/marks", 0700, 0);
	dir(PART "/65534", 0700, NOBODY);
	dir(DIR, 0700, NOBODY);
	dir(DIR "/1", 0755, NOBODY);
	dir(DIR "/1/d", 0755, NOBODY);
	file(DIR "/1/d/x", NOBODY);
	file(DIR "/1/d/y", NOBODY);
	dir(DIR "/1/e", 0755, NOBODY);
	file(DIR "/1/e/x", NOBODY);
	file(DIR "/1/f", NOBODY);
	/* What is not its user's, and what is elsewhere. */
	dir(DIR "/1/roots", 0755, 0);
	file(DIR "/1/roots/canary", 0);
	dir("data/out", 0755, NOBODY);
	file("data/out/canary", NOBODY);
	link_make(w.mount, DIR "/1/link", "../../../../../data/out");
	if (space)
		mark(space, uid);
	n_entries = tree_count(w.mount);
	n_flows = w.context.flows;
}

static void begin(void)
{
	begin_marked("default", NOBODY);
}

/* So many entries are gone, and no other. */
static void end(size_t gone)
{
	ck_assert_uint_eq(tree_count(w.mount), n_entries - gone);
	ck_assert(job_world_has(&w, DIR "/1/roots/canary"));
	ck_assert(job_world_has(&w, "data/out/canary"));
	ck_assert_uint_eq(w.context.flows, n_flows);
	ck_assert_ptr_null(fleet_heard(FLEET_FINISH));
	ck_assert_ptr_null(fleet_heard(FLEET_PUBLISH));
	fleet_world_end();
}

/* ---- what is said of it -------------------------------------------------------------------- */

static struct unit_name name_of(const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), DIR "/1/%s", name);
	return (struct unit_name){ .name = name, .id = fleet_identity(at(path)) };
}

/* One that is as it should be: a directory with two files. */
static struct unit good(void)
{
	struct unit u = { .m = { .unit = 5,
				 .token = 9,
				 .owner = "b",
				 .job = JOB,
				 .uid = NOBODY,
				 .filesystem = "shared",
				 .directory = "1",
				 .parent = fleet_identity(at(DIR "/1")) },
			  .n = 1 };

	u.names[0] = name_of("d");
	return u;
}

/* The same as a slice of that directory. */
static struct unit slice(uint64_t number, uint64_t slices)
{
	struct unit u = good();

	u.n = 0;
	u.m.slice = number;
	u.m.slices = slices;
	return u;
}

static int claimed(const struct unit *u)
{
	return fleet_says_claimed(&u->m, u->names, u->n);
}

/* Its one answer. */
static struct finish_message finished(const struct unit *u)
{
	struct finish_message m = fleet_wait_heard(FLEET_FINISH)->is.finish_message;

	ck_assert_uint_eq(m.unit, u->m.unit);
	ck_assert_uint_eq(m.token, u->m.token);
	return m;
}

static void ends_with(const struct unit *u, bool ended, uint64_t entries, const char *what)
{
	struct finish_message m;

	ck_assert_msg(claimed(u) == 0, "%s", what);
	m = finished(u);
	ck_assert_msg(m.ended == ended && m.entries == entries, "%s: ended %d, %" PRIu64 " entries",
		      what, m.ended, m.entries);
}

/* ---- tests --------------------------------------------------------------------------------- */

START_TEST(test_unit_is_done)
{
	struct unit u;

	begin();
	u = good();
	ends_with(&u, true, 3, "names");
	ck_assert(!job_world_has(&w, DIR "/1/d"));
	ck_assert(job_world_has(&w, DIR "/1/e/x") && job_world_has(&w, DIR "/1/f"));
	/* Once more, as after another host has done it. */
	u.m.token++;
	ends_with(&u, true, 0, "what is gone");
	end(3);
}
END_TEST

static void refused(const struct unit *u, const char *what)
{
	ck_assert_msg(claimed(u) == -EBADMSG, "%s", what);
	ck_assert_ptr_null(fleet_heard(FLEET_FINISH));
}

START_TEST(test_unit_of_another_form)
{
	static const char *const hosts[] = { "",   ".", "..",  "@b", "../b",     "b/..",
					     "-b", "B", "b\n", "b ", "\xc3\xa4", "b/65534" };
	static const char *const paths[] = { "/",    ".",    "..",   "/1",     "1/",
					     "1//d", "1/..", "../1", "1/../1", "1/./d" };
	static const char *const names[] = { "", ".", "..", "a/b", "/", "d/", "../d" };
	char text[FLEET_NAME_SIZE + 1];
	struct unit u;

	begin();
	memset(text, 'b', FLEET_NAME_SIZE);
	text[FLEET_NAME_SIZE] = '\0';
	u = good();
	u.m.owner = text;
	refused(&u, "a long host");
	for (size_t i = 0; i < ELEMENTSOF(hosts); i++) {
		u.m.owner = hosts[i];
		refused(&u, hosts[i]);
	}
	u = good();
	for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
		u.m.directory = paths[i];
		refused(&u, paths[i]);
	}
	u = good();
	for (size_t i = 0; i < ELEMENTSOF(names); i++) {
		u.names[0].name = names[i];
		refused(&u, names[i]);
	}
	u = good();
	u.m.filesystem = "other";
	refused(&u, "another filesystem");
	u.m.filesystem = "";
	refused(&u, "no filesystem");
	u = good();
	u.m.parent.type = S_IFREG;
	refused(&u, "a file for its directory");
	u.m.parent.type = S_IFDIR;
	u.m.parent.ino = 0;
	refused(&u, "no directory");
	u = good();
	u.n = 0;
	refused(&u, "no names");
	u = good();
	u.m.slice = 1;
	refused(&u, "a slice of none");
	u = slice(2, 2);
	refused(&u, "a slice behind the last");
	u = slice(UINT64_MAX, 2);
	refused(&u, "a slice far behind the last");
	u = slice(0, FLEET_SLICES + 1);
	refused(&u, "too many slices");
	u = slice(0, UINT64_MAX);
	refused(&u, "far too many slices");
	u = good();
	u.m.slices = 2;
	refused(&u, "names and slices");
	end(0);
}
END_TEST

START_TEST(test_unit_of_too_many_names)
{
	char text[256], several[FLEET_NAMES_BYTES / 200 + 2][256];
	struct unit u;

	begin();
	u = good();
	for (size_t i = 0; i <= FLEET_NAMES; i++)
		u.names[i] = u.names[0];
	u.n = FLEET_NAMES + 1;
	refused(&u, "too many names");
	memset(text, 'n', 199);
	text[199] = '\0';
	for (size_t i = 0; i < ELEMENTSOF(several); i++) {
		memcpy(several[i], text, 200);
		u.names[i] = (struct unit_name){ .name = several[i], .id = u.names[0].id };
	}
	u.n = ELEMENTSOF(several);
	refused(&u, "names that are too long together");
	/* One name for many of them: it is done once. */
	u = good();
	for (size_t i = 1; i < FLEET_NAMES; i++)
		u.names[i] = u.names[0];
	u.n = FLEET_NAMES;
	ck_assert_int_eq(claimed(&u), 0);
	ck_assert_uint_le(finished(&u).entries, 3);
	ck_assert(job_world_has(&w, DIR "/1/e/x"));
	end(job_world_has(&w, DIR "/1/d") ? 0 : 3);
}
END_TEST

START_TEST(test_message_that_is_cut)
{
	struct unit u;
	size_t size;

	begin();
	u = good();
	u.m.parent.ino++; /* nothing would be touched */
	size = fleet_claimed_size(&u.m, u.names, u.n);
	for (size_t len = 0; len < size; len++)
		ck_assert_msg(fleet_says_cut(&u.m, u.names, u.n, len) == -EBADMSG, "%zu bytes",
			      len);
	for (size_t more = 1; more < 40; more++)
		ck_assert_msg(fleet_says_cut(&u.m, u.names, u.n, size + more) == -EBADMSG,
			      "%zu bytes more", more);
	end(0);
}
END_TEST

/* No run gives such away; which is answered, as its program may know no better. */
START_TEST(test_unit_that_no_run_gives)
{
	struct unit u;

	begin();
	u = slice(0, 1);
	ends_with(&u, true, 0, "one slice");
	u = slice(0, NAME_SLICES + 1);
	ends_with(&u, true, 0, "more slices than there are");
	u = slice(0, 2);
	u.m.directory = "";
	u.m.parent = fleet_identity(at(DIR));
	ends_with(&u, true, 0, "a slice of the job's directory");
	end(0);
}
END_TEST

START_TEST(test_unit_of_a_job_without_a_mark)
{
	struct unit u;

	begin_marked(NULL, 0);
	u = good();
	ends_with(&u, true, 0, "no mark");
	u.m.owner = "c";
	ends_with(&u, true, 0, "no host");
	u.m.job = 0;
	ends_with(&u, true, 0, "job 0");
	u.m.job = UINT64_MAX;
	ends_with(&u, true, 0, "the last job");
	end(0);
}
END_TEST

START_TEST(test_unit_of_another_user)
{
	static const uid_t users[] = { 0, 1, NOBODY - 1, UINT32_MAX - 1 };
	struct unit u;

	begin();
	u = good();
	for (size_t i = 0; i < ELEMENTSOF(users); i++) {
		u.m.uid = users[i];
		ends_with(&u, true, 0, "another user");
	}
	end(0);
}
END_TEST

/* Nor is it done as the one that the mark names, where the directory is not that one's. */
START_TEST(test_unit_with_a_mark_of_another_user)
{
	struct unit u;

	begin_marked("default", NOBODY - 1);
	u = good();
	u.m.uid = NOBODY - 1;
	ends_with(&u, true, 0, "another user's mark");
	end(0);
}
END_TEST

START_TEST(test_unit_of_another_uid_space)
{
	struct unit u;

	begin_marked("other", NOBODY);
	u = good();
	ends_with(&u, true, 0, "another uid space");
	end(0);
}
END_TEST

START_TEST(test_unit_with_a_mark_that_is_not_roots)
{
	struct unit u;

	begin();
	u = good();
	ck_assert_int_eq(chmod(at(MARK), 0755), 0);
	ends_with(&u, true, 0, "a mark that users can read");
	ck_assert_int_eq(chmod(at(MARK), 0700), 0);
	ck_assert_int_eq(chown(at(MARK), NOBODY, NOBODY), 0);
	ends_with(&u, true, 0, "a user's mark");
	ck_assert_int_eq(chown(at(MARK), 0, 0), 0);
	ck_assert_int_eq(chmod(at(PART), 0777), 0);
	ends_with(&u, true, 0, "a part that is open to all");
	ck_assert_int_eq(chmod(at(PART), 0711), 0);
	end(0);
}
END_TEST

/* The job's directory is another than when it was marked. */
START_TEST(test_unit_of_a_directory_that_was_replaced)
{
	struct unit u;

	begin();
	ck_assert_int_eq(rename(at(DIR), at(PART "/65534/first")), 0);
	dir(DIR, 0700, NOBODY);
	ck_assert_int_eq(rename(at(PART "/65534/first/1"), at(DIR "/1")), 0);
	n_entries++;
	u = good();
	ends_with(&u, true, 0, "another directory");
	ck_assert_int_eq(rename(at(DIR), at(PART "/65534/second")), 0);
	link_make(w.mount, DIR, "second");
	n_entries++;
	ends_with(&u, true, 0, "a link in its place");
	end(0);
}
END_TEST

START_TEST(test_unit_elsewhere)
{
	struct unit u;

	begin();
	u = good();
	u.m.directory = "1/link";
	u.m.parent = fleet_identity(at("data/out"));
	u.names[0] = (struct unit_name){ "canary", fleet_identity(at("data/out/canary")) };
	ends_with(&u, true, 0, "by way of a link");
	u.m.directory = "1/link/canary";
	ends_with(&u, true, 0, "through a link");
	u.m.directory = "1/d";
	ends_with(&u, true, 0, "the identity of what is elsewhere");
	u.m.directory = "1/f";
	ends_with(&u, true, 0, "a file");
	u.m.directory = "1/nowhere";
	ends_with(&u, true, 0, "nothing");
	/* In its own directory, names of other things. */
	u = good();
	u.names[0] = (struct unit_name){ "e", fleet_identity(at(DIR "/1/d")) };
	ends_with(&u, true, 0, "another name");
	u.names[0] = (struct unit_name){ "link", fleet_identity(at("data/out")) };
	ends_with(&u, true, 0, "what a link leads to");
	u = good();
	u.names[0].id.type = S_IFREG;
	ends_with(&u, true, 0, "another type");
	u = good();
	u.names[0].id.btime_nsec++;
	ends_with(&u, true, 0, "another time of birth");
	end(0);
}
END_TEST

/* Names that the database may know, as the job has them, but that its user may not delete. */
START_TEST(test_unit_of_what_its_user_may_not_delete)
{
	struct finish_message m;
	struct unit u;

	begin();
	u = good();
	u.names[0] = name_of("roots");
	ck_assert_int_eq(claimed(&u), 0);
	m = finished(&u);
	ck_assert(m.ended && m.entries == 0 && m.errors > 0);
	end(0);
}
END_TEST

START_TEST(test_unit_that_is_revoked)
{
	struct unit u;

	begin();
	u = good();
	ck_assert_int_eq(claimed(&u), 0);
	/* None of these is it. */
	ck_assert_int_eq(fleet_says(FLEET_REVOKED, &(struct revoked_message){ 5, 8, true }), 0);
	ck_assert_int_eq(fleet_says(FLEET_REVOKED, &(struct revoked_message){ 4, 9, true }), 0);
	/* Before it has begun, and more than once. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(
			fleet_says(FLEET_REVOKED, &(struct revoked_message){ 5, 9, i % 2 }), 0);
	ck_assert(!finished(&u).ended);
	ck_assert_int_eq(fleet_says(FLEET_REVOKED, &(struct revoked_message){ 5, 9, true }), 0);
	ck_assert(job_world_has(&w, DIR "/1/d/x"));
	u.m.token++;
	ends_with(&u, true, 3, "again");
	end(3);
}
END_TEST

/* After any number of turns of the loop: before, in the midst of, and behind what it asks for. */
START_TEST(test_unit_while_the_fleet_ends)
{
	struct unit u;

	begin();
	for (int turns = 0; turns < 40; turns++) {
		u = good();
		ck_assert_int_eq(claimed(&u), 0);
		for (int i = 0; i < turns; i++)
			ck_assert_int_ge(sd_event_run(w.context.event, 0), 0);
		fleet_world_leave();
		while (fleet_heard(FLEET_FINISH))
			;
		if (!job_world_has(&w, DIR "/1/d")) {
			dir(DIR "/1/d", 0755, NOBODY);
			file(DIR "/1/d/x", NOBODY);
			file(DIR "/1/d/y", NOBODY);
		}
		ck_assert(job_world_has(&w, DIR "/1/e/x"));
		fleet_world_end();
		ck_assert_uint_eq(w.context.flows, 0);
		fleet_world_begin(&w);
	}
	ck_assert(job_world_has(&w, DIR "/1/roots/canary"));
	ck_assert(job_world_has(&w, "data/out/canary"));
	fleet_world_end();
}
END_TEST

/* What this host has in staging itself, and can still be had back. */
START_TEST(test_unit_of_what_is_held_here)
{
	struct lasting_identity of;
	struct unit u;
	uint64_t id;
	char staged[256];

	begin();
	tree_make(w.mount, "data/t/ data/t/d/ data/t/d/x");
	ck_assert_int_eq(chown(at("data/t"), NOBODY, NOBODY), 0);
	ck_assert_int_eq(chown(at("data/t/d"), NOBODY, NOBODY), 0);
	id = job_world_submit(&w, "data/t", HOUR_USEC);
	ck_assert_msg(id > 0, "%s", w.failure.text.line);
	(void)snprintf(staged, sizeof(staged), ".reclaim/@a/65534/%s",
		       job_world_job(&w, id)->uuid_text);
	of = fleet_identity(at(staged));
	u = good();
	u.m.owner = "a";
	u.m.job = id;
	u.m.directory = "";
	u.m.parent = of;
	(void)snprintf(staged + strlen(staged), sizeof(staged) - strlen(staged), "/1");
	u.names[0] = (struct unit_name){ "1", fleet_identity(at(staged)) };
	ends_with(&u, true, 0, "a held job of this host");
	ck_assert_int_eq(job_world_control(&w, CONTROL_RESTORE, id), ERROR_NONE);
	ck_assert(job_world_has(&w, "data/t/d/x"));
	/* And when it has ended. */
	u.m.token++;
	ends_with(&u, true, 0, "a job that has ended");
	ck_assert(job_world_has(&w, "data/t/d/x"));
	fleet_world_end();
}
END_TEST

/* More than this host has room for. Sooner or later that makes no sense, and what was taken is
 * answered. */
START_TEST(test_units_without_an_end)
{
	struct unit u;
	unsigned n = 0;

	begin();
	u = good();
	u.m.parent.ino++;
	while (claimed(&u) == 0) {
		n++;
		u.m.token++;
		ck_assert_uint_lt(n, 10000);
	}
	ck_assert_uint_ge(n, 4);
	for (; n > 0; n--)
		ck_assert(fleet_wait_heard(FLEET_FINISH)->is.finish_message.ended);
	end(0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		test_unit_is_done,
		test_unit_of_another_form,
		test_unit_of_too_many_names,
		test_message_that_is_cut,
		test_unit_that_no_run_gives,
		test_unit_of_a_job_without_a_mark,
		test_unit_of_another_user,
		test_unit_with_a_mark_of_another_user,
		test_unit_of_another_uid_space,
		test_unit_with_a_mark_that_is_not_roots,
		test_unit_of_a_directory_that_was_replaced,
		test_unit_elsewhere,
		test_unit_of_what_its_user_may_not_delete,
		test_unit_that_is_revoked,
		test_unit_while_the_fleet_ends,
		test_unit_of_what_is_held_here,
		test_units_without_an_end,
	};

	return job_world_run("unit-run", &w, tests, ELEMENTSOF(tests));
}
