/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "verbs.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/macros.h"
#include "database.h"
#include "schema.h"

enum { STATUS_DONE, STATUS_FAILED, STATUS_USAGE };

static int fail(const char *format, ...) _printf_(1, 2);
static int fail(const char *format, ...)
{
	struct safe_text text;
	va_list args;

	va_start(args, format);
	safe_text_formatv(&text, format, args);
	va_end(args);
	safe_text_print("reclaim-fleet", &text);
	return STATUS_FAILED;
}

/* What the library says has several lines at times; the first says it. */
static int fail_connection(PGconn *conn)
{
	const char *text = conn ? PQerrorMessage(conn) : "out of memory";

	return fail("%.*s", (int)strcspn(text, "\n"), text);
}

/* What is wrong with a statement, for a person. */
static int fail_statement(PGconn *conn, const PGresult *result)
{
	const char *code = database_error_code(result), *text = database_error_text(result);

	if (code[0] == '\0')
		return fail_connection(conn);
	if (strcmp(code, "3F000") == 0 || strcmp(code, "42P01") == 0 || strcmp(code, "42883") == 0)
		return fail("the database has no schema reclaimd: run reclaimctl fleet init");
	if (strcmp(code, "42501") == 0)
		return fail("%s: expected a role that may do that (docs/fleet.md)", text);
	return fail("%s", text);
}

static int string_check(const char *string)
{
	_cleanup_free_ char *wrong = database_string_check(string);

	return wrong ? fail("the connection string: %.*s", (int)strcspn(wrong, "\n"), wrong)
		     : STATUS_DONE;
}

static int connect_to(PGconn **ret, const char *string)
{
	int r = string_check(string);

	if (r != STATUS_DONE)
		return r;
	*ret = database_connect_now(string, "reclaimctl");
	return PQstatus(*ret) == CONNECTION_OK ? STATUS_DONE : fail_connection(*ret);
}

/* Does one statement, or several without parameters. *ret is the caller's to clear. */
static int execute(PGconn *conn, const char *statement, int n, const char *const *v, PGresult **ret)
{
	PGresult *result = n > 0 ? PQexecParams(conn, statement, n, NULL, v, NULL, NULL, 0)
				 : PQexec(conn, statement);
	ExecStatusType status = PQresultStatus(result);
	int r = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK
			? STATUS_DONE
			: fail_statement(conn, result);

	if (r == STATUS_DONE && ret)
		*ret = result;
	else
		PQclear(result);
	return r;
}

/* ---- init ----------------------------------------------------------------------------------- */

/* The version that the database has; 0: none. */
static int version_get(PGconn *conn, int *ret)
{
	PGresult *result = NULL;
	int r = execute(conn, "SELECT to_regclass('reclaimd.version') IS NOT NULL", 0, NULL,
			&result);
	bool has = r == STATUS_DONE && strcmp(PQgetvalue(result, 0, 0), "t") == 0;

	PQclear(result);
	result = NULL;
	*ret = 0;
	if (r != STATUS_DONE || !has)
		return r;
	r = execute(conn, "SELECT max(number) FROM reclaimd.version", 0, NULL, &result);
	if (r == STATUS_DONE)
		*ret = atoi(PQgetvalue(result, 0, 0));
	PQclear(result);
	return r;
}

static int migrate(PGconn *conn, int version)
{
	char number[16];
	const char *const v[] = { number };
	int r = execute(conn, migrations[version].statements, 0, NULL, NULL);

	(void)snprintf(number, sizeof(number), "%d", version + 1);
	return r != STATUS_DONE ? r
				: execute(conn, "INSERT INTO reclaimd.version (number) VALUES ($1)",
					  1, v, NULL);
}

/* All or nothing, and one at a time. */
static int init(PGconn *conn)
{
	int version = 0, r;

	if (PQserverVersion(conn) < 130000)
		return fail("the server is too old: expected PostgreSQL 13 or later");
	r = execute(conn,
		    "SET client_min_messages = warning; BEGIN; "
		    "SELECT pg_advisory_xact_lock(7362146)",
		    0, NULL, NULL);
	if (r == STATUS_DONE)
		r = version_get(conn, &version);
	if (r == STATUS_DONE && version > SCHEMA_VERSION)
		return fail("the database has version %d of the schema, and this reclaimd takes "
			    "version %d: update this host",
			    version, SCHEMA_VERSION);
	for (int i = version; r == STATUS_DONE && i < SCHEMA_VERSION; i++)
		r = migrate(conn, i);
	if (r == STATUS_DONE)
		r = execute(conn, "COMMIT", 0, NULL, NULL);
	if (r == STATUS_DONE)
		(void)printf("{\"version\": %d, \"before\": %d}\n", SCHEMA_VERSION, version);
	return r;
}

