/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#include "base/fd.h"
#include "wire/protocol.h"

static int pair[2];
static struct wire_out out;
static struct wire_in in;

static void setup(void)
{
	out = (struct wire_out){ 0 };
	in = (struct wire_in){ 0 };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void teardown(void)
{
	wire_out_done(&out);
	wire_in_done(&in);
	fd_closep(&pair[0]);
	fd_closep(&pair[1]);
}

static int receive(bool allow_long)
{
	return wire_receive(pair[1], &in, MSG_DONTWAIT, allow_long);
}

static unsigned fds_open(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint64_t inode(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

START_TEST(what_is_put_is_got)
{
	_cleanup_close_ int fd = -1;
	size_t len;

	wire_begin(&out, 5, 9);
	wire_put(&out, UINT64_MAX);
	wire_put_string(&out, "a\nb");
	wire_put_string(&out, "");
	wire_put_string(&out, NULL);
	wire_put_bytes(&out, "x\0y", 3);
	wire_put_fd(&out, STDIN_FILENO);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_uint_eq(in.type, 5);
	ck_assert_uint_eq(in.serial, 9);
	ck_assert(wire_get(&in) == UINT64_MAX);
	ck_assert_str_eq(wire_get_string(&in), "a\nb");
	ck_assert_str_eq(wire_get_string(&in), "");
	ck_assert_ptr_null(wire_get_string_or_null(&in));
	ck_assert_int_eq(memcmp(wire_get_bytes(&in, &len), "x\0y", 3), 0);
	ck_assert_uint_eq(len, 3);
	fd = wire_get_fd(&in);
	ck_assert_int_ge(fd, 0);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ck_assert_uint_eq(inode(fd), inode(STDIN_FILENO));
	ck_assert_int_eq(wire_end(&in), 0);
}
END_TEST

START_TEST(records_are_put_and_got)
{
	const struct make_staging_message make = { "/m", 1, 2, 3, true, false, NULL, NULL };
	struct make_staging_message made;
	const struct open_dir_message open = {
		"/a", true, false, false, { 1, 2, -3, S_IFREG }, STDIN_FILENO
	};
	struct open_dir_message opened;
	struct staged_range range = { 1, 2, -EXDEV };
	struct listing_item item = { "name", { 4, 5, 6, S_IFDIR } };

	wire_begin(&out, REQUEST_MAKE_STAGING, 1);
	protocol_put(&out, &make);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, &made), 0);
	ck_assert_str_eq(made.mount_path, "/m");
	ck_assert(made.mnt_id == 1 && made.uid == 2 && made.gid == 3 && made.make && !made.holder);

	wire_begin(&out, REQUEST_OPEN_DIR, 1);
	protocol_put(&out, &open);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, &opened), 0);
	ck_assert(opened.checks && opened.id.fsid == 1 && opened.id.ino == 2 &&
		  opened.id.btime_nsec == -3 && opened.id.type == S_IFREG);
	ck_assert_uint_eq(inode(opened.at), inode(STDIN_FILENO));

	wire_begin(&out, ANSWER_RANGES, 1);
	protocol_put_item(&out, &range);
	protocol_put_item(&out, &range);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, NULL), 0);
	ck_assert_int_eq(protocol_get_item(&in, &range), 1);
	ck_assert_int_eq(protocol_get_item(&in, &range), 1);
	ck_assert(range.from == 1 && range.to == 2 && range.error == -EXDEV);
	ck_assert_int_eq(protocol_get_item(&in, &range), 0);

	wire_begin(&out, ANSWER_LISTING, 1);
	protocol_put_item(&out, &item);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get_item(&in, &item), 1);
	ck_assert_str_eq(item.name, "name");
	ck_assert(item.id.fsid == 4 && item.id.type == S_IFDIR);
}
END_TEST

static void check_refused(void *m)
{
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, m), -EBADMSG);
}

