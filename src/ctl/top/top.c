/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaim-top, which reclaimctl top becomes (top-start.c): what the daemon does now, on the whole
 * screen, and keys to act on it.
 *
 *   daemon --metric-families.c, job-list.c--> top-model.c --> top-draw.c --> terminal
 *     ^-------------------- top.c: keys, answers ------------------------'
 *
 * A daemon that ends is waited for. What is said on standard error meanwhile is caught and becomes
 * the message on the screen. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <ncurses.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "ctl/output/messages.h"
#include "top-draw.h"
#include "ctl/output/screen.h"
#include "base/fd.h"

/* More than any screen shows of one state. */
#define JOBS_MOST 500

struct top {
	const struct options *o;
	struct client *client; /* NULL: it has ended, and is looked for */
	SCREEN *terminal;
	struct top_model model;
	struct top_view view;
	char message[512];
	char doing[96]; /* what is said when the daemon has done it */
	uint64_t next_usec;
	uint64_t selected_id, asked_id; /* asked_id: whether that one is to be cancelled */
	int signals, errors, stderr_before;
	bool quit;
};

static void say(struct top *t, bool bad, const char *format, ...) _printf_(3, 4);

static void say(struct top *t, bool bad, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(t->message, sizeof(t->message), format, ap);
	va_end(ap);
	t->view.bad = bad;
	t->view.asks = false;
}

/* ---- standard error ------------------------------------------------------------------------ */

static void errors_catch(struct top *t)
{
	t->stderr_before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	t->errors = memfd_create("errors", MFD_CLOEXEC);
	if (t->stderr_before >= 0 && t->errors >= 0)
		(void)dup2(t->errors, STDERR_FILENO);
}

