/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "configuration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "daemon/context/context.h"
#include "daemon/context/log.h"
#include "base/macros.h"

static void on_complaint(const struct config_error *e, void *userdata)
{
	struct context *context = userdata;
	char *text;

	log_event(e->is_warning ? LOG_WARNING : LOG_ERR, MESSAGE_CONFIGURATION, "%s:%u:%u: %s",
		  e->file, e->line, e->column, e->text);
	if (!e->is_warning && !context->configuration_error &&
	    asprintf(&text, "%s:%u:%u: %s", e->file, e->line, e->column, e->text) >= 0)
		context->configuration_error = text;
}

/* The engine knows where they usually are; they may be elsewhere. */
static int protect_own(const struct context *context, struct config *c)
{
	const char *const own[] = { context->o.state_dir, context->o.runtime_dir,
				    context->o.config_dir };

	for (size_t i = 0; i < ELEMENTSOF(own); i++) {
		int r = config_protect_own(c, own[i]);

		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

int configuration_load(struct context *context, struct config **ret)
{
	struct config *c = NULL;
	int r;

	free(context->configuration_error);
	context->configuration_error = NULL;
	r = config_load(&c, "/usr/lib/reclaimd", context->o.config_dir, on_complaint, context);
	if (r >= 0)
		r = protect_own(context, c);
	if (r >= 0)
		*ret = c;
	else
		config_free(c);
	if (r < 0 && !context->configuration_error &&
	    asprintf(&context->configuration_error, "the configuration in %s cannot be read: %s",
		     context->o.config_dir, strerror(-r)) < 0)
		context->configuration_error = NULL;
	return r;
}
