/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gauge.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/macros.h"

gauge_t gauge_open(void)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", gettid());
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* The second number of schedstat, proc(5): nanoseconds ready and not running. */
static uint64_t delayed_usec(gauge_t thread)
{
	unsigned long long ran, delayed;
	char buf[96];
	ssize_t n = thread < 0 ? -1 : pread(thread, buf, sizeof(buf) - 1, 0);

	if (n <= 0)
		return 0;
	buf[n] = '\0';
	return sscanf(buf, "%llu %llu", &ran, &delayed) == 2 ? delayed / 1000 : 0;
}

static uint64_t timeval_usec(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * USEC_PER_SEC + (uint64_t)tv->tv_usec;
}

uint64_t gauge_read(const gauge_t *threads, unsigned n)
{
	struct rusage ru;
	uint64_t usec = 0;

	if (getrusage(RUSAGE_SELF, &ru) == 0)
		usec = timeval_usec(&ru.ru_utime) + timeval_usec(&ru.ru_stime);
	for (unsigned i = 0; i < n; i++)
		usec += delayed_usec(__atomic_load_n(&threads[i], __ATOMIC_ACQUIRE));
	return usec;
}

uint64_t gauge_reads(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_SELF, &ru) == 0 ? (uint64_t)ru.ru_inblock : 0;
}
