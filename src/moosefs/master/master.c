/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Messages are a type, a length and so many bytes, all numbers with their highest byte first. Each
 * but the first begins with a number of ours that its answer repeats. Types with the answer's being
 * one more; an answer of one byte is the master's error. */
#include "master.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fd.h"
#include "base/macros.h"

enum {
	SAY_NOTHING = 0, /* sent now and then while an answer takes long */
	SAY_REGISTER = 400,
};

static const uint32_t says[] = {
	[MASTER_LOOKUP] = 406,  [MASTER_LIST] = 428,   [MASTER_CENSUS] = 472,
	[MASTER_MARK] = 474,    [MASTER_REMOVE] = 468, [MASTER_TRASH_TIME] = 442,
	[MASTER_BACKLOG] = 402,
};

/* What tools introduce themselves with. */
#define TOOLS "DjI1GAQDULI5d2YjA26ypc3ovkhjvhciTQVx3CS4nYgtBoUcsljiVpsErJENHaw0"
#define REGISTER_TOOLS 4

#define LIST_ATTRIBUTES 1
#define SNAPSHOT_DELETE 0x80
#define MARK_ADD 1
#define MARK_TAKE 2
#define MARK_RECURSIVE 4
#define TREE 1 /* how far a question goes */

#define EATTR_SNAPSHOT 0x10
/* Undeletable, append-only, immutable: rm would be refused them. */
#define EATTR_KEPT 0xe0

/* An entry's attributes: where its type and its links are in them. */
#define ATTRIBUTES 36
#define ATTRIBUTE_TYPE 1
#define ATTRIBUTE_NLINK 23
#define ATTRIBUTE_LENGTH 27
#define TYPE_FILE 1
#define TYPE_DIRECTORY 2

#define CHUNK_BYTES MiB(64)

#define ANSWER_MOST MiB(16)

struct master {
	int sock;
	uint32_t number;
	uint64_t took_usec, patience_usec, until_usec;
	int error;   /* that ended it: where in the stream an answer begins is not known since */
	uint8_t *in; /* the answer's bytes, without its number */
	size_t len, at, cap;
	uint8_t out[512];
	size_t out_len;
};

/* ---- numbers in messages ----------------------------------------------------------------------
 */

static void put_bytes(struct master *m, const void *data, size_t len)
{
	assert(m->out_len + len <= sizeof(m->out));
	memcpy(m->out + m->out_len, data, len);
	m->out_len += len;
}

/* A number of so many bytes. */
static void put(struct master *m, size_t bytes, uint64_t v)
{
	uint64_t be = htobe64(v << (8 * (sizeof(v) - bytes)));

	put_bytes(m, &be, bytes);
}

/* A component. */
static void put_name(struct master *m, const char *name)
{
	size_t len = strlen(name);

	assert(len <= NAME_MAX);
	put(m, 1, len);
	put_bytes(m, name, len);
}

/* Who asks: root, and root's group. The master looks at permissions as if it were so. */
static void put_root(struct master *m)
{
	put(m, 4, 0);
	put(m, 4, 1);
	put(m, 4, 0);
}

/* Beyond the end there are zeros, and `at` lies beyond len: see values_get(). */
static const uint8_t *get_bytes(struct master *m, size_t n)
{
	static const uint8_t zeros[256];

	assert(n <= sizeof(zeros));
	m->at += n;
	return m->at <= m->len ? m->in + m->at - n : zeros;
}

static uint64_t number_at(const uint8_t *p, size_t bytes)
{
	uint64_t be = 0;

	memcpy(&be, p, bytes);
	return be64toh(be) >> (8 * (sizeof(be) - bytes));
}

static uint64_t get(struct master *m, size_t bytes)
{
	return number_at(get_bytes(m, bytes), bytes);
}

/* ---- the conversation -------------------------------------------------------------------------
 */

/* After a send or a receive that failed. 0: once more. */
static int again(const struct master *m)
{
	if (errno != EINTR && errno != EAGAIN)
		return -EPIPE;
	return now_usec() < m->until_usec ? 0 : -ETIMEDOUT;
}

static int send_all(struct master *m)
{
	for (size_t at = 0; at < m->out_len;) {
		ssize_t n = send(m->sock, m->out + at, m->out_len - at, MSG_NOSIGNAL);
		int r = n < 0 ? again(m) : 0;

		if (r < 0)
			return r;
		at += n < 0 ? 0 : (size_t)n;
	}
	return 0;
}

