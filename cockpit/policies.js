/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: when they ran and run next, what that deletes and why, and their configuration. */
import * as bus from "./bus.js";
import { ask, button, card, choice, facts, field, fill, h, jobLink, keep, list, path, real, rowTable, said, say, state } from "./dom.js";
import { _, cockpit, date, entries, line, moment, share, size, span, total } from "./format.js";
import { STATES, undoWords } from "./jobs.js";

const { daemon } = bus;

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

const planOfPolicy = async name => planOf(await bus.policyCall(name, "Plan"));
const effectOf = plan =>
	_("As of now it deletes $0 and keeps $1. The run looks again before it does.", sum(plan.deleted), sum(plan.kept));

/* How many are kept of each day, and how many go. Months count from 1970. */
function calendar(all) {
	const timed = all.filter(e => e.time_usec !== null).map(e => ({ date: new Date(e.time_usec / 1000), goes: e.fate === "delete" }));
	const months = Map.groupBy(timed, ({ date }) => 12 * (date.getFullYear() - 1970) + date.getMonth());
	return h("div.months", [...months].sort(([a], [b]) => b - a).map(([month, inMonth]) => {
		const first = new Date(1970, month), found = Map.groupBy(inMonth, e => e.date.getDate());
		const days = Array.from({ length: new Date(1970, month + 1, 0).getDate() }, (x, i) => {
			const of = found.get(i + 1) || [], gone = of.filter(e => e.goes).length, kept = of.length - gone;
			const words = _("$0 kept, $1 deleted", kept, gone);
			return h("span", of.length > 0 && { class: kept ? "kept" : "gone", role: "img", title: words,
				"aria-label": i + 1 + ": " + words }, i + 1);
		});
		days[0].style.gridColumn = (first.getDay() + 6) % 7 + 1;
		return h("div.month", h("b", date(first * 1000, { month: "long", year: "numeric" })), days);
	}));
}

