/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "protected.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "ctl/output/messages.h"

static void error_tell(const struct config_error *e, void *userdata)
{
	(void)userdata;
	if (!e->is_warning)
		config_error_print(e);
}

static int config_take(struct config **ret, const struct options *o, const char *nothing)
{
	const char *dir = o->configuration_dir;
	int r = 0;

	/* Without /etc/reclaimd nothing is configured; one that was asked for must be there. */
	if (dir && access(dir, R_OK | X_OK) < 0)
		r = -errno;
	if (r >= 0)
		r = config_load(ret, dir ? NULL : CONFIG_VENDOR_DIR, dir ? dir : CONFIG_DIR,
				error_tell, NULL);

	if (r >= 0)
		return 0;
	complain(dir ? dir : CONFIG_DIR,
		 "the configuration %s%s, so what it protects is not known; %s",
		 r == -EBADMSG ? "has errors" : "cannot be read: ",
		 r == -EBADMSG ? "" : strerror(-r), nothing);
	return EXIT_FAILED;
}

int protected_load(struct protect **ret, const struct options *o, const char *nothing)
{
	_cleanup_free_ char *culprit = NULL;
	struct config *c = NULL;
	int r = config_take(&c, o, nothing);

	if (r)
		return r;
	r = protect_new(ret, (const char *const *)c->protect, &culprit);
	config_free(c);
	if (r >= 0)
		return 0;
	complain(culprit ? culprit : "protected paths",
		 "cannot be resolved (%s), so what is protected is not known; %s", strerror(-r),
		 nothing);
	return EXIT_FAILED;
}
