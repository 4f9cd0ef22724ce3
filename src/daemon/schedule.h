/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* When jobs begin: the undo window's end, the queues, and the choice among them. */
#pragma once

struct job;
struct manager;

/* What a job does next by itself: is held until its undo window ends, or waits in its queue. Its
 * state is set; recording it is the caller's. */
void schedule_job(struct job *j);
/* Takes it out again, wherever it waits. */
void schedule_remove(struct job *j);

/* Something has changed: chooses anew when the loop comes round. */
void schedule_kick(struct manager *m);
/* Mounts have come or gone: places that were not there may be now. */
void schedule_look_again(struct manager *m);
