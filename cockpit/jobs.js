/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs: a table of them, also of those that can be restored, and one of them in full. */
import * as bus from "./bus.js";
import { act, ask, button, choice, facts, fill, h, jobLink, link, path, rowTable, said, state, table, text } from "./dom.js";
import { _, bytesOf, cockpit, count, decode, dots, entries, jobs, line, moment, pathOf, rate, share, show, size, total, until,
	usecOf } from "./format.js";

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

/* How much of it is gone. */
const amount = j => !j.entries && !j.entriesDone && !j.bytes && !j.bytesDone ? _("not counted yet") : dots(
	!isTrim(j) && (j.entries ? share(count(j.entriesDone), entries(j.entries)) : entries(j.entriesDone)),
	j.bytes ? share(size(j.bytesDone), size(j.bytes)) : size(j.bytesDone), j.errors && errors(j));

const when = j => j.state === "held" ? _("restorable for $0", until(j.heldUntil) || _("a moment"))
	: j.state === "running" ? dots(j.rate && rate(j.rate), until(j.expectedEnd) && _("$0 left", until(j.expectedEnd)))
	: moment(j.finished || j.created);

/* ---- what can be done to one ---- */

const does = (method, words) => j => bus.manager(method, "at", [[j.id]]).then(() => _(words, j.id));
const cancelNow = does("Cancel", _("Job $0 is being cancelled."));

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
	[_("Pause"), does("Pause", _("Job $0 pauses.")), j => isOpen(j) && j.state !== "paused"],
	[_("Resume"), does("Resume", _("Job $0 goes on.")), j => j.state === "paused"],
	[_("Cancel"), cancel, isOpen],
	[_("Restore"), restore, canRestore],
	[_("Restore elsewhere"), restoreTo, canRestore],
	[_("Retry"), retry, j => bus.isBad(j) && !isTrim(j)],
];

const buttons = (id, actions) => actions.map(([name, work]) =>
	button(name, async () => daemon.jobs.has(id) ? work(daemon.jobs.get(id)) : _("It is not listed any more."),
		{ "aria-label": _("$0 job $1", name, id) }));

export function pacingWindow() {
	const p = daemon.properties;
	return p.PacingWindow && _("pacing window $0 until $1: $2", line(p.PacingWindow), moment(p.PacingWindowUntilUSec),
		p.PacingWindowRate ? rate(p.PacingWindowRate) : _("no job runs"));
}

/* ---- tables ---- */

const jobTable = (label, actions) => rowTable(label, [_("Path"), _("State"), _("Progress"), _("When"), _("Actions")], (j, row) => {
	row.dataset.job = j.id;
	row.state = h("span.state");
	row.bar = h("progress", { max: 1, "aria-label": _("Progress of job $0", j.id) });
	[row.who, row.amount, row.when, row.more] = [h("span"), h("span"), h("span"), h("small")];
	row.buttons = buttons(j.id, actions);
	return [[h("small", "#" + j.id + " "), h("a.path", { href: "#/jobs/" + j.id, title: show(j.path) }, show(j.path)),
		" ", row.more],
		[row.state, " ", row.who], [row.bar, row.amount], row.when, row.buttons];
}, (row, j) => {
	const done = j.bytes ? j.bytesDone / j.bytes : j.entries ? j.entriesDone / j.entries : null;
	text(row.more, j.names > 1 ? _("+$0 more", count(j.names - 1)) : "");
	text(row.state, STATES[j.state] || j.state);
	row.state.dataset.state = j.state;
	text(row.who, dots(bus.user(j.uid), isTrim(j) && _("trim"), j.origin !== "submit" && line(j.origin),
		j.priority !== "normal" && PRIORITIES[j.priority]));
	row.bar.hidden = j.state !== "running" && !(j.state === "paused" && done);
	if (done !== null)
		row.bar.value = done;
	text(row.amount, amount(j));
	text(row.when, when(j));
	row.buttons.forEach((b, i) => {
		b.hidden = !actions[i][2](j);
	});
	if (row.contains(document.activeElement) && document.activeElement.hidden)
		row.querySelector("button:not([hidden])")?.focus();
});

const listed = (isWanted, order) => [...daemon.jobs.values()].filter(isWanted).sort(order);

export function undoPart() {
	const counts = h("p"), rows = jobTable(_("Jobs that can be restored"), ACTIONS.slice(3, 5));
	let timer = 0;
	return {
		element: h("div", h("p", _("What was deleted with an undo time, or has not begun yet. Until then it takes space.")),
			counts, said(), rows.element),
		open() {
			timer = timer || setInterval(bus.changed, 1000); /* The countdown. Nothing is asked for it. */
		},
		close() {
			timer = clearInterval(timer);
		},
		draw() {
			const found = listed(canRestore, (a, b) => (b.heldUntil > 0) - (a.heldUntil > 0) || a.heldUntil - b.heldUntil || a.id - b.id);
			text(counts, daemon.failed.jobs || _("Can be restored: $0", jobs(found.length)));
			rows.set(found);
		},
	};
}

