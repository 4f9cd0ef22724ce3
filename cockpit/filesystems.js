/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Overview: what is wrong, each filesystem, and the switch for everything. Devices: how each behaves, and its trims. */
import * as bus from "./bus.js";
import { ask, button, facts, fill, h, jobLink, known, link, said, state, table, text } from "./dom.js";
import { _, bytesOf, count, decode, dots, encode, entries, jobs, line, moment, rate, share, show, size, span } from "./format.js";
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

/* What a caller has counted is not more than there is. */
function amount([n, bytes, unknown], used) {
	const all = size(Math.min(bytes, used));
	return n && jobs(n) + ", " + (!unknown ? all : bytes ? _("at least $0 (not counted: $1)", all, count(unknown)) : _("not counted yet"));
}

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
			[_("Held for undo"), amount(sum.held, f.used)],
			[_("Queued or running"), amount(sum.queued, f.used)],
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
			bus.readLatencies();
			bus.readProperties();
		},
		onJobs() {
			bus.readFilesystems();
			bus.readLatencies();
			bus.readDevices();
		},
		draw() {
			const p = daemon.properties, list = troubles(), states = {}, of = amounts();
			for (const j of daemon.jobs.values())
				if (!bus.isFinished(j))
					states[j.state] = (states[j.state] || 0) + 1;
			fill(wrong, list, () => list.map(([words, to]) => h("p.banner", words, " ", to && link(to, _("Look")))));
			text(state, dots(p.Paused && _("Everything pauses"), pacingWindow(), _("Jobs: $0", Object.entries(states)
				.map(([s, n]) => count(n) + " " + STATES[s]).join(", ") || _("none"))));
			pause.hidden = p.Paused;
			resume.hidden = !p.Paused;
			fill(cards, [of, daemon.devices, daemon.policies, daemon.marks, daemon.failed], () => known("filesystems", () => of.map(card)));
			drawLatencies(latency);
		},
	};
}

/* ---- devices ---- */

/* What a set of devices is called, and what is on it. */
const deviceName = key => [h("b", line(key)), " ", daemon.filesystems.filter(f => f.key === key).map(f => line(f.target)).join(", ")];

/* A minute is 1 wide, and the longest time 19 high: bars of the gaps, and marks while something was deleted. */
function chart(of, key) {
	const all = daemon.latencies.filter(l => l.name === key && l.of === of), times = rows => rows.map(l => l.most);
	const most = Math.max(...times(all)), now = Date.now() * 1000, title = of === "reads" ? _("Reads") : _("Syncs");
	const [gaps, deleting] = [false, true].map(isOn => all.filter(l => l.deleting === isOn));
	const words = rows => {
		const [least, largest] = [Math.min, Math.max].map(f => span(f(...times(rows))));
		return rows.length === 0 ? _("none") : least === largest ? least : _("$0 to $1", least, largest);
	};
	const legend = [_("In gaps: $0", words(gaps)), _("While deleting: $0", words(deleting))];
	const draw = (rows, shape) => rows.map(l => "M" + (60 - (now - l.begin) / 6e7) + shape(20 - 19 * l.most / most)).join("");
	return h("figure.card", h("figcaption", h("h3", deviceName(key), ": ", title),
		h("p.row", h("span", legend[0]), h("span.deleting", legend[1]))),
	h("svg", { viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img", "aria-label": [title, ...legend].join(". ") },
		h("path", { d: draw(gaps, y => ` 20V${y}h1V20z`) }), h("path.deleting", { d: draw(deleting, y => ` ${y - 0.5}h1v1h-1z`) })),
	h("small.row", h("span", _("an hour ago")), h("span", _("height: $0", span(most))), h("span", _("now"))));
}

function charts() {
	const keys = [...new Set(daemon.latencies.map(l => l.of + " " + l.name))].sort();
	return keys.length === 0 ? h("p", _("Nothing was deleted beside other programs."))
		: [h("p", _("Of each minute: 99 of 100 took no longer. Bars: in the gaps between deletions. Marks: while something was deleted.")),
			h("div.cards", keys.map(k => chart(...k.split(" "))))];
}

const drawLatencies = place => fill(place, [daemon.latencies, daemon.filesystems, daemon.failed], () => h("section",
	h("h2", _("What requests of other programs took in the last hour")), known("latencies", charts)));

const deviceTable = () => daemon.devices.length === 0 ? h("p", _("Nothing is being deleted now."))
	: table(_("Devices where something is being deleted"), [_("Device"), _("Pace"), _("Deletes"), _("Sync alone"), _("Step takes"),
		_("May take"), _("Owed")], daemon.devices.map(d => [
		deviceName(d.name),
		[state(d.mode, MODES[d.mode]?.[0]), " ", MODES[d.mode]?.[1], d.observed ? "" : " " + _("(it counts no requests)")],
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
	const read = () => [bus.readDevices, bus.readLatencies, bus.readProperties].forEach(f => f());
	return {
		element: h("div", now, trims, said(), latency),
		open() {
			read();
			bus.readFilesystems();
		},
		onJobs: read,
		draw() {
			fill(now, [daemon.devices, daemon.filesystems, daemon.failed], () => known("devices", deviceTable));
			fill(trims, [daemon.filesystems, daemon.properties.TrimTotals], trimTable);
			drawLatencies(latency);
		},
	};
}
