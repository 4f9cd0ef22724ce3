/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Overview: what is wrong, each filesystem, and the switch for everything. Devices: how each behaves, and its trims. */
import * as bus from "./bus.js";
import { button, card, facts, fill, h, known, link, list, said, state } from "./dom.js";
import { _, count, dots, entries, jobs, line, moment, rate, share, show, size, span } from "./format.js";
import { MODES, pacingWindow, STATES } from "./jobs.js";

const { daemon } = bus;

export function troubles() {
	const p = daemon.properties, bad = [...daemon.jobs.values()].filter(bus.isBad).length;
	return [
		p.ConfigurationError &&
			[_`The configuration has an error, so the one before is in force: ${line(p.ConfigurationError)}`, "policies"],
		p.StoreError && [_`The job store has an error, so nothing new is accepted: ${line(p.StoreError)}`],
		p.Orphans && [_`Directories in staging that belong to no job: ${count(p.Orphans)}. They are kept; the journal names them.`],
		...daemon.policies.filter(x => x.result === "failed" || x.result === "partial")
			.map(x => [_`Policy ${x.name}, last run: ${STATES[x.result]}. ${line(x.why[0])}`, "policies"]),
		...daemon.spools.filter(s => s.state !== "watching").map(s => [_`Spool ${show(s.path)}: ${line(s.state)}. ${line(s.message)}`]),
		bad && [_`Partial or failed: ${jobs(bad)}`, "jobs?show=bad"],
	].filter(x => x);
}

const filesystemOf = path => daemon.filesystems.find(f => (path + "/").startsWith(f.prefix));

/* What a caller has counted is not more than there is. */
function amount(of, used) {
	const bytes = of.reduce((sum, j) => sum + Math.max(0, j.bytes - j.bytesDone), 0), all = size(Math.min(bytes, used));
	const unknown = of.filter(j => !j.bytes).length;
	return of.length && jobs(of.length) + ", " + (!unknown ? all : bytes ? _`at least ${all} (not counted: ${count(unknown)})`
		: _`not counted yet`);
}

function marks(f) {
	const words = s => s.share === null ? size(s.bytes) : Math.round(1000 * s.share) / 10 + " %";
	return daemon.policies.filter(p => filesystemOf(p.path) === f).map(p => [p, daemon.marks.find(m => m.name === p.name)?.min_free])
		.filter(([p, m]) => m || p.watched).map(([p, m]) => h("div", link("policies", p.name),
			m && _`: below ${words(m.below)} free, until ${words(m.until)} are`));
}

function filesystemCard(f, open) {
	const name = line(f.target);
	return card(name, h("meter", { max: f.size, high: f.size * 0.9, value: f.used, "aria-label": _`Used of ${name}` }), facts([
		[_`Used`, share(size(f.used), size(f.size))],
		[_`Free`, size(f.avail)],
		[_`Held for undo`, amount(open.filter(j => j.state === "held"), f.used)],
		[_`Queued or running`, amount(open.filter(j => j.state !== "held"), f.used)],
		[_`Owed`, daemon.devices.filter(d => d.name === f.key && d.owed).map(d => size(d.owed))],
		[_`Watermarks`, marks(f)],
		[_`Device`, line(f.fstype + ", " + f.source)],
	]));
}

export function overviewPart() {
	const [wrong, everything, each, latency] = [h("div", { role: "status" }), h("p.row"), h("div.cards"), h("div")];
	return {
		element: h("div", wrong, everything, said(), each, latency),
		reads: [bus.readFilesystems, bus.readLatencies, bus.readProperties, bus.readDevices],
		draw() {
			const { Paused } = daemon.properties, open = [...daemon.jobs.values()].filter(bus.isOpen);
			const states = Object.entries(Object.groupBy(open, j => j.state)).map(([s, of]) => count(of.length) + " " + STATES[s]);
			const on = Map.groupBy(open, j => filesystemOf(j.path));
			fill(wrong, troubles().map(([words, to]) => h("p.banner", words, " ", to && link(to, _`Look`))));
			fill(everything, h("span", dots(Paused && _`Everything pauses`, pacingWindow(), _`Jobs: ${states.join(", ") || _`none`}`)),
			Paused ? button(_`Resume everything`, () => bus.manager("ResumeAll").then(() => _`Everything goes on.`), { class: "main" })
				: button(_`Pause everything`, () => bus.manager("PauseAll")
					.then(() => _`Nothing at all is deleted until it is resumed, also after a restart.`)));
			fill(each, known("filesystems", daemon.filesystems.map(f => filesystemCard(f, on.get(f) || [])).reverse()));
			drawLatencies(latency);
		},
	};
}

