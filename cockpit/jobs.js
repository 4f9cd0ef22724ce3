/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Jobs: a table of them, also of those that can be restored, one in full, and a new one, which begins with its plan. */
import * as bus from "./bus.js";
import { act, ask, button, card, choice, facts, field, fill, h, jobLink, known, link, list, path, rowTable, said,
	state } from "./dom.js";
import { _, bytesOf, count, decode, dots, encode, entries, inputOf, jobs, line, moment, pathOf, rate, share, show, size, span, total,
	unescape, until, usecOf } from "./format.js";

const { daemon, isOpen } = bus;

export const STATES = { accepted: _`accepted`, held: _`held`, queued: _`queued`, running: _`running`, paused: _`paused`,
	done: _`done`, partial: _`partial`, failed: _`failed`, cancelled: _`cancelled`, restored: _`restored` };
export const MODES = {
	fast: [_`fast`, _`no other program uses the device`],
	check: [_`check`, _`whether other programs use the device is being found out`],
	paced: [_`paced`, _`other programs use the device, so steps are small`],
	urgent: [_`urgent`, _`time or space is short, so speed comes first`],
};
const PRIORITIES = { low: _`low`, normal: _`normal`, high: _`high` };
const { running, paused, held } = STATES;
const FILTERS = { open: _`not finished`, running, paused, held, bad: _`partial or failed`, all: _`all` };

const canRestore = j => j.state === "held" || j.state === "queued";
const isShown = (j, filter) => ({ open: isOpen(j), bad: bus.isBad(j), all: true })[filter] ?? j.state === filter;
const errors = j => total(j.errors, "$0 error", "$0 errors");

const amount = j => j.entries || j.entriesDone || j.bytes || j.bytesDone ? dots(
	j.entries ? share(count(j.entriesDone), entries(j.entries)) : entries(j.entriesDone),
	j.bytes ? share(size(j.bytesDone), size(j.bytes)) : size(j.bytesDone), j.errors && errors(j)) : _`not counted yet`;

const when = j => j.state === "held" ? _`restorable for ${until(j.heldUntil) || _`a moment`}`
	: j.state === "running" ? dots(j.rate && rate(j.rate), until(j.expectedEnd) && _`${until(j.expectedEnd)} left`)
	: moment(j.finished || j.created);

export const undoWords = usec => usec ? _`It can be restored for ${span(usec)}, and takes space until then.`
	: _`It begins at once: what is gone cannot be restored.`;

const does = (method, words) => j => bus.manager(method, "at", [[j.id]]).then(() => words(j.id));
const cancelNow = does("Cancel", id => _`Job ${id} is being cancelled.`);

async function cancel(j) {
	const rest = j.entries ? entries(Math.max(0, j.entries - j.entriesDone)) : _`all that is left, not counted yet`;
	await ask(_`Cancel job ${j.id}?`, [show(j.path),
		j.entriesDone || j.bytesDone ? _`Gone for good: ${amount(j)}. Put back where it was: ${rest}. ` +
			_`A large file that is being freed has no name any more; a second cancel frees it at once.`
		: _`Nothing of it is deleted yet. Put back where it was: ${rest}.`], _`Cancel the job`);
	return cancelNow(j);
}

const isBack = (j, where) => _`Job ${j.id} is back: ${show(where)}`;
const restore = j => bus.manager("Restore", "ta{sv}", [j.id, {}]).then(() => isBack(j, j.path));

async function restoreTo(j) {
	const to = h("input", { required: true, pattern: "/.+", "aria-label": _`Where to` });
	await ask(_`Restore job ${j.id} elsewhere`, [show(j.path),
		_`Into this directory, or under this name, on the same filesystem. Nothing there is replaced.`, to], _`Restore`, "main");
	const bytes = pathOf(to.value);
	await bus.program(["reclaimctl", "restore", "--quiet", String(j.id), "--to="], bytes);
	return isBack(j, bytes);
}

async function retry(j) {
	await ask(_`Retry job ${j.id}?`, [show(j.path),
		_`What it could not delete (${errors(j)}) is submitted again where it is still the same, and deleted.`, bus.rights()],
	_`Retry`);
	const [answer] = JSON.parse(await bus.program(["reclaimctl", "retry", "--json", "--", String(j.id)]));
	return [jobLink(answer.job), _`: ${entries(answer.accepted)}; gone or replaced: ${count(answer.missing)}`];
}

