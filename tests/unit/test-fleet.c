/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What of reclaim-fleet knows no connection: how many statements it sends, what other hosts want,
 * parameters, and units as they are in the database. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "fleet/demand.h"
#include "fleet/items.h"
#include "fleet/parameters.h"
#include "fleet/statement-budget.h"
#include "fleet/unit-columns.h"
#include "support.h"

START_TEST(budget_holds_in_any_second)
{
	/* As a host that never stops, begins at once, or waits for a while first. */
	for (uint64_t idle = 0; idle <= 3 * USEC_PER_SEC; idle += 700 * USEC_PER_MSEC) {
		struct statement_budget b = { 0 };
		uint64_t sent[1000], now = 12 * USEC_PER_SEC;

		for (size_t i = 0; i < ELEMENTSOF(sent); i++) {
			if (i == 300)
				now += idle;
			now += budget_wait_usec(&b, now);
			ck_assert_uint_eq(budget_wait_usec(&b, now), 0);
			budget_spend(&b, now);
			sent[i] = now;
			if (i >= STATEMENTS_PER_SEC)
				ck_assert_uint_ge(sent[i] - sent[i - STATEMENTS_PER_SEC],
						  USEC_PER_SEC);
		}
		/* And is used, but for what the burst is kept for. */
		ck_assert_uint_le(sent[ELEMENTSOF(sent) - 1] - sent[0] - idle,
				  1000 * USEC_PER_SEC / (STATEMENTS_PER_SEC - STATEMENTS_BURST));
	}
}
END_TEST

START_TEST(budget_is_full_at_first)
{
	struct statement_budget b = { 0 };

	for (int i = 0; i < STATEMENTS_BURST; i++) {
		ck_assert_uint_eq(budget_wait_usec(&b, 5), 0);
		budget_spend(&b, 5);
	}
	ck_assert_uint_gt(budget_wait_usec(&b, 5), 0);
}
END_TEST

START_TEST(demand_is_a_sum_over_hosts)
{
	struct demand d = { 0 };
	char name[FLEET_NAME_SIZE];

	ck_assert_int_eq(demand_set(&d, 0, "a", 3), 0);
	ck_assert_int_eq(demand_set(&d, 0, "b", 4), 0);
	ck_assert_int_eq(demand_set(&d, 1, "a", 5), 0);
	ck_assert_uint_eq(demand_sum(&d, 0), 7);
	ck_assert_uint_eq(demand_sum(&d, 1), 5);
	ck_assert_int_eq(demand_set(&d, 0, "a", 1), 0);
	ck_assert_uint_eq(demand_sum(&d, 0), 5);
	ck_assert_int_eq(demand_set(&d, 0, "b", 0), 0);
	ck_assert_int_eq(demand_set(&d, 0, "c", 0), 0);
	ck_assert_uint_eq(d.n, 2);
	ck_assert_uint_eq(demand_sum(&d, 0), 1);
	/* What a flood of made up hosts takes has a bound. */
	for (int i = 0; i < 2 * DEMAND_HOSTS; i++) {
		(void)snprintf(name, sizeof(name), "host-%d", i);
		ck_assert_int_eq(demand_set(&d, 0, name, 1), i + 2 < DEMAND_HOSTS ? 0 : -E2BIG);
	}
	demand_done(&d);
	ck_assert_uint_eq(demand_sum(&d, 0), 0);
}
END_TEST

START_TEST(parameters_are_texts)
{
	struct parameters p = { .n = 0 };

	parameters_text(&p, NULL);
	parameters_number(&p, INT64_MIN);
	parameters_array(&p);
	parameters_array_end(&p);
	parameters_array(&p);
	parameters_add_text(&p, "a \"b\" \\ {c},'");
	parameters_add_text(&p, "");
	parameters_array_end(&p);
	parameters_array(&p);
	parameters_add_number(&p, -1);
	parameters_add_number(&p, 2);
	parameters_array_end(&p);
	parameters_array(&p);
	parameters_add_bytes(&p, "\0\xff,\"", 4);
	parameters_add_bytes(&p, "", 0);
	parameters_array_end(&p);
	ck_assert(!p.failed);
	ck_assert_int_eq(p.n, 6);
	ck_assert_ptr_null(p.v[0]);
	ck_assert_str_eq(p.v[1], "-9223372036854775808");
	ck_assert_str_eq(p.v[2], "{}");
	ck_assert_str_eq(p.v[3], "{\"a \\\"b\\\" \\\\ {c},'\",\"\"}");
	ck_assert_str_eq(p.v[4], "{-1,2}");
	ck_assert_str_eq(p.v[5], "{\"\\\\x00ff2c22\",\"\\\\x\"}");
	parameters_done(&p);
	/* In the midst of an array. */
	parameters_array(&p);
	parameters_add_number(&p, 1);
	parameters_done(&p);
}
END_TEST

#define D "\\x"
#define ID "7:-12:d"

