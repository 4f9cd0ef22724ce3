/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The verbs of reclaimctl: one function each, which main.c names in one table, and calls with the
 * options of the command line and the connection that the verb asks for, or NULL. Each prints its
 * result and what is wrong, and returns an exit status (output/modes.h). */
#pragma once

struct client;
struct options;

typedef int verb_function(const struct options *o, struct client *c);

verb_function verb_cancel, verb_check_config, verb_devices, verb_fleet, verb_list, verb_metrics,
	verb_pause, verb_pin, verb_plan, verb_policy, verb_restore, verb_resume, verb_retry,
	verb_run, verb_set, verb_show, verb_spools, verb_status, verb_submit, verb_top, verb_trim,
	verb_unpin, verb_wait;
