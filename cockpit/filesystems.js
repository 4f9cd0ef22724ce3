/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Overview: what is wrong, each filesystem, and the switch for everything. Devices: how each behaves, and its trims. */
import * as bus from "./bus.js";
import { ask, button, facts, fill, h, jobLink, link, said, state, table, text } from "./dom.js";
import { _, bytesOf, count, decode, encode, entries, jobs, line, moment, rate, share, show, size, span } from "./format.js";
import { MODES, pacingWindow, STATES } from "./jobs.js";

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
			[_("Used"), share(size(f.used), size(f.size))],
			[_("Free"), size(f.avail)],
			[_("Held for undo"), amount(sum.held)],
			[_("Queued or running"), amount(sum.queued)],
			[_("Owed"), daemon.devices.filter(d => d.name === f.key && d.owed).map(d => size(d.owed))],
			[_("Watermarks"), marks(f)],
			[_("Device"), line(f.fstype + ", " + f.source)],
		]));
}

export function overviewPart() {
	const [wrong, state, cards, latency] = [h("div", { role: "status" }), h("p"), h("div.cards"), h("div")];
	const pause = button(_("Pause everything"), () => bus.manager("PauseAll")
		.then(() => _("Nothing at all is deleted until it is resumed, also after a restart.")));
	const resume = button(_("Resume everything"), () => bus.manager("ResumeAll").then(() => _("Everything goes on.")),
		{ className: "main" });
	return {
		element: h("div", wrong, h("p.row", state, pause, resume), said(), cards, latency),
		open() {
			bus.readFilesystems();
			bus.readProperties();
		},
		onJobs() {
			bus.readFilesystems();
			bus.readDevices();
		},
		draw() {
			const p = daemon.properties, list = troubles(), states = {}, of = amounts();
			for (const j of daemon.jobs.values())
				if (!bus.isFinished(j))
					states[j.state] = (states[j.state] || 0) + 1;
			fill(wrong, list, () => list.map(([words, to]) => h("p.banner", words, " ", to && link(to, _("Look")))));
			text(state, [p.Paused && _("Everything pauses"), pacingWindow(), _("Jobs: $0", Object.entries(states)
				.map(([s, n]) => count(n) + " " + STATES[s]).join(", ") || _("none"))].filter(x => x).join(" · "));
			pause.hidden = p.Paused;
			resume.hidden = !p.Paused;
			fill(cards, [of, daemon.devices, daemon.policies, daemon.marks], () => of.map(card));
			fill(latency, [p.DeviceTotals], latencies);
		},
	};
}

/* ---- devices ---- */

/* Of a histogram: how many, and within what so large a part of them is. */
const all = counts => counts.reduce((a, b) => a + b, 0);
const bound = i => (daemon.properties.LatencyBoundsUSec[i] ? "≤ " + span(daemon.properties.LatencyBoundsUSec[i])
	: "> " + span(daemon.properties.LatencyBoundsUSec[i - 1]));

function within(counts, part) {
	let n = 0;
	return bound(counts.findIndex(c => (n += c) >= all(counts) * part));
}

function bars(counts) {
	const most = Math.max(...counts);
	const words = _("half $0, 99 % $1", within(counts, 0.5), within(counts, 0.99));
	return h("span.bars", { role: "img", "aria-label": words }, counts.map((n, i) => {
		const bar = h("i", { title: bound(i) + ": " + count(n) });
		bar.style.height = n && Math.max(8, 100 * n / most) + "%";
		return bar;
	}));
}

/* What requests took while something was deleted, and in the gaps between. */
function latencies() {
	const rows = (daemon.properties.DeviceTotals || []).flatMap(d => {
		const gaps = d[8]?.[1] || [];
		return [[_("reads, while deleting"), d[4][1].map((n, i) => n - (gaps[i] || 0))], [_("reads, in gaps between"), gaps],
			[_("syncs"), d[5][1]], [_("steps of deletions"), d[6][1]]].filter(([, counts]) => all(counts)).map(([name, counts]) =>
			[line(d[0]), name, count(all(counts)), within(counts, 0.5), within(counts, 0.99), bars(counts)]);
	});
	return rows.length ? table(_("What requests took, since reclaimd was started"),
		[_("Device"), _("Of"), _("How many"), _("Half"), _("99 %"), _("Distribution")], rows)
		: h("p", _("Nothing was deleted beside other programs since reclaimd was started."));
}

const deviceTable = () => daemon.devices.length === 0 ? h("p", _("Nothing is being deleted now."))
	: table(_("Devices where something is being deleted"), [_("Device"), _("Pace"), _("Deletes"), _("Sync alone"), _("Step takes"),
		_("May take"), _("Owed")], daemon.devices.map(d => [
		[h("b", line(d.name)), " ", daemon.filesystems.filter(f => f.key === d.name).map(f => line(f.target)).join(", ")],
		[state(d.mode), " ", MODES[d.mode], d.observed ? "" : " " + _("(it counts no requests)")],
		_("$0, $1 a second", rate(d.rate), entries(Math.round(d.entriesRate))), span(d.sync), span(d.cost), span(d.target),
		size(d.owed)]));

async function trim(f) {
	await ask(_("Trim $0 now?", line(f.target)), [
		_("Its devices are told that $0 are free. Nothing is deleted. In steps that spare other programs, it can take hours.",
			size(f.avail))], _("Trim"), "main");
	const [id] = await bus.manager("Trim", "aya{sv}", [btoa(encode(f.target)), {}]);
	return jobLink(id);
}

function trimTable() {
	const totals = new Map((daemon.properties.TrimTotals || []).map(t => [decode(bytesOf(t[0])), t]));
	const able = daemon.filesystems.filter(f => f.discard_setup?.possible);
	return able.length === 0 ? h("p", _("No filesystem here is on a device that discards."))
		: table(_("Trims"), [_("Filesystem"), _("Last"), _("Trimmed"), _("Longest step"), _("Discards"), _("Actions")], able.map(f => {
			const [, bytes, step, last] = totals.get(f.target) || [];
			return [line(f.target), moment(last), bytes ? size(bytes) : "–", step ? span(step) : "–",
				line(f.discard_setup.mode || _("not known")),
				button(_("Trim…"), () => trim(f), { "aria-label": _("Trim $0", line(f.target)) })];
		}));
}

export function devicesPart() {
	const [now, trims, latency] = [h("div"), h("div"), h("div")];
	const read = () => [bus.readDevices, bus.readProperties].forEach(f => f());
	return {
		element: h("div", now, trims, said(), latency),
		open() {
			read();
			bus.readFilesystems();
		},
		onJobs: read,
		draw() {
			const { DeviceTotals, TrimTotals } = daemon.properties;
			fill(now, [daemon.devices, daemon.filesystems], deviceTable);
			fill(trims, [daemon.filesystems, TrimTotals], trimTable);
			fill(latency, [DeviceTotals], latencies);
		},
	};
}
