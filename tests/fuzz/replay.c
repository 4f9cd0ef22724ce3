/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs a fuzzer on the files of a directory: its corpus, as an ordinary test. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "util/fd.h"

static int replay(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	/* Exactly as large as it is, so that a byte too far is seen. */
	data = malloc((size_t)st.st_size + (st.st_size == 0));
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		return -1;
	return LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
	DIR *corpus = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *d;
	unsigned n = 0;

	if (!corpus) {
		(void)fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	while ((d = readdir(corpus))) {
		if (d->d_name[0] == '.')
			continue;
		if (replay(dirfd(corpus), d->d_name) < 0) {
			perror(d->d_name);
			return EXIT_FAILURE;
		}
		n++;
	}
	(void)closedir(corpus);
	printf("%u inputs\n", n);
	return n > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
