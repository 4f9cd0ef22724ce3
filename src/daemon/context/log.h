/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the daemon tells its administrator: to the journal with fields, or, run by hand, to standard
 * error as a line. Levels are those of syslog(3). Whatever the arguments are, a message is one line
 * of what can be shown (util/escape.h), and so is each field. */
#pragma once

#include <syslog.h>
#include <systemd/sd-event.h>
#include <systemd/sd-id128.h>

#include "store/store.h"
#include "base/macros.h"

#define MESSAGE_JOB_ACCEPTED                                                                       \
	SD_ID128_MAKE(50, 03, 68, 82, d2, 0d, 44, 04, 9d, eb, c1, 44, 0e, 8b, f2, be)
#define MESSAGE_JOB_DONE                                                                           \
	SD_ID128_MAKE(95, 3e, 40, d1, 3f, 4e, 4c, e7, 95, 04, 66, 7a, 23, d6, 62, 8a)
#define MESSAGE_JOB_INCOMPLETE                                                                     \
	SD_ID128_MAKE(e6, 68, c7, 12, 0e, 63, 4d, 18, af, c7, 1f, 1b, 2e, 7c, 84, e1)
#define MESSAGE_JOB_TAKEN_BACK                                                                     \
	SD_ID128_MAKE(4b, b3, b5, fe, 0c, 0c, 48, 37, 98, 28, 65, 90, 1a, d8, 81, 67)
#define MESSAGE_JOB_RETRIED                                                                        \
	SD_ID128_MAKE(77, 2f, 45, 02, dc, c4, 4e, 90, bb, c3, 16, fc, 60, a1, 06, 51)
#define MESSAGE_STORE_TROUBLE                                                                      \
	SD_ID128_MAKE(ab, 89, ee, e5, 98, 40, 4c, 2a, 97, cc, d7, 1f, 0c, 7a, f8, 59)
#define MESSAGE_STAGING_ORPHAN                                                                     \
	SD_ID128_MAKE(91, c5, e5, 29, 28, 1b, 46, 86, a7, 8f, 37, 0c, c5, 7b, 58, 46)
#define MESSAGE_CONFIGURATION                                                                      \
	SD_ID128_MAKE(92, c8, 04, 0e, 1b, b8, 49, ba, 89, 2f, c6, af, 6c, 35, c1, d4)

/* A message about a user; past a number of lines in a minute only their number is told. UID_NONE:
 * about no user, always told. The message id, for what may be searched for or counted, may be
 * SD_ID128_NULL. r: of the job that it is about, or NULL; JOB=, JOB_UUID=, KIND=, PATH=, ORIGIN=,
 * DEVICE=, FREED_BYTES= and SUBMITTER_UID= come from it. */
void log_message(int level, uid_t uid, sd_id128_t message, const struct job_record *r,
		 const char *format, ...) _printf_(5, 6);

#define log_line(level, ...) log_message(level, UID_NONE, SD_ID128_NULL, NULL, __VA_ARGS__)
#define log_event(level, message, ...) log_message(level, UID_NONE, message, NULL, __VA_ARGS__)
#define log_user(level, uid, message, ...) log_message(level, uid, message, NULL, __VA_ARGS__)
#define log_job(level, message, r, ...) log_message(level, (r)->uid, message, r, __VA_ARGS__)

/* From then on, how many lines were left out is told when their minute is over; at the latest by
 * log_end. */
int log_begin(sd_event *e);
void log_end(void);