/* ---- the others ----------------------------------------------------------------------------- */

/* Prints the text of the one row and column. */
static int show(PGconn *conn, const char *statement)
{
	PGresult *result = NULL;
	int r = execute(conn, statement, 0, NULL, &result);

	if (r == STATUS_DONE && (PQntuples(result) != 1 || PQnfields(result) != 1))
		r = fail(
			"the database answers what was not asked: its schema reclaimd was altered");
	if (r == STATUS_DONE)
		(void)printf("%s\n", PQgetvalue(result, 0, 0));
	PQclear(result);
	return r;
}

static int hosts(PGconn *conn, char **argv)
{
	(void)argv;
	return show(conn,
		    "SELECT json_build_object("
		    "'hosts', (SELECT coalesce(json_agg(h ORDER BY h.name), '[]') "
		    "FROM reclaimd.show_hosts h), "
		    "'filesystems', (SELECT coalesce(json_agg(f ORDER BY f.name, f.host), '[]') "
		    "FROM reclaimd.show_filesystems f))");
}

static int units(PGconn *conn, char **argv)
{
	(void)argv;
	/* Of a large backlog no more than a person reads. */
	return show(
		conn,
		"SELECT json_build_object("
		"'jobs', (SELECT coalesce(json_agg(j ORDER BY j.owner, j.job), '[]') "
		"FROM (SELECT s.*, h.present FROM reclaimd.show_jobs s "
		"JOIN reclaimd.show_hosts h ON h.name = s.owner) j), "
		"'units', (SELECT coalesce(json_agg(u ORDER BY u.host NULLS LAST, u.unit), '[]') "
		"FROM (SELECT * FROM reclaimd.show_units s ORDER BY s.host NULLS LAST, s.unit "
		"LIMIT 1000) u))");
}

/* Says what a host would be refused for, without joining. */
static int check(PGconn *conn, char **argv)
{
	PGresult *result = NULL;
	int r, version = 0;

	(void)argv;
	r = execute(conn, "SELECT reclaimd.schema_version()", 0, NULL, &result);
	if (r == STATUS_DONE)
		version = atoi(PQgetvalue(result, 0, 0));
	PQclear(result);
	if (r == STATUS_DONE && version != SCHEMA_VERSION)
		return fail("the database has version %d of the schema, and this reclaimd takes "
			    "version %d: %s",
			    version, SCHEMA_VERSION,
			    version < SCHEMA_VERSION ? "run reclaimctl fleet init"
						     : "update this host");
	if (r == STATUS_DONE)
		(void)puts("{}");
	return r;
}

/* Without a connection. */
static int parse(const char *string)
{
	int r = string_check(string);

	if (r == STATUS_DONE)
		(void)puts("{}");
	return r;
}

static int init_verb(PGconn *conn, char **argv)
{
	(void)argv;
	return init(conn);
}

int verbs_run(int argc, char **argv)
{
	static const struct {
		const char *name;
		int n; /* words behind it */
		int (*run)(PGconn *conn, char **argv);
	} verbs[] = {
		{ "init", 0, init_verb }, { "hosts", 0, hosts }, { "units", 0, units },
		{ "check", 0, check },    { "parse", 0, NULL },
	};
	const char *string = getenv(DATABASE_VARIABLE);
	PGconn *conn = NULL;
	int r;

	for (size_t i = 0; string && i < ELEMENTSOF(verbs); i++) {
		if (strcmp(argv[0], verbs[i].name) != 0 || argc != 1 + verbs[i].n)
			continue;
		r = verbs[i].run ? connect_to(&conn, string) : parse(string);
		if (r == STATUS_DONE && verbs[i].run)
			r = verbs[i].run(conn, argv + 1);
		PQfinish(conn);
		return fflush(stdout) != 0 ? STATUS_FAILED : r;
	}
	(void)fail("is started by reclaimd and reclaimctl, not by hand");
	return STATUS_USAGE;
}
