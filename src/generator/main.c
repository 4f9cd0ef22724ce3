/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimd-generator, a systemd.generator(7): each policy with a schedule becomes a timer unit,
 * reclaimd-policy@NAME.timer, that starts reclaimd-policy@NAME.service, a template that is
 * installed; and the schedule of trims reclaimd-trim-scheduled.timer, likewise, and that of a
 * single filesystem reclaimd-trim-scheduled@PATH.timer. Run by the service manager early at boot
 * and whenever it reloads; what it writes is gone before it runs again, and timers of the same
 * names that are installed, and never elapse, take its place. A configuration that is wrong makes
 * no timers: the manager logs what is said about it.
 *
 * It is a user generator, too: the service manager of a user gets the timers of the policies that
 * are this user's own. Root's are those of the system. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/config.h"
#include "base/escape.h"
#include "base/fd.h"

#define WANTS "timers.target.wants"
/* As long as a file's. */
#define UNIT_NAME_MOST CONFIG_TRIM_TIMER_MOST
/* "reclaimd-policy@", a name of a policy, ".timer" */
#define POLICY_NAME_MOST 96

static _printf_(1, 2) void say(const char *format, ...)
{
	struct safe_text t;
	va_list ap;

	va_start(ap, format);
	safe_text_formatv(&t, format, ap);
	va_end(ap);
	safe_text_print("reclaimd-generator", &t);
}

static void on_complaint(const struct config_error *e, void *userdata)
{
	(void)userdata;
	say("%s:%u:%u: %s%s", e->file, e->line, e->column, e->is_warning ? "warning: " : "",
	    e->text);
}

/* A percent sign would begin a specifier. */
static void value_write(FILE *f, const char *key, const char *value)
{
	(void)fprintf(f, "%s=", key);
	for (; *value; value++)
		(void)fprintf(f, *value == '%' ? "%%%%" : "%c", *value);
	(void)fputc('\n', f);
}

/* The timer, and the link that starts it with all others. */
static int timer_make(int dirfd, const char *unit, const char *description,
		      const struct config_place *place, const char *schedule, const char *further)
{
	char link[sizeof(WANTS) + UNIT_NAME_MOST], target[UNIT_NAME_MOST + 3];
	_cleanup_close_ int fd = -1;
	bool failed;
	FILE *f;

	(void)snprintf(link, sizeof(link), WANTS "/%s", unit);
	(void)snprintf(target, sizeof(target), "../%s", unit);
	fd = openat(dirfd, unit, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f)
		return -errno;
	(void)fd_take(&fd);
	(void)fprintf(f,
		      "# Made by reclaimd-generator: change the configuration of reclaimd, not "
		      "this.\n[Unit]\nDescription=%s\n"
		      "Documentation=man:reclaimd.yaml(5)\n",
		      description);
	if (text_is_safe(place->file))
		value_write(f, "SourcePath", place->file);
	(void)fputs("\n[Timer]\n", f);
	value_write(f, "OnCalendar", schedule);
	(void)fprintf(f, "Persistent=yes\n%s", further);
	failed = ferror(f) != 0;
	if (fclose(f) != 0 || failed)
		return -EIO;
	if ((mkdirat(dirfd, WANTS, 0755) < 0 && errno != EEXIST) ||
	    symlinkat(target, dirfd, link) < 0)
		return -errno;
	return 0;
}

static int policy_timer_make(int dirfd, const struct config_policy *p)
{
	char unit[POLICY_NAME_MOST], description[POLICY_NAME_MOST + 32];

	(void)snprintf(unit, sizeof(unit), "reclaimd-policy@%s.timer", p->name);
	(void)snprintf(description, sizeof(description), "Schedule of Retention Policy %s",
		       p->name);
	return timer_make(dirfd, unit, description, &p->place, p->schedule, "");
}

static void cannot_be_made(const char *unit, int r)
{
	say("%s: cannot be made: %s", unit, strerror(-r));
}

/* As fstrim.timer, so that the machines of a site do not all trim at once. */
#define TRIM_FURTHER "AccuracySec=1h\nRandomizedDelaySec=100min\n"

/* One for all filesystems, and one for each that has a schedule of its own. */
static int trim_timers_make(int dirfd, const struct config *c)
{
	char unit[CONFIG_TRIM_TIMER_MOST];
	int failed = 0, r = 0;

	if (config_trims_together(c))
		r = timer_make(dirfd, CONFIG_TRIM_TIMER, "Schedule of Trims by reclaimd",
			       &c->trim_schedule_place, c->trim_schedule, TRIM_FURTHER);
	if (r < 0) {
		cannot_be_made(CONFIG_TRIM_TIMER, r);
		failed = -1;
	}
	for (size_t i = 0; i < c->n_trims; i++) {
		const struct config_trim *t = &c->trims[i];

		if (!t->schedule)
			continue;
		r = config_trim_timer(unit, t->mount);
		if (r >= 0)
			r = timer_make(dirfd, unit, "Schedule of Trims of %f by reclaimd",
				       &t->schedule_place, t->schedule, TRIM_FURTHER);
		if (r < 0) {
			cannot_be_made(t->mount, r);
			failed = -1;
		}
	}
	return failed;
}

static int timers_make(const struct config *c, const char *dir)
{
	_cleanup_close_ int dirfd = open(dir, O_DIRECTORY | O_CLOEXEC);
	int failed = 0, r;

	if (dirfd < 0) {
		say("%s: %s", dir, strerror(errno));
		return -1;
	}
	for (size_t i = 0; i < c->n_policies; i++) {
		const struct config_policy *p = &c->policies[i];

		r = p->schedule ? policy_timer_make(dirfd, p) : 0;

		if (r < 0)
			say("reclaimd-policy@%s.timer: cannot be made: %s", p->name, strerror(-r));
		failed = r < 0 ? -1 : failed;
	}
	r = trim_timers_make(dirfd, c);
	return r < 0 ? r : failed;
}

int main(int argc, char **argv)
{
	enum { CONFIGURATION = 256 };
	static const struct option options[] = {
		{ "configuration-directory", required_argument, NULL, CONFIGURATION },
		{ 0 },
	};
	/* As systemd.generator(7) has it, since systemd 251. Without it, the system's policies are
	 * for root alone. */
	const char *dir = NULL, *scope = getenv("SYSTEMD_SCOPE");
	bool of_user = scope ? strcmp(scope, "user") == 0 : geteuid() != 0;
	struct safe_text wrong;
	struct config *c;
	int r;

	opterr = 0;
	while ((r = getopt_long(argc, argv, ":", options, NULL)) >= 0) {
		if (r != CONFIGURATION) {
			safe_text_option(&wrong, r, argv);
			safe_text_print("reclaimd-generator", &wrong);
			return EXIT_FAILURE;
		}
		dir = optarg;
	}
	if (argc - optind != 1 && argc - optind != 3) {
		(void)fputs("reclaimd-generator [--configuration-directory=DIR] NORMAL [EARLY "
			    "LATE]: is run by the service manager\n",
			    stderr);
		return EXIT_FAILURE;
	}
	if (of_user && geteuid() == 0)
		return EXIT_SUCCESS;
	r = of_user ? config_load_user(&c, NULL, on_complaint, NULL)
		    : config_load(&c, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
				  on_complaint, NULL);
	if (of_user && r == -ENOENT)
		return EXIT_SUCCESS;
	if (r < 0) {
		say("no timer is made: %s",
		    r == -EBADMSG ? "the configuration has errors" : strerror(-r));
		return EXIT_FAILURE;
	}
	r = timers_make(c, argv[optind]);
	config_free(c);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
