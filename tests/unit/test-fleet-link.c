/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The program that speaks to the database (src/daemon/fleet/fleet-link.h): whatever it does, it is
 * started again, and nothing waits for it. */
#include "daemon/fleet/fleet-link.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"
#include "base/macros.h"

static struct {
	char dir[64], program[80], how[128];
	sd_event *event;
	struct fleet_link *link;
	unsigned began, ended, reports;
	unsigned say; /* messages, when it has begun */
	bool free_in_report;
} w;

static void on_began(void *userdata)
{
	(void)userdata;
	w.began++;
	for (unsigned i = 0; i < w.say; i++) {
		struct wire_out *o = fleet_link_say(w.link, FLEET_RECALL);

		ck_assert_ptr_nonnull(o);
		fleet_put(o, &(struct recall_message){ i + 1 });
		fleet_link_send(w.link);
	}
}

static int on_report(struct wire_in *in, void *userdata)
{
	struct recall_message m;

	(void)userdata;
	w.reports++;
	if (w.free_in_report) {
		w.link = fleet_link_free(w.link);
		return 0;
	}
	/* The program says back what it was told. */
	return fleet_get(in, &m);
}

static void on_ended(const char *how, void *userdata)
{
	(void)userdata;
	w.ended++;
	(void)snprintf(w.how, sizeof(w.how), "%s", how);
}

static const struct fleet_link_callbacks callbacks = { on_began, on_report, on_ended };

#define UNTIL(condition)                                                                           \
	while (!(condition)) {                                                                     \
		int run_ = sd_event_run(w.event, 60 * USEC_PER_SEC);                               \
		ck_assert_msg(run_ > 0, "%s: nothing happens", #condition);                        \
	}

/* It ends with its socket, or soon: as reclaim-fleet does. */
static void begin(const char *script)
{
	char text[256];

	(void)snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);
	file_make(w.dir, "program", text);
	ck_assert_int_eq(chmod(w.program, 0755), 0);
	ck_assert_int_eq(fleet_link_new(&w.link, w.event, w.program, &callbacks, NULL), 0);
	ck_assert_ptr_null(fleet_link_say(w.link, FLEET_RECALL));
}

static void set_up(void)
{
	sigset_t signals;

	memset(&w, 0, sizeof(w));
	scratch_make(w.dir, sizeof(w.dir));
	(void)snprintf(w.program, sizeof(w.program), "%s/program", w.dir);
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGCHLD);
	(void)sigaddset(&signals, SIGPIPE);
	ck_assert_int_eq(sigprocmask(SIG_BLOCK, &signals, NULL), 0);
	ck_assert_int_ge(sd_event_new(&w.event), 0);
}

static void tear_down(void)
{
	w.link = fleet_link_free(w.link);
	w.event = sd_event_unref(w.event);
	scratch_remove(w.dir);
}

START_TEST(one_that_ends_is_started_again)
{
	begin("exit 7");
	UNTIL(w.ended == 2);
	ck_assert_str_eq(w.how, "ended with status 7");
	ck_assert_uint_eq(w.began, 2);
}
END_TEST

START_TEST(one_that_cannot_be_started)
{
	ck_assert_int_eq(fleet_link_new(&w.link, w.event, "/nowhere", &callbacks, NULL), 0);
	UNTIL(w.ended == 2);
	ck_assert_str_eq(w.how, strerror(ENOENT));
	ck_assert_uint_eq(w.began, 0);
}
END_TEST

START_TEST(one_that_closes_its_socket_is_ended)
{
	begin("exec 3>&-; exec sleep 3");
	UNTIL(w.ended == 1);
	ck_assert_str_eq(w.how, "closed its socket");
}
END_TEST

START_TEST(one_that_makes_no_sense_is_ended)
{
	begin("printf nonsense >&3; exec cat <&3");
	UNTIL(w.ended == 1);
	ck_assert_str_eq(w.how, "said what makes no sense");
	ck_assert_uint_eq(w.reports, 0);
}
END_TEST

START_TEST(what_is_said_is_heard)
{
	w.say = 2;
	begin("for i in 1 2; do dd bs=65536 count=1 <&3 >&3 2>/dev/null; done; exec cat <&3");
	UNTIL(w.reports == 2);
	ck_assert_uint_eq(w.ended, 0);
}
END_TEST

START_TEST(it_can_be_freed_by_what_it_says)
{
	w.say = 1;
	w.free_in_report = true;
	begin("dd bs=65536 count=1 <&3 >&3 2>/dev/null; exec cat <&3");
	UNTIL(w.reports == 1);
	ck_assert_ptr_null(w.link);
}
END_TEST

/* More than it may have waiting. */
START_TEST(one_that_takes_nothing_is_ended)
{
	w.say = 20000;
	begin("exec sleep 3");
	UNTIL(w.ended == 1);
	ck_assert_uint_eq(w.began, 1);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		one_that_ends_is_started_again,
		one_that_cannot_be_started,
		one_that_closes_its_socket_is_ended,
		one_that_makes_no_sense_is_ended,
		what_is_said_is_heard,
		it_can_be_freed_by_what_it_says,
		one_that_takes_nothing_is_ended,
	};
	TCase *tc = tcase_create("fleet-link");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	return run_tests(suite_create("fleet-link"), tc, tests, ELEMENTSOF(tests));
}
