/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl on another machine, over ssh(1): every verb, with the paths of that machine. */
#pragma once

/* Becomes ssh, which runs reclaimctl with these words (the verb first) on a host,
 * "[USER@]HOST[:PORT]", which is the very string in them that getopt has found, and is taken out.
 * Returns only if that cannot be done, after having said why: an exit status. */
int remote_become(const char *host, int argc, char **argv);
