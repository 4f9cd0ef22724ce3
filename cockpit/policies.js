/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: when they ran and run next, what that deletes and why, and their configuration. */
import * as bus from "./bus.js";
import { ask, button, card, choice, facts, fill, h, jobLink, keep, list, path, real, rowTable, said, say, state } from "./dom.js";
import { _, date, entries, line, moment, share, size, span, total } from "./format.js";
import { STATES, undoWords } from "./jobs.js";

const { daemon } = bus;

const FATES = { keep: _`stays`, delete: _`is deleted`, excess: _`is to go, not in this run` };
const RULES = { mount: _`is or holds a mount point`, unread: _`could not be looked at in full`,
	"no-time": _`has no time to go by`, "no-series": _`group-by does not match it`,
	"ambiguous-time": _`its name can be read as several times`, unit: _`stays with others of its unit or chain`, "other-keep": _`keep of another policy`,
	future: _`its time is in the future`, "no-rule": _`the policy has no rule`, "not-kept": _`no rule of keep keeps it` };

const sum = s => entries(s.entries) + ", " + size(s.bytes);

function planOf(answer) {
	const plan = [JSON.parse(answer)].flat()[0];
	if (plan.error)
		throw new Error(plan.error);
	return plan;
}

const planOfPolicy = async name => planOf(await bus.policyCall(name, "Plan"));
const effectOf = plan =>
	_`As of now it deletes ${sum(plan.deleted)} and keeps ${sum(plan.kept)}. The run looks again before it does.`;

const planButton = (place, plan) =>
	button(_`What would it delete?`, async () => place.replaceChildren(...planView(await plan())));

/* Months count from 1970. */
function calendar(all) {
	const timed = all.filter(e => e.time_usec !== null).map(e => ({ date: new Date(e.time_usec / 1000), goes: e.fate === "delete" }));
	const months = Map.groupBy(timed, ({ date }) => 12 * (date.getFullYear() - 1970) + date.getMonth());
	return h("div.months", [...months].sort(([a], [b]) => b - a).map(([month, inMonth]) => {
		const first = new Date(1970, month), found = Map.groupBy(inMonth, e => e.date.getDate());
		const days = Array.from({ length: new Date(1970, month + 1, 0).getDate() }, (x, i) => {
			const of = found.get(i + 1) || [], gone = of.filter(e => e.goes).length, kept = of.length - gone;
			const words = _`${kept} kept, ${gone} deleted`;
			return h("span", of.length > 0 && { class: kept ? "kept" : "gone", role: "img", title: words,
				"aria-label": i + 1 + ": " + words }, i + 1);
		});
		days[0].style.gridColumn = (first.getDay() + 6) % 7 + 1;
		return h("div.month", h("b", date(first * 1000, { month: "long", year: "numeric" })), days);
	}));
}

function planView(plan) {
	const all = plan.entries.map((e, id) => ({ ...e, id }));
	const rows = rowTable(_`Entries`, [_`Name`, _`Fate`, _`Reason`, _`Time`, _`Size`], e => [
		h("span.path", { title: line(e.name) }, line(e.name)), state(e.fate, FATES[e.fate]),
		e.keep.length ? "keep: " + e.keep.join(", ") : RULES[e.rule] || e.rule, e.time_usec && moment(e.time_usec), size(e.bytes)]);
	const filter = choice(_`Show`, { "": _`all`, ...FATES }, "", set);
	function set() {
		rows.set(all.filter(e => ["", e.fate].includes(filter.control.value)));
	}
	set();
	return [facts([
		[_`Would be deleted now`, h("b", sum(plan.deleted))],
		[_`Stays`, sum(plan.kept)],
		[_`In excess of max-delete`, plan.excess.entries && sum(plan.excess)],
		[_`Cannot be deleted`, plan.refused.entries && sum(plan.refused)],
		[_`Free`, plan.filesystem && share(size(plan.filesystem.free_bytes), size(plan.filesystem.size_bytes))],
	]), calendar(all), h("p", filter), rows.element];
}

/* ---- the editor: the daemon's parser checks a copy of the whole configuration, as other files count, too ---- */

