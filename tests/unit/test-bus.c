/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus-server.h"
#include "support.h"
#include "base/fd.h"

#define JOB1 "/org/reclaimd1/job/1"
#define JOB2 "/org/reclaimd1/job/2"
#define JOB3 "/org/reclaimd1/job/3"

#define _cleanup_message_ _cleanup_(sd_bus_message_unrefp)

static const char *properties(sd_bus *c, const char *path, const char *member,
			      const char *interface, const char *name, sd_bus_message **ret)
{
	sd_bus_message *m = NULL;

	ck_assert_int_ge(sd_bus_message_new_method_call(c, &m, "org.reclaimd1", path,
							"org.freedesktop.DBus.Properties", member),
			 0);
	ck_assert_int_ge(sd_bus_message_append(m, "s", interface), 0);
	if (name)
		ck_assert_int_ge(sd_bus_message_append(m, "s", name), 0);
	return send_message(c, m, ret);
}

/* ---- what is asked ------------------------------------------------------------------------ */

START_TEST(jobs_are_told)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	_cleanup_message_ sd_bus_message *list = NULL, *one = NULL, *all = NULL, *path = NULL;
	const char *origin, *text;
	uint64_t n;
	unsigned jobs = 0;

	ck_assert_str_eq(call(c, NULL, "ListJobs", &list, "a{sv}", 0), "");
	ck_assert_int_ge(sd_bus_message_enter_container(list, 'a', "(tsussaytttttttttstttst)"), 0);
	while (sd_bus_message_enter_container(list, 'r', "tsussaytttttttttstttst") > 0) {
		ck_assert_int_ge(sd_bus_message_read(list, "tsus", &n, NULL, NULL, &origin), 0);
		ck_assert_str_eq(origin, "spool:/\\xff");
		ck_assert_uint_eq(n, ++jobs);
		ck_assert_int_ge(sd_bus_message_skip(list, "saytttttttttstttst"), 0);
		ck_assert_int_ge(sd_bus_message_exit_container(list), 0);
	}
	ck_assert_uint_eq(jobs, 2);
	ck_assert_str_eq(call(c, NULL, "GetJob", &path, "t", (uint64_t)2), "");
	ck_assert_int_ge(sd_bus_message_read(path, "o", &text), 0);
	ck_assert_str_eq(text, JOB2);
	ck_assert_str_eq(properties(c, JOB1, "Get", "org.reclaimd1.Job", "Names", &one), "");
	ck_assert_int_ge(sd_bus_message_read(one, "v", "t", &n), 0);
	ck_assert_uint_eq(n, 4);
	ck_assert_str_eq(properties(c, JOB1, "GetAll", "org.reclaimd1.Job", NULL, &all), "");
	ck_assert_int_ge(sd_bus_message_skip(all, "a{sv}"), 0);
	ck_assert_str_eq(properties(c, JOB1, "Get", "org.reclaimd1.Job", "Shoes", NULL),
			 "InvalidArgument");
	ck_assert_str_eq(properties(c, JOB1, "Get", "org.example", "Names", NULL),
			 "InvalidArgument");
	ck_assert_str_eq(properties(c, JOB1, "GetAll", "", "Names", NULL), "InvalidArgument");
	ck_assert_str_eq(
		properties(c, "/org/reclaimd1", "GetAll", "org.reclaimd1.Manager", NULL, NULL), "");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(spools_are_told)
{
	static const char path[] = "/org/reclaimd1/spool/_2fs_2f_ff_2etrash";
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	_cleanup_message_ sd_bus_message *list = NULL, *one = NULL;
	const void *p;
	uint64_t n;
	size_t size;

	ck_assert_str_eq(call(c, NULL, "ListSpools", &list, NULL), "");
	ck_assert_int_ge(sd_bus_message_enter_container(list, 'a', "(ayssttt)"), 0);
	ck_assert_int_gt(sd_bus_message_enter_container(list, 'r', "ayssttt"), 0);
	ck_assert_int_ge(sd_bus_message_read_array(list, 'y', &p, &size), 0);
	ck_assert_uint_eq(size, sizeof("/s/?.trash")); /* with its NUL */
	ck_assert_uint_eq(((const char *)p)[size - 1], 0);
	ck_assert_str_eq(properties(c, path, "Get", "org.reclaimd1.Spool", "UndoUSec", &one), "");
	ck_assert_int_ge(sd_bus_message_read(one, "v", "t", &n), 0);
	ck_assert_uint_eq(n, 20);
	ck_assert_str_ne(properties(c, "/org/reclaimd1/spool/other", "Get", "org.reclaimd1.Spool",
				    "UndoUSec", NULL),
			 "");
	ck_assert_str_eq(call(c, NULL, "ListDevices", NULL, NULL), "");
	ck_assert_str_eq(call(c, NULL, "ListLatencies", NULL, NULL), "");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

#define POLICY "/org/reclaimd1/policy/daily_2d1"

static const char *call_policy(sd_bus *c, const char *path, const char *member,
			       sd_bus_message **ret)
{
	sd_bus_message *m = NULL;

	ck_assert_int_ge(sd_bus_message_new_method_call(c, &m, "org.reclaimd1", path,
							"org.reclaimd1.Policy", member),
			 0);
	return send_message(c, m, ret);
}

START_TEST(policies_are_told)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s), *user;
	_cleanup_message_ sd_bus_message *list = NULL, *one = NULL, *all = NULL, *plan = NULL;
	_cleanup_message_ sd_bus_message *run = NULL;
	const char *name, *text;
	uint64_t n;
	double share;

	become_user();
	user = client_open(s);
	become_root();
	ck_assert_str_eq(call(c, NULL, "ListPolicies", &list, NULL), "");
	ck_assert_int_ge(sd_bus_message_enter_container(list, 'a', "(sayassbdtbtttstttastt)"), 0);
	ck_assert_int_gt(sd_bus_message_enter_container(list, 'r', "sayassbdtbtttstttastt"), 0);
	ck_assert_int_ge(sd_bus_message_read(list, "s", &name), 0);
	ck_assert_str_eq(name, "daily-1");
	ck_assert_str_eq(properties(user, POLICY, "Get", "org.reclaimd1.Policy", "UndoUSec", &one),
			 "");
	ck_assert_int_ge(sd_bus_message_read(one, "v", "t", &n), 0);
	ck_assert_uint_eq(n, 30);
	ck_assert_str_eq(properties(user, POLICY, "GetAll", "org.reclaimd1.Policy", NULL, &all),
			 "");
	ck_assert_int_ge(sd_bus_message_skip(all, "a{sv}"), 0);
	one = sd_bus_message_unref(one);
	ck_assert_str_eq(properties(c, POLICY, "Get", "", "MaxDelete", &one), "");
	ck_assert_int_ge(sd_bus_message_read(one, "v", "d", &share), 0);
	ck_assert(share > 0.249 && share < 0.251);
	ck_assert_str_eq(properties(c, POLICY, "Get", "org.reclaimd1.Policy", "Shoes", NULL),
			 "InvalidArgument");
	ck_assert_str_eq(properties(c, POLICY, "Get", "org.reclaimd1.Job", "Path", NULL),
			 "InvalidArgument");
	ck_assert_str_eq(properties(c, POLICY "0", "GetAll", "org.reclaimd1.Policy", NULL, NULL),
			 "InvalidArgument");
	ck_assert_str_eq(call_policy(c, POLICY, "Plan", &plan), "");
	ck_assert_int_ge(sd_bus_message_read(plan, "s", &text), 0);
	ck_assert_str_eq(text, "daily-1");
	ck_assert_str_eq(call_policy(c, POLICY, "Run", &run), "");
	ck_assert_int_ge(sd_bus_message_read(run, "to", &n, &text), 0);
	ck_assert_str_eq(text, "/org/reclaimd1/job/7");
	ck_assert_str_eq(call_policy(user, POLICY, "Plan", NULL), "NotAuthorized");
	ck_assert_str_eq(call_policy(user, POLICY, "Run", NULL), "NotAuthorized");
	ck_assert_str_eq(call_policy(c, POLICY "0", "Run", NULL),
			 "org.freedesktop.DBus.Error.UnknownObject");
	(void)sd_bus_flush_close_unref(c);
	(void)sd_bus_flush_close_unref(user);
	server_stop(s);
}
END_TEST