const ACTIONS = [
	[_`Pause`, does("Pause", id => _`Job ${id} pauses.`), j => isOpen(j) && j.state !== "paused"],
	[_`Resume`, does("Resume", id => _`Job ${id} goes on.`), j => j.state === "paused"],
	[_`Cancel`, cancel, isOpen],
	[_`Restore`, restore, canRestore],
	[_`Restore elsewhere`, restoreTo, canRestore],
	[_`Retry`, retry, j => bus.isBad(j)],
];

const buttons = ({ id }, actions) => actions.filter(([, , can]) => can(daemon.jobs.get(id))).map(([name, work]) =>
	button(name, () => work(daemon.jobs.get(id)), { "aria-label": _`${name} job ${id}` }));

export function pacingWindow() {
	const p = daemon.properties, limit = p.PacingWindowRate ? rate(p.PacingWindowRate) : _`no job runs`;
	return p.PacingWindow && _`pacing window ${line(p.PacingWindow)} until ${moment(p.PacingWindowUntilUSec)}: ${limit}`;
}

const jobTable = (label, actions) => rowTable(label, [_`Path`, _`State`, _`Progress`, _`When`, _`Actions`], (j, row) => {
	const [done, all] = j.bytes ? [j.bytesDone, j.bytes] : [j.entriesDone, j.entries], name = show(j.path);
	row.dataset.job = j.id;
	return [
		[h("small", "#" + j.id + " "), h("a.path", { href: "#/jobs/" + j.id, title: name }, name), " ",
			j.names > 1 && h("small", _`+${count(j.names - 1)} more`)],
		[state(j.state, STATES[j.state]), " ", dots(bus.user(j.uid), j.origin !== "submit" && line(j.origin),
			j.priority !== "normal" && PRIORITIES[j.priority])],
		[(j.state === "running" || (j.state === "paused" && done > 0)) &&
			h("progress", { "aria-label": _`Progress of job ${j.id}`, ...all && { max: all, value: done } }), amount(j)],
		when(j), buttons(j, actions)];
});

function tablePart(above, rows, isWanted, order, words) {
	const counts = h("p");
	return { element: h("div", said(), above, counts, rows.element), draw() {
		const found = [...daemon.jobs.values()].filter(isWanted).sort(order);
		fill(counts, daemon.failed.jobs || words(jobs(found.length)) + (daemon.listed ? "" : " " + _`(more are being read)`));
		rows.set(found);
	} };
}

export const undoPart = () => tablePart(h("p", _`Deleted with an undo time, or not begun yet. It takes space until then.`),
	jobTable(_`Jobs that can be restored`, ACTIONS.slice(3, 5)), canRestore,
	(a, b) => (b.heldUntil > 0) - (a.heldUntil > 0) || a.heldUntil - b.heldUntil || a.id - b.id, n => _`Can be restored: ${n}`);

