/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What --help prints: one table has the usage and the options of all verbs. */
#pragma once

/* All verbs, and all options sorted by whose they are. */
void help_all(void);

/* One verb (enum verb_flags): how it is used, and the options that it takes. */
void help_verb(unsigned verb);