START_TEST(long_lists_come_in_parts)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	_cleanup_message_ sd_bus_message *first = NULL, *problems = NULL;
	size_t n = 0, size;
	const void *p;
	const char *what;
	int error, is_error;

	ck_assert_str_eq(call(c, JOB1, "GetEntries", &first, "tu", (uint64_t)0, UINT32_MAX), "");
	ck_assert_int_ge(sd_bus_message_enter_container(first, 'a', "(ays)"), 0);
	while (sd_bus_message_skip(first, "(ays)") > 0)
		n++;
	ck_assert_uint_gt(n, 200);
	ck_assert_uint_lt(n, 300); /* a mebibyte of paths of 4095 bytes */
	ck_assert_str_eq(call(c, JOB1, "GetProblems", &problems, "tu", (uint64_t)2, 9), "");
	ck_assert_int_ge(sd_bus_message_enter_container(problems, 'a', "(aysib)"), 0);
	ck_assert_int_gt(sd_bus_message_enter_container(problems, 'r', "aysib"), 0);
	ck_assert_int_ge(sd_bus_message_read_array(problems, 'y', &p, &size), 0);
	ck_assert_uint_eq(size, 6);
	ck_assert_mem_eq(p, "/a/\xff\x1b", size);
	ck_assert_int_ge(sd_bus_message_read(problems, "sib", &what, &error, &is_error), 0);
	ck_assert_str_eq(what, "is \\xff");
	ck_assert_int_eq(error, 13);
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

