/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fleet-call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macros.h"
#include "base/program.h"
#include "config/config.h"
#include "ctl/output/messages.h"

#define PROGRAM "reclaim-fleet"
#define WORDS_MOST 8
#define PRINTS_MOST MiB(64)

/* Not a word of the command line, which all users can see: it may have a password. */
#define DATABASE_VARIABLE "RECLAIM_FLEET_DATABASE"

/* Starts it with a pipe as its output and its errors. */
static int start(const char *path, const char *const *words, int pipe_end, pid_t *ret)
{
	const char *argv[WORDS_MOST + 2] = { PROGRAM };
	posix_spawn_file_actions_t files;
	int r;

	for (size_t i = 0; words[i] && i < WORDS_MOST; i++)
		argv[i + 1] = words[i];
	r = posix_spawn_file_actions_init(&files);
	if (r != 0)
		return -r;
	r = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	for (int fd = STDOUT_FILENO; r == 0 && fd <= STDERR_FILENO; fd++)
		r = posix_spawn_file_actions_adddup2(&files, pipe_end, fd);
	if (r == 0)
		r = posix_spawn(ret, path, &files, NULL, (char *const *)argv, environ);
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* Runs it. Returns its exit status with what it has printed, or a negative errno. */
static int run(const char *path, const char *const *words, char **ret)
{
	_cleanup_close_ int from = -1, to = -1;
	int ends[2], status = 0, r;
	ssize_t n;
	pid_t pid = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	from = ends[0];
	to = ends[1];
	r = start(path, words, to, &pid);
	fd_closep(&to);
	if (r < 0)
		return r;
	n = fd_read_all(from, PRINTS_MOST, ret);
	/* If it prints more than that, it ends by it. */
	fd_closep(&from);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n < 0)
		return (int)n;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EIO;
}

/* "reclaim-fleet: WHY\n" */
static void why_take(struct safe_text *why, const char *printed)
{
	const char *text = strncmp(printed, PROGRAM ": ", strlen(PROGRAM ": ")) == 0
				   ? printed + strlen(PROGRAM ": ")
				   : printed;

	safe_text_format(why, "%.*s", (int)strcspn(text, "\n"), text);
}

int fleet_call(const char *database, const char *const *words, json_t **ret, struct safe_text *why)
{
	_cleanup_free_ char *printed = NULL;
	char path[PATH_MAX];
	json_t *v;
	int r = program_find(PROGRAM, path, sizeof(path));

	if (r < 0) {
		safe_text_format(why,
				 "reclaim-fleet is not installed, which speaks to the database: "
				 "expected the package reclaimd-fleet, or a build with libpq");
		return -ENOENT;
	}
	r = setenv(DATABASE_VARIABLE, database, 1) < 0 ? -errno : run(path, words, &printed);
	if (r < 0) {
		safe_text_format(why, "reclaim-fleet cannot be run: %s", strerror(-r));
		return r;
	}
	if (r > 0) {
		why_take(why, printed ? printed : "");
		return -EIO;
	}
	v = json_loads(printed ? printed : "", JSON_REJECT_DUPLICATES, NULL);
	if (!v) {
		safe_text_format(why,
				 "the database answers what was not asked: its schema reclaimd "
				 "was altered");
		return -EBADMSG;
	}
	*ret = v;
	return 0;
}

/* ---- as it is configured -------------------------------------------------------------------- */

/* Texts that the database has can be anything; makes them safe to show. */
static void texts_escape(json_t *v)
{
	const char *key;
	json_t *member;
	size_t i;

	json_object_foreach(v, key, member) {
		if (json_is_string(member)) {
			json_t *safe = json_words(json_string_value(member));

			(void)json_string_set(member, json_string_value(safe));
			json_decref(safe);
		}
		texts_escape(member);
	}
	json_array_foreach(v, i, member)
		texts_escape(member);
}

static void error_tell(const struct config_error *e, void *userdata)
{
	(void)userdata;
	if (!e->is_warning)
		config_error_print(e);
}

/* Returns 0 or an exit status. */
static int config_read(const struct options *o, struct config **ret)
{
	const char *dir = o->configuration_dir;
	int r = config_load(ret, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR, error_tell,
			    NULL);

	if (r >= 0)
		return 0;
	complain("configuration", "%s",
		 r == -EBADMSG ? "has errors, so the fleet is not known" : strerror(-r));
	return EXIT_FAILED;
}

int fleet_ask(const struct options *o, const char *command, json_t **ret)
{
	const char *const words[] = { command, NULL };

	return fleet_ask_words(o, words, ret);
}

int fleet_own_name(const struct options *o, char buf[static FLEET_NAME_SIZE])
{
	struct config *config = NULL;
	int r = config_read(o, &config);

	if (r)
		return r;
	if (!config->fleet_database || config_fleet_name(config, buf) < 0) {
		complain("fleet", "this host is in no fleet: see fleet in reclaimd.yaml(5)");
		r = EXIT_FAILED;
	}
	config_free(config);
	return r;
}

int fleet_ask_words(const struct options *o, const char *const *words, json_t **ret)
{
	struct config *config = NULL;
	struct safe_text why;
	json_t *v = NULL;
	int r = config_read(o, &config);

	if (r)
		return r;
	if (!o->database && !config->fleet_database)
		safe_text_format(&why,
				 "this host is in no fleet: see fleet in reclaimd.yaml(5), or give "
				 "--database=");
	else
		(void)fleet_call(o->database ? o->database : config->fleet_database, words, &v,
				 &why);
	config_free(config);
	if (!v) {
		complain("fleet", "%s", why.line);
		return EXIT_FAILED;
	}
	if (o->json == JSON_OFF)
		texts_escape(v);
	*ret = v;
	return 0;
}
