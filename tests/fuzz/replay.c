/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Runs a fuzzer on the files of a directory, its corpus, and on what its grammar makes, as an
 * ordinary test: with nothing broken, at least half must be accepted, or the grammar is none any
 * more; of the rest each has a few bytes that are others. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/fd.h"
#include "base/macros.h"

#define MADE 400
#define SHARE_LEAST 50

/* Exactly as large as it is, so that a byte too far is seen. */
static int run(const uint8_t *data, size_t size)
{
	_cleanup_free_ uint8_t *copy = malloc(size + (size == 0));

	if (!copy)
		return -1;
	if (size > 0)
		memcpy(copy, data, size);
	return LLVMFuzzerTestOneInput(copy, size);
}

static int replay(int dir, const char *name)
{
	_cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ uint8_t *data = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	data = malloc((size_t)st.st_size + (st.st_size == 0));
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		return -1;
	return run(data, (size_t)st.st_size);
}

static void make_one(struct words *w, uint64_t seed)
{
	w->state = seed;
	w->n = 0;
	do
		grammar(w);
	while (w->n < w->most / 2 && chance(w, 30));
}

static int made(uint64_t seed, bool broken)
{
	uint8_t buf[KiB(4)];
	struct words w = { .v = buf, .most = sizeof(buf) };

	make_one(&w, seed);
	for (uint32_t i = broken && w.n > 0 ? 1 + choose(&w, 3) : 0; i > 0; i--)
		buf[choose(&w, (uint32_t)w.n)] = (uint8_t)choose(&w, 256);
	return run(buf, w.n);
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
	for (uint64_t i = 0; i < MADE; i++)
		if (made(i, /* broken= */ false) < 0)
			return EXIT_FAILURE;
	if (told_share() < SHARE_LEAST) {
		(void)fprintf(stderr, "Of what the grammar makes, %u %% is accepted.\n",
			      told_share());
		return EXIT_FAILURE;
	}
	for (uint64_t i = 0; i < MADE; i++)
		if (made(i, /* broken= */ true) < 0)
			return EXIT_FAILURE;
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
