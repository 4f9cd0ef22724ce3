/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What polkit says: may a client of the message bus do what takes more than its own authority?
 *
 * Asked while other clients are served, and never remembered. Yes is only a yes in the form that
 * polkit has for it; anything else, and nothing within its time, is no. When the client leaves the
 * bus meanwhile, polkit is told to forget it, and it is no.
 *
 * The bus's policy lets only polkitd own polkit's name on a system bus, and no process where polkit
 * is not installed; and a bus passes on only answers that were asked for, from the service that was
 * asked. So neither is checked here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-bus.h>

#include "caller.h"

/* The questions that are open on one message bus. */
struct authority;

struct polkit_detail {
	const char *name, *value; /* UTF-8 */
};

struct question {
	struct api_client *caller; /* on the bus; it outlives the question */
	const char *action;
	const struct polkit_detail *details;
	size_t n_details;
	/* Whether a person may be asked for a password, which gives minutes instead of
	 * seconds. The details are shown to an agent of the subject's session, who may be the
	 * subject itself; otherwise only polkit and its rules see them. */
	bool interactive;
};

enum verdict {
	VERDICT_NO,
	VERDICT_CHALLENGE, /* no, but it might be yes if a person could be asked for a password */
	VERDICT_YES,
};

/* trouble: why polkit could not be asked or understood, or NULL; valid during the call. */
typedef void (*verdict_t)(enum verdict v, const char *trouble, void *userdata);

int authority_new(struct authority **ret, sd_bus *bus);
/* Questions that are open are answered no. NULL is accepted; returns NULL. */
struct authority *authority_free(struct authority *a);

/* Returns 0, and told is called later, once; or a negative errno, and it is not. The question is
 * only needed during the call. */
int authority_ask(struct authority *a, const struct question *q, verdict_t told, void *userdata);