/* The first line that was said becomes the message. */
static void errors_show(struct top *t)
{
	char text[sizeof(t->message)];
	ssize_t n = t->errors >= 0 ? pread(t->errors, text, sizeof(text) - 1, 0) : 0;

	if (n <= 0 || ftruncate(t->errors, 0) < 0 || lseek(t->errors, 0, SEEK_SET) < 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	say(t, /* bad= */ true, "%s", text);
}

static void errors_release(struct top *t)
{
	if (t->stderr_before >= 0)
		(void)dup2(t->stderr_before, STDERR_FILENO);
	fd_closep(&t->stderr_before);
	fd_closep(&t->errors);
}

/* ---- the daemon ---------------------------------------------------------------------------- */

static void disconnected(struct top *t)
{
	t->client = client_free(t->client);
	say(t, /* bad= */ true, "reclaimd has ended; waiting for it to come back");
}

static void select_here(struct top *t)
{
	t->selected_id = t->model.n_jobs > 0 ? t->model.jobs[t->view.selected].line->id : 0;
}

static void update(struct top *t)
{
	struct job_list lists[TOP_STATES] = { 0 };
	struct metrics metrics = { 0 };
	int r;

	if (!t->client) {
		t->client = client_try(t->o, /* socket_first= */ false);
		if (!t->client)
			return;
		t->client->outlives = true;
		say(t, /* bad= */ false, "reclaimd is there again");
	}
	r = metrics_get(t->client, &metrics);
	for (size_t s = 0; r == 0 && s < TOP_STATES; s++) {
		const struct job_wish wish = { .states = top_state_names[s], .limit = JOBS_MOST };

		r = job_list_get(t->client, &wish, &lists[s]);
	}
	if (r == 0 && top_model_update(&t->model, &metrics, lists, now_usec()) < 0)
		say(t, /* bad= */ true, "out of memory");
	else if (r == CLIENT_LOST)
		disconnected(t);
	metrics_done(&metrics);
	for (size_t s = 0; s < TOP_STATES; s++)
		job_list_done(&lists[s]);
	t->view.selected = top_model_place(&t->model, t->selected_id, t->view.selected);
	select_here(t);
}

static int on_answer(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
	const sd_bus_error *e = sd_bus_message_get_error(m);
	_cleanup_free_ char *text = e ? screen_line(e->message ? e->message : e->name) : NULL;
	struct top *t = userdata;

	(void)ret_error;
	if (e)
		say(t, /* bad= */ true, "%s", text ? text : "out of memory");
	else
		say(t, /* bad= */ false, "%s", t->doing);
	t->next_usec = 0;
	return 0;
}

/* Asks for it; the answer may take its time. id 0: of all jobs. */
static void act(struct top *t, const char *member, uint64_t id, const char *done)
{
	sd_bus_message *m = client_message(t->client, MANAGER_PATH, MANAGER_INTERFACE, member);
	int r = m && id > 0 ? sd_bus_message_append(m, "at", 1, id) : 0;

	if (id == 0) {
		(void)snprintf(t->doing, sizeof(t->doing), "%s", done);
	} else {
		(void)snprintf(t->doing, sizeof(t->doing), "Job %" PRIu64 " %s", id, done);
		say(t, /* bad= */ false, "Job %" PRIu64 ": ...", id);
	}
	if (m && r >= 0)
		r = sd_bus_call_async(t->client->way.bus, NULL, m, on_answer, t, 0);
	if (r < 0)
		say(t, /* bad= */ true, "%s: %s", member, strerror(-r));
	sd_bus_message_unref(m);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void move_by(struct top *t, int by)
{
	size_t last = t->model.n_jobs > 0 ? t->model.n_jobs - 1 : 0;
	size_t at = t->view.selected;

	if (by < 0)
		at -= MIN(at, (size_t)-by);
	else
		at = MIN(at + (size_t)by, last);
	t->view.selected = at;
	select_here(t);
}

static void key_pressed(struct top *t, int key)
{
	static const struct {
		int key;
		bool all;
		const char *member, *done;
	} acts[] = {
		{ 'p', false, "Pause", "paused" },
		{ 'r', false, "Resume", "resumed" },
		{ 'P', true, "PauseAll", "Everything is paused" },
		{ 'R', true, "ResumeAll", "Everything goes on" },
	};

	if (t->view.asks) {
		say(t, /* bad= */ false, "%s", "");
		if (key == 'y' && t->client)
			act(t, "Cancel", t->asked_id, "cancelled");
		return;
	}
	for (size_t i = 0; i < ELEMENTSOF(acts); i++)
		if (key == acts[i].key && t->client && (acts[i].all || t->selected_id > 0))
			act(t, acts[i].member, acts[i].all ? 0 : t->selected_id, acts[i].done);
	if (key == 'q') {
		t->quit = true;
	} else if (key == KEY_UP || key == 'k') {
		move_by(t, -1);
	} else if (key == KEY_DOWN || key == 'j') {
		move_by(t, 1);
	} else if (key == KEY_PPAGE) {
		move_by(t, -(LINES / 2));
	} else if (key == KEY_NPAGE) {
		move_by(t, LINES / 2);
	} else if (key == 'c' && t->selected_id > 0) {
		/* What is selected may be another one by the time of the answer. */
		t->asked_id = t->selected_id;
		say(t, /* bad= */ false, "Cancel job %" PRIu64 "?", t->asked_id);
		t->view.asks = true;
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Until a key, an answer, a signal, or the time of the next update. */
static void wait_for(const struct top *t)
{
	uint64_t now = now_usec();
	int timeout = t->next_usec > now ? (int)((t->next_usec - now) / USEC_PER_MSEC) + 1 : 0;
	int bus = t->client ? sd_bus_get_fd(t->client->way.bus) : -1;
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = t->signals, .events = POLLIN },
		{ .fd = bus, .events = POLLIN },
	};

	/* A changed size interrupts it, and is a key. */
	(void)poll(fds, ELEMENTSOF(fds), timeout);
}

static void turn(struct top *t)
{
	struct signalfd_siginfo info;
	uint64_t now = now_usec();
	int key, r = 1;

	if (now >= t->next_usec) {
		update(t);
		t->next_usec = now + MAX(t->o->interval_usec, USEC_PER_MSEC * 50);
	}
	while (t->client && r > 0) {
		r = sd_bus_process(t->client->way.bus, NULL);
		if (r < 0)
			disconnected(t);
	}
	errors_show(t);
	t->view.message = t->message;
	top_screen_draw(&t->model, &t->view);
	wait_for(t);
	while ((key = getch()) >= 0)
		key_pressed(t, key);
	if (t->signals >= 0 && read(t->signals, &info, sizeof(info)) > 0)
		t->quit = true;
}

static int signals_open(sigset_t *ret_before)
{
	sigset_t all;

	sigemptyset(&all);
	sigaddset(&all, SIGINT);
	sigaddset(&all, SIGTERM);
	sigaddset(&all, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &all, ret_before);
	return signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int top_run(struct top *t)
{
	sigset_t before;

	if (top_screen_open(&t->terminal) < 0) {
		complain("top", "needs a terminal: without one, see reclaimctl status");
		return EXIT_FAILED;
	}
	t->signals = signals_open(&before);
	errors_catch(t);
	while (!t->quit)
		turn(t);
	errors_release(t);
	(void)endwin();
	delscreen(t->terminal);
	fd_closep(&t->signals);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	struct top t = { .signals = -1, .errors = -1, .stderr_before = -1 };
	struct options o;
	int r;

	screen_locale();
	r = options_parse(&o, VERB_TOP, argc, argv);
	t.o = &o;
	if (r == 0)
		r = client_open(&t.client, &o, /* socket_first= */ false);
	if (r)
		return r;
	t.client->outlives = true;
	r = top_run(&t);
	client_free(t.client);
	top_model_done(&t.model);
	return r;
}