const deviceName = key => line(key) + " " + daemon.filesystems.filter(f => f.key === key).map(f => line(f.target)).join(", ");

/* A minute is 1 wide, and the longest time 19 high. */
function chart(of, key) {
	const all = daemon.latencies.filter(l => l.name === key && l.of === of), times = rows => rows.map(l => l.most);
	const most = Math.max(...times(all)), now = Date.now() * 1000, title = of === "reads" ? _`Reads` : _`Syncs`;
	const [gaps, deleting] = [false, true].map(isOn => all.filter(l => l.deleting === isOn));
	const words = rows => {
		const [least, largest] = [Math.min, Math.max].map(f => span(f(...times(rows))));
		return rows.length === 0 ? _`none` : least === largest ? least : _`${least} to ${largest}`;
	};
	const legend = [_`In gaps: ${words(gaps)}`, _`While deleting: ${words(deleting)}`];
	const draw = (rows, shape) => rows.map(l => "M" + (60 - Math.ceil((now - l.begin) / 6e7)) + shape(20 - 19 * l.most / most)).join("");
	return h("figure.card", h("figcaption", h("h3", deviceName(key) + ": " + title),
		h("p.row", h("span", legend[0]), h("span.deleting", legend[1]))),
	h("svg", { viewBox: "0 0 60 20", preserveAspectRatio: "none", role: "img", "aria-label": [title, ...legend].join(". ") },
		h("path", { d: draw(gaps, y => ` 20V${y}h1V20z`) }), h("path.deleting", { d: draw(deleting, y => ` ${y - 0.5}h1v1h-1z`) })),
	h("small.row", h("span", _`an hour ago`), h("span", _`height: ${span(most)}`), h("span", _`now`)));
}

const drawLatencies = place => fill(place, known("latencies", cards(_`What requests of other programs took in the last hour`,
	_`Nothing was deleted beside other programs.`,
	[...new Set(daemon.latencies.map(l => l.of + " " + l.name))].sort().map(k => chart(...k.split(" "))))),
daemon.latencies.length > 0 && h("p", _`Of each minute: 99 of 100 took no longer. Bars: in gaps. Marks: while deleting.`));

function deviceCard(key) {
	const d = daemon.devices.find(x => x.name === key), devices = daemon.filesystems.find(f => f.key === key)?.devices || [];
	const mean = r => r.count ? span(1000 * r.total_msec / r.count) : "–";
	return card(deviceName(key), facts([
		[_`On average since boot`, list(devices.filter(x => x.top && x.counts).map(x => _`${line(x.name)} (${
			x.rotating ? _`rotating` : _`solid state`}): a read ${mean(x.boot.read)}, a write ${mean(x.boot.write)}`))],
		...!d ? [[_`Pace`, _`nothing is being deleted`]] : [
			[_`Pace`, state(d.mode, MODES[d.mode]?.[0]), " ", MODES[d.mode]?.[1], d.observed ? "" : " " + _`(it counts no requests)`],
			[_`Deletes`, _`${rate(d.rate)}, ${entries(Math.round(d.entriesRate))} a second`],
			[_`Sync alone`, span(d.sync)],
			[_`Step takes`, span(d.cost)],
			[_`May take`, span(d.target)],
			[_`Owed`, size(d.owed)],
		],
	]));
}

function trimCard(f) {
	const last = daemon.trims.find(t => t.mount === f.target);
	return card(line(f.target), facts([
		[_`Last trim`, last ? moment(last.finished_usec) : _`never`],
		[_`Result`, last && last.outcome !== "trimmed" && line(last.why || last.outcome)],
		[_`Trimmed`, last && size(last.trimmed_bytes)],
		[_`Longest step`, last && span(last.longest_step_usec)],
		[_`Discards`, line(f.discard_setup.mode || _`unknown`)],
	]));
}

const cards = (title, none, made) => [h("h2", title), made.length ? h("div.cards", made) : h("p", none)];

export function devicesPart() {
	const [now, trims, latency] = [h("div"), h("div"), h("div")];
	return {
		element: h("div", now, trims, said(), latency),
		reads: [bus.readDevices, bus.readLatencies, bus.readTrims, bus.readFilesystems],
		draw() {
			const keys = new Set([...daemon.devices.map(d => d.name), ...daemon.filesystems.map(f => f.key)]);
			fill(now, known("devices", cards(_`Devices`, _`None is known.`, [...keys].filter(k => k).map(deviceCard))));
			fill(trims, cards(_`Trims`, _`No filesystem here is on a device that discards.`,
				daemon.filesystems.filter(f => f.discard_setup?.possible).map(trimCard)));
			drawLatencies(latency);
		},
	};
}
