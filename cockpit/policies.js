/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: when they ran and run next, what that deletes and why, and their configuration. */
import * as bus from "./bus.js";
import { ask, button, choice, facts, fill, h, jobLink, list, path, real, rowTable, said, say, state, text } from "./dom.js";
import { _, cockpit, date, entries, line, moment, share, size, span, total } from "./format.js";
import { STATES } from "./jobs.js";

const { daemon } = bus;

/* ---- what a run would delete and keep now ---- */

const FATES = { keep: _("stays"), delete: _("is deleted"), excess: _("is to go, not in this run") };
/* Of those whose names do not say it. */
const RULES = { mount: _("is or holds a mount point"), unread: _("could not be looked at in full"),
	"no-time": _("has no time to go by"), "no-series": _("group-by does not match it"), "other-keep": _("keep of another policy"),
	future: _("its time is in the future"), "no-rule": _("the policy has no rule"), "not-kept": _("no rule of keep keeps it") };

const sum = s => entries(s.entries) + ", " + size(s.bytes);

function planOf(answer) {
	const plan = [JSON.parse(answer)].flat()[0];
	if (plan.error)
		throw new Error(plan.error);
	return plan;
}

/* How many are kept of each day, and how many go. */
function calendar(all) {
	const days = new Map(), day = (d, n) => new Date(d.getFullYear(), d.getMonth(), n).getTime();
	for (const e of all.filter(x => x.time_usec !== null)) {
		const d = new Date(e.time_usec / 1000), at = day(d, d.getDate()), n = days.get(at) || [0, 0];
		n[e.fate === "delete" ? 1 : 0]++;
		days.set(at, n);
	}
	const months = new Set([...days.keys()].sort((a, b) => b - a).map(t => day(new Date(t), 1)));
	return h("div.months", [...months].slice(0, 12).map(first => {
		const cells = Array.from({ length: (new Date(first).getDay() + 6) % 7 }, () => h("td"));
		for (let n = 1, t = first; day(new Date(t), 1) === first; t = day(new Date(first), ++n)) {
			const found = days.get(t), words = found && _("$0 kept, $1 deleted", ...found);
			cells.push(h("td", found ? { className: found[0] ? "kept" : "gone", title: words, "aria-label": n + ": " + words } : {}, n));
		}
		return h("table.month", h("caption", date(first * 1000, { month: "long", year: "numeric" })),
			Array.from({ length: Math.ceil(cells.length / 7) }, (x, i) => h("tr", cells.slice(7 * i, 7 * i + 7))));
	}));
}

function planView(answer) {
	const plan = planOf(answer), all = plan.entries.map((e, id) => ({ ...e, id }));
	const rows = rowTable(_("Entries"), [_("Name"), _("Fate"), _("Reason"), _("Time"), _("Size")], e => [
		h("span.path", { title: line(e.name) }, line(e.name)), state(e.fate, FATES[e.fate]),
		e.keep.length ? "keep: " + e.keep.join(", ") : RULES[e.rule] || e.rule, e.time_usec && moment(e.time_usec), size(e.bytes)]);
	const filter = choice(_("Show"), { "": _("all"), ...FATES }, "", set);
	function set() {
		rows.set(all.filter(e => !filter.control.value || e.fate === filter.control.value));
	}
	set();
	return [facts([
		[_("Would be deleted now"), h("b", sum(plan.deleted))],
		[_("Stays"), sum(plan.kept)],
		[_("In excess of max-delete"), plan.excess.entries && sum(plan.excess)],
		[_("Cannot be deleted"), plan.refused.entries && sum(plan.refused)],
		[_("Free"), plan.filesystem && share(size(plan.filesystem.free_bytes), size(plan.filesystem.size_bytes))],
	]), calendar(all), h("p", filter), rows.element];
}

/* ---- the editor: the daemon's own parser checks what is written in a copy of the configuration, so that other files
 * count, too; it is written after its difference was shown ---- */

