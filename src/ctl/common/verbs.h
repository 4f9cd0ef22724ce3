/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The verbs of reclaimctl: one function each, which main.c names in one table. argv[0] is the verb;
 * each prints its result and what is wrong, and returns an exit status (output/modes.h). */
#pragma once

int verb_run(int argc, char **argv);
int verb_plan(int argc, char **argv);
int verb_check_config(int argc, char **argv);
int verb_policy(int argc, char **argv);
int verb_devices(int argc, char **argv);
int verb_submit(int argc, char **argv);
int verb_list(int argc, char **argv);
int verb_show(int argc, char **argv);
int verb_wait(int argc, char **argv);
int verb_cancel(int argc, char **argv);
int verb_pause(int argc, char **argv);
int verb_resume(int argc, char **argv);
int verb_restore(int argc, char **argv);
int verb_spools(int argc, char **argv);
int verb_status(int argc, char **argv);
int verb_metrics(int argc, char **argv);
int verb_top(int argc, char **argv);
