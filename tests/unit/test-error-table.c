/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table of errors: each is whole, and is documented as it is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <systemd/sd-bus.h>

#include "base/error-table.h"
#include "base/macros.h"
#include "support.h"

/* A manual page, to be freed. */
static char *page_read(const char *name)
{
	char path[4096], *text = NULL;
	size_t size = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), MAN "/%s.scd", name);
	file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_gt(getdelim(&text, &size, '\0', file), 0);
	(void)fclose(file);
	return text;
}

/* What stands below a heading, to the end of the page. */
static const char *section(const char *page, const char *heading)
{
	const char *found = strstr(page, heading);

	ck_assert_msg(found, "no %s", heading);
	return found;
}

START_TEST(error_table_is_whole)
{
	for (enum error_cause c = ERROR_NONE + 1; c < ERROR_CAUSES; c++) {
		const struct error_entry *e = error_entry(c);
		char name[64];

		ck_assert_ptr_nonnull(e->name);
		ck_assert_int_lt(e->error, 0);
		ck_assert_int_ne(e->exit_status, EXIT_DONE);
		ck_assert_int_eq(e->text[strlen(e->text) - 1], '.');
		(void)snprintf(name, sizeof(name), ERROR_PREFIX "%s", e->name);
		ck_assert(sd_bus_interface_name_is_valid(name));
		ck_assert_int_eq(error_by_bus_name(name), c);
		for (enum error_cause d = ERROR_NONE + 1; d < c; d++)
			ck_assert_str_ne(e->name, error_entry(d)->name);
	}
}
END_TEST

START_TEST(error_names_of_other_programs_are_none)
{
	ck_assert_int_eq(error_by_bus_name(NULL), ERROR_NONE);
	ck_assert_int_eq(error_by_bus_name(SD_BUS_ERROR_NO_REPLY), ERROR_NONE);
	ck_assert_int_eq(error_by_bus_name("Protected"), ERROR_NONE);
	ck_assert_int_eq(error_by_bus_name(ERROR_PREFIX "Newer"), ERROR_FAILED);
}
END_TEST

START_TEST(error_from_errno_knows_the_place)
{
	ck_assert_int_eq(error_from_errno(-EPERM, ERROR_AT_SPELLING), ERROR_PROTECTED);
	ck_assert_int_eq(error_from_errno(-ENAMETOOLONG, ERROR_AT_SPELLING), ERROR_INVALID_PATH);
	ck_assert_int_eq(error_from_errno(-EPERM, ERROR_AT_PATH), ERROR_NOT_AUTHORIZED);
	ck_assert_int_eq(error_from_errno(-EROFS, ERROR_AT_PATH), ERROR_NOT_AUTHORIZED);
	ck_assert_int_eq(error_from_errno(-EEXIST, ERROR_AT_PATH), ERROR_WRONG_STATE);
	ck_assert_int_eq(error_from_errno(-EIO, ERROR_AT_PATH), ERROR_FAILED);
	ck_assert_int_eq(error_from_errno(-EDQUOT, ERROR_AT_QUOTA), ERROR_LIMIT_EXCEEDED);
	ck_assert_int_eq(error_from_errno(-ENOMEM, ERROR_AT_QUOTA), ERROR_FAILED);
	ck_assert_int_eq(error_from_errno(-EPERM, ERROR_AT_DAEMON), ERROR_FAILED);
}
END_TEST

START_TEST(error_table_is_documented)
{
	_cleanup_free_ char *bus = page_read("org.reclaimd1.5");
	_cleanup_free_ char *library = page_read("reclaim.3");
	_cleanup_free_ char *ctl = page_read("reclaimctl.1");

	for (enum error_cause c = ERROR_NONE + 1; c < ERROR_CAUSES; c++) {
		const struct error_entry *e = error_entry(c);
		const char *symbol = strerrorname_np(-e->error);
		char text[512];

		(void)snprintf(text, sizeof(text),
			       "\n" ERROR_PREFIX "*%s* (%s, exit status %d)\n\t%s\n", e->name,
			       symbol, e->exit_status, e->text);
		ck_assert_msg(strstr(section(bus, "\n# ERRORS\n"), text),
			      "org.reclaimd1(5) lacks:%s", text);
		(void)snprintf(text, sizeof(text), "\n*%s*\n", symbol);
		ck_assert_msg(strstr(section(library, "\n# ERRORS\n"), text), "reclaim(3) lacks:%s",
			      text);
		(void)snprintf(text, sizeof(text), "\n*%d*\n", e->exit_status);
		ck_assert_msg(strstr(section(ctl, "\n# EXIT STATUS\n"), text),
			      "reclaimctl(1) lacks:%s", text);
	}
}
END_TEST

int main(void)
{
	const TTest *tests[] = {
		error_table_is_whole,
		error_names_of_other_programs_are_none,
		error_from_errno_knows_the_place,
		error_table_is_documented,
	};

	return run_case("error-table", tests, ELEMENTSOF(tests));
}
