/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* last-reference.h for a process that may not ask by itself, as it has become a user: a process of
 * its own keeps the two capabilities that the question takes, and does nothing else. It gives back
 * what it was given, a file without a name that its deleter had open for writing, and looks up
 * nothing by a name. It ends with its deleter. */
#pragma once

struct last_reference;
struct last_reference_process;

/* Starts it, before anything is given up and before there are threads, on the filesystem that
 * dirfd is on. NULL where nothing is shrunk, the question cannot be asked, or it does not start. */
struct last_reference_process *last_reference_process_start(int dirfd);
struct last_reference_process *last_reference_process_free(struct last_reference_process *p);

/* Lives as long; NULL for NULL. */
const struct last_reference *last_reference_process(struct last_reference_process *p);
