/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What there is to tell about devices, spools, policies and the daemon itself: the same to all
 * clients; and having policies run. */
#include <string.h>

#include "daemon/workers/pacers.h"
#include "varlink-state.h"

/* What an answer may be long. */
#define PLAN_BYTES_MOST MiB(1)

static int list_spools(struct varlink_call *q)
{
	struct bus *b = q->varlink->bus;
	size_t n = bus_spools_snapshot(b);

	q->list = "spools";
	for (size_t i = 0; i < n; i++)
		call_append(q, spool_fields, &b->spools[i]);
	call_answer(NULL, q);
	return 0;
}

static int list_devices(struct varlink_call *q)
{
	struct bus *b = q->varlink->bus;
	size_t n = bus_devices_snapshot(b);

	q->list = "devices";
	for (size_t i = 0; i < n; i++)
		call_append(q, device_fields, &b->devices[i]);
	call_answer(NULL, q);
	return 0;
}

static int append_latency(const struct device_latency *l, void *userdata)
{
	struct varlink_call *q = userdata;

	call_append(q, latency_fields, l);
	return MIN(q->error, 0);
}

static int list_latencies(struct varlink_call *q)
{
	struct pacers *pacers = operation_pacers(q->varlink->bus->operations);

	q->list = "latencies";
	/* What went wrong is in the call. */
	if (pacers)
		(void)pacers_latencies(pacers, append_latency, q);
	call_answer(NULL, q);
	return 0;
}

static void tell_policies(void *userdata)
{
	struct varlink_call *q = userdata;
	struct bus *b = q->varlink ? q->varlink->bus : NULL;
	size_t n = b ? bus_policies_snapshot(b) : 0;

	if (!b)
		(void)call_refuse(q, ERROR_BUSY, "The daemon is stopping.");
	q->list = "policies";
	for (size_t i = 0; i < n; i++)
		call_append(q, policy_fields, &b->policies[i]);
	call_answer(&q->failure, q);
}

static int list_policies(struct varlink_call *q)
{
	policy_timers_update(q->varlink->bus, tell_policies, q);
	return 0;
}

struct named {
	sd_json_variant *name; /* the parameters' */
};

static const sd_json_dispatch_field name_fields[] = {
	{ "name", SD_JSON_VARIANT_STRING, sd_json_dispatch_variant_noref,
	  offsetof(struct named, name), SD_JSON_MANDATORY },
	{ 0 },
};

static void on_planned(const struct failure *f, const char *plan, void *userdata)
{
	struct varlink_call *q = userdata;
	sd_json_variant *v = NULL;

	if (!f->cause && strlen(plan) > PLAN_BYTES_MOST) {
		(void)call_refuse(q, ERROR_LIMIT_EXCEEDED,
				  "The plan is longer than 1 MiB: see reclaimctl policy plan.");
		f = &q->failure;
	}
	if (!f->cause)
		q->error = sd_json_parse(plan, 0, &v, NULL, NULL);
	if (!f->cause && q->error >= 0)
		q->error = sd_json_buildo(&q->reply, SD_JSON_BUILD_PAIR_VARIANT("plan", v));
	(void)sd_json_variant_unref(v);
	q->answer.bytes += f->cause ? 0 : strlen(plan);
	call_answer(f, q);
}

static int plan_policy(struct varlink_call *q)
{
	struct named p = { 0 };
	int r = call_read(q, name_fields, &p);

	if (r >= 0)
		operation_policy_plan(q->varlink->bus->operations, &q->client->c,
				      sd_json_variant_string(p.name), on_planned, q);
	return r;
}

static void on_ran(const struct failure *f, uint64_t job, void *userdata)
{
	struct varlink_call *q = userdata;

	if (!f->cause)
		q->error = sd_json_buildo(&q->reply, SD_JSON_BUILD_PAIR_UNSIGNED("id", job));
	call_answer(f, q);
}

static int run_policy(struct varlink_call *q)
{
	struct named p = { 0 };
	int r = call_read(q, name_fields, &p);

	if (r >= 0)
		operation_policy_run(q->varlink->bus->operations, &q->client->c,
				     sd_json_variant_string(p.name), on_ran, q);
	return r;
}

static int get_status(struct varlink_call *q)
{
	struct daemon_view v;

	operation_view(q->varlink->bus->operations, &v);
	q->error = build_fields(&q->reply, status_fields, &v);
	call_answer(NULL, q);
	return 0;
}

static int get_metrics(struct varlink_call *q)
{
	struct pacers *pacers = operation_pacers(q->varlink->bus->operations);
	struct device_totals totals[PACERS_PAST_MOST];
	size_t n = pacers ? pacers_totals(pacers, totals, ELEMENTSOF(totals)) : 0;
	sd_json_variant *devices = NULL;
	struct daemon_view v;

	for (size_t i = 0; i < n; i++)
		call_append(q, totals_fields, &totals[i]);
	operation_view(q->varlink->bus->operations, &v);
	if (q->error >= 0)
		q->error = sd_json_variant_new_array(&devices, q->pieces, q->n_pieces);
	if (q->error >= 0)
		q->error = build_fields(&q->reply, metrics_fields, &v);
	if (q->error >= 0)
		q->error = sd_json_variant_set_field(&q->reply, "devices", devices);
	(void)sd_json_variant_unref(devices);
	call_answer(NULL, q);
	return 0;
}

VARLINK_METHOD(on_list_spools, list_spools)
VARLINK_METHOD(on_list_devices, list_devices)
VARLINK_METHOD(on_list_latencies, list_latencies)
VARLINK_METHOD(on_list_policies, list_policies)
VARLINK_METHOD(on_plan_policy, plan_policy)
VARLINK_METHOD(on_run_policy, run_policy)
VARLINK_METHOD(on_get_status, get_status)
VARLINK_METHOD(on_get_metrics, get_metrics)

int call_bind_views(sd_varlink_server *s)
{
	return sd_varlink_server_bind_method_many(
		s, VARLINK_INTERFACE ".ListSpools", on_list_spools,
		VARLINK_INTERFACE ".ListDevices", on_list_devices,
		VARLINK_INTERFACE ".ListLatencies", on_list_latencies,
		VARLINK_INTERFACE ".ListPolicies", on_list_policies,
		VARLINK_INTERFACE ".PlanPolicy", on_plan_policy, VARLINK_INTERFACE ".RunPolicy",
		on_run_policy, VARLINK_INTERFACE ".GetStatus", on_get_status,
		VARLINK_INTERFACE ".GetMetrics", on_get_metrics);
}
