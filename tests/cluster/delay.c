/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* delay LISTEN PORT TARGET PORT USEC: hands TCP connections on, each way half of USEC late, as a
 * network would. What is sent together stays together: the delay bounds no rate. */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct piece {
	struct piece *next;
	struct timespec due;
	size_t len; /* 0: the sender has closed */
	char data[];
};

/* One direction of one connection: a thread reads, another writes when it is time. */
struct way {
	int from, to;
	long delay_nsec;
	pthread_mutex_t lock;
	pthread_cond_t filled;
	struct piece *first, **last;
};

static void put(struct way *w, const char *data, size_t len)
{
	struct piece *p = malloc(sizeof(*p) + len);

	if (!p)
		err(1, "malloc");
	p->next = NULL;
	p->len = len;
	memcpy(p->data, data, len);
	clock_gettime(CLOCK_MONOTONIC, &p->due);
	p->due.tv_nsec += w->delay_nsec;
	p->due.tv_sec += p->due.tv_nsec / 1000000000;
	p->due.tv_nsec %= 1000000000;
	pthread_mutex_lock(&w->lock);
	*w->last = p;
	w->last = &p->next;
	pthread_cond_signal(&w->filled);
	pthread_mutex_unlock(&w->lock);
}

static struct piece *take(struct way *w)
{
	struct piece *p;

	pthread_mutex_lock(&w->lock);
	while (!w->first)
		pthread_cond_wait(&w->filled, &w->lock);
	p = w->first;
	w->first = p->next;
	if (!w->first)
		w->last = &w->first;
	pthread_mutex_unlock(&w->lock);
	return p;
}

static void *reader(void *userdata)
{
	struct way *w = userdata;
	char buf[65536];
	ssize_t n;

	while ((n = read(w->from, buf, sizeof(buf))) > 0)
		put(w, buf, (size_t)n);
	put(w, buf, 0);
	return NULL;
}

static void *writer(void *userdata)
{
	struct way *w = userdata;
	bool broken = false;

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		struct piece *p = take(w);
		size_t len = p->len, done = 0;

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &p->due, NULL);
		while (!broken && done < len) {
			ssize_t n = send(w->to, p->data + done, len - done, MSG_NOSIGNAL);

			broken = n <= 0;
			done += broken ? 0 : (size_t)n;
		}
		free(p);
		if (len == 0) {
			/* The other end is told; its answer ends the other direction. */
			shutdown(w->to, SHUT_WR);
			return NULL;
		}
		if (broken)
			shutdown(w->from, SHUT_RD);
	}
}

static void way_start(int from, int to, long delay_nsec)
{
	struct way *w = calloc(1, sizeof(*w));
	pthread_t t;

	if (!w)
		err(1, "calloc");
	*w = (struct way){ .from = from, .to = to, .delay_nsec = delay_nsec };
	w->last = &w->first;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->filled, NULL);
	if (pthread_create(&t, NULL, reader, w) || pthread_detach(t) ||
	    pthread_create(&t, NULL, writer, w) || pthread_detach(t))
		errx(1, "no thread can be started");
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		errx(2, "%s: not an address", host);
	return a;
}

int main(int argc, char **argv)
{
	struct sockaddr_in here, there;
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);

	if (argc != 6)
		errx(2, "usage: delay LISTEN PORT TARGET PORT USEC");
	here = address(argv[1], argv[2]);
	there = address(argv[3], argv[4]);
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(s, (struct sockaddr *)&here, sizeof(here)) < 0 || listen(s, 64) < 0)
		err(1, "%s:%s", argv[1], argv[2]);
	for (;;) {
		int client = accept(s, NULL, NULL), server = socket(AF_INET, SOCK_STREAM, 0);

		if (client < 0 || server < 0)
			err(1, "accept");
		if (connect(server, (struct sockaddr *)&there, sizeof(there)) < 0) {
			/* The server is down: the client is told so, and tries again. */
			close(client);
			close(server);
			continue;
		}
		setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		way_start(client, server, atol(argv[5]) * 500);
		way_start(server, client, atol(argv[5]) * 500);
	}
}
