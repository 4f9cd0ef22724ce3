/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config-support.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"

#define HOUR (3600 * USEC_PER_SEC)

void hear(const struct config_error *e, void *userdata)
{
	struct heard *h = userdata;
	size_t len = strlen(h->text);

	h->n_warnings += e->is_warning;
	if (!e->is_warning && h->n++ == 0) {
		h->line = e->line;
		h->column = e->column;
	}
	ck_assert_ptr_nonnull(e->file);
	(void)snprintf(h->text + len, sizeof(h->text) - len, "%s:%u:%u: %s\n",
		       strrchr(e->file, '/') + 1, e->line, e->column, e->text);
}

static char dir[64];

const char *config_dir_make(void)
{
	scratch_make(dir, sizeof(dir));
	return dir;
}

void config_dir_remove(void)
{
	scratch_remove(dir);
}

int load_bytes(struct config **ret, const char *text, size_t len, struct heard *h)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/a.yaml", dir);
	f = fopen(path, "we");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(text, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
	*h = (struct heard){ 0 };
	return config_load_file(ret, path, hear, h);
}

struct config *load_good(const char *text)
{
	struct config *c = NULL;
	struct heard h;
	int r = load_bytes(&c, text, strlen(text), &h);

	ck_assert_msg(r == 0, "%s", h.text);
	ck_assert_uint_eq(h.n, 0);
	return c;
}

void assert_defaults(const struct config *c)
{
	ck_assert_uint_eq(c->n_spools, 0);
	ck_assert_uint_eq(c->n_devices, 0);
	ck_assert_int_eq(c->pacing.latency, LATENCY_AUTO);
	ck_assert_uint_eq(c->pacing.rate_min, MiB(8));
	ck_assert_uint_eq(c->pacing.rate_max, UINT64_MAX);
	ck_assert(c->urgent_below.is_share && c->urgent_until.is_share);
	ck_assert_double_eq_tol(c->urgent_below.share, 0.05, 1e-9);
	ck_assert_double_eq_tol(c->urgent_until.share, 0.1, 1e-9);
	ck_assert(c->staging);
	ck_assert_uint_eq(c->undo_usec, 0);
	ck_assert_uint_eq(c->history_usec, 30 * 24 * HOUR);
	ck_assert_uint_eq(c->jobs_per_user, 100000);
	ck_assert_uint_eq(c->names_per_user, 10000000);
	ck_assert_ptr_nonnull(c->protect);
	ck_assert_ptr_null(c->protect[0]);
	ck_assert_ptr_null(c->trim_schedule);
	ck_assert_uint_eq(c->n_trims, 0);
	ck_assert_uint_eq(c->trim_limits.min_bytes, 0);
	ck_assert_ptr_null(c->fleet_database);
	ck_assert_ptr_null(c->fleet_name);
	ck_assert_ptr_null(c->fleet_uid_space);
	ck_assert_uint_eq(c->n_fleet_filesystems, 0);
}