const DIR = "/etc/reclaimd";
/* sh FILE NAME WORDS...: the text of FILE is standard input; the copy and the policy's name go behind the words. */
const TRY = `d=$(mktemp -d) || exit; trap 'rm -rf "$d"' EXIT; trap exit HUP TERM; mkdir "$d/reclaimd.d" && cd ${DIR} || exit
for f in reclaimd.yaml reclaimd.d/*.yaml; do [ ! -f "$f" ] || cp "$f" "$d/$f" || exit; done
cat >"$d/$1"; n=$2; shift 2; "$@" "$d" \${n:+"$n"}; [ $? -lt 126 ]`;
/* sh NAME: the first file that may have it, and where that is: a link stays one; its owner and mode. */
const FIND = `cd ${DIR} && f=$(grep -lsE "^ +.?$1.? *:" reclaimd.yaml reclaimd.d/*.yaml | head -n 1)
[ -z "$f" ] || { echo "$f"; readlink -f "$f"; stat -Lc %u:%g "$f"; stat -Lc %a "$f"; }`;
/* sh FILE OWNER MODE: Cockpit 287 loses them. */
const KEEP = 'chown "$2" "$1" && chmod "$3" "$1"';
/* sh NAME: the service manager makes timers of schedules. No other timer is started: it may have been stopped on purpose. */
const TIMER = `systemctl daemon-reload && t=reclaimd-policy@$1.timer || exit
if systemctl cat "$t" >/dev/null 2>&1; then systemctl start "$t"; elif systemctl is-active -q "$t"; then systemctl stop "$t"; fi`;

const shell = (script, ...words) => cockpit.spawn(["sh", "-c", script, "sh", ...words], bus.AS_ROOT);

