/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "interrupt.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMED_MOST 16

struct text {
	char v[1600];
	size_t len;
};

/* A signal may come while one of them is being written: it takes the other. */
static struct text texts[2];
static struct text *_Atomic current;

static void on_signal(int sig)
{
	const struct text *t = current;
	ssize_t n = t ? write(STDERR_FILENO, t->v, t->len) : 0;

	(void)n;
	/* The default is in force again, and the signal is taken on return. */
	(void)raise(sig);
}

/* What is ignored, as under nohup(1), stays so. */
static void signals_install(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction ours = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;

	for (size_t i = 0; i < ELEMENTSOF(signals); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
			(void)sigaction(signals[i], &ours, NULL);
}

void interrupt_says(const char *format, ...)
{
	struct text *t = current == &texts[0] ? &texts[1] : &texts[0];
	size_t most = sizeof(t->v) - 2;
	int n = snprintf(t->v, sizeof(t->v),
			 "%sreclaimctl: interrupted: ", isatty(STDERR_FILENO) ? "\n" : "");
	va_list ap;

	t->len = (size_t)MAX(n, 0);
	va_start(ap, format);
	n = vsnprintf(t->v + t->len, sizeof(t->v) - t->len, format, ap);
	va_end(ap);
	t->len = MIN(t->len + (size_t)MAX(n, 0), most);
	t->v[t->len++] = '\n';
	if (!current)
		signals_install();
	current = t;
}

void interrupt_says_jobs(const uint64_t *ids, size_t n, bool answered)
{
	static const char withdrawn[] =
		"reclaimd had not answered yet, and withdraws what it was given: what it has moved "
		"it puts back. Only if the answer was on its way at this very moment does the job "
		"go on: see reclaimctl list";
	char numbers[NAMED_MOST * 21 + 8] = "";
	size_t len = 0;

	if (n == 0) {
		interrupt_says("%s", withdrawn);
		return;
	}
	for (size_t i = 0; i < n && i < NAMED_MOST; i++)
		len += (size_t)snprintf(numbers + len, sizeof(numbers) - len, " %" PRIu64, ids[i]);
	if (n > NAMED_MOST)
		(void)snprintf(numbers + len, sizeof(numbers) - len, " ...");
	interrupt_says("%s%s go%s on%sreclaimctl cancel%s stops %s%s%s", n == 1 ? "job" : "jobs",
		       numbers, n == 1 ? "es" : "", answered ? "; " : " (", numbers,
		       n == 1 ? "it" : "them", answered ? "" : "); of the rest, ",
		       answered ? "" : withdrawn);
}