START_TEST(each_type_is_checked)
{
	struct make_staging_message make = { .mount_path = NULL };
	struct list_staging_message list = { "../x", 0, STDIN_FILENO };
	struct staged_message staged = { .cause = ERROR_WORKER_LAST + 1, .text = "x", .dir = -1 };
	struct stage_message stage;
	struct opened_message opened;

	wire_begin(&out, REQUEST_MAKE_STAGING, 1); /* a TEXT */
	protocol_put(&out, &make);
	check_refused(&make);
	wire_begin(&out, REQUEST_LIST_STAGING, 1); /* an OPT_NAME */
	protocol_put(&out, &list);
	check_refused(&list);
	wire_begin(&out, ANSWER_STAGED, 1); /* a CAUSE */
	protocol_put(&out, &staged);
	check_refused(&staged);
	for (uint64_t i = 0; i < 3; i++) { /* a BOOL, and an FD that did not come */
		wire_begin(&out, REQUEST_STAGE, 1);
		wire_put(&out, 1);
		wire_put_string(&out, "name");
		wire_put(&out, i);
		if (i == 2)
			wire_put_fd(&out, STDIN_FILENO);
		check_refused(&stage);
	}
	wire_begin(&out, ANSWER_OPENED, 1); /* an OPT_FD */
	wire_put(&out, 0);
	wire_put(&out, 2);
	wire_put_fd(&out, STDIN_FILENO);
	check_refused(&opened);
}
END_TEST

/* A message in which there is what its fields may not have costs no descriptor. */
START_TEST(records_are_checked)
{
	unsigned before = fds_open();
	struct make_staging_message make = { .mount_path = "/m", .uid = UINT32_MAX };
	struct opened_message opened;
	struct listing_item item = { "../x", { 0 } };
	struct done_message done;

	wire_begin(&out, REQUEST_MAKE_STAGING, 1);
	protocol_put(&out, &make);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, &make), -EBADMSG);

	wire_begin(&out, ANSWER_OPENED, 1);
	protocol_put(&out, &(struct opened_message){ 0, STDIN_FILENO });
	wire_put(&out, 0);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get(&in, &opened), -EBADMSG);

	wire_begin(&out, ANSWER_LISTING, 1);
	protocol_put_item(&out, &item);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get_item(&in, &item), -EBADMSG);

	wire_begin(&out, ANSWER_LISTING, 1);
	protocol_put_item(&out, &(struct listing_item){ "x", { .type = 1 } });
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(protocol_get_item(&in, &item), -EBADMSG);

	for (size_t i = 0; i < 3; i++) {
		wire_begin(&out, i < 2 ? ANSWER_DONE : 999, 1);
		wire_put(&out, i == 1 ? UINT64_MAX : 4096);
		ck_assert_int_eq(wire_post(pair[0], &out), 0);
		ck_assert_int_eq(receive(false), 1);
		ck_assert_int_eq(protocol_get(&in, &done), -EBADMSG);
	}
	wire_in_done(&in);
	wire_out_done(&out);
	ck_assert_uint_eq(fds_open(), before);
}
END_TEST

START_TEST(what_is_left_is_an_error)
{
	unsigned before = fds_open();

	wire_begin(&out, 1, 1);
	wire_put(&out, 7);
	wire_put(&out, 8);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_uint_eq(wire_get(&in), 7);
	ck_assert_int_eq(wire_end(&in), -EBADMSG);
	wire_begin(&out, 1, 1);
	wire_put_fd(&out, STDIN_FILENO);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(wire_end(&in), -EBADMSG);
	/* And the descriptor is closed with the message. */
	wire_in_done(&in);
	wire_out_done(&out);
	ck_assert_uint_eq(fds_open(), before);
}
END_TEST

START_TEST(what_is_missing_is_an_error)
{
	wire_begin(&out, 1, 1);
	wire_put(&out, 1);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	(void)wire_get(&in);
	ck_assert_uint_eq(wire_get(&in), 0);
	ck_assert_int_eq(wire_get_fd(&in), -1);
	ck_assert_str_eq(wire_get_string(&in), "");
	ck_assert_int_eq(wire_end(&in), -EBADMSG);
}
END_TEST

/* Sends a message with these bytes behind a good header. */
static void raw(const void *data, size_t len)
{
	uint8_t buf[256];
	struct wire_header h = { .type = 1 };

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), data, len);
	ck_assert_int_eq(send(pair[0], buf, sizeof(h) + len, 0), (ssize_t)(sizeof(h) + len));
	ck_assert_int_eq(receive(false), 1);
}