static int receive_all(struct master *m, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = recv(m->sock, p, len, MSG_WAITALL);
		int r = n < 0 ? again(m) : n == 0 ? -EPIPE : 0;

		if (r < 0)
			return r;
		n = MAX(n, (ssize_t)0);
		p += n;
		len -= (size_t)n;
		/* Nor may it come in drops. */
		if (len > 0 && now_usec() >= m->until_usec)
			return -ETIMEDOUT;
	}
	return 0;
}

/* Receives the answer of this type, past any nothing. */
static int answer(struct master *m, uint32_t type)
{
	uint32_t head[2] = { 0 };
	int r;

	do {
		r = now_usec() < m->until_usec ? receive_all(m, head, sizeof(head)) : -ETIMEDOUT;
		m->len = be32toh(head[1]);
		if (r >= 0 && m->len > ANSWER_MOST)
			r = -EPROTO;
		if (r >= 0)
			r = array_reserve(&m->in, &m->cap, m->len, 1);
		if (r >= 0)
			r = receive_all(m, m->in, m->len);
	} while (r >= 0 && be32toh(head[0]) == SAY_NOTHING);
	m->at = 0;
	return r < 0 ? r : be32toh(head[0]) == type ? 0 : -EPROTO;
}

static int exchange(struct master *m, uint32_t type)
{
	uint32_t head[2] = { htobe32(type), htobe32((uint32_t)m->out_len - 8) };
	uint64_t began = now_usec();
	int r;

	if (m->error < 0)
		return m->error;
	m->until_usec = began + m->patience_usec;
	memcpy(m->out, head, sizeof(head));
	r = send_all(m);
	if (r >= 0)
		r = answer(m, type + 1);
	m->took_usec = now_usec() - began;
	m->error = MIN(r, 0);
	return r;
}

/* The master's errors that are told apart here. */
static int status_errno(uint64_t status)
{
	switch (status) {
	case 0:
		return 0;
	case 1:
		return -EPERM;
	case 3:
		return -ENOENT;
	case 4:
		return -EACCES;
	default:
		return -EIO;
	}
}

uint64_t master_took_usec(const struct master *m)
{
	return m->took_usec;
}

/* ---- beginning and end ------------------------------------------------------------------------
 */

int master_connect(struct master **ret, const uint8_t *info)
{
	_cleanup_close_ int sock = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct timeval timeout = { .tv_sec = MASTER_PATIENCE_CONNECT / USEC_PER_SEC };
	struct master *m;
	int one = 1;

	if (sock < 0)
		return -errno;
	memcpy(&to.sin_addr, info, 4);
	memcpy(&to.sin_port, info + 4, 2);
	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
	    connect(sock, (struct sockaddr *)&to, sizeof(to)) < 0)
		return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->sock = fd_take(&sock);
	*ret = m;
	return 0;
}

int master_register(struct master *m, const uint8_t *info)
{
	int r;

	m->patience_usec = MASTER_PATIENCE_FIRST;
	m->out_len = 8;
	put_bytes(m, TOOLS, strlen(TOOLS));
	put(m, 1, REGISTER_TOOLS);
	put_bytes(m, info + 6, 8); /* session and version, as we were told */
	r = exchange(m, SAY_REGISTER);
	m->patience_usec = MASTER_PATIENCE;
	if (r < 0)
		return r;
	return m->len == 1 ? status_errno(get(m, 1)) : -EPROTO;
}

struct master *master_close(struct master *m)
{
	if (!m)
		return NULL;
	fd_closep(&m->sock);
	free(m->in);
	free(m);
	return NULL;
}

/* ---- what can be asked ------------------------------------------------------------------------
 */

static void request_put(struct master *m, const struct master_request *q)
{
	m->out_len = 2 * sizeof(uint32_t);
	put(m, 4, ++m->number);
	switch (q->type) {
	case MASTER_LOOKUP:
		put(m, 4, q->inode);
		put_name(m, q->name);
		put_root(m);
		break;
	case MASTER_LIST:
		put(m, 4, q->inode);
		put_root(m);
		put(m, 1, LIST_ATTRIBUTES);
		put(m, 4, q->number + 2); /* the directory itself and the one above are in it */
		put(m, 8, 0);             /* from the beginning */
		break;
	case MASTER_CENSUS:
		put(m, 4, q->inode);
		put(m, 1, TREE);
		break;
	case MASTER_MARK:
		put(m, 4, q->inode);
		put(m, 4, 0); /* root */
		put(m, 1, EATTR_SNAPSHOT);
		put(m, 1, (q->number ? MARK_ADD : MARK_TAKE) | MARK_RECURSIVE);
		break;
	case MASTER_REMOVE:
		put(m, 4, 0); /* no source */
		put(m, 4, q->inode);
		put_name(m, q->name);
		put_root(m);
		put(m, 1, SNAPSHOT_DELETE);
		put(m, 2, 0); /* umask */
		break;
	case MASTER_TRASH_TIME:
		put(m, 4, q->inode);
		put(m, 1, 0); /* only this one */
		break;
	default:
		break;
	}
}