const DIR = "/etc/reclaimd";
/* sh FILE NAME: $d is the copy, in which standard input is the text of FILE. */
const TRY = `d=$(mktemp -d) || exit; trap 'rm -rf "$d"' EXIT; trap exit HUP TERM
mkdir "$d/reclaimd.d" && cp -rL ${DIR}/. "$d" && cat >"$d/$1" || exit
reclaimctl `;
/* sh NAME: the first file that may have it, and where that is, as a link stays one; its owner and mode. */
const FIND = `cd ${DIR} && f=$(grep -lsE "^ +.?$1.? *:" reclaimd.yaml reclaimd.d/*.yaml | head -n 1)
[ -z "$f" ] || { echo "$f"; readlink -f "$f"; stat -L --printf='%u:%g\\n%a' "$f"; }`;
/* sh NAME: no other timer is started, which may have been stopped on purpose. */
const TIMER = `systemctl daemon-reload && t=reclaimd-policy@$1.timer || exit
if systemctl cat "$t" >/dev/null 2>&1; then systemctl start "$t"; elif systemctl is-active -q "$t"; then systemctl stop "$t"; fi`;

const NEW = `policies:
  backups:
    path: /srv/backups
    match: "*"
    keep: {last: 7}
    # Or: keep: {daily: 7, weekly: 4, monthly: 12}
    # Or: max-age: 30d
    # Or: min-free: {below: 10%, until: 15%}
    schedule: daily
    undo: 1d
`;

const shell = (script, ...words) => cockpit.script(script, words, bus.AS_ROOT);

/* The lines of a policy, between those before and behind. */
function partsOf(text, name) {
	const own = new RegExp(`^(policies *: *(?:#.*)?(?:\\n[ #].*|\\n)*?\\n)(( +)(["']?)${name}\\4 *: *(?:#.*)?$(?:\\s*\\n\\3 .*)*)`, "m").exec(text);
	return own ? [text.slice(0, own.index) + own[1], own[2], text.slice(own.index + own[0].length)] : ["", text, ""];
}

async function found(name) {
	const [relative, path, owner, mode] = (await shell(FIND, name)).split("\n");
	if (!relative)
		throw new Error(_`No file in ${DIR} has it in lines of its own.`);
	const [text, tag] = await cockpit.file(path, bus.AS_ROOT).read().then((...both) => both);
	return { name, relative, path, owner, mode, tag, parts: partsOf(text, name) };
}

