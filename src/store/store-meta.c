/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store-internal.h"
#include "base/macros.h"

int store_meta_set(struct store *s, const char *key, const char *value)
{
	struct binder b = { 0 };
	int e = statement_get(s, STATEMENT_META_SET,
			      "INSERT INTO meta (key, value) VALUES (?, ?) "
			      "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
			      &b.st);

	if (e < 0)
		return e;
	bind_string(&b, key);
	bind_string(&b, value);
	return b.rc == SQLITE_OK ? statement_run(s, b.st) : store_error(s->db, b.rc);
}

int store_meta_get(struct store *s, const char *key, char **ret)
{
	_cleanup_statement_ sqlite3_stmt *st = NULL;
	struct binder b = { 0 };
	struct reader in;
	char *value;
	int e = statement_prepare(s, "SELECT value FROM meta WHERE key = ?", &st);

	if (e < 0)
		return e;
	b.st = st;
	bind_string(&b, key);
	e = statement_next(s, st);
	if (e <= 0)
		return e < 0 ? e : -ENOENT;
	in = (struct reader){ .st = st };
	value = strdup(read_string(&in));
	if (!value || in.error < 0) {
		free(value);
		return in.error < 0 ? in.error : -ENOMEM;
	}
	*ret = value;
	return 0;
}
