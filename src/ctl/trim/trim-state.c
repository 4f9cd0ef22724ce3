/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trim-state.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "base/units.h"
#include "config/config.h"
#include "ctl/output/messages.h"
#include "ctl/output/replace-file.h"
#include "ctl/output/timestamps.h"
#include "trim-paths.h"

#define PREFIX "trim@"
#define SUFFIX ".json"
#define FILE_MODE 0600

static void record_put(FILE *f, const void *userdata)
{
	(void)json_dumpf(userdata, f, JSON_INDENT(2));
	(void)fputc('\n', f);
}

int trim_state_write(const char *dir, const struct trim_path *p, const char *mount,
		     const char *outcome)
{
	const struct trim_result *r = &p->result;
	json_auto_t *record = json_pack(
		"{sosIsssosIsIsIsI}", "mount", json_path(mount), "finished_usec",
		(json_int_t)realtime_usec(), "outcome", outcome, "why",
		p->why[0] ? json_words(p->why) : json_null(), "trimmed_bytes",
		(json_int_t)r->trimmed_bytes, "steps", (json_int_t)r->steps, "elapsed_usec",
		(json_int_t)r->elapsed_usec, "longest_step_usec", (json_int_t)r->longest_usec);
	char name[CONFIG_PATH_ESCAPED], path[PATH_MAX];
	int e = config_path_escape(name, sizeof(name), mount);

	if (e < 0)
		return e;
	if (!record)
		return -ENOMEM;
	if (snprintf(path, sizeof(path), "%s/" PREFIX "%s" SUFFIX, dir, name) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return file_replace(path, FILE_MODE, /* durable= */ false, record_put, record);
}

static int is_record(const struct dirent *d)
{
	size_t n = strlen(d->d_name);

	return strncmp(d->d_name, PREFIX, strlen(PREFIX)) == 0 && n > strlen(SUFFIX) &&
	       strcmp(d->d_name + n - strlen(SUFFIX), SUFFIX) == 0;
}

json_t *trim_state_read(const char *dir)
{
	json_t *all = json_array();
	struct dirent **names = NULL;
	int n = scandir(dir, &names, is_record, alphasort);
	char path[PATH_MAX];

	for (int i = 0; i < n; i++) {
		json_t *record = NULL;

		if (snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name) <
		    (int)sizeof(path))
			record = json_load_file(path, 0, NULL);
		if (json_is_string(json_object_get(record, "mount")))
			(void)json_array_append_new(all, record);
		else
			json_decref(record);
		free(names[i]);
	}
	free(names);
	return all;
}
