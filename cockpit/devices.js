/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Trims and devices: how each behaves now, and what requests took there. */
import * as bus from "./bus.js";
import { ask, button, fill, h, link, said, state, table } from "./dom.js";
import { _, bytesOf, count, decode, encode, entries, line, moment, rate, size, span } from "./format.js";
import { MODES } from "./jobs.js";

const { daemon } = bus;

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
export function latencies() {
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

async function trim(f) {
	if (!await ask(_("Trim $0 now?", line(f.target)), [
		_("Its devices are told that $0 are free. Nothing is deleted. In steps that spare other programs, it can take hours.",
			size(f.avail))], _("Trim"), "main"))
		return "";
	const [id] = await bus.manager("Trim", "aya{sv}", [btoa(encode(f.target)), {}]);
	return link("jobs/" + id, _("Job $0", id));
}

const deviceTable = () => daemon.devices.length === 0 ? h("p", _("Nothing is being deleted now."))
	: table(_("Devices where something is being deleted"), [_("Device"), _("Pace"), _("Deletes"), _("Sync alone"), _("Step takes"),
		_("May take"), _("Owed")], daemon.devices.map(d => [
		[h("b", line(d.name)), " ", daemon.filesystems.filter(f => f.key === d.name).map(f => line(f.target)).join(", ")],
		[state(d.mode), " ", MODES[d.mode], d.observed ? "" : " " + _("(it counts no requests)")],
		_("$0, $1 a second", rate(d.rate), entries(Math.round(d.entriesRate))), span(d.sync), span(d.cost), span(d.target),
		size(d.owed)]));

function trimTable(place) {
	const totals = new Map((daemon.properties.TrimTotals || []).map(t => [decode(bytesOf(t[0])), t]));
	const able = daemon.filesystems.filter(f => f.discard_setup?.possible);
	return able.length === 0 ? h("p", _("No filesystem here is on a device that discards."))
		: table(_("Trims"), [_("Filesystem"), _("Last"), _("Trimmed"), _("Longest step"), _("Discards"), _("Actions")], able.map(f => {
			const [, bytes, step, last] = totals.get(f.target) || [];
			return [line(f.target), moment(last), bytes ? size(bytes) : "–", step ? span(step) : "–",
				line(f.discard_setup.mode || _("not known")),
				button(_("Trim…"), place, () => trim(f), { "aria-label": _("Trim $0", line(f.target)) })];
		}));
}

export function devicesPart() {
	const [now, trims, latency, place] = [h("div"), h("div"), h("div"), said()];
	const read = () => [bus.readDevices, bus.readProperties].forEach(f => f());
	return {
		element: h("div", now, trims, place, latency),
		open() {
			read();
			bus.readFilesystems();
		},
		onJobs: read,
		draw() {
			const { DeviceTotals, TrimTotals } = daemon.properties;
			fill(now, [daemon.devices, daemon.filesystems], deviceTable);
			fill(trims, [daemon.filesystems, TrimTotals], () => trimTable(place));
			fill(latency, [DeviceTotals], latencies);
		},
	};
}
