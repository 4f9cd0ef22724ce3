/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "job-view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "ctl/common/answer.h"

static const struct printed_property table[] = {
	{ "Id", "id" },
	{ "Kind", "kind" },
	{ "State", "state" },
	{ "Uid", "uid" },
	{ "Origin", "origin" },
	{ "Priority", "priority" },
	{ "Path", "path" },
	{ "Entries", "entries" },
	{ "ProgressEntries", "entries_done" },
	{ "Bytes", "bytes" },
	{ "ProgressBytes", "bytes_freed" },
	{ "Errors", "errors" },
	{ "CreatedUSec", "created_usec" },
	{ "HeldUntilUSec", "held_until_usec" },
	{ "StartedUSec", "started_usec" },
	{ "FinishedUSec", "finished_usec" },
	{ "Uuid", "uuid" },
	{ "Staging", "staging" },
	{ "Inplace", "inplace" },
	{ "Mount", "mount" },
	{ "Names", "names" },
	{ "Skipped", "skipped" },
	{ "DeadlineUSec", "by_usec" },
	{ "Message", "message" },
	{ "Strategy", "strategy" },
	{ "Settling", "settling" },
	{ "Owed", "owed" },
	{ "Rate", "rate" },
	{ "EntriesRate", "entries_rate" },
	{ "ExpectedEndUSec", "expected_end_usec" },
	{ "UnitsOpen", "units_open" },
	{ "OthersClaimed", "others_claimed" },
	{ "OthersUnits", "others_units" },
	{ "OthersEntries", "others_entries" },
	{ "OthersBytes", "others_bytes" },
};

/* Calls one of the methods of a job that list something: an answer has no more than a part of much.
 */
static int list_add(struct client *c, const char *path, const char *member, uint32_t limit,
		    const char *signature, const char *const *keys, json_t *job, const char *key)
{
	json_t *all = json_array();
	size_t came;
	int r;

	(void)json_object_set_new(job, key, all);
	do {
		uint32_t wanted =
			limit == JOB_VIEW_ALL ? 0 : limit - (uint32_t)json_array_size(all);
		json_auto_t *list = NULL;
		sd_bus_message *reply = NULL;

		r = client_call(c, path, JOB_INTERFACE, member, &reply, "tu",
				(uint64_t)json_array_size(all), wanted);
		if (r == 0)
			r = answer_take(reply, signature, keys, &list);
		came = json_array_size(list);
		if (r == 0 && json_array_extend(all, list) < 0)
			r = client_broken(-ENOMEM);
	} while (r == 0 && came > 0 && json_array_size(all) < limit);
	return r;
}

int job_view_get(struct client *c, uint64_t id, uint32_t limit, json_t **ret)
{
	static const char *const problem[] = { "path", "what", "error", "is_error", NULL };
	static const char *const content[] = { "path", "state", NULL };
	json_auto_t *job = NULL;
	char path[64];
	/* Asked first, as the manager's answer for a job that is not there is the clearer one. */
	int r = client_call(c, MANAGER_PATH, MANAGER_INTERFACE, "GetJob", NULL, "t", id);

	(void)snprintf(path, sizeof(path), MANAGER_PATH "/job/%" PRIu64, id);
	if (r == 0)
		r = properties_get(c, path, JOB_INTERFACE, table, ELEMENTSOF(table), &job);
	if (r == 0 && limit > 0)
		r = list_add(c, path, "GetProblems", limit, "a(aysib)", problem, job, "problems");
	if (r == 0 && limit > 0)
		r = list_add(c, path, "GetEntries", limit, "a(ays)", content, job, "contents");
	if (r == 0)
		*ret = json_incref(job);
	return r;
}
