/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * submitter SOCKET DIRECTORY SECONDS CLIENTS [MOST] - how soon a submit is answered.
 *
 * Each client is a thread with a connection of its own; it makes a file, submits it (SubmitFiles,
 * one name), and goes on as soon as it has been answered, MOST times at most. Making the file is
 * not measured. A file whose name is still there when the answer has come is a failure.
 *
 * Prints a line for each answer: nanoseconds that it took.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC UINT64_C(1000000000)
#define ANSWERS_MAX 1000000

struct client {
	pthread_t thread;
	const char *socket, *directory;
	unsigned number;
	uint64_t end_nsec;
	size_t most;
	uint64_t *answers_nsec;
	size_t n;
	int error;
};

static uint64_t now_nsec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static int bus_connect(sd_bus **ret, const char *socket)
{
	char address[256];
	sd_bus *bus = NULL;
	int r;

	(void)snprintf(address, sizeof(address), "unix:path=%s", socket);
	r = sd_bus_new(&bus);
	if (r >= 0)
		r = sd_bus_set_address(bus, address);
	if (r >= 0)
		r = sd_bus_start(bus);
	if (r < 0) {
		sd_bus_unref(bus);
		return r;
	}
	*ret = bus;
	return 0;
}

static int submit_message(sd_bus *bus, int dirfd, const char *name, sd_bus_message **ret)
{
	sd_bus_message *m = NULL;
	int r = sd_bus_message_new_method_call(bus, &m, NULL, "/org/reclaimd1",
					       "org.reclaimd1.Manager", "SubmitFiles");

	if (r >= 0)
		r = sd_bus_message_append(m, "ah", 1, dirfd);
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'a', "(uay)");
	if (r >= 0)
		r = sd_bus_message_open_container(m, 'r', "uay");
	if (r >= 0)
		r = sd_bus_message_append(m, "u", 0);
	if (r >= 0)
		r = sd_bus_message_append_array(m, 'y', name, strlen(name));
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	if (r >= 0)
		r = sd_bus_message_close_container(m);
	if (r >= 0)
		r = sd_bus_message_append(m, "a{sv}", 0);
	if (r < 0) {
		sd_bus_message_unref(m);
		return r;
	}
	*ret = m;
	return 0;
}

static int submit(sd_bus *bus, int dirfd, const char *name, uint64_t *ret_nsec)
{
	sd_bus_error error = SD_BUS_ERROR_NULL;
	sd_bus_message *m = NULL, *reply = NULL;
	uint64_t began = now_nsec();
	int r = submit_message(bus, dirfd, name, &m);

	if (r >= 0)
		r = sd_bus_call(bus, m, 0, &error, &reply);
	*ret_nsec = now_nsec() - began;
	if (r < 0)
		(void)fprintf(stderr, "submitter: %s: %s\n", name,
			      error.message ? error.message : strerror(-r));
	else if (faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = -EEXIST;
	sd_bus_error_free(&error);
	sd_bus_message_unref(m);
	sd_bus_message_unref(reply);
	return r < 0 ? r : 0;
}

static int file_make(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

static int client_work(struct client *c, sd_bus *bus, int dirfd)
{
	char name[64];

	for (unsigned i = 0; now_nsec() < c->end_nsec && c->n < c->most; i++) {
		int r;

		(void)snprintf(name, sizeof(name), "submit-%u-%u", c->number, i);
		r = file_make(dirfd, name);
		if (r >= 0)
			r = submit(bus, dirfd, name, &c->answers_nsec[c->n]);
		if (r < 0)
			return r;
		c->n++;
	}
	return 0;
}

static void *client_run(void *userdata)
{
	struct client *c = userdata;
	sd_bus *bus = NULL;
	int dirfd = open(c->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	c->answers_nsec = calloc(c->most, sizeof(*c->answers_nsec));
	c->error = dirfd < 0 ? -errno : !c->answers_nsec ? -ENOMEM : bus_connect(&bus, c->socket);
	if (c->error >= 0)
		c->error = client_work(c, bus, dirfd);
	sd_bus_flush_close_unref(bus);
	if (dirfd >= 0)
		(void)close(dirfd);
	return NULL;
}

int main(int argc, char **argv)
{
	struct client *clients;
	unsigned n;
	int status = 0;

	if (argc != 5 && argc != 6) {
		(void)fputs("usage: submitter SOCKET DIRECTORY SECONDS CLIENTS [MOST]\n", stderr);
		return 2;
	}
	n = (unsigned)strtoul(argv[4], NULL, 10);
	clients = calloc(n, sizeof(*clients));
	if (!clients)
		return 1;
	for (unsigned i = 0; i < n; i++) {
		clients[i] = (struct client){
			.socket = argv[1],
			.directory = argv[2],
			.number = i,
			.end_nsec = now_nsec() + (uint64_t)(strtod(argv[3], NULL) * 1e9),
			.most = argc > 5 ? strtoul(argv[5], NULL, 10) : ANSWERS_MAX,
		};
		if (pthread_create(&clients[i].thread, NULL, client_run, &clients[i]) != 0)
			return 1;
	}
	for (unsigned i = 0; i < n; i++) {
		(void)pthread_join(clients[i].thread, NULL);
		if (clients[i].error < 0) {
			(void)fprintf(stderr, "submitter: client %u: %s\n", i,
				      strerror(-clients[i].error));
			status = 1;
		}
		for (size_t j = 0; j < clients[i].n; j++)
			(void)printf("%llu\n", (unsigned long long)clients[i].answers_nsec[j]);
		free(clients[i].answers_nsec);
	}
	free(clients);
	return status;
}