/* The lines of a policy, [first, behind the last]; all of them where it has none of its own. */
function linesOf(lines, name) {
	const key = new RegExp("^(\\s+)([\"']?)" + name + "\\2\\s*:\\s*(#.*)?$");
	const section = lines.findIndex(l => /^policies\s*:\s*(#.*)?$/.test(l));
	for (let i = section + 1; i > 0 && i < lines.length && !/^[^\s#]/.test(lines[i]); i++) {
		const found = key.exec(lines[i]);
		let end = i + 1;
		for (let k = end; found && k < lines.length && (!lines[k].trim() || lines[k].search(/\S/) > found[1].length); k++)
			if (lines[k].trim())
				end = k + 1;
		if (found)
			return [i, end];
	}
	return [0, lines.length];
}

/* What is different, between what begins and ends both. */
function difference(a, b) {
	let first = 0, last = 0;
	while (first < a.length && first < b.length && a[first] === b[first])
		first++;
	while (last < a.length - first && last < b.length - first && a[a.length - 1 - last] === b[b.length - 1 - last])
		last++;
	const lines = (sign, of) => of.map(l => [sign, l]);
	return [...lines(" ", a.slice(0, first)), ...lines("-", a.slice(first, a.length - last)),
		...lines("+", b.slice(first, b.length - last)), ...lines(" ", a.slice(a.length - last))];
}

/* Where a policy is, which of the lines there are its own, and the file's tag, as cockpit.file() has it. */
async function found(name) {
	const [relative, path, owner, mode] = (await shell(FIND, name)).split("\n");
	if (!relative)
		throw new Error(_("No file in $0 has it in lines of its own.", DIR));
	const [text, tag] = await cockpit.file(path, { superuser: "require" }).read().then((...both) => both);
	const lines = text.split("\n"), [first, end] = linesOf(lines, name);
	return { name, relative, path, owner, mode, tag, lines, first, end };
}

/* A file that is to be made. What is wrong with the name the parser says. */
function fresh(name) {
	const relative = `reclaimd.d/${name.replace(/[^\w-]/g, "_")}.yaml`;
	return { name, relative, path: DIR + "/" + relative, tag: "-", lines: [], first: 0, end: 0 };
}

function editor(at, close) {
	const where = h("code"), checked = h("div"), plan = h("div"), own = () => at.lines.slice(at.first, at.end);
	const area = h("textarea", { rows: own().length + 2, spellcheck: false, value: own().join("\n"), oninput: later,
		"aria-label": _("Configuration of the policy") });
	const now = () => area.value.split("\n"), whole = () => [...at.lines.slice(0, at.first), ...now(), ...at.lines.slice(at.end)].join("\n");
	const attempt = (of, ...words) => shell(TRY, at.relative, of, "reclaimctl", ...words).input(whole());
	let timer = 0;

	function later() {
		text(where, at.path);
		clearTimeout(timer);
		timer = setTimeout(check, 500);
	}

	/* Whether the daemon would take it. */
	async function check() {
		const text = whole();
		try {
			if (at.tag === "-" && daemon.policies.some(p => p.name === at.name))
				throw new Error(_("There is a policy of this name."));
			const { errors, warnings } = JSON.parse(await attempt("", "check-config", "--json"));
			if (text !== whole())
				return false;
			say(checked, errors.length ? "bad" : "good", real([!errors.length && _("The daemon would take this."),
				list([...errors, ...warnings].map(e => (e.file?.endsWith("/" + at.relative) ? _("line $0: ", e.line - at.first)
					: line(e.file).replace(/^\/tmp\/[^/]+/, DIR) + ": ") + line(e.text)))]));
			return errors.length === 0;
		} catch (e) {
			say(checked, "bad", bus.words(e));
			return false;
		}
	}

	async function write() {
		const text = whole(), changes = difference(own(), now());
		const isTimed = changes.some(([sign, l]) => sign !== " " && l.includes("schedule"));
		if (!await check())
			throw new Error(_("It is not written: see above."));
		await ask(_("Write $0?", at.path), [at.tag === "-" && _("This is a new file."), h("pre", changes.map(([sign, l]) =>
			h("span", { "data-sign": sign }, sign + " " + line(l) + "\n"))),
		_("The daemon reads it at once, and the next run goes by it."),
		isTimed && _("The service manager reads its units again, and starts or stops the timer of this policy.")], _("Write"), "main");
		await cockpit.file(at.path, { superuser: "require" }).replace(text, at.tag);
		if (at.owner)
			await shell(KEEP, at.path, at.owner, at.mode);
		await bus.manager("Reload").catch(e => {
			throw new Error(_("It is written, but not in force: $0", bus.words(e)));
		});
		if (isTimed)
			await shell(TIMER, at.name);
		bus.readPolicies();
		close();
	}

	later();
	return { element: h("div.editor", h("p", where), area, checked, h("p.row",
		button(_("What would it delete?"), async () =>
			plan.replaceChildren(...planView(await attempt(at.name, "policy", "plan", "--json", "--configuration-directory")))),
		button(_("Write…"), write, { className: "main" }),
		h("button", { type: "button", onclick: close }, _("Close"))), said(), plan),
	set(to, text) {
		Object.assign(at, to);
		area.value = text;
		area.rows = now().length + 1;
		later();
	} };
}

const FIRST_RULES = { "max-age: 30d": _("what is older than 30 days goes"), "keep: {last: 7}": _("the newest 7 stay"),
	"keep: {daily: 7, weekly: 4, monthly: 12}": _("7 daily, 4 weekly and 12 monthly stay"),
	"min-free: {below: 10%, until: 15%}": _("the oldest go while less than 15 % is free, from 10 % on") };
const SCHEDULES = { daily: _("every day"), weekly: _("every week"), "": _("without a schedule") };

/* A policy is begun with a few fields, which make a text that can be changed. */
function newPolicy(close) {
	const [name, directory] = ["backups", "/srv/backups"].map(value => h("input", { value, oninput: compose }));
	const rule = choice(_("Rule"), FIRST_RULES, "max-age: 30d", compose), schedule = choice(_("Runs"), SCHEDULES, "daily", compose);
	const made = editor(fresh(""), close);
	function compose() {
		const when = schedule.control.value;
		made.set(fresh(name.value), ["policies:", `  ${name.value}:`, `    path: ${JSON.stringify(directory.value)}`, '    match: "*"',
			"    " + rule.control.value, ...when ? ["    schedule: " + when] : [], "    undo: 1d", ""].join("\n"));
	}
	compose();
	return h("section.card", { "aria-label": _("New policy") }, h("h2", _("New policy")), h("p.row", h("label", _("Name"), " ", name),
		h("label", _("Directory"), " ", directory), rule, schedule), made.element);
}

/* ---- all of them ---- */

async function run(p) {
	const plan = planOf(await bus.policyCall(p.name, "Plan"));
	await ask(_("Run policy $0 now?", p.name), [
		_("As of now it deletes $0 and keeps $1. The run looks again before it does.", sum(plan.deleted), sum(plan.kept)),
		_("A run deletes $0 % of what matches at most (max-delete). In excess of that, and kept for now: $1.",
			Math.round(p.maxDelete * 100), sum(plan.excess)),
		p.undo ? _("It can be restored for $0, and takes space until then.", span(p.undo)) : _("It cannot be restored.")], _("Run it"));
	const id = await bus.policyCall(p.name, "Run");
	bus.readPolicies();
	return id ? jobLink(id) : _("There was nothing to delete.");
}

const policyFacts = p => facts([
	[_("Directory"), path(p.path)],
	[_("Matches"), p.match.map(line).join(", ")],
	[_("Last run"), p.last ? [state(p.result, STATES[p.result]), " ", moment(p.last), " ", p.lastJob && jobLink(p.lastJob)] : _("never")],
	[_("Stayed, and why"), list(p.why.map(line))],
	[_("In excess of max-delete"), p.excess && entries(p.excess)],
	[_("Next run"), p.running ? _("it runs") : p.next ? moment(p.next) : p.watched ? _("when space is short, or too much is there")
		: p.schedule ? _("not known: its timer is not active") : _("when it is started")],
	[_("Schedule"), line(p.schedule)],
	[_("Oldest kept"), p.oldestKept && moment(p.oldestKept)],
	[_("Restorable for"), p.undo ? span(p.undo) : _("not at all")],
]);

function card(name) {
	const more = h("div"), close = () => more.replaceChildren();
	const element = h("section.card", { "aria-label": name }, h("h2", name), h("div"), h("p.row",
		button(_("What would it delete?"), async () => more.replaceChildren(...planView(await bus.policyCall(name, "Plan")))),
		button(_("Run now…"), () => run(daemon.policies.find(p => p.name === name))),
		button(_("Edit…"), async () => more.replaceChildren(editor(await found(name), close).element))), said(), more);
	return { element, draw: p => fill(element.children[1], p, () => policyFacts(p)) };
}

export function policiesPart() {
	const counts = h("span"), cards = h("div"), made = new Map(), added = h("div");
	const close = () => added.replaceChildren();
	return {
		element: h("div", h("p.row", counts, button(_("New policy…"), async () => added.replaceChildren(newPolicy(close)))), said(),
			added, cards),
		open: bus.readPolicies,
		onJobs: jobs => jobs.some(j => j.origin.startsWith("policy:")) && bus.readPolicies(),
		draw() {
			text(counts, daemon.failed.policies || total(daemon.policies.length, "$0 policy", "$0 policies"));
			for (const [n, c] of made)
				if (!daemon.policies.some(p => p.name === n)) {
					c.element.remove();
					made.delete(n);
				}
			for (const p of daemon.policies) {
				if (!made.has(p.name)) {
					made.set(p.name, card(p.name));
					cards.append(made.get(p.name).element);
				}
				made.get(p.name).draw(p);
			}
		},
	};
}
