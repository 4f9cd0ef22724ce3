/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs: a table of them, also of those that can be restored, and one of them in full. */
import * as bus from "./bus.js";
import { act, ask, button, card, choice, facts, field, fill, h, jobLink, known, link, list, path, rowTable, said, state } from "./dom.js";
import { _, bytesOf, cockpit, count, decode, dots, entries, jobs, line, moment, pathOf, rate, share, show, size, span, total, until,
	usecOf, inputOf } from "./format.js";

const { daemon } = bus;

export const STATES = { accepted: _("accepted"), held: _("held"), queued: _("queued"), running: _("running"), paused: _("paused"),
	done: _("done"), partial: _("partial"), failed: _("failed"), cancelled: _("cancelled"), restored: _("restored") };
export const PRIORITIES = { low: _("low"), normal: _("normal"), high: _("high") };
export const MODES = {
	fast: [_("fast"), _("no other program uses the device")],
	check: [_("check"), _("whether other programs use the device is being found out")],
	paced: [_("paced"), _("other programs use the device, so steps are small")],
	urgent: [_("urgent"), _("time or space is short, so speed comes first")],
};
const FILTERS = { open: _("not finished"), running: STATES.running, paused: STATES.paused, held: STATES.held,
	bad: _("partial or failed"), all: _("all") };

const isTrim = j => j.kind === "trim";
const isOpen = j => !bus.isFinished(j);
const canRestore = j => (j.state === "held" || j.state === "queued") && !isTrim(j);
const isShown = (j, filter) => ({ open: isOpen(j), bad: bus.isBad(j), all: true })[filter] ?? j.state === filter;
const errors = j => total(j.errors, "$0 error", "$0 errors");

const amount = j => !j.entries && !j.entriesDone && !j.bytes && !j.bytesDone ? _("not counted yet") : dots(
	!isTrim(j) && (j.entries ? share(count(j.entriesDone), entries(j.entries)) : entries(j.entriesDone)),
	j.bytes ? share(size(j.bytesDone), size(j.bytes)) : size(j.bytesDone), j.errors && errors(j));

const when = j => j.state === "held" ? _("restorable for $0", until(j.heldUntil) || _("a moment"))
	: j.state === "running" ? dots(j.rate && rate(j.rate), until(j.expectedEnd) && _("$0 left", until(j.expectedEnd)))
	: moment(j.finished || j.created);

export const undoWords = usec => usec ? _("It can be restored for $0, and takes space until then.", span(usec))
	: _("It begins at once: what is gone cannot be restored.");

const does = (method, words) => j => bus.manager(method, "at", [[j.id]]).then(() => words(j.id));
const cancelNow = does("Cancel", id => _("Job $0 is being cancelled.", id));

async function cancel(j) {
	const rest = j.entries ? entries(Math.max(0, j.entries - j.entriesDone)) : _("all that is left, not counted yet");
	await ask(_("Cancel job $0?", j.id), [show(j.path),
		isTrim(j) ? _("The trim ends. Nothing was deleted, and what is trimmed stays so.")
		: j.entriesDone || j.bytesDone ? _("Gone, and not coming back: $0. Put back where it was: $1. A large file that is being " +
			"freed has no name any more and is freed to its end; a second cancel frees it at once.", amount(j), rest)
		: _("Nothing of it is deleted yet. Put back where it was: $0.", rest)], _("Cancel the job"));
	return cancelNow(j);
}

const isBack = (j, where) => _("Job $0 is back: $1", j.id, show(where));
const restore = j => bus.manager("Restore", "ta{sv}", [j.id, {}]).then(() => isBack(j, j.path));

async function restoreTo(j) {
	const to = h("input", { required: true, pattern: "/.+", "aria-label": _("Where to") });
	await ask(_("Restore job $0 elsewhere", j.id), [show(j.path),
		_("Into this directory, or under this name, on the same filesystem. Nothing there is replaced."), to], _("Restore"), "main");
	const bytes = pathOf(to.value);
	await bus.program(["reclaimctl", "restore", "--quiet", String(j.id), "--to="], bytes);
	return isBack(j, bytes);
}