export function jobsPart() {
	const counts = h("p"), above = h("div"), rows = jobTable(_("Jobs"), ACTIONS.slice(0, 3));
	const filter = choice(_("Show"), FILTERS, "open", bus.changed), search = h("input", { type: "search", oninput: bus.changed });
	let detail = null;
	return {
		element: h("div", said(), above, h("p.row", filter, h("label", _("Path, user or origin"), " ", search)), counts,
			rows.element),
		open([id], options) {
			if (FILTERS[options.show])
				filter.control.value = options.show;
			if (String(detail?.id) === id)
				return;
			detail = /^[1-9]\d*$/.test(id) ? oneJob(Number(id)) : null;
			above.replaceChildren(detail?.element || "");
		},
		onJobs: found => found.some(j => j.id === detail?.id) && detail.read(),
		draw() {
			const name = filter.control.value, s = search.value;
			if (name === "all")
				bus.listHistory();
			const found = listed(j => isShown(j, name) && (!s || show(j.path).includes(s) || bus.user(j.uid) === s ||
				j.origin.includes(s)), (a, b) => b.id - a.id);
			text(counts, daemon.failed.jobs || jobs(found.length) + (daemon.listed ? "" : " " + _("(more are being read)")));
			rows.set(found);
			detail?.draw();
		},
	};
}

/* ---- one job ---- */

const ERRORS = { 1: _("not permitted, as of what is immutable"), 5: _("I/O error"), 13: _("permission denied"), 16: _("busy"),
	30: _("read-only"), 39: _("not empty") };

/* Why it is as fast as it is, or waits. */
function why(j, p) {
	const key = daemon.filesystems.find(f => f.target === decode(bytesOf(p.Mount)))?.key;
	return dots(line(p.Message), isOpen(j) && daemon.properties.Paused && _("everything pauses"), isOpen(j) && pacingWindow(),
		j.state === "running" && MODES[daemon.devices.find(d => d.name === key)?.mode]?.[1],
		p.Inplace && _("not in staging: $0", line(p.Inplace)));
}

const problemRow = ([name, what, errno, isWrong]) => [path(bytesOf(name)), dots(line(what),
	errno && (ERRORS[errno] || _("error $0", errno)), !isWrong && _("left on purpose"))];

function controlsOf(j) {
	const deadline = h("input", { type: "datetime-local" });
	return [buttons(j.id, ACTIONS.filter(a => a[2](j))),
		isOpen(j) && choice(_("Priority"), PRIORITIES, j.priority, e =>
			act(e.target, () => bus.manager("SetPriority", "ats", [[j.id], e.target.value]).then(() => _("Done.")))),
		isOpen(j) && !isTrim(j) && [h("label", _("Done by"), " ", deadline), button(_("Set the deadline"), async () => {
			await bus.manager("SetDeadline", "att", [[j.id], usecOf(deadline.value)]);
			return deadline.value ? _("Done.") : _("It has no deadline.");
		})],
		button(_("Journal"), async () => cockpit.jump("/system/logs#/?priority=debug&service=reclaimd.service&JOB=" + j.id))];
}

function oneJob(id) {
	const [about, controls, problems] = [h("div"), h("p.row"), h("div")], name = _("Job $0", id);
	let p = null, found = [], wrong = "", asked = false;

	const read = bus.reader(1000, "job", async () => {
		asked = true;
		try {
			if (!daemon.jobs.has(id))
				await bus.listJobs({ ids: cockpit.variant("at", [id]) });
			p = await bus.jobProperties(id);
		} catch (e) {
			fill(about, e.message, () => h("p.bad", bus.words(e)));
		}
		[found, wrong] = await bus.problems(id).then(r => [r, ""], e => [[], bus.words(e)]);
	});

	return {
		id, read, element: h("section.card", { "aria-label": name }, h("h2", name), about, controls, said(), problems,
			link("jobs", _("Close"))),
		draw() {
			const j = daemon.jobs.get(id);
			if (!asked)
				read();
			if (!p || !j)
				return;
			fill(about, [j, p, daemon.devices, daemon.properties.Paused, daemon.properties.PacingWindow], () => facts([
				[_("Path"), path(bytesOf(p.Path))],
				[_("State"), state(j.state, STATES[j.state])],
				[_("Why"), why(j, p)],
				[_("Progress"), amount(j)],
				[_("When"), when(j)],
				[_("Done by"), j.deadline && moment(j.deadline)],
				[_("User"), bus.user(j.uid)],
				[_("Origin"), line(j.origin)],
				[_("Names"), p.Names && count(p.Names)],
				[_("Left on purpose"), p.Skipped && entries(p.Skipped)],
				[_("Filesystem"), path(bytesOf(p.Mount))],
				[_("How"), line(p.Strategy)],
				[_("Submitted"), moment(j.created)],
				[_("Began"), j.started && moment(j.started)],
			]));
			/* Not under a person's hands. */
			if (!controls.querySelector("input:focus, select:focus")) {
				const had = controls.contains(document.activeElement);
				fill(controls, [j.state, j.priority, j.deadline], () => controlsOf(j));
				if (had && !controls.contains(document.activeElement))
					controls.querySelector("button")?.focus();
			}
			fill(problems, [found, wrong], () => wrong ? h("p.bad", wrong) : found.length > 0 && table(found.length < 100
				? _("Not deleted, and why") : _("Not deleted, and why (the first 100)"), [_("Path"), _("Reason")], found.map(problemRow)));
		},
	};
}
