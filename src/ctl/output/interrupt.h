/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What is said when a signal (SIGINT, SIGTERM, SIGHUP) ends the program while something is with the
 * daemon: what becomes of it, and how to stop it. The program then ends by that signal, and with it
 * the connection, which is what tells the daemon (daemon/jobs/job-submit.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

/* Sets what is printed; a line without its newline, of at most 1,500 bytes. The first call installs
 * the handlers. */
void interrupt_says(const char *format, ...) _printf_(1, 2);

/* That these jobs go on: "job 3 goes on; reclaimctl cancel 3 stops it". Of very many, not all.
 * `answered` is false while an answer is waited for: of what that is about, reclaimd puts back what
 * it has moved. */
void interrupt_says_jobs(const uint64_t *ids, size_t n, bool answered);