static sd_bus_message *submit_files(sd_bus *c, int fd, unsigned fds, const char *const *names,
				    size_t n)
{
	sd_bus_message *m = NULL;

	ck_assert_int_ge(sd_bus_message_new_method_call(c, &m, "org.reclaimd1", "/org/reclaimd1",
							"org.reclaimd1.Manager", "SubmitFiles"),
			 0);
	ck_assert_int_ge(sd_bus_message_open_container(m, 'a', "h"), 0);
	for (unsigned i = 0; i < fds; i++)
		ck_assert_int_ge(sd_bus_message_append(m, "h", fd), 0);
	ck_assert_int_ge(sd_bus_message_close_container(m), 0);
	ck_assert_int_ge(sd_bus_message_open_container(m, 'a', "(uay)"), 0);
	for (size_t i = 0; i < n; i++) {
		ck_assert_int_ge(sd_bus_message_open_container(m, 'r', "uay"), 0);
		ck_assert_int_ge(sd_bus_message_append(m, "u", (unsigned)i % MAX(fds, 1U)), 0);
		ck_assert_int_ge(sd_bus_message_append_array(m, 'y', names[i], strlen(names[i])),
				 0);
		ck_assert_int_ge(sd_bus_message_close_container(m), 0);
	}
	ck_assert_int_ge(sd_bus_message_close_container(m), 0);
	return m;
}

START_TEST(names_arrive)
{
	static const char *const names[] = { "a", "b", "c\n\xff" };
	_cleanup_close_ int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_message_ sd_bus_message *reply = NULL;
	struct server *s = server_start(NULL);
	sd_bus_message *m;
	const char *path;
	uint64_t id;
	sd_bus *c;

	become_user();
	c = client_open(s);
	become_root();
	m = submit_files(c, dir, 2, names, 3);
	ck_assert_int_ge(sd_bus_message_append(m, "a{sv}", 3, "undo-usec", "t", (uint64_t)5,
					       "priority", "s", "high", "display", "aay", 2, 2, '/',
					       'x', 2, '/', 'y'),
			 0);
	ck_assert_str_eq(send_message(c, m, &reply), "");
	ck_assert_int_ge(sd_bus_message_read(reply, "to", &id, &path), 0);
	ck_assert_uint_eq(id, 9);
	ck_assert_str_eq(path, "/org/reclaimd1/job/9");
	(void)sd_bus_flush_close_unref(c);
	ck_assert_str_eq(server_submitted(s),
			 "uid 64998 gid 64998 groups 1 undo 5 priority 2: [/x a c\n\xff] [/y b]");
	server_stop(s);
}
END_TEST