async function retry(j) {
	await ask(_("Retry job $0?", j.id), [show(j.path),
		_("What it could not delete ($0) is submitted again where it is still the same, and deleted.", errors(j)), bus.rights()],
	_("Retry"));
	const [answer] = JSON.parse(await bus.program(["reclaimctl", "retry", "--json", "--", String(j.id)]));
	return [jobLink(answer.job), _(": $0; gone or replaced: $1", entries(answer.accepted), count(answer.missing))];
}

const ACTIONS = [
	[_("Pause"), does("Pause", id => _("Job $0 pauses.", id)), j => isOpen(j) && j.state !== "paused"],
	[_("Resume"), does("Resume", id => _("Job $0 goes on.", id)), j => j.state === "paused"],
	[_("Cancel"), cancel, isOpen],
	[_("Restore"), restore, canRestore],
	[_("Restore elsewhere"), restoreTo, canRestore],
	[_("Retry"), retry, j => bus.isBad(j) && !isTrim(j)],
];

const buttons = ({ id }, actions) => actions.filter(([, , can]) => can(daemon.jobs.get(id))).map(([name, work]) =>
	button(name, () => work(daemon.jobs.get(id)), { "aria-label": _("$0 job $1", name, id) }));

export function pacingWindow() {
	const p = daemon.properties;
	return p.PacingWindow && _("pacing window $0 until $1: $2", line(p.PacingWindow), moment(p.PacingWindowUntilUSec),
		p.PacingWindowRate ? rate(p.PacingWindowRate) : _("no job runs"));
}

const jobTable = (label, actions) => rowTable(label, [_("Path"), _("State"), _("Progress"), _("When"), _("Actions")], (j, row) => {
	const [done, all] = j.bytes ? [j.bytesDone, j.bytes] : [j.entriesDone, j.entries];
	row.dataset.job = j.id;
	return [
		[h("small", "#" + j.id + " "), h("a.path", { href: "#/jobs/" + j.id, title: show(j.path) }, show(j.path)), " ",
			j.names > 1 && h("small", _("+$0 more", count(j.names - 1)))],
		[state(j.state, STATES[j.state]), " ", dots(bus.user(j.uid), isTrim(j) && _("trim"), j.origin !== "submit" && line(j.origin),
			j.priority !== "normal" && PRIORITIES[j.priority])],
		[(j.state === "running" || (j.state === "paused" && done > 0)) &&
			h("progress", { "aria-label": _("Progress of job $0", j.id), ...all && { max: all, value: done } }), amount(j)],
		when(j), buttons(j, actions)];
});

function tablePart(above, rows, isWanted, order, words) {
	const counts = h("p");
	return { element: h("div", said(), above, counts, rows.element), draw() {
		const found = [...daemon.jobs.values()].filter(isWanted).sort(order);
		fill(counts, daemon.failed.jobs || words(jobs(found.length)) + (daemon.listed ? "" : " " + _("(more are being read)")));
		rows.set(found);
	} };
}

export const undoPart = () => tablePart(h("p", _("What was deleted with an undo time, or has not begun yet. Until then it takes space.")),
	jobTable(_("Jobs that can be restored"), ACTIONS.slice(3, 5)), canRestore,
	(a, b) => (b.heldUntil > 0) - (a.heldUntil > 0) || a.heldUntil - b.heldUntil || a.id - b.id, n => _("Can be restored: $0", n));

export function jobsPart() {
	const filter = choice(_("Show"), FILTERS, "open", bus.changed), search = h("input", { type: "search", oninput: bus.changed });
	const isFound = j => [show(j.path), bus.user(j.uid), j.origin].some(words => words.includes(search.value));
	const above = h("div"), part = tablePart([above, h("p.row", filter, field(_("Path, user or origin"), search))],
		jobTable(_("Jobs"), ACTIONS.slice(0, 3)), j => isShown(j, filter.control.value) && isFound(j), (a, b) => b.id - a.id, n => n);
	let detail = null;
	return { ...part,
		open([id], options) {
			if (FILTERS[options.show])
				filter.control.value = options.show;
			if (String(detail?.id) === id)
				return;
			detail = /^[1-9]\d*$/.test(id) ? oneJob(Number(id)) : null;
			above.replaceChildren(detail?.element || "");
		},
		reads: [() => detail?.read()],
		draw() {
			if (filter.control.value === "all")
				bus.listHistory();
			part.draw();
			detail?.draw();
		},
	};
}

