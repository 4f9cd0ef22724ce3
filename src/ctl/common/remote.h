/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* reclaimctl on another machine, over ssh(1): every verb, with the paths of that machine. */
#pragma once

/* Becomes ssh, which runs reclaimctl with these words (the verb first) on a host,
 * "[USER@]HOST[:PORT]". Returns only if that cannot be done, after having said why: an exit status.
 */
int remote_become(const char *host, int argc, char *const *argv);

/* Takes the option that gave the host (the very string that getopt has found) out of the words.
 * Returns how many are left, or -EINVAL if it is mixed up with others, or given twice. */
int remote_words(char **argv, int argc, const char *host);
