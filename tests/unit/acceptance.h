/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A directory in which something is protected, and taking in what is there, for tests in which
 * calls fail meanwhile. */
#pragma once

struct acceptance {
	char dir[64], link[128]; /* link: to what the configuration protects */
	char kept[128], inside[128], beside[128];
};

void acceptance_make(struct acceptance *a);
void acceptance_remove(struct acceptance *a);

/* Takes in a path, or a list of all of them. Returns 0, or a negative errno where nothing was
 * accepted; -EPERM: it is protected. It ends the program where something protected was accepted. */
int acceptance_path(const struct acceptance *a, const char *path);
int acceptance_list(const struct acceptance *a);