/* Reads an entry of a list. Returns 1, 0 if it is the directory itself or the one above, or a
 * negative errno. */
static int entry_get(struct master *m, char *name, struct moosefs_entry *ret)
{
	size_t len = get(m, 1);
	const uint8_t *attributes;
	uint64_t length;

	memcpy(name, get_bytes(m, len), len);
	name[len] = '\0';
	*ret = (struct moosefs_entry){ .name = name, .inode = (uint32_t)get(m, 4) };
	attributes = get_bytes(m, ATTRIBUTES);
	ret->nlink = (uint32_t)number_at(attributes + ATTRIBUTE_NLINK, 4);
	length = number_at(attributes + ATTRIBUTE_LENGTH, 8);
	ret->is_directory = attributes[ATTRIBUTE_TYPE] >> 4 == TYPE_DIRECTORY;
	if (attributes[ATTRIBUTE_TYPE] >> 4 == TYPE_FILE)
		ret->chunks = length / CHUNK_BYTES + (length > 0);
	if (m->at > m->len || len == 0 || memchr(name, '\0', len) || memchr(name, '/', len))
		return -EPROTO;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Returns how many entries there were, or a negative errno. */
static int list_get(struct master *m, uint32_t most, master_entry_t each, void *userdata)
{
	struct moosefs_entry e;
	char name[256];
	int r = m->len < m->at + 8 ? -EPROTO : 0, n = 0;

	(void)get(m, 8);
	while (r >= 0 && m->at < m->len) {
		r = entry_get(m, name, &e);
		if (r <= 0)
			continue;
		if ((uint32_t)++n > most)
			return -EPROTO;
		r = each(&e, userdata);
	}
	return r < 0 ? r : n;
}

static void census_get(struct master *m, struct moosefs_census *ret)
{
	uint64_t directories = get(m, 1), all = directories + get(m, 1);

	*ret = (struct moosefs_census){ 0 };
	for (uint64_t i = 0; i < all; i++) {
		uint64_t attributes = get(m, 1), n = get(m, 4);

		ret->entries += n;
		ret->directories += i < directories ? n : 0;
		ret->kept += attributes & EATTR_KEPT ? n : 0;
		ret->marked += attributes & EATTR_SNAPSHOT ? n : 0;
	}
}

static int values_get(struct master *m, const struct master_request *q, union master_values *ret)
{
	switch (q->type) {
	case MASTER_LOOKUP:
		ret->inode = get(m, 4);
		(void)get_bytes(m, ATTRIBUTES); /* and others, later */
		return m->at <= m->len ? 0 : -EPROTO;
	case MASTER_CENSUS:
		census_get(m, &ret->census);
		break;
	case MASTER_MARK:
		ret->changed = get(m, 4);
		ret->changed += get(m, 4); /* had it before */
		(void)get(m, 4);           /* refused */
		break;
	case MASTER_TRASH_TIME:
		if (get(m, 4) + get(m, 4) != 1)
			return -EPROTO;
		ret->trash_seconds = get(m, 4);
		(void)get(m, 4); /* how many: one */
		break;
	case MASTER_BACKLOG:
		(void)get(m, 8); /* all, available, and since 3.0.102 free */
		(void)get(m, 8);
		if (m->len - m->at > 20)
			(void)get(m, 8);
		ret->backlog.trash_bytes = get(m, 8);
		ret->backlog.open_bytes = get(m, 8);
		(void)get(m, 4); /* inodes */
		break;
	default:
		break;
	}
	return m->at == m->len ? 0 : -EPROTO;
}

int master_ask(struct master *m, const struct master_request *q, union master_values *ret,
	       master_entry_t each, void *userdata)
{
	int r;

	request_put(m, q);
	r = exchange(m, says[q->type]);
	if (r < 0)
		return r;
	if (get(m, 4) != m->number || m->at > m->len)
		return m->error = -EPROTO;
	/* Where success has nothing more to say, it is the status 0. */
	r = m->len == m->at + 1 ? status_errno(get(m, 1)) : 0;
	if (r < 0)
		return r;
	if (q->type != MASTER_LIST)
		return values_get(m, q, ret);
	r = list_get(m, q->number, each, userdata);
	ret->listed = (uint64_t)MAX(r, 0);
	return MIN(r, 0);
}