/* Directory, parent, slice, slices, names, identities. */
static int read_columns(struct unit_columns *u, const char *const c[6])
{
	return unit_columns_read(u, c[0], c[1], c[2], c[3], c[4], c[5]);
}

START_TEST(units_are_read)
{
	static const char *const names[] = {
		D "612f62", ID, "0", "0", D "78000aff00", "1:2:f 18446744073709551615:0:l"
	};
	static const char *const slice[] = { D, "1:0:d", "3", "4", D, "" };
	struct unit_columns u = { 0 };
	char *text;

	ck_assert_int_eq(read_columns(&u, names), 0);
	ck_assert_str_eq(u.directory, "a/b");
	ck_assert_uint_eq(u.parent.ino, 7);
	ck_assert_int_eq(u.parent.btime_nsec, -12);
	ck_assert_uint_eq(u.parent.type, S_IFDIR);
	ck_assert_uint_eq(u.n_names, 2);
	ck_assert_str_eq(u.names, "x");
	ck_assert_str_eq(u.names + 2, "\n\xff");
	ck_assert_uint_eq(u.ids[1].ino, UINT64_MAX);
	ck_assert_uint_eq(u.ids[1].type, S_IFLNK);
	text = unit_columns_identities(&u);
	ck_assert_str_eq(text, names[5]);
	free(text);
	unit_columns_done(&u);
	ck_assert_int_eq(read_columns(&u, slice), 0);
	ck_assert_str_eq(u.directory, "");
	ck_assert_uint_eq(u.slice, 3);
	ck_assert_uint_eq(u.slices, 4);
	ck_assert_uint_eq(u.n_names, 0);
	unit_columns_done(&u);
}
END_TEST

/* Each of them is wrong in one column. */
static const struct {
	int column;
	const char *value;
} wrong[] = {
	/* The directory: "/", "/a", "a/", "a//b", ".", "..", "a/../b", NUL in it, no bytes. */
	{ 0, D "2f" },
	{ 0, D "2f61" },
	{ 0, D "612f" },
	{ 0, D "612f2f62" },
	{ 0, D "2e" },
	{ 0, D "2e2e" },
	{ 0, D "612f2e2e2f62" },
	{ 0, D "610062" },
	{ 0, D "6" },
	{ 0, D "6g" },
	{ 0, "61" },
	{ 0, "" },
	{ 0, NULL },
	/* The parent. */
	{ 1, NULL },
	{ 1, "" },
	{ 1, "7" },
	{ 1, "7:1" },
	{ 1, "7:1:" },
	{ 1, "7:1:f" },
	{ 1, "7:1:x" },
	{ 1, "7:1:d " },
	{ 1, "0:1:d" },
	{ 1, "-7:1:d" },
	{ 1, " 7:1:d" },
	{ 1, "7: 1:d" },
	{ 1, "7:--1:d" },
	{ 1, "18446744073709551616:1:d" },
	{ 1, "7:9223372036854775808:d" },
	/* The slice. */
	{ 2, NULL },
	{ 2, "1" },
	{ 2, "-1" },
	{ 2, "0x" },
	{ 2, "4294967296" },
	{ 3, NULL },
	{ 3, "1" },
	{ 3, "99999999999999999999" },
	{ 3, "65537" },
	/* Names: none, empty, without an end, ".", "..", with a slash, one too few, one too many.
	 */
	{ 4, NULL },
	{ 4, D },
	{ 4, D "7800"
	       "00" },
	{ 4, D "780079" },
	{ 4, D "7800"
	       "2e00" },
	{ 4, D "7800"
	       "2e2e00" },
	{ 4, D "7800"
	       "612f6200" },
	{ 4, D "7800" },
	{ 4, D "7800"
	       "7900"
	       "7a00" },
	/* Identities. */
	{ 5, NULL },
	{ 5, "" },
	{ 5, "1:2:f" },
	{ 5, "1:2:f 3:4:f 5:6:f" },
	{ 5, "1:2:f  3:4:f" },
	{ 5, "1:2:f 3:4:f " },
	{ 5, "1:2:f,3:4:f" },
	{ 5, "1:2:f 0:4:f" },
	{ 5, "1:2:f 3:4:?" },
};

START_TEST(what_is_no_unit_is_refused)
{
	const char *columns[] = { D "612f62", ID, "0", "0", D "78007900", "1:2:f 3:4:f" };
	const char *value = columns[wrong[_i].column];
	struct unit_columns u = { 0 };

	ck_assert_int_eq(read_columns(&u, columns), 0);
	unit_columns_done(&u);
	columns[wrong[_i].column] = wrong[_i].value;
	ck_assert_msg(read_columns(&u, columns) == -EBADMSG, "%s in place of %s",
		      wrong[_i].value ? wrong[_i].value : "NULL", value);
	unit_columns_done(&u);
}
END_TEST