START_TEST(changes_arrive)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);

	ck_assert_str_eq(
		call(c, NULL, "SetPriority", NULL, "ats", 2, (uint64_t)1, (uint64_t)2, "high"), "");
	ck_assert_str_eq(server_submitted(s), "change 1 2 0 0");
	ck_assert_str_eq(call(c, JOB2, "SetPriority", NULL, "s", "low"), "");
	ck_assert_str_eq(server_submitted(s), "change 1 0 0 0");
	ck_assert_str_eq(call(c, JOB1, "SetDeadline", NULL, "t", UINT64_MAX), "");
	ck_assert_str_eq(server_submitted(s), "change 0 0 1 18446744073709551615");
	ck_assert_str_eq(call(c, NULL, "SetDeadline", NULL, "att", 1, (uint64_t)2, (uint64_t)0),
			 "");
	ck_assert_str_eq(server_submitted(s), "change 0 0 1 0");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(a_dry_run_has_no_object)
{
	_cleanup_message_ sd_bus_message *reply = NULL;
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	const char *path;
	uint64_t id;

	ck_assert_str_eq(call(c, NULL, "Submit", &reply, "aaya{sv}", 2, 2, '/', 'x', 3, '/', 'y',
			      '\0', 1, "dry-run", "b", 1),
			 "");
	ck_assert_int_ge(sd_bus_message_read(reply, "to", &id, &path), 0);
	ck_assert_uint_eq(id, 0);
	ck_assert_str_eq(path, "/");
	(void)sd_bus_flush_close_unref(c);
	ck_assert_str_eq(server_submitted(s), "uid 0 gid 0 groups 0 undo 0 priority 1: [/x] [/y]");
	server_stop(s);
}
END_TEST

/* ---- bad input ---------------------------------------------------------------------------- */

static void expect_refused(sd_bus *c, sd_bus_message *m, const char *words)
{
	ck_assert_str_eq(send_message(c, m, NULL), "InvalidArgument");
	ck_assert_msg(strstr(call_error(), words), "\"%s\" is not in \"%s\"", words, call_error());
}

START_TEST(bad_names)
{
	static const struct {
		const char *name, *words;
	} bad[] = {
		{ "", "is empty" },
		{ ".", "no name" },
		{ "..", "no name" },
		{ "a/b", "slash" },
		{ "/", "slash" },
		{ "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		  "0123456789abcdef",
		  "255" },
	};
	_cleanup_close_ int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	sd_bus_message *m;

	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		m = submit_files(c, dir, 1, &bad[i].name, 1);
		ck_assert_int_ge(sd_bus_message_append(m, "a{sv}", 0), 0);
		expect_refused(c, m, bad[i].words);
	}
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(bad_descriptors)
{
	_cleanup_close_ int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	_cleanup_close_ int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	_cleanup_close_ int path = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	_cleanup_close_ int list = memfd_create("list", MFD_CLOEXEC);
	int not_directories[] = { file, null, sock, path, list };
	int not_lists[] = { dir, null, sock, path, dir };
	static const char *const name = "a";
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	sd_bus_message *m;

	for (size_t i = 0; i < ELEMENTSOF(not_directories); i++) {
		m = submit_files(c, not_directories[i], 1, &name, 1);
		ck_assert_int_ge(sd_bus_message_append(m, "a{sv}", 0), 0);
		expect_refused(c, m, "not a directory");
		ck_assert_str_eq(call(c, NULL, "SubmitLists", NULL, "a(hh)a{sv}", 1,
				      not_directories[i], list, 0),
				 "InvalidArgument");
		ck_assert_str_eq(
			call(c, NULL, "SubmitLists", NULL, "a(hh)a{sv}", 1, dir, not_lists[i], 0),
			"InvalidArgument");
		ck_assert_str_eq(call(c, NULL, "Restore", NULL, "ta{sv}", (uint64_t)1, 1,
				      "directory", "h", not_directories[i]),
				 "InvalidArgument");
	}
	ck_assert_str_eq(call(c, NULL, "SubmitLists", NULL, "a(hh)a{sv}", 1, dir, list, 0), "");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(bad_arguments)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	_cleanup_close_ int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);

