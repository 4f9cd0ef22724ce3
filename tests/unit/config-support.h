/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What tests of the configuration share: files in a scratch directory, and what is complained about
 * when they are read. One test at a time has it. */
#pragma once

#include <stddef.h>

#include "config/config.h"
#include "support.h"

/* One policy with these keys; with these besides what it needs. */
#define POLICY1(keys) "policies: {a: {" keys "}}\n"
#define RULE(keys) "policies: {a: {path: /b, " keys "}}\n"

/* What was complained about: the text of all, and the place of the first. */
struct heard {
	unsigned n, n_warnings, line, column;
	char text[4096];
};

/* For config_load and the like; userdata is a struct heard. */
void hear(const struct config_error *e, void *userdata);

/* Makes the directory, whose path is returned, and removes it. */
const char *config_dir_make(void);
void config_dir_remove(void);

/* Loads a file with these bytes; or, which has to go without complaints, with this text. */
int load_bytes(struct config **ret, const char *text, size_t len, struct heard *h);
struct config *load_good(const char *text);

void assert_defaults(const struct config *c);
