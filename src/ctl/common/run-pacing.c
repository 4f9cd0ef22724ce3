/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "run-pacing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "engine/engine.h"
#include "ctl/output/messages.h"
#include "debt-leave.h"
#include "pace.h"
#include "pacing/debt/payer.h"
#include "pacing/pacer.h"
#include "base/thread.h"
#include "base/fd.h"
#include "base/units.h"

/* Never slower than this, so that every job ends; the configuration's default. */
#define RATE_MIN MiB(8)

int pacing_trace(struct pacing *p, const struct options *o)
{
	if (!o->trace)
		return 0;
	p->trace = fopen(o->trace, "we");
	if (p->trace)
		return 0;
	complain(o->trace, "the trace cannot be written: %s; nothing was deleted", strerror(errno));
	return EXIT_FAILED;
}

void pacing_start(struct pacing *p, const struct options *o, struct engine *e, int dirfd)
{
	struct pacer_options po = {
		.latency_usec = o->latency_usec,
		.rate_min = RATE_MIN,
		.discards = engine_profile(e)->discards,
		.debt = !o->no_settle,
		.trace = p->trace,
	};
	int r;

	if (o->latency_off || o->dry_run)
		return;
	r = pacer_new(&p->pacer, &po, dirfd, dirfd);
	if (r < 0)
		complain("run", "the device cannot be watched (%s): not paced", strerror(-r));
	if (p->pacer) {
		engine_pace(e, pacer_pace(p->pacer));
		p->dirfd = fcntl(dirfd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	}
	/* After the pacer, which looks in time. */
	courtesy_show();
}

const struct pace *pacing_start_scan(struct pacing *p, const struct options *o, int dirfd)
{
	const struct pacer_options po = { .latency_usec = o->latency_usec, .reads_only = true };

	p->dirfd = -1;
	/* What cannot be watched is read as ever: nothing is lost by it. */
	if (!o->latency_off)
		(void)pacer_new(&p->pacer, &po, dirfd, /* canary_dirfd= */ -1);
	courtesy_show();
	return p->pacer ? pacer_pace(p->pacer) : NULL;
}

struct pacer *pacing_start_trim(struct pacing *p, const struct options *o, int fd, bool is_dir)
{
	/* What is discarded then is ours. */
	const struct pacer_options po = { .latency_usec = o->latency_usec, .discards = true };
	int r;

	p->dirfd = -1;
	if (o->latency_off)
		return NULL;
	r = pacer_new(&p->pacer, &po, fd, is_dir ? fd : -1);
	if (r < 0)
		complain("trim", "the device cannot be watched (%s): not paced", strerror(-r));
	courtesy_show();
	return p->pacer;
}

/* What this process may not open the disk for, reclaimd may. */
static void leave_debt(const struct pacing *p, const struct options *o,
		       const _Atomic bool *cancelled)
{
	struct pacing_totals t;
	int r;

	pacer_totals(p->pacer, &t);
	r = debt_leave(o, p->dirfd, t.entries, t.bytes, cancelled);
	if (!o->verbose)
		return;
	if (r >= 0)
		(void)fputs("reclaimd has written back what this leaves for the kernel\n", stderr);
	else
		(void)fprintf(stderr,
			      "what this leaves is written back by the kernel, all at once: the "
			      "disk may not be opened, or what is dirty is not known, and %s\n",
			      r == -ENOTCONN ? "no reclaimd runs that could do it in steps"
					     : "reclaimd did not do it in steps");
}

void pacing_settle(struct pacing *p, const struct options *o, const _Atomic bool *cancelled)
{
	const struct pace *pace = p->pacer ? pacer_pace(p->pacer) : NULL;
	uint64_t began = now_usec(), paid_before;
	struct pace_budget budget;
	struct payer_view v;
	char paid[16], after[16], left[16];

	if (!pace || !pacer_owes(p->pacer) || atomic_load(cancelled))
		return;
	pacer_debt(p->pacer, &v);
	paid_before = v.paid_bytes;
	pacer_settle(p->pacer, cancelled);
	pacer_debt(p->pacer, &v);
	/* What is not committed yet could not be written back yet. */
	if (v.works && p->dirfd >= 0 && pace->begin(pace->userdata, cancelled, &budget)) {
		uint64_t synced = now_usec();

		(void)fd_sync_dir(p->dirfd);
		pace->synced(pace->userdata, now_usec() - synced);
		pacer_settle(p->pacer, cancelled);
		pacer_debt(p->pacer, &v);
	}
	if (o->verbose && v.steps > 0)
		(void)fprintf(
			stderr,
			"written back for the kernel: %s%s in %llu steps, of which %s in %.1f s "
			"after the last name was gone; %s are left\n",
			v.estimated ? "at most " : "",
			size_format(paid, sizeof(paid), v.paid_bytes), (unsigned long long)v.steps,
			size_format(after, sizeof(after), v.paid_bytes - paid_before),
			(double)(now_usec() - began) / USEC_PER_SEC,
			size_format(left, sizeof(left), v.owed_bytes));
	if (!v.works && !v.discards_held)
		leave_debt(p, o, cancelled);
	if (o->verbose && v.discards_held)
		(void)fputs("btrfs discards what was freed in the next minutes; reclaim-discards "
			    "has it do so in small steps\n",
			    stderr);
}

void pacing_stop(struct pacing *p)
{
	if (p->pacer)
		fd_closep(&p->dirfd);
	p->pacer = pacer_free(p->pacer);
}

void pacing_done(struct pacing *p)
{
	if (p->trace)
		(void)fclose(p->trace);
	p->trace = NULL;
}

static void tell_reads(const struct pacing_view *v, char *buf, size_t len)
{
	if (v->read_quiet_usec && v->read_burst_usec)
		(void)snprintf(buf, len, ", foreign reads %.1f ms, %.1f ms while deleting",
			       (double)v->read_quiet_usec / 1e3, (double)v->read_burst_usec / 1e3);
	else
		buf[0] = '\0';
}

bool pacing_due(const struct pacing *p)
{
	return p->pacer && now_usec() - p->told_usec >= USEC_PER_SEC;
}

void pacing_tell(struct pacing *p)
{
	char rate[16], quantum[16], reads[96], entries[28];
	struct pacer_view v;
	double seconds;

	p->told_usec = now_usec();
	pacer_snapshot(p->pacer, &v);
	seconds = (double)MAX(v.elapsed_usec, 1ULL) / USEC_PER_SEC;
	(void)size_format(rate, sizeof(rate), (uint64_t)((double)v.bytes / seconds));
	(void)count_format(entries, sizeof(entries), (uint64_t)((double)v.entries / seconds));
	if (v.controller.mode == PACING_FAST) {
		(void)fprintf(stderr, "%s: no foreign I/O: full speed, %s/s, %s entries/s\n",
			      v.devices, rate, entries);
		return;
	}
	tell_reads(&v.controller, reads, sizeof(reads));
	(void)fprintf(stderr,
		      "%s: sync %.1f ms, target %.1f ms, quantum %.1f ms of %s or %llu entries, "
		      "%.0f%% of the time%s: %s/s, %s entries/s\n",
		      v.devices, (double)v.controller.quiet_sync_usec / 1e3,
		      (double)v.controller.target_usec / 1e3,
		      (double)v.controller.quantum_usec / 1e3,
		      size_format(quantum, sizeof(quantum), v.controller.bytes),
		      (unsigned long long)v.controller.entries, v.controller.share * 100, reads,
		      rate, entries);
}
