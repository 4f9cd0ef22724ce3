/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A worker that says what it must not. What, is the name it was started by; it never does any work.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "wire/protocol.h"

static struct wire_in in;
static struct wire_out out;

static void say(enum protocol_answer type, uint32_t serial)
{
	wire_begin(&out, type, serial);
}

static void entry(const char *name, uint64_t dir)
{
	say(ANSWER_ENTRIES, in.serial);
	protocol_put_item(&out, &(struct intake_entry){ .dir = dir, .name = name });
}

/* The answer to a look. */
static void lie(const char *how)
{
	if (strcmp(how, "noise") == 0) {
		(void)send(PROTOCOL_FD, "noise", 5, 0);
		return;
	}
	say(ANSWER_VALIDATED, in.serial);
	if (strcmp(how, "unknown") == 0)
		say((enum protocol_answer)999, in.serial);
	else if (strcmp(how, "other-serial") == 0)
		say(ANSWER_ALIVE, in.serial + 1);
	else if (strcmp(how, "other-request") == 0)
		say(ANSWER_RAN, in.serial);
	else if (strcmp(how, "welcome-again") == 0)
		say(ANSWER_WELCOME, 0);
	else if (strcmp(how, "slash") == 0)
		entry("a/b", 1);
	else if (strcmp(how, "no-dir") == 0)
		entry("a", 1);
	else if (strcmp(how, "descriptor") == 0)
		wire_put_fd(&out, PROTOCOL_FD);
	else if (strcmp(how, "long") == 0)
		for (int i = 0; i < 10000; i++)
			wire_put(&out, 0);
	(void)wire_post(PROTOCOL_FD, &out);
}

/* The answer to STAGE: of a directory, what is none, or one where nothing was moved. */
static void lie_staged(const char *how)
{
	struct staged_message m = { .staging_id = { .ino = 1, .type = S_IFDIR }, .dir = -1 };

	if (strcmp(how, "staged-failed") == 0) {
		m.cause = ERROR_NOT_AUTHORIZED;
		m.text = "no";
	} else if (strcmp(how, "staged-nowhere") == 0) {
		m.staging_id.ino = 0;
	}
	if (strcmp(how, "staged-file") == 0)
		m.dir = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	else
		m.dir = open("/", (strcmp(how, "staged-path") == 0 ? O_PATH : O_RDONLY) |
					  O_DIRECTORY | O_CLOEXEC);
	say(ANSWER_STAGED, in.serial);
	protocol_put(&out, &m);
	(void)wire_post(PROTOCOL_FD, &out);
}

/* The answer to RUN: of units that were not asked for, or that make no sense. */
static void lie_run(const char *how)
{
	struct given_message m = { .path = "1", .id = { .ino = 1, .type = S_IFDIR } };
	struct given_name name = { .name = "a", .id = { .ino = 2, .type = S_IFDIR } };

	if (strcmp(how, "given-none") == 0) {
		say(ANSWER_RAN, in.serial);
		protocol_put(&out, &(struct run_result){ .given = 1, .strategy = "" });
		(void)wire_post(PROTOCOL_FD, &out);
		return;
	}
	say(ANSWER_GIVEN, in.serial);
	if (strcmp(how, "given-way") == 0)
		m.path = "1/../..";
	else if (strcmp(how, "given-slice") == 0)
		m.slice = m.slices = 2;
	else if (strcmp(how, "given-file") == 0)
		name.id.type = S_IFREG;
	protocol_put(&out, &m);
	if (m.slices == 0 && strcmp(how, "given-empty") != 0)
		protocol_put_item(&out, &name);
	(void)wire_post(PROTOCOL_FD, &out);
}

int main(void)
{
	const char *program = (const char *)getauxval(AT_EXECFN);
	const char *how = program ? strrchr(program, '/') : NULL;

	if (!how)
		return EXIT_FAILURE;
	how++;
	if (wire_receive(PROTOCOL_FD, &in, 0, true) <= 0)
		return EXIT_FAILURE;
	if (strcmp(how, "early") == 0)
		in.serial = 1;
	say(strcmp(how, "early") == 0 ? ANSWER_ALIVE : ANSWER_WELCOME, in.serial);
	if (strcmp(how, "early") != 0) {
		wire_put(&out, PROTOCOL_VERSION + (strcmp(how, "version") == 0));
		wire_put(&out, 0);
	}
	(void)wire_post(PROTOCOL_FD, &out);
	while (wire_receive(PROTOCOL_FD, &in, 0, true) > 0)
		if (in.type == REQUEST_VALIDATE)
			lie(how);
		else if (in.type == REQUEST_STAGE)
			lie_staged(how);
		else if (in.type == REQUEST_RUN)
			lie_run(how);
	return EXIT_SUCCESS;
}