START_TEST(strings_are_checked)
{
	static const struct {
		uint32_t len;
		char text[4];
	} bad[] = {
		{ 0, "" },                 /* not even a NUL */
		{ 3, "abc" },              /* no NUL */
		{ 4, { 'a', 0, 'b', 0 } }, /* one too early */
		{ 5, "abc" },              /* longer than the message */
		{ UINT32_MAX - 1, "abc" },
	};

	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		raw(&bad[i], sizeof(bad[i]));
		ck_assert_str_eq(wire_get_string(&in), "");
		ck_assert_int_eq(in.error, -EBADMSG);
	}
	raw("", 0);
	ck_assert_str_eq(wire_get_string(&in), "");
	ck_assert_int_eq(wire_end(&in), -EBADMSG);
}
END_TEST

START_TEST(components_are_checked)
{
	static const char *const bad[] = { "", ".", "..", "a/b", "/" };
	char long_name[257];

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert(!is_component(bad[i]));
	memset(long_name, 'x', 256);
	long_name[256] = '\0';
	ck_assert(!is_component(long_name));
	long_name[255] = '\0';
	ck_assert(is_component(long_name));
	ck_assert(is_component("..."));
}
END_TEST

START_TEST(ways_are_checked)
{
	static const char *const bad[] = { "/",  "/a",   "a/",  "a//b",  ".",
					   "..", "a/..", "./a", "a/../b" };
	static const char *const good[] = { "", "a", "a/b", ".../..a/b.", " /\n" };
	char long_way[PATH_MAX + 1];

	for (size_t i = 0; i < ELEMENTSOF(bad); i++)
		ck_assert(!is_component_path(bad[i]));
	for (size_t i = 0; i < ELEMENTSOF(good); i++)
		ck_assert(is_component_path(good[i]));
	for (size_t i = 0; i < PATH_MAX; i++)
		long_way[i] = i % 2 ? '/' : 'x';
	long_way[PATH_MAX] = '\0';
	ck_assert(!is_component_path(long_way));
	long_way[PATH_MAX - 1] = '\0';
	ck_assert(is_component_path(long_way));
	memset(long_way, 'x', 256);
	long_way[256] = '\0';
	ck_assert(!is_component_path(long_way));
}
END_TEST

START_TEST(headers_are_checked)
{
	struct wire_header h = { .n_fds = 1 };

	ck_assert_int_eq(send(pair[0], &h, sizeof(h) - 1, 0), (ssize_t)sizeof(h) - 1);
	ck_assert_int_eq(receive(true), -EBADMSG);
	ck_assert_int_eq(send(pair[0], &h, sizeof(h), 0), (ssize_t)sizeof(h));
	ck_assert_int_eq(receive(true), -EBADMSG);
	h = (struct wire_header){ .is_long = 1 };
	ck_assert_int_eq(send(pair[0], &h, sizeof(h), 0), (ssize_t)sizeof(h));
	ck_assert_int_eq(receive(true), -EBADMSG);
	h.is_long = 2;
	ck_assert_int_eq(send(pair[0], &h, sizeof(h), 0), (ssize_t)sizeof(h));
	ck_assert_int_eq(receive(true), -EBADMSG);
	ck_assert_int_eq(receive(true), -EAGAIN);
	fd_closep(&pair[0]);
	ck_assert_int_eq(receive(true), 0);
}
END_TEST

