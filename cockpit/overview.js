/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Overview: what is wrong, each filesystem, and the switch for everything. */
import * as bus from "./bus.js";
import { latencies } from "./devices.js";
import { button, facts, fill, h, link, said, text } from "./dom.js";
import { _, count, jobs, line, show, size } from "./format.js";
import { pacingWindow, STATES } from "./jobs.js";

const { daemon } = bus;

/* What an administrator has to know: the words, and where to look. */
export function troubles() {
	const p = daemon.properties, bad = [...daemon.jobs.values()].filter(bus.isBad).length;
	return [
		p.ConfigurationError && [_("The configuration has an error, so the one before is in force: $0",
			line(p.ConfigurationError)), "policies"],
		p.StoreError && [_("The job store has an error, so nothing new is accepted: $0", line(p.StoreError))],
		p.Orphans && [_("Directories in staging that belong to no job: $0. They are kept; the journal names them.", count(p.Orphans))],
		...daemon.policies.filter(x => x.result === "failed" || x.result === "partial")
			.map(x => [_("Policy $0, last run: $1. $2", x.name, STATES[x.result], line(x.why[0])), "policies"]),
		...daemon.spools.filter(s => s.state !== "watching").map(s => [_("Spool $0: $1. $2", show(s.path), line(s.state), line(s.message))]),
		bad && [_("Partial or failed: $0", jobs(bad)), "jobs?show=bad"],
	].filter(x => x);
}

/* Deeper mount points come before those that they are in. */
const filesystemOf = path => daemon.filesystems.find(f => (path + "/").startsWith(f.prefix));

/* What jobs hold back on each filesystem. */
function amounts() {
	const sums = new Map(daemon.filesystems.map(f => [f, { held: [0, 0, 0], queued: [0, 0, 0] }]));
	for (const j of daemon.jobs.values()) {
		const counts = !bus.isFinished(j) && j.kind !== "trim" && sums.get(filesystemOf(j.path));
		const sum = counts && counts[j.state === "held" ? "held" : "queued"];
		if (sum) {
			sum[0]++;
			sum[1] += Math.max(0, j.bytes - j.bytesDone);
			sum[2] += !j.bytes;
		}
	}
	const busy = s => s.held[0] + s.queued[0] > 0;
	return [...sums].reverse().sort(([, a], [, b]) => busy(b) - busy(a));
}

const amount = ([n, bytes, unknown]) => n && jobs(n) + (bytes ? ", " + size(bytes) : "") +
	(unknown ? " " + _("($0 not counted yet)", count(unknown)) : "");

/* The watermarks of policies, and what else is watched there. */
function marks(f) {
	const words = s => s.share === null ? size(s.bytes) : Math.round(1000 * s.share) / 10 + " %";
	return daemon.policies.filter(p => filesystemOf(p.path) === f).map(p => [p, daemon.marks.find(m => m.name === p.name)?.min_free])
		.filter(([p, m]) => m || p.watched).map(([p, m]) => h("div", link("policies", p.name),
			m && _(": below $0 free, until $1 are", words(m.below), words(m.until))));
}

function card([f, sum]) {
	const name = line(f.target);
	return h("section.card", { "aria-label": name }, h("h2.path", name),
		h("meter", { max: f.size, high: f.size * 0.9, value: f.used, "aria-label": _("Used of $0", name) }), facts([
			[_("Used"), _("$0 of $1", size(f.used), size(f.size))],
			[_("Free"), size(f.avail)],
			[_("Held for undo"), amount(sum.held)],
			[_("Queued or running"), amount(sum.queued)],
			[_("Owed"), daemon.devices.filter(d => d.name === f.key && d.owed).map(d => size(d.owed))],
			[_("Watermarks"), marks(f)],
			[_("Device"), line(f.fstype + ", " + f.source)],
		]));
}

export function overviewPart() {
	const [wrong, state, cards, latency, place] = [h("div", { role: "status" }), h("p"), h("div.cards"), h("div"), said()];
	const pause = button(_("Pause everything"), place, async () => {
		await bus.manager("PauseAll");
		return _("Nothing at all is deleted until it is resumed, also after a restart.");
	});
	const resume = button(_("Resume everything"), place, async () => {
		await bus.manager("ResumeAll");
		return _("Everything goes on.");
	}, { className: "main" });
	return {
		element: h("div", wrong, h("p.row", state, pause, resume), place, cards, latency),
		open() {
			bus.readFilesystems();
			bus.readProperties();
		},
		onJobs() {
			bus.readFilesystems();
			bus.readDevices();
		},
		draw() {
			const p = daemon.properties, list = troubles(), states = {};
			for (const j of daemon.jobs.values())
				if (!bus.isFinished(j))
					states[j.state] = (states[j.state] || 0) + 1;
			fill(wrong, list, () => list.map(([words, to]) => h("p.banner", words, " ", to && link(to, _("Look")))));
			text(state, [p.Paused && _("Everything pauses"), pacingWindow(), _("Jobs: $0", Object.entries(states)
				.map(([s, n]) => count(n) + " " + STATES[s]).join(", ") || _("none"))].filter(x => x).join(" · "));
			pause.hidden = p.Paused;
			resume.hidden = !p.Paused;
			const of = amounts();
			fill(cards, [of, daemon.devices, daemon.policies, daemon.marks], () => of.map(card));
			fill(latency, [p.DeviceTotals], latencies);
		},
	};
}