const ERRORS = { 1: _("not permitted, as of what is immutable"), 5: _("I/O error"), 13: _("permission denied"), 16: _("busy"),
	30: _("read-only"), 39: _("not empty") };

function why(j, p) {
	const key = daemon.filesystems.find(f => f.target === decode(bytesOf(p.Mount)))?.key;
	return dots(line(p.Message), isOpen(j) && daemon.properties.Paused && _("everything pauses"), isOpen(j) && pacingWindow(),
		j.state === "running" && MODES[daemon.devices.find(d => d.name === key)?.mode]?.[1],
		p.Inplace && _("not in staging: $0", line(p.Inplace)));
}

const factsOf = (j, p) => facts([
	[_("Path"), path(bytesOf(p.Path))],
	[_("State"), state(j.state, STATES[j.state])],
	[_("Why"), why(j, p)],
	[_("Progress"), amount(j)],
	[_("When"), when(j)],
	[_("Deletes"), p.EntriesRate > 0 && _("$0, $1 a second", rate(j.rate), entries(p.EntriesRate))],
	[_("Done by"), j.deadline && moment(j.deadline)],
	[_("User"), bus.user(j.uid)],
	[_("Origin"), line(j.origin)],
	[_("Names"), p.Names && count(p.Names)],
	[_("Left on purpose"), p.Skipped && entries(p.Skipped)],
	[_("Filesystem"), path(bytesOf(p.Mount))],
	[_("How"), line(p.Strategy)],
	[_("Submitted"), moment(j.created)],
	[_("Began"), j.started && moment(j.started)],
]);

/* The daemon reads no tree only to count it, as other programs would wait. A person can have it read. */
async function measure(id, staging) {
	const bytes = parseInt(await bus.program(["timeout", "600", "ionice", "-c3", "du", "-xsB1", "--", ""], staging));
	Object.assign(daemon.jobs.get(id), { bytes });
	return _("It takes $0.", size(bytes));
}

function controlsOf(j, p) {
	const deadline = h("input", { type: "datetime-local", value: inputOf(j.deadline) }), staging = bytesOf(p.Staging);
	return [buttons(j, ACTIONS),
		isOpen(j) && choice(_("Priority"), PRIORITIES, j.priority, e =>
			act(e.target, () => bus.manager("SetPriority", "ats", [[j.id], e.target.value]).then(() => _("Done.")))),
		isOpen(j) && !isTrim(j) && h("span.row", field(_("Done by"), deadline), button(_("Set the deadline"), async () => {
			await bus.manager("SetDeadline", "att", [[j.id], usecOf(deadline.value)]);
			return deadline.value ? _("Done.") : _("It has no deadline.");
		})),
		canRestore(j) && !j.bytes && staging && button(_("Measure it"), () => measure(j.id, staging)),
		button(_("Journal"), async () => cockpit.jump("/system/logs#/?priority=debug&service=reclaimd.service&JOB=" + j.id))];
}

const problemList = found => [h("h3", found.length < 100 ? _("Not deleted, and why") : _("Not deleted, and why (the first 100)")),
	list(found.map(([name, what, errno, isWrong]) => [path(bytesOf(name)), ": ", dots(line(what),
		errno && (ERRORS[errno] || _("error $0", errno)), !isWrong && _("left on purpose"))]))];

function oneJob(id) {
	const [about, controls, problems] = [h("div"), h("p.row"), h("div")];
	let p = null, found = [];
	return {
		id, element: card(_("Job $0", id), about, controls, said(), problems, link("jobs", _("Close"))),
		read: bus.reader(1000, "job" + id, async () => {
			if (!daemon.jobs.has(id))
				await bus.listJobs({ ids: cockpit.variant("at", [id]) });
			p = await bus.jobProperties(id);
			found = [];
			found = await bus.problems(id);
		}),
		draw() {
			const j = daemon.jobs.get(id);
			if (p && j) {
				fill(about, factsOf(j, p));
				fill(controls, controlsOf(j, p));
			}
			fill(problems, known("job" + id, found.length > 0 && problemList(found)));
		},
	};
}