START_TEST(too_large_a_message_is_cut_and_refused)
{
	int size = (int)MiB(1);
	size_t len = WIRE_MESSAGE + 1;
	char *data = calloc(1, len);

	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	(void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	ck_assert_int_eq(send(pair[0], data, len, 0), (ssize_t)len);
	free(data);
	ck_assert_int_eq(receive(true), -EBADMSG);
}
END_TEST

/* Sends n descriptors with a header that tells them. */
static void send_fds(unsigned n)
{
	struct wire_header h = { .n_fds = n };
	char control[CMSG_SPACE(sizeof(int) * 2 * WIRE_FDS)] = { 0 };
	struct iovec iov = { .iov_base = &h, .iov_len = sizeof(h) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = CMSG_SPACE(sizeof(int) * n) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd = STDIN_FILENO;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * n);
	for (unsigned i = 0; i < n; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(pair[0], &m, 0), (ssize_t)sizeof(h));
}

START_TEST(too_many_descriptors_are_closed_and_refused)
{
	unsigned before = fds_open();

	send_fds(WIRE_FDS);
	ck_assert_int_eq(receive(false), 1);
	send_fds(WIRE_FDS + 1);
	ck_assert_int_eq(receive(false), -EBADMSG);
	wire_in_done(&in);
	ck_assert_uint_eq(fds_open(), before);
	wire_begin(&out, 1, 1);
	for (unsigned i = 0; i < WIRE_FDS; i++)
		wire_put_fd(&out, STDIN_FILENO);
	ck_assert_int_eq(wire_pack(&out), -EMSGSIZE);
}
END_TEST

static void long_make(size_t len)
{
	wire_begin(&out, 3, 4);
	for (size_t i = 0; i < len / 8; i++)
		wire_put(&out, i);
	wire_put_fd(&out, STDIN_FILENO);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
}

START_TEST(long_messages_come_as_files)
{
	_cleanup_close_ int fd = -1;

	long_make(MiB(1));
	ck_assert_uint_eq(out.len, sizeof(struct wire_header));
	/* Once more changes nothing. */
	ck_assert_int_eq(wire_pack(&out), 0);
	ck_assert_int_eq(receive(true), 1);
	for (size_t i = 0; i < MiB(1) / 8; i++)
		ck_assert_uint_eq(wire_get(&in), i);
	fd = wire_get_fd(&in);
	ck_assert_int_eq(wire_end(&in), 0);
	ck_assert_uint_eq(inode(fd), inode(STDIN_FILENO));
	long_make(MiB(1));
	ck_assert_int_eq(receive(false), -EBADMSG);
}
END_TEST

/* A file that the sender could still change, or no file at all. */
START_TEST(long_messages_must_be_sealed)
{
	int bad[] = { memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING), STDIN_FILENO };

	ck_assert_int_eq(ftruncate(bad[0], 4096), 0);
	for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
		struct wire_header h;

		wire_begin(&out, 3, 4);
		wire_put_fd(&out, bad[i]);
		ck_assert_int_eq(wire_pack(&out), 0);
		memcpy(&h, out.data, sizeof(h));
		h.is_long = 1;
		memcpy(out.data, &h, sizeof(h));
		ck_assert_int_eq(wire_send(pair[0], &out, 0), 0);
		ck_assert_int_eq(receive(true), -EBADMSG);
	}
	(void)close(bad[0]);
}
END_TEST

START_TEST(what_is_too_long_for_a_file_is_not_sent)
{
	size_t len = MiB(16);
	char *data = calloc(1, len);

	wire_begin(&out, 1, 1);
	for (size_t i = 0; i <= WIRE_LONG / len; i++)
		wire_put_bytes(&out, data, len);
	free(data);
	ck_assert_int_eq(wire_pack(&out), -EMSGSIZE);
	/* The next is none the worse. */
	wire_begin(&out, 1, 1);
	ck_assert_int_eq(wire_post(pair[0], &out), 0);
	ck_assert_int_eq(receive(false), 1);
	ck_assert_int_eq(wire_end(&in), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wire");
	TCase *tc = tcase_create("wire");
	const TTest *const tests[] = {
		what_is_put_is_got,
		what_is_left_is_an_error,
		what_is_missing_is_an_error,
		strings_are_checked,
		components_are_checked,
		ways_are_checked,
		records_are_put_and_got,
		records_are_checked,
		each_type_is_checked,
		headers_are_checked,
		too_large_a_message_is_cut_and_refused,
		too_many_descriptors_are_closed_and_refused,
		long_messages_come_as_files,
		long_messages_must_be_sealed,
		what_is_too_long_for_a_file_is_not_sent,
	};

	tcase_add_checked_fixture(tc, setup, teardown);
	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