export function jobsPart() {
	const filter = choice(_`Show`, FILTERS, "open", bus.changed), search = h("input", { type: "search", oninput: bus.changed });
	const isFound = j => [show(j.path), bus.user(j.uid), j.origin].some(words => words.includes(search.value));
	const above = h("div"), part = tablePart([above, h("p.row", filter, field(_`Path, user or origin`, search))],
		jobTable(_`Jobs`, ACTIONS.slice(0, 3)), j => isShown(j, filter.control.value) && isFound(j), (a, b) => b.id - a.id, n => n);
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

/* ---- one job ---- */

const ERRORS = { 1: _`not permitted, as of what is immutable`, 5: _`I/O error`, 13: _`permission denied`, 16: _`busy`,
	30: _`read-only`, 39: _`not empty` };

function why(j, p) {
	const key = daemon.filesystems.find(f => f.target === decode(bytesOf(p.Mount)))?.key;
	return dots(line(p.Message), isOpen(j) && daemon.properties.Paused && _`everything pauses`, isOpen(j) && pacingWindow(),
		j.state === "running" && MODES[daemon.devices.find(d => d.name === key)?.mode]?.[1],
		p.Inplace && _`not in staging: ${line(p.Inplace)}`);
}

const factsOf = (j, p) => facts([
	[_`Path`, path(bytesOf(p.Path))],
	[_`State`, state(j.state, STATES[j.state])],
	[_`Why`, why(j, p)],
	[_`Progress`, amount(j)],
	[_`When`, when(j)],
	[_`Deletes`, p.EntriesRate > 0 && _`${rate(j.rate)}, ${entries(p.EntriesRate)} a second`],
	[_`Done by`, j.deadline && moment(j.deadline)],
	[_`User`, bus.user(j.uid)],
	[_`Origin`, line(j.origin)],
	[_`Names`, p.Names && count(p.Names)],
	[_`Left on purpose`, p.Skipped && entries(p.Skipped)],
	[_`Filesystem`, path(bytesOf(p.Mount))],
	[_`How`, line(p.Strategy)],
	[_`Submitted`, moment(j.created)],
	[_`Began`, j.started && moment(j.started)],
]);

/* The daemon reads no tree only to count it, as other programs would wait. */
async function measure(id, staging) {
	const bytes = parseInt(await bus.program(["timeout", "600", "ionice", "-c3", "du", "-xsB1", "--", ""], staging));
	Object.assign(daemon.jobs.get(id), { bytes });
	return _`It takes ${size(bytes)}.`;
}

const deadlineField = value => field(_`Done by`, h("input", { type: "datetime-local", value }));

function controlsOf(j, p) {
	const deadline = deadlineField(inputOf(j.deadline)), staging = bytesOf(p.Staging);
	return [buttons(j, ACTIONS),
		isOpen(j) && choice(_`Priority`, PRIORITIES, j.priority, e =>
			act(e.target, () => bus.manager("SetPriority", "ats", [[j.id], e.target.value]).then(() => _`Done.`))),
		isOpen(j) && h("span.row", deadline, button(_`Set the deadline`, async () => {
			const usec = usecOf(deadline.control.value);
			await bus.manager("SetDeadline", "att", [[j.id], usec]);
			return usec ? _`Done.` : _`It has no deadline.`;
		})),
		canRestore(j) && !j.bytes && staging && button(_`Measure it`, () => measure(j.id, staging)),
		button(_`Journal`, () => cockpit.jump("/system/logs#/?priority=debug&service=reclaimd.service&JOB=" + j.id))];
}

const problemList = (j, found) => [h("h3", _`Not deleted, and why`, found.length === bus.PROBLEMS &&
	" " + _`(the first ${count(bus.PROBLEMS)} of ${errors(j)})`),
list(found.map(([name, what, errno, isWrong]) => [path(bytesOf(name)), ": ", dots(line(what),
	errno && (ERRORS[errno] || _`error ${errno}`), !isWrong && _`left on purpose`)]))];

function oneJob(id) {
	const [about, controls, problems] = [h("div"), h("p.row"), h("div")];
	let p = null, found = [];
	return {
		id, element: card(_`Job ${id}`, about, controls, said(), problems, link("jobs", _`Close`)),
		read: bus.reader(1000, "job" + id, async () => {
			if (!daemon.jobs.has(id))
				await bus.listJobs({ ids: cockpit.variant("at", [id]) });
			p = await bus.jobProperties(id);
			found = await bus.problems(id);
		}),
		draw() {
			const j = daemon.jobs.get(id);
			if (p && j) {
				fill(about, factsOf(j, p));
				fill(controls, controlsOf(j, p));
			}
			fill(problems, known("job" + id, found.length > 0 && problemList(j, found)));
		},
	};
}

/* ---- a new job ---- */

const OFFERED = 300; /* names */
const VERDICTS = { delete: _`All of it can be deleted.`, partly: _`A part of it cannot be deleted, and stays.`,
	blocked: _`It cannot be deleted now.`, refused: _`It may not be deleted.`, missing: _`It does not exist.` };
const UNDO = { "": _`as configured`, "0s": _`not at all`, "600s": _`for 10 minutes`, "3600s": _`for an hour`,
	"86400s": _`for a day`, "604800s": _`for a week` };

/* Cockpit does not tell names that are not UTF-8. They can be typed. */
function namesIn(directory) {
	return new Promise(resolve => {
		const found = [], channel = cockpit.channel({ payload: "fslist1", path: directory, superuser: "try", watch: false });
		channel.addEventListener("message", (event, data) => {
			const item = JSON.parse(data);
			if (item.event === "present" && !/[\p{Cs}\ufffd]/u.test(item.path) &&
				found.push(directory + item.path + (item.type === "directory" ? "/" : "")) > OFFERED)
				channel.close();
		});
		channel.addEventListener("close", () => resolve(found.sort()));
	});
}

const what = p => entries(p.entries) + ", " + (p.bytes_exact ? "" : _`about` + " ") + size(p.bytes);
const at = (x, words) => [h("span.path", line(x.path)), " ", words];

const planView = p => facts([
	[_`Verdict`, h("b", VERDICTS[p.verdict] || line(p.verdict)), " ", line(p.reason)],
	[_`What`, p.entries !== undefined && what(p) +
		` (${total(p.files, "$0 file", "$0 files")}, ${total(p.directories, "$0 directory", "$0 directories")})`],
	[_`Filesystem`, p.filesystem && _`${line(p.filesystem.mount_point)}, ${line(p.filesystem.type)}; ${
		share(size(p.filesystem.free_bytes), size(p.filesystem.size_bytes))} free`],
	[_`How`, line(p.strategy?.name)],
	[_`Protected, or stays`, list(p.undeletable?.reasons?.map(r => at(r, line(r.reason))))],
	[_`In use by`, list(p.open?.holders?.map(o => at(o, line(o.command || o.how))))],
	[_`Hard links elsewhere`, p.hard_links?.entries &&
		_`${entries(p.hard_links.entries)}; they keep ${size(p.hard_links.kept_bytes)}`],
	[_`Largest files`, list(p.largest_files?.filter(f => f.bytes).map(f => at(f, size(f.bytes))))],
]);

export function submitPart() {
	const names = h("datalist", { id: "names" }), cut = h("small", { role: "status" });
	const shown = h("section", { "aria-label": _`Plan` }), deadline = deadlineField("");
	const undo = choice(_`Restorable`, UNDO, ""), priority = choice(_`Priority`, PRIORITIES, "normal");
	const path = h("input", { list: "names", spellcheck: false, autocapitalize: "none", required: true, oninput: complete });
	const look = h("button.main", _`Show the plan`), go = button(_`Delete…`, submit, { class: "danger", disabled: true });
	let plan = null, listed = "";

	async function complete() {
		const directory = path.value.slice(0, path.value.lastIndexOf("/") + 1), bytes = unescape(directory);
		set(null);
		if (!bytes?.startsWith("/") || directory === listed)
			return;
		listed = directory;
		const found = await namesIn(decode(bytes));
		if (listed === directory) {
			names.replaceChildren(...found.map(n => h("option", { value: show(encode(n)) })));
			fill(cut, found.length > OFFERED && _`Only ${count(found.length)} names in ${show(bytes)} are offered.`);
		}
	}

	function set(to) {
		plan = to;
		go.disabled = !["delete", "partly"].includes(plan?.verdict);
		shown.replaceChildren(plan ? planView(plan) : "");
	}

	async function showPlan() {
		const typed = path.value, bytes = pathOf(typed);
		set(null);
		const [found] = JSON.parse(await bus.program(["timeout", "600", "reclaimctl", "plan", "--json", "--", ""], bytes));
		if (typed === path.value)
			set({ ...found, path: bytes });
	}

	async function submit() {
		const p = plan, usec = undo.control.value && parseInt(undo.control.value) * 1e6, by = usecOf(deadline.control.value);
		await ask(_`Delete ${show(p.path)}?`, [what(p) + ". " + _`The name is gone at once.`,
			usec === "" ? _`How long it can be restored is what the configuration says.` : undoWords(usec), bus.rights()], _`Delete`);
		const id = await bus.manager("Submit", "aaya{sv}", [[btoa(p.path)], {
			priority: cockpit.variant("s", priority.control.value), bytes: cockpit.variant("t", p.bytes),
			...usec !== "" && { "undo-usec": cockpit.variant("t", usec) }, ...by && { "deadline-usec": cockpit.variant("t", by) } }], 600000);
		path.value = "";
		set(null);
		return [jobLink(id), ": " + show(p.path)];
	}

	return {
		element: h("form", { onsubmit: e => {
			e.preventDefault();
			act(look, showPlan);
		} }, h("p.row", h("label.row.wide", _`Path`, path), names, look), cut, said(), shown, h("p.row", undo, priority, deadline, go)),
	};
}