START_TEST(units_have_bounds)
{
	struct unit_columns u = { 0 };
	const struct unit_name name = { .name = "a", .id = { .ino = 1, .type = S_IFREG } };
	char path[2 * FLEET_PATH_SIZE + 3] = D, component[256 + 1];
	const char *columns[] = { path, ID, "0", "4", D, "" };

	for (int i = 0; i < FLEET_NAMES; i++)
		ck_assert_int_eq(unit_columns_add(&u, &name), 0);
	ck_assert_int_eq(unit_columns_add(&u, &name), -E2BIG);
	unit_columns_done(&u);
	/* "a/a/.../a" of 4,095 bytes, and of two more. */
	for (int i = 0; i < FLEET_PATH_SIZE - 1; i++)
		(void)strcat(path, i % 2 ? "2f" : "61");
	ck_assert_int_eq(read_columns(&u, columns), 0);
	unit_columns_done(&u);
	(void)strcat(path, "2f");
	ck_assert_int_eq(read_columns(&u, columns), -EBADMSG);
	unit_columns_done(&u);
	memset(component, 'a', 256);
	component[256] = '\0';
	ck_assert(!is_component_path(component));
	component[255] = '\0';
	ck_assert(is_component_path(component));
}
END_TEST

/* A message as reclaimd sends it, received. */
static void message_read(struct wire_out *o, struct wire_in *in)
{
	in->type = ((const struct wire_header *)(const void *)o->data)->type;
	in->at = o->data + sizeof(struct wire_header);
	in->left = o->len - sizeof(struct wire_header);
	in->error = o->error;
}

static void publish(struct items *q, uint64_t job, uint64_t serial)
{
	const struct publish_message m = { .serial = serial,
					   .job = job,
					   .uid = 1000,
					   .filesystem = "scratch",
					   .directory = "d",
					   .parent = { .ino = 5, .type = S_IFDIR },
					   .slice = serial,
					   .slices = 1000 };
	struct publish_message got;
	struct wire_out o = { 0 };
	struct wire_in in = { 0 };

	wire_begin(&o, FLEET_PUBLISH, 0);
	fleet_put(&o, &m);
	message_read(&o, &in);
	ck_assert_int_eq(fleet_get(&in, &got), 0);
	ck_assert_int_eq(items_add_publish(q, &got, &in), 0);
	wire_out_done(&o);
}

START_TEST(items_go_together_in_order)
{
	struct items q = { 0 };
	struct parameters p = { .n = 0 };
	const char *statement = NULL;
	uint64_t serial = 0;

	ck_assert_uint_eq(items_batch(&q, "life", "me", &statement, &p), 0);
	for (uint64_t i = 0; i < ITEMS_BATCH + 2; i++)
		publish(&q, 1, i);
	publish(&q, 2, 99);
	ck_assert_int_eq(items_add_ended(&q, 7), 0);
	ck_assert_int_eq(items_add_ended(&q, 8), 0);
	ck_assert_int_eq(items_add_recall(&q, 1), 0);
	ck_assert_int_eq(items_add_recall(&q, 2), 0);
	ck_assert_int_eq(items_add_recall(&q, 0), -EBADMSG);
	ck_assert_uint_eq(items_batch(&q, "life", "me", &statement, &p), ITEMS_BATCH);
	ck_assert_ptr_nonnull(strstr(statement, "publish"));
	ck_assert_str_eq(p.v[1], "me");
	ck_assert_str_eq(p.v[3], "1");
	parameters_done(&p);
	for (uint64_t i = 0; i < ITEMS_BATCH; i++) {
		ck_assert(items_pop(&q, &serial));
		ck_assert_uint_eq(serial, i);
	}
	/* What is left of the job; the next job's; the claims; and one job after the other. */
	ck_assert_uint_eq(items_batch(&q, "life", "me", &statement, &p), 2);
	parameters_done(&p);
	items_drop_publishes(&q);
	ck_assert_uint_eq(q.n, 4);
	ck_assert_uint_eq(items_batch(&q, "life", "me", &statement, &p), 2);
	ck_assert_ptr_nonnull(strstr(statement, "finish"));
	ck_assert_str_eq(p.v[1], "{7,8}");
	ck_assert_str_eq(p.v[5], "{\"t\",\"t\"}");
	parameters_done(&p);
	ck_assert(!items_pop(&q, &serial));
	ck_assert(!items_pop(&q, &serial));
	ck_assert_uint_eq(items_batch(&q, "life", "me", &statement, &p), 1);
	ck_assert_ptr_nonnull(strstr(statement, "recall"));
	parameters_done(&p);
	items_done(&q);
	ck_assert_uint_eq(q.n, 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		budget_holds_in_any_second, budget_is_full_at_first, demand_is_a_sum_over_hosts,
		parameters_are_texts,       units_are_read,          units_have_bounds,
		items_go_together_in_order
	};
	Suite *s = suite_create("fleet");
	TCase *tc = tcase_create("fleet");

	tcase_add_loop_test(tc, what_is_no_unit_is_refused, 0, ELEMENTSOF(wrong));
	return run_tests(s, tc, tests, ELEMENTSOF(tests));
}