function planView(plan) {
	const all = plan.entries.map((e, id) => ({ ...e, id }));
	const rows = rowTable(_("Entries"), [_("Name"), _("Fate"), _("Reason"), _("Time"), _("Size")], e => [
		h("span.path", { title: line(e.name) }, line(e.name)), state(e.fate, FATES[e.fate]),
		e.keep.length ? "keep: " + e.keep.join(", ") : RULES[e.rule] || e.rule, e.time_usec && moment(e.time_usec), size(e.bytes)]);
	const filter = choice(_("Show"), { "": _("all"), ...FATES }, "", set);
	function set() {
		rows.set(all.filter(e => ["", e.fate].includes(filter.control.value)));
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
for f in *.yaml reclaimd.d/*.yaml; do [ ! -f "$f" ] || cp "$f" "$d/$f" || exit; done
cat >"$d/$1"; n=$2; shift 2; "$@" "$d" \${n:+"$n"}; [ $? -lt 126 ]`;
/* sh NAME: the first file that may have it, and where that is: a link stays one; its owner and mode. */
const FIND = `cd ${DIR} && f=$(grep -lsE "^ +.?$1.? *:" reclaimd.yaml reclaimd.d/*.yaml | head -n 1)
[ -z "$f" ] || { echo "$f"; readlink -f "$f"; stat -L --printf='%u:%g\\n%a' "$f"; }`;
/* sh FILE: to the text that is standard input. */
const DIFFERENCE = 'diff -NU3 -- "$1" -; [ $? -lt 2 ]';
/* sh FILE OWNER MODE: Cockpit 287 loses them. */
const KEEP = 'chown "$2" "$1" && chmod "$3" "$1"';
/* sh NAME: the service manager makes timers of schedules. No other timer is started: it may have been stopped on purpose. */
const TIMER = `systemctl daemon-reload && t=reclaimd-policy@$1.timer || exit
if systemctl cat "$t" >/dev/null 2>&1; then systemctl start "$t"; elif systemctl is-active -q "$t"; then systemctl stop "$t"; fi`;

const shell = (script, ...words) => cockpit.script(script, words, bus.AS_ROOT);

/* The lines of a policy, between those before and behind; all of them where it has none of its own. */
function partsOf(text, name) {
	const own = new RegExp(`^(policies *: *(?:#.*)?(?:\\n[ #].*|\\n)*?\\n)(( +)(["']?)${name}\\4 *: *(?:#.*)?$(?:\\s*\\n\\3 .*)*)`, "m").exec(text);
	return own ? [text.slice(0, own.index) + own[1], own[2], text.slice(own.index + own[0].length)] : ["", text, ""];
}

async function found(name) {
	const [relative, path, owner, mode] = (await shell(FIND, name)).split("\n");
	if (!relative)
		throw new Error(_("No file in $0 has it in lines of its own.", DIR));
	const [text, tag] = await cockpit.file(path, { superuser: "require" }).read().then((...both) => both);
	return { name, relative, path, owner, mode, tag, parts: partsOf(text, name) };
}

/* A file that is to be made. What is wrong with the name the parser says. */
function fresh(name, text) {
	const relative = `reclaimd.d/${name.replace(/[^\w-]/g, "_")}.yaml`;
	return { name, relative, path: DIR + "/" + relative, tag: "-", parts: ["", text, ""] };
}

function editor(close) {
	const where = h("code"), checked = h("div"), planned = h("div");
	const area = h("textarea", { spellcheck: false, oninput: later, "aria-label": _("Configuration of the policy") });
	const whole = () => at.parts[0] + area.value + at.parts[2];
	const attempt = (of, ...words) => shell(TRY, at.relative, of, "reclaimctl", ...words).input(whole());
	const plan = async () => planOf(await attempt(at.name, "policy", "plan", "--json", "--configuration-directory"));
	let at, timer = 0;

	function later() {
		clearTimeout(timer);
		timer = setTimeout(() => check().catch(e => say(checked, "bad", bus.words(e))), 500);
	}

	async function check() {
		const text = whole(), before = at.parts[0].split("\n").length - 1;
		const { errors, warnings } = JSON.parse(await attempt("", "check-config", "--json"));
		const told = e => (e.file?.endsWith("/" + at.relative) ? _("line $0: ", e.line - before)
			: line(e.file).replace(/^\/tmp\/[^/]+/, DIR) + ": ") + line(e.text);
		const isTaken = at.tag === "-" && daemon.policies.some(p => p.name === at.name);
		const wrong = real([isTaken && _("There is a policy of this name."), errors.map(told)]);
		if (text !== whole())
			return false;
		say(checked, wrong.length ? "bad" : "good", [!wrong.length && _("The daemon would take this."),
			list([...wrong, ...warnings.map(told)])]);
		return !wrong.length;
	}

	async function write() {
		const text = whole();
		if (!await check())
			throw new Error(_("It is not written: see above."));
		const difference = await shell(DIFFERENCE, at.path).input(text), isTimed = /^[-+] *schedule/m.test(difference);
		const effect = await plan().then(effectOf).catch(bus.words);
		await ask(_("Write $0?", at.path), [at.tag === "-" && _("This is a new file."), h("pre", difference.split("\n").slice(2).map(l =>
			h("span", { "data-sign": l.charAt(0) }, line(l.replace(/^@.*/, "…").replace(/^[-+ ]/, "$& ")) + "\n"))),
		_("The daemon reads it at once, and the next run goes by it."), effect,
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

	return { element: h("div", h("p", where), area, checked, h("p.row",
		button(_("What would it delete?"), async () => planned.replaceChildren(...planView(await plan()))),
		button(_("Write…"), write, { class: "main" }), button(_("Close"), async () => close())), said(), planned),
	set(to) {
		at = to;
		fill(where, at.path);
		area.value = at.parts[1];
		area.rows = area.value.split("\n").length + 1;
		later();
		return this;
	} };
}

const FIRST_RULES = { "max-age: 30d": _("what is older than 30 days goes"), "keep: {last: 7}": _("the newest 7 stay"),
	"keep: {daily: 7, weekly: 4, monthly: 12}": _("7 daily, 4 weekly and 12 monthly stay"),
	"min-free: {below: 10%, until: 15%}": _("the oldest go while less than 15 % is free, from 10 % on") };
const SCHEDULES = { "schedule: daily": _("every day"), "schedule: weekly": _("every week"),
	"# schedule: daily": _("without a schedule") };

function newPolicy(close) {
	const [name, directory] = ["backups", "/srv/backups"].map(value => h("input", { value, oninput: compose }));
	const [rule, schedule] = [[_("Rule"), FIRST_RULES], [_("Runs"), SCHEDULES]].map(([label, all]) => choice(label, all, "", compose));
	const made = editor(close);
	function compose() {
		made.set(fresh(name.value, `policies:
  ${name.value}:
    path: ${JSON.stringify(directory.value)}
    match: "*"
    ${rule.control.value}
    ${schedule.control.value}
    undo: 1d
`));
	}
	compose();
	return card(_("New policy"), h("p.row", field(_("Name"), name), field(_("Directory"), directory), rule, schedule), made.element);
}

async function run(p) {
	const plan = await planOfPolicy(p.name);
	await ask(_("Run policy $0 now?", p.name), [effectOf(plan),
		_("A run deletes $0 % of what matches at most (max-delete). In excess of that, and kept for now: $1.",
			Math.round(p.maxDelete * 100), sum(plan.excess)), undoWords(p.undo)], _("Run it"));
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

function policyCard(name) {
	const about = h("div"), more = h("div"), close = () => more.replaceChildren();
	const element = card(name, about, h("p.row",
		button(_("What would it delete?"), async () => more.replaceChildren(...planView(await planOfPolicy(name)))),
		button(_("Run now…"), () => run(daemon.policies.find(p => p.name === name))),
		button(_("Edit…"), async () => more.replaceChildren(editor(close).set(await found(name)).element))), said(), more);
	return Object.assign(element, { draw: p => fill(about, policyFacts(p)) });
}

export function policiesPart() {
	const counts = h("span"), cards = h("div"), added = h("div"), close = () => added.replaceChildren();
	return {
		element: h("div", h("p.row", counts, button(_("New policy…"), async () => added.replaceChildren(newPolicy(close)))), said(),
			added, cards),
		reads: [bus.readPolicies],
		draw() {
			const all = daemon.policies, made = keep(cards, all.map(p => p.name), policyCard);
			fill(counts, daemon.failed.policies || total(all.length, "$0 policy", "$0 policies"));
			all.forEach(p => made.get(p.name).draw(p));
		},
	};
}
