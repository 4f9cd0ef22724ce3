/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "configuration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "log.h"
#include "manager.h"
#include "base/macros.h"

static void on_complaint(const struct config_error *e, void *userdata)
{
	struct manager *m = userdata;
	char *text;

	log_event(e->is_warning ? LOG_WARNING : LOG_ERR, MESSAGE_CONFIGURATION, "%s:%u:%u: %s",
		  e->file, e->line, e->column, e->text);
	if (!e->is_warning && !m->configuration_error &&
	    asprintf(&text, "%s:%u:%u: %s", e->file, e->line, e->column, e->text) >= 0)
		m->configuration_error = text;
}

/* The engine knows where they usually are; they may be elsewhere. */
static int protect_own(const struct manager *m, struct config *c)
{
	const char *const own[] = { m->o.state_dir, m->o.runtime_dir, m->o.config_dir };

	for (size_t i = 0; i < ELEMENTSOF(own); i++) {
		int r = config_protect_own(c, own[i]);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

int configuration_load(struct manager *m, struct config **ret)
{
	struct config *c = NULL;
	int r;

	free(m->configuration_error);
	m->configuration_error = NULL;
	r = config_load(&c, "/usr/lib/reclaimd", m->o.config_dir, on_complaint, m);
	if (r >= 0)
		r = protect_own(m, c);
	if (r >= 0)
		*ret = c;
	else
		config_free(c);
	if (r < 0 && !m->configuration_error &&
	    asprintf(&m->configuration_error, "the configuration in %s cannot be read: %s",
		     m->o.config_dir, strerror(-r)) < 0)
		m->configuration_error = NULL;
	return r;
}
