/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The command line of `run`, `plan`, `devices` and `check-config`, parsed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/engine.h"

enum json_mode { JSON_OFF, JSON_SHORT, JSON_PRETTY };
enum switch_mode { SWITCH_AUTO, SWITCH_ON, SWITCH_OFF };

/* Exit statuses: DESIGN section 3. */
enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PARTLY = 3,
	EXIT_NOT_AUTHORIZED = 4,
	EXIT_NO_DAEMON = 5,
};

struct options {
	bool latency_off;
	uint64_t latency_usec; /* a bound, or 0: found out */
	bool verbose;
	const char *trace; /* file for what the sensors said, or NULL */
	bool fixed_backend;
	enum backend backend;
	const char *files_from; /* NULL: none; "-": standard input */
	char separator;
	enum switch_mode progress;
	bool dry_run, quiet, help, version;
	enum json_mode json;
	uint64_t interval_usec;              /* of devices */
	const char *configuration_directory; /* NULL: the system's */
	char *const *paths;
	size_t n_paths;
};

enum verb_flags {
	VERB_RUN = 1 << 0,
	VERB_PLAN = 1 << 1,
	VERB_DEVICES = 1 << 2,
	VERB_CHECK_CONFIG = 1 << 3,
	VERB_POLICY = 1 << 4,
};

/* Parses the words behind the verb. Returns 0, or EXIT_USAGE after having said what is wrong. */
int options_parse(struct options *o, enum verb_flags verb, int argc, char **argv);
