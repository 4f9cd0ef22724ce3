/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What reclaim-fleet does for a person: reclaimctl fleet calls it, and shows what it prints. They
 * wait for the database. */
#pragma once

/* Where the connection string is: not a word of the command line, which all users can see. */
#define DATABASE_VARIABLE "RECLAIM_FLEET_DATABASE"

/* argv[0] is the verb. Prints a result on standard output, as JSON; what is wrong, in one line, on
 * standard error. Returns an exit status: 0; 1 failed; 2 wrong usage. */
int verbs_run(int argc, char **argv);
