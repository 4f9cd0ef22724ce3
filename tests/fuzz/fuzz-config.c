/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A configuration file of any bytes is read, or refused with a reason that has a place in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/config.h"
#include "fuzz.h"
#include "util/escape.h"

static void complain(const struct config_error *e, void *userdata)
{
	unsigned *errors = userdata;

	must(e->text[0]);
	must(utf8_is_valid(e->text));
	must(!strpbrk(e->text, "\n\x1b"));
	*errors += !e->is_warning;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("configuration", MFD_CLOEXEC), r;
	struct config *c = NULL;
	unsigned errors = 0;
	char path[64];

	must(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = config_load_file(&c, path, complain, &errors);
	must(r == 0 || r == -EBADMSG);
	must((r == 0) == (errors == 0) && (r == 0) == (c != NULL));
	config_free(c);
	(void)close(fd);
	return 0;
}