/* A file that is to be made has its name from the policy in it. What is wrong with that the parser says. */
function editor(close, at = { tag: "-", parts: ["", NEW, ""] }) {
	const where = h("code"), checked = h("div"), planned = h("div"), isNew = at.tag === "-";
	const area = h("textarea", { spellcheck: false, oninput: later, "aria-label": _`Configuration of the policy`,
		rows: at.parts[1].split("\n").length + 1 }, at.parts[1]);
	const whole = () => at.parts[0] + area.value + at.parts[2];
	const attempt = words => shell(TRY + words + "; [ $? -lt 126 ]", at.relative, at.name).input(whole());
	const plan = async () => planOf(await attempt('policy plan --json --configuration-directory "$d" "$2"'));
	let timer = 0;

	function later() {
		const name = /^ +["']?([\w-]+)/m.exec(area.value)?.[1] || "new", relative = `reclaimd.d/${name}.yaml`;
		if (isNew)
			Object.assign(at, { name, relative, path: DIR + "/" + relative });
		fill(where, at.path);
		clearTimeout(timer);
		timer = setTimeout(() => check().catch(e => say(checked, "bad", bus.words(e))), 500);
	}

	async function check() {
		const text = whole(), before = at.parts[0].split("\n").length - 1;
		const { errors, warnings } = JSON.parse(await attempt('check-config --json "$d"'));
		const told = e => (e.file?.endsWith("/" + at.relative) ? _`line ${e.line - before}: `
			: line(e.file).replace(/^\/tmp\/[^/]+/, DIR) + ": ") + line(e.text);
		const isTaken = isNew && daemon.policies.some(p => p.name === at.name);
		const wrong = real([isTaken && _`There is a policy of this name.`, errors.map(told)]);
		if (text !== whole())
			return false;
		say(checked, wrong.length ? "bad" : "good", [!wrong.length && _`The daemon would take this.`,
			list([...wrong, ...warnings.map(told)])]);
		return !wrong.length;
	}

	async function write() {
		const text = whole();
		if (!await check())
			throw new Error(_`It is not written: see above.`);
		const difference = await shell('diff -NU3 -- "$1" -; [ $? -lt 2 ]', at.path).input(text), isTimed = /^[-+] *schedule/m.test(difference);
		const effect = await plan().then(effectOf).catch(bus.words);
		await ask(_`Write ${at.path}?`, [isNew && _`This is a new file.`, h("pre", difference.split("\n").slice(2).map(l =>
			h("span", { class: { "+": "good", "-": "bad" }[l[0]] }, line(l.replace(/^@.*/, "…").replace(/^[-+ ]/, "$& ")) + "\n"))),
		_`The daemon reads it at once, and the next run goes by it.`, effect,
		isTimed && _`The service manager reads its units again, and starts or stops the timer of this policy.`], _`Write`, "main");
		await cockpit.file(at.path, bus.AS_ROOT).replace(text, at.tag);
		if (at.owner) /* Cockpit 287 loses it. */
			await shell('chown "$2" "$1" && chmod "$3" "$1"', at.path, at.owner, at.mode);
		await bus.manager("Reload").catch(e => {
			throw new Error(_`It is written, but not in force: ${bus.words(e)}`);
		});
		if (isTimed)
			await shell(TIMER, at.name);
		bus.readPolicies();
		close();
	}

	later();
	return h("div", h("p", where), area, checked, h("p.row",
		planButton(planned, plan), button(_`Write…`, write, { class: "main" }), button(_`Close`, close)), said(), planned);
}

async function run(p) {
	const plan = await planOfPolicy(p.name);
	await ask(_`Run policy ${p.name} now?`, [effectOf(plan),
		_`A run deletes ${Math.round(p.maxDelete * 100)} % of what matches at most (max-delete). ` +
			_`In excess of that, and kept for now: ${sum(plan.excess)}.`, undoWords(p.undo)], _`Run it`);
	const id = await bus.policyCall(p.name, "Run");
	bus.readPolicies();
	return id ? jobLink(id) : _`There was nothing to delete.`;
}

const policyFacts = p => facts([
	[_`Directory`, path(p.path)],
	[_`Matches`, p.match.map(line).join(", ")],
	[_`Last run`, p.last ? [state(p.result, STATES[p.result]), " ", moment(p.last), " ", p.lastJob && jobLink(p.lastJob)] : _`never`],
	[_`Stayed, and why`, list(p.why.map(line))],
	[_`In excess of max-delete`, p.excess && entries(p.excess)],
	[_`Next run`, p.running ? _`it runs` : p.next ? moment(p.next) : p.watched ? _`when space is short, or too much is there`
		: p.schedule ? _`not known: its timer is not active` : _`when it is started`],
	[_`Schedule`, line(p.schedule)],
	[_`Oldest kept`, p.oldestKept && moment(p.oldestKept)],
	[_`Restorable for`, p.undo ? span(p.undo) : _`not at all`],
]);

function policyCard(name) {
	const about = h("div"), more = h("div"), close = () => more.replaceChildren();
	const element = card(name, about, h("p.row", planButton(more, () => planOfPolicy(name)),
		button(_`Run now…`, () => run(daemon.policies.find(p => p.name === name))),
		button(_`Edit…`, async () => more.replaceChildren(editor(close, await found(name))))), said(), more);
	return Object.assign(element, { draw: p => fill(about, policyFacts(p)) });
}

export function policiesPart() {
	const counts = h("span"), cards = h("div"), added = h("div"), close = () => added.replaceChildren();
	return {
		element: h("div", h("p.row", counts, button(_`New policy…`, () => added.replaceChildren(
			card(_`New policy`, editor(close))))), said(), added, cards),
		reads: [bus.readPolicies],
		draw() {
			const all = daemon.policies, made = keep(cards, all.map(p => p.name), policyCard);
			fill(counts, daemon.failed.policies || total(all.length, "$0 policy", "$0 policies"));
			all.forEach(p => made.get(p.name).draw(p));
		},
	};
}
