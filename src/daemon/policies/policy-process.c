/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "policy-process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"
#include "config/config.h"

#define WORDS_MOST 24
#define READ_BYTES KiB(64)

struct policy_process {
	struct context *context;
	policy_process_ended_t ended;
	void *userdata;
	sd_event_source *child, *reading;
	int fd; /* what it says; -1: that has ended, or is not read */
	char *output;
	size_t len, size;
	bool exited, went_well, too_long;
};

/* ---- starting ----------------------------------------------------------------------------- */

/* Words of a command line; those that are made are freed. */
struct words {
	char *v[WORDS_MOST + 1];
	char *made[WORDS_MOST];
	size_t n, n_made;
	bool failed;
};

static void say(struct words *w, const char *word)
{
	w->failed = w->failed || w->n == WORDS_MOST;
	if (!w->failed)
		w->v[w->n++] = (char *)word;
}

static void say_made(struct words *w, const char *first, const char *second, const char *third)
{
	char *word;

	if (asprintf(&word, "%s%s%s", first, second, third) < 0)
		w->failed = true;
	else if (w->n_made < WORDS_MOST)
		say(w, w->made[w->n_made++] = word);
}

static void words_done(struct words *w)
{
	while (w->n_made > 0)
		free(w->made[--w->n_made]);
}

static bool by_units(const struct daemon_options *o)
{
	return !o->no_bus && strcmp(o->config_dir, CONFIG_DIR) == 0 && sd_booted() > 0;
}

/* As the unit reclaimd-policy@.service has it, but for what only a run needs. */
static void say_plan_unit(struct words *w)
{
	static const char *const words[] = {
		"systemd-run",
		"--quiet",
		"--no-ask-password",
		"--pipe",
		"--wait",
		"--collect",
		"--slice=reclaimd.slice",
		"--property=CapabilityBoundingSet=CAP_DAC_READ_SEARCH CAP_SYS_PTRACE",
		"--property=NoNewPrivileges=yes",
		"--property=RestrictNamespaces=yes",
	};

	for (size_t i = 0; i < ELEMENTSOF(words); i++)
		say(w, words[i]);
}

static void say_all(struct words *w, const struct daemon_options *o, const char *name, bool run)
{
	bool units = by_units(o);

	if (units && run) {
		say(w, "systemctl");
		say(w, "--no-ask-password");
		say(w, "start");
		say_made(w, "reclaimd-policy@", name, ".service");
		return;
	}
	if (units)
		say_plan_unit(w);
	say(w, o->reclaimctl);
	say(w, "policy");
	say(w, run ? "run" : "plan");
	say(w, run ? "--quiet" : "--json=short");
	say_made(w, "--state-directory=", o->state_dir, "");
	if (run) {
		/* A run ends when the space that it gained is known. */
		say(w, "--wait");
		say_made(w, "--runtime-directory=", o->runtime_dir, "");
	}
	if (strcmp(o->config_dir, CONFIG_DIR) != 0)
		say_made(w, "--configuration-directory=", o->config_dir, "");
	say(w, "--");
	say(w, name);
}

/* As the loop has signals blocked, they are let through again. stdout_fd -1: ours. */
static int spawn(pid_t *ret, char *const *words, int stdout_fd)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r = posix_spawnattr_init(&attr);

	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0) {
		(void)posix_spawnattr_destroy(&attr);
		return -r;
	}
	(void)sigemptyset(&none);
	r = posix_spawnattr_setsigmask(&attr, &none);
	if (r == 0)
		r = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	if (r == 0 && stdout_fd >= 0)
		r = posix_spawn_file_actions_adddup2(&actions, stdout_fd, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawnp(ret, words[0], &actions, &attr, words, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)posix_spawnattr_destroy(&attr);
	return -r;
}

/* ---- what it says, and its end ------------------------------------------------------------ */

/* When it has exited, and all that it said is read. */
static void check_end(struct policy_process *p)
{
	if (!p->exited || p->fd >= 0)
		return;
	if (p->output)
		p->output[p->len] = '\0';
	p->ended(p->went_well,
		 p->too_long ? NULL
		 : p->output ? p->output
			     : "",
		 p->len, p->userdata);
}

static int on_exited(sd_event_source *source, const siginfo_t *si, void *userdata)
{
	struct policy_process *p = userdata;

	(void)source;
	p->child = sd_event_source_disable_unref(p->child);
	p->exited = true;
	p->went_well = si->si_code == CLD_EXITED && si->si_status == 0;
	check_end(p);
	return 0;
}

static void close_output(struct policy_process *p)
{
	p->reading = sd_event_source_disable_unref(p->reading);
	fd_closep(&p->fd);
	check_end(p);
}

static int on_output(sd_event_source *source, int fd, uint32_t events, void *userdata)
{
	struct policy_process *p = userdata;
	ssize_t n = -1;

	(void)source;
	(void)events;
	errno = ENOMEM;
	if (array_reserve(&p->output, &p->size, p->len + READ_BYTES + 1, 1) >= 0)
		n = read(fd, p->output + p->len, READ_BYTES);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		p->len += (size_t)n;
	/* Its next word is its last: nothing reads it any more. */
	p->too_long = p->too_long || n < 0 || p->len > POLICY_PLAN_BYTES_MOST;
	if (n <= 0 || p->too_long)
		close_output(p);
	return 0;
}

static int start(struct policy_process *p, const char *name, bool run)
{
	_cleanup_close_ int ours = -1, its = -1;
	struct words w = { 0 };
	int pair[2], r = 0;
	pid_t pid = 0;

	if (!run) {
		if (pipe2(pair, O_CLOEXEC) < 0)
			return -errno;
		ours = pair[0];
		its = pair[1];
		if (fcntl(ours, F_SETFL, O_NONBLOCK) < 0)
			return -errno;
	}
	say_all(&w, &p->context->o, name, run);
	r = w.failed ? -ENOMEM : spawn(&pid, w.v, its);
	words_done(&w);
	if (r < 0)
		return r;
	r = sd_event_add_child(p->context->event, &p->child, pid, WEXITED, on_exited, p);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	(void)sd_event_source_set_description(p->child, "policy");
	(void)sd_event_source_set_child_process_own(p->child, true);
	p->fd = fd_take(&ours);
	return run ? 0
		   : sd_event_add_io(p->context->event, &p->reading, p->fd, EPOLLIN, on_output, p);
}

int policy_process_new(struct policy_process **ret, struct context *c, const char *name, bool run,
		       policy_process_ended_t ended, void *userdata)
{
	struct policy_process *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct policy_process){
		.context = c, .ended = ended, .userdata = userdata, .fd = -1
	};
	r = start(p, name, run);
	if (r < 0)
		(void)policy_process_free(p);
	else
		*ret = p;
	return r;
}

struct policy_process *policy_process_free(struct policy_process *p)
{
	if (!p)
		return NULL;
	(void)sd_event_source_disable_unref(p->reading);
	(void)sd_event_source_disable_unref(p->child);
	fd_closep(&p->fd);
	free(p->output);
	free(p);
	return NULL;
}
