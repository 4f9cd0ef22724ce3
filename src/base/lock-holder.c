/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "lock-holder.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without one, as in some containers, no earlier boot is known as such. */
static const char no_machine[] = "00000000000000000000000000000000";

struct holder {
	char state[33], boot[33], machine[33], host[65];
	uint64_t pid_namespace, start;
	int pid;
};

#define FORMAT "%32[0-9a-f].%32[0-9a-f].%32[0-9a-f].%" SCNu64 ".%d.%" SCNu64 ".%64[0-9A-Za-z_-]%c"

/* Returns false if it is none that we could have made. */
static bool holder_parse(const char *text, struct holder *ret)
{
	char more;

	return sscanf(text, FORMAT, ret->state, ret->boot, ret->machine, &ret->pid_namespace,
		      &ret->pid, &ret->start, ret->host, &more) == 7;
}

/* When a process was started, in ticks since the boot; 0: cannot be told. */
static uint64_t started(int pid)
{
	char path[32], text[1024];
	uint64_t start = 0;
	const char *at;
	size_t n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		(void)fclose(f);
	}
	text[n] = '\0';
	at = strrchr(text, ')');
	/* The 22nd field; the state behind the name is the third. */
	if (!at || sscanf(at + 1,
			  " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %" SCNu64,
			  &start) != 1)
		return 0;
	return start;
}

static void host_name(char buf[65])
{
	if (gethostname(buf, 65) < 0 || !buf[0])
		(void)snprintf(buf, 65, "unknown");
	buf[64] = '\0';
	for (char *c = buf; *c; c++)
		if (!isascii(*c) || !(isalnum(*c) || *c == '-'))
			*c = '_';
}

/* The 32 hexadecimal digits of an id in a file, which may have dashes between them. */
static int id_read(const char *path, char ret[33])
{
	FILE *f = fopen(path, "re");
	size_t n = 0;
	int c;

	if (!f)
		return -errno;
	while ((c = fgetc(f)) != EOF && n < 32)
		if (isxdigit(c))
			ret[n++] = (char)tolower(c);
	(void)fclose(f);
	ret[n] = '\0';
	return n == 32 ? 0 : -ENODATA;
}

int holder_format(char buf[HOLDER_SIZE], const char *state_id)
{
	char boot[33], machine[33], host[65];
	struct stat st;
	int r = id_read("/proc/sys/kernel/random/boot_id", boot);

	if (r < 0)
		return r;
	if (id_read("/etc/machine-id", machine) < 0)
		(void)snprintf(machine, sizeof(machine), "%s", no_machine);
	if (stat("/proc/self/ns/pid", &st) < 0)
		return -errno;
	host_name(host);
	(void)snprintf(buf, HOLDER_SIZE, "%.32s.%s.%s.%ju.%d.%" PRIu64 ".%s", state_id, boot,
		       machine, (uintmax_t)st.st_ino, (int)getpid(), started(getpid()), host);
	return 0;
}

/* Processes that may not be looked at, or that are out of reach of signals, are there. */
static bool is_running(const struct holder *h)
{
	uint64_t start;

	if (kill(h->pid, 0) < 0 && errno == ESRCH)
		return false;
	start = started(h->pid);
	return start == 0 || h->start == 0 || start == h->start;
}

enum holder_is holder_compare(const char *own, const char *found)
{
	struct holder o, f;

	if (strcmp(own, found) == 0)
		return HOLDER_OWN;
	if (!holder_parse(own, &o) || !holder_parse(found, &f))
		return HOLDER_OTHER;
	if (strcmp(o.boot, f.boot) != 0)
		return strcmp(o.machine, f.machine) == 0 && strcmp(o.machine, no_machine) != 0 &&
				       strcmp(o.host, f.host) == 0
			       ? HOLDER_ENDED
			       : HOLDER_OTHER;
	if (strcmp(o.state, f.state) == 0)
		return HOLDER_ENDED;
	return o.pid_namespace == f.pid_namespace && !is_running(&f) ? HOLDER_ENDED : HOLDER_OTHER;
}

bool holder_is_same_state(const char *own, const char *found)
{
	struct holder o, f;

	return holder_parse(own, &o) && holder_parse(found, &f) && strcmp(o.state, f.state) == 0;
}

void holder_describe(const char *holder, char *buf, size_t size)
{
	struct holder h;

	if (holder_parse(holder, &h))
		(void)snprintf(buf, size, "on %s, process %d", h.host, h.pid);
	else
		(void)snprintf(buf, size, "of another version");
}
