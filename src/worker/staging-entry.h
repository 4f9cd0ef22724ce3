/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The staging directories themselves, and single things put back. Each function answers one
 * request, and returns 0, or a negative errno only if it could not be answered: then the worker
 * ends. */
#pragma once

struct serving;

int staging_make(struct serving *s);
int staging_list(struct serving *s);
int staging_remove(struct serving *s);
int staging_restore(struct serving *s);
int staging_open_dir(struct serving *s);