#define REFUSED(member, ...)                                                                       \
	ck_assert_str_eq(call(c, NULL, member, NULL, __VA_ARGS__), "InvalidArgument")
	REFUSED("Submit", NULL);
	REFUSED("Submit", "s", "/x");
	REFUSED("Submit", "asa{sv}", 1, "/x", 0);
	REFUSED("Submit", "aaya{sv}", 0, 0);
	REFUSED("Submit", "aaya{sv}", 1, 0, 0);
	REFUSED("Submit", "aaya{sv}", 1, 1, 'x', 0);
	REFUSED("Submit", "aaya{sv}", 1, 1, '\0', 0);
	REFUSED("Submit", "aaya{sv}", 1, 4, '/', 'x', '\0', '\0', 0);
	REFUSED("Submit", "aaya{sv}", 1, 4, '/', '\0', 'x', '\0', 0);
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 1, "shoes", "b", 1);
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 1, "dry-run", "s", "yes");
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 1, "priority", "s", "urgent");
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 1, "undo-usec", "t", UINT64_MAX);
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 2, "undo-usec", "t", (uint64_t)1, "undo-usec", "t",
		(uint64_t)2);
	REFUSED("Submit", "aaya{sv}", 1, 1, '/', 1, "display", "aay", 1, 1, '/');
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 1, dir, 1, 0, 1, 'x', 1, "progress", "h", dir);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 0, 0, 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 0, 1, 0, 1, 'x', 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 1, dir, 1, 1, 1, 'x', 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 2, dir, dir, 1, 0, 1, 'x', 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 1, dir, 1, 0, 1, '\0', 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 1, dir, 1, 0, 3, 'x', '\0', '\0', 0);
	REFUSED("SubmitFiles", "aha(uay)a{sv}", 1, dir, 1, 0, 1, 'x', 1, "display", "aay", 2, 1,
		'a', 1, 'b');
	REFUSED("SubmitLists", "a(hh)a{sv}", 0, 0);
	REFUSED("Cancel", "at", 0);
	REFUSED("Cancel", "t", (uint64_t)1);
	REFUSED("SetPriority", "ats", 0, "low");
	REFUSED("SetPriority", "ats", 1, (uint64_t)1, "urgent");
	REFUSED("SetPriority", "at", 1, (uint64_t)1);
	REFUSED("SetDeadline", "att", 0, (uint64_t)1);
	REFUSED("SetDeadline", "atx", 1, (uint64_t)1, (int64_t)-1);
	REFUSED("ListJobs", "a{sv}", 1, "states", "as", 1, "asleep");
	REFUSED("ListJobs", "a{sv}", 1, "limit", "t", (uint64_t)1);
	REFUSED("ListJobs", "a{sv}", 1, "ids", "at", 0);
	REFUSED("Restore", "ta{sv}", (uint64_t)1, 1, "name", "ay", 1, 'x');
	REFUSED("Restore", "ta{sv}", (uint64_t)1, 2, "directory", "h", dir, "name", "ay", 2, '.',
		'.');
	REFUSED("Settle", "tt", (uint64_t)1, (uint64_t)1);
	REFUSED("GetJob", "s", "1");
