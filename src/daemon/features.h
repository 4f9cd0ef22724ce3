/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What this build and this kernel have, in words, for --version and the API. */
#pragma once

#define FEATURES_MAX 8

struct features {
	const char *names[FEATURES_MAX + 1]; /* NULL-terminated */
	char text[FEATURES_MAX][32];
};

void features_detect(struct features *f);
