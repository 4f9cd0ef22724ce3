/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The debug log: decisions and the numbers that led to them, for a person who asks why a program
 * did what it did. It is off unless the environment has SYSTEMD_LOG_LEVEL=debug (or 7), as of other
 * programs of systemd, or --log-level=debug was given. Nothing else of it can be configured. */
#pragma once

#include <stdbool.h>

#include "macros.h"

/* Set before a program starts its first thread, and constant from then on. */
extern bool debug_enabled;

/* Reads SYSTEMD_LOG_LEVEL. What is no level is ignored, as systemd does it. To be called before the
 * first thread is started; without the call the log is off. */
void debug_begin(void);

/* What --log-level= takes, for messages: the names of syslog(3). */
#define DEBUG_LEVELS "emerg, alert, crit, err, warning, notice, info, debug or 0 to 7"

/* Takes the value of --log-level=, one of DEBUG_LEVELS. It is written to the environment, so that
 * programs started later have it, too. To be called as debug_begin is. Returns 0, -EINVAL if that
 * is no level, or -ENOMEM. */
int debug_set_level(const char *level);

/* What a process needs that gets no other environment, to log as this one does: fills `env` with
 * the variables, borrowed from environ, and NULL at the end. */
#define DEBUG_ENVIRONMENT 3
void debug_environment(char *env[DEBUG_ENVIRONMENT]);

/* Is standard error the journal's (systemd.exec(5), JOURNAL_STREAM)? */
bool stderr_is_journal(void);

/* One line on standard error, "PROGRAM[PID]: TEXT", in one write(2): TEXT is formatted as by
 * printf(3), then escaped as by escape_line (escape.h). With the level in front, "<7>", where
 * standard error is the journal's. Any thread. */
void debug_write(const char *format, ...) _printf_(1, 2);

/* The same if the log is on. If it is off, this is one look at a bool, and the arguments are not
 * evaluated. */
#define debug_log(...)                                                                             \
	do {                                                                                       \
		if (__builtin_expect(debug_enabled, false))                                        \
			debug_write(__VA_ARGS__);                                                  \
	} while (0)