#undef REFUSED
	ck_assert_str_eq(call(c, NULL, "Dance", NULL, NULL),
			 "org.freedesktop.DBus.Error.UnknownMethod");
	ck_assert_str_eq(call(c, "/org/reclaimd1/job/01", "Cancel", NULL, NULL),
			 "org.freedesktop.DBus.Error.UnknownObject");
	ck_assert_str_eq(call(c, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(too_many_names)
{
	static const char *names[100001];
	_cleanup_close_ int dir = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s);
	sd_bus_message *m;

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		names[i] = "a";
	m = submit_files(c, dir, 1, names, 100000);
	ck_assert_int_ge(sd_bus_message_append(m, "a{sv}", 0), 0);
	ck_assert_str_eq(send_message(c, m, NULL), "");
	m = submit_files(c, dir, 1, names, 100001);
	ck_assert_int_ge(sd_bus_message_append(m, "a{sv}", 0), 0);
	ck_assert_str_eq(send_message(c, m, NULL), "LimitExceeded");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

/* ---- others' jobs ------------------------------------------------------------------------- */

START_TEST(others_jobs_are_not_there)
{
	static const char *const on_manager[] = { "Cancel", "Pause", "Resume" };
	static const char *const on_job[] = { "Cancel", "Pause", "Resume" };
	static const uint64_t ids[] = { 1, 3, 77 };
	struct server *s = server_start(NULL);
	char path[64], words[64];
	sd_bus *c;

	become_user();
	c = client_open(s);
	become_root();
	for (size_t i = 0; i < ELEMENTSOF(ids); i++) {
		(void)snprintf(path, sizeof(path), "/org/reclaimd1/job/%u", (unsigned)ids[i]);
		(void)snprintf(words, sizeof(words), "there is no job %u", (unsigned)ids[i]);
#define HIDDEN(called)                                                                             \
	do {                                                                                       \
		ck_assert_str_eq(called, "NoSuchJob");                                             \
		ck_assert_str_eq(call_error(), words);                                             \
	} while (0)
		for (size_t k = 0; k < ELEMENTSOF(on_manager); k++)
			HIDDEN(call(c, NULL, on_manager[k], NULL, "at", 1, ids[i]));
		for (size_t k = 0; k < ELEMENTSOF(on_job); k++)
			HIDDEN(call(c, path, on_job[k], NULL, NULL));
		HIDDEN(call(c, NULL, "SetPriority", NULL, "ats", 1, ids[i], "high"));
		HIDDEN(call(c, path, "SetDeadline", NULL, "t", (uint64_t)1));
		HIDDEN(call(c, NULL, "GetJob", NULL, "t", ids[i]));
		HIDDEN(call(c, NULL, "Restore", NULL, "ta{sv}", ids[i], 0));
		HIDDEN(call(c, path, "Restore", NULL, "a{sv}", 0));
		HIDDEN(call(c, path, "GetProblems", NULL, "tu", (uint64_t)0, 9));
		HIDDEN(call(c, path, "GetEntries", NULL, "tu", (uint64_t)0, 9));
		HIDDEN(call(c, path, "GetKept", NULL, "tu", (uint64_t)0, 9));
		HIDDEN(properties(c, path, "GetAll", "org.reclaimd1.Job", NULL, NULL));
		HIDDEN(properties(c, path, "Get", "org.reclaimd1.Job", "State", NULL));
#undef HIDDEN
	}
	ck_assert_str_eq(call(c, JOB2, "Cancel", NULL, NULL), "");
	ck_assert_str_eq(call(c, NULL, "ResumeAll", NULL, NULL), "NotAuthorized");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

static int count_signal(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	(void)error;
	(void)m;
	(*(unsigned *)userdata)++;
	return 0;
}

static void process_until(sd_bus *c, const unsigned *n, unsigned wanted)
{
	while (*n < wanted) {
		int r = sd_bus_process(c, NULL);

		ck_assert_int_ge(r, 0);
		if (r == 0)
			ck_assert_int_gt(sd_bus_wait(c, TIMEOUT_USEC), 0);
	}
}

START_TEST(signals_reach_those_who_may_see)
{
	struct server *s = server_start(NULL);
	unsigned root_jobs = 0, user_jobs = 0, paused = 0, foreign = 0;
	sd_bus *root = client_open(s), *user;

	become_user();
	user = client_open(s);
	become_root();
	/* Signals in between reach no client that has not been let in yet: so both have called. */
	ck_assert_str_eq(call(root, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	ck_assert_str_eq(call(user, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	ck_assert_int_ge(sd_bus_match_signal(root, NULL, NULL, "/org/reclaimd1",
					     "org.reclaimd1.Manager", NULL, count_signal,
					     &root_jobs),
			 0);
	ck_assert_int_ge(sd_bus_match_signal(user, NULL, NULL, "/org/reclaimd1",
					     "org.reclaimd1.Manager", NULL, count_signal,
					     &user_jobs),
			 0);
	ck_assert_int_ge(
		sd_bus_match_signal(user, NULL, NULL, JOB1, NULL, NULL, count_signal, &foreign), 0);
	ck_assert_int_ge(sd_bus_match_signal(user, NULL, NULL, "/org/reclaimd1",
					     "org.freedesktop.DBus.Properties", NULL, count_signal,
					     &paused),
			 0);
	ck_assert_str_eq(call(root, NULL, "Reload", NULL, NULL), "");
	process_until(root, &root_jobs, 4);
	process_until(user, &paused, 1); /* comes last */
	ck_assert_uint_eq(user_jobs, 2);
	ck_assert_uint_eq(foreign, 0);
	(void)sd_bus_flush_close_unref(user);
	(void)sd_bus_flush_close_unref(root);
	server_stop(s);
}
END_TEST

/* ---- answers that come later -------------------------------------------------------------- */

START_TEST(history_is_answered_later)
{
	struct server *s = server_start(NULL);
	sd_bus *c = client_open(s), *other = client_open(s);
	_cleanup_message_ sd_bus_message *m = NULL;
	unsigned n = 0;

	ck_assert_int_ge(sd_bus_call_method_async(c, NULL, "org.reclaimd1", JOB3,
						  "org.freedesktop.DBus.Properties", "GetAll",
						  count_signal, &n, "s", "org.reclaimd1.Job"),
			 0);
	ck_assert_int_ge(sd_bus_flush(c), 0);
	/* What comes after it on this connection is answered first. */
	ck_assert_str_eq(call(c, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	ck_assert_uint_eq(n, 0);
	ck_assert_str_eq(call(other, NULL, "ResumeAll", NULL, NULL), "");
	process_until(c, &n, 1);
	(void)sd_bus_flush_close_unref(c);
	(void)sd_bus_flush_close_unref(other);
	server_stop(s);
}
END_TEST

/* Leaves calls behind that have not been answered. */
static void ask_and_go(struct server *s)
{
	sd_bus *c = client_open(s);

	ck_assert_int_ge(sd_bus_call_method_async(c, NULL, "org.reclaimd1", "/org/reclaimd1",
						  "org.reclaimd1.Manager", "Pause", NULL, NULL,
						  "at", 1, (uint64_t)1),
			 0);
	ck_assert_int_ge(sd_bus_call_method_async(c, NULL, "org.reclaimd1", "/org/reclaimd1",
						  "org.reclaimd1.Manager", "Submit", NULL, NULL,
						  "aaya{sv}", 1, 2, '/', 'x', 1, "undo-usec", "t",
						  (uint64_t)7),
			 0);
	ck_assert_int_ge(sd_bus_call_method_async(c, NULL, "org.reclaimd1", JOB3,
						  "org.freedesktop.DBus.Properties", "GetAll", NULL,
						  NULL, "s", ""),
			 0);
	ck_assert_str_eq(call(c, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	(void)sd_bus_close_unref(c);
}

START_TEST(clients_that_have_gone)
{
	struct server *s = server_start(NULL);
	sd_bus *c;

	for (unsigned i = 0; i < 3; i++)
		ask_and_go(s);
	c = client_open(s);
	ck_assert_str_eq(call(c, NULL, "ResumeAll", NULL, NULL), "");
	ck_assert_str_eq(call(c, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

START_TEST(answers_after_the_bus)
{
	struct server *s = server_start(NULL);

	ask_and_go(s);
	server_stop(s);
}
END_TEST

/* ---- limits ------------------------------------------------------------------------------- */

START_TEST(one_users_connections)
{
	struct server *s = server_start(NULL);
	sd_bus *clients[64], *more, *root;

	become_user();
	for (size_t i = 0; i < ELEMENTSOF(clients); i++) {
		clients[i] = client_open(s);
		ck_assert_str_eq(call(clients[i], NULL, "ListJobs", NULL, "a{sv}", 0), "");
	}
	more = client_open(s);
	ck_assert_str_ne(call(more, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	(void)sd_bus_close_unref(more);
	become_root();
	root = client_open(s);
	ck_assert_str_eq(call(root, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	(void)sd_bus_flush_close_unref(root);
	for (size_t i = 0; i < ELEMENTSOF(clients); i++)
		(void)sd_bus_flush_close_unref(clients[i]);
	server_stop(s);
}
END_TEST

START_TEST(clients_made_for_a_bus)
{
	struct server *s = server_start(NULL);
	char address[PATH_MAX];
	sd_bus *c = NULL;

	(void)snprintf(address, sizeof(address), "unix:path=%s", server_socket(s));
	ck_assert_int_ge(sd_bus_new(&c), 0);
	ck_assert_int_ge(sd_bus_set_address(c, address), 0);
	ck_assert_int_ge(sd_bus_set_bus_client(c, true), 0);
	ck_assert_int_ge(sd_bus_start(c), 0);
	ck_assert_str_eq(call(c, NULL, "ListJobs", NULL, "a{sv}", 0), "");
	ck_assert_int_ge(
		sd_bus_add_match(c, NULL, "type='signal',sender='org.reclaimd1'", NULL, NULL), 0);
	(void)sd_bus_flush_close_unref(c);
	server_stop(s);
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		jobs_are_told,
		spools_are_told,
		policies_are_told,
		long_lists_come_in_parts,
		names_arrive,
		changes_arrive,
		a_dry_run_has_no_object,
		bad_names,
		bad_descriptors,
		bad_arguments,
		too_many_names,
		others_jobs_are_not_there,
		signals_reach_those_who_may_see,
		history_is_answered_later,
		clients_that_have_gone,
		answers_after_the_bus,
		one_users_connections,
		clients_made_for_a_bus,
	};

	if (geteuid() != 0) {
		(void)fputs("skipped: only root can be another user\n", stderr);
		return 77;
	}
	return run_case("bus", tests, ELEMENTSOF(tests));
}
