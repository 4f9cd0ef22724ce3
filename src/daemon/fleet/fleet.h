/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* This host as one of a fleet: what its jobs give away is published, and units of other hosts are
 * done here.
 *
 *   fleet.c         who this host is, what it takes, what comes from the database
 *   fleet-link.c    reclaim-fleet, the program that speaks to it
 *   shared-jobs.c   jobs of this host that other hosts help with
 *   unit-run.c      units of any host that are done here
 *
 * Without the database, jobs go on alone: nothing here is ever waited for but hosts that have a
 * part of a job, and those no longer than the fleet can be reached; or, before names go back to
 * their places, than those hosts go on by themselves (daemon/jobs/withdrawal.h). */
#pragma once

#include "daemon/context/failure.h"
#include "daemon/jobs/job.h"

struct fleet;

/* By the configuration in force; jobs outlive it. NULL if it has no fleet. Returns 0 or a negative
 * errno. */
int fleet_new(struct fleet **ret, struct jobs *jobs);
/* Units that are being done here are given back. NULL is accepted; returns NULL. */
struct fleet *fleet_free(struct fleet *f);

/* The daemon ends: units are given back as far as they are, and none is taken any more. NULL is
 * accepted. */
void fleet_stop(struct fleet *f);

/* The configuration is another: *f is made anew if it is another for the fleet. */
int fleet_configure(struct fleet **f, struct jobs *jobs);

/* Mounts have come or gone. NULL is accepted. */
void fleet_mounts_changed(struct fleet *f);
