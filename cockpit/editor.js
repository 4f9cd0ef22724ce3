/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The text of one policy. While it is written, the daemon's own parser checks it in a copy of the configuration, so that
 * other files count, too. It is written after its difference was shown. */
import * as bus from "./bus.js";
import { ask, button, h, list, said, say } from "./dom.js";
import { _, cockpit, line } from "./format.js";
import { planOf, planView } from "./plan.js";

const DIR = "/etc/reclaimd", ROOT = { superuser: "require", err: "message" };
/* sh FILE NAME WORDS...: the text of FILE is standard input; the copy and the policy's name go behind the words. */
const TRY = `d=$(mktemp -d) || exit; trap 'rm -rf "$d"' EXIT; trap exit HUP TERM; mkdir "$d/reclaimd.d" && cd ${DIR} || exit
for f in reclaimd.yaml reclaimd.d/*.yaml; do [ ! -f "$f" ] || cp "$f" "$d/$f" || exit; done
cat >"$d/$1"; n=$2; shift 2; "$@" "$d" \${n:+"$n"}; [ $? -lt 126 ]`;
/* sh NAME: the first file that may have it, and where that is: a link stays one. */
const FIND = `cd ${DIR} && f=$(grep -lsE "^ +.?$1.? *:" reclaimd.yaml reclaimd.d/*.yaml | head -n 1)
[ -z "$f" ] || { echo "$f"; readlink -f "$f"; }`;
/* sh NAME: the service manager makes timers of schedules. No other timer is started: it may have been stopped on purpose. */
const TIMER = `systemctl daemon-reload && t=reclaimd-policy@$1.timer || exit
if systemctl cat "$t" >/dev/null 2>&1; then systemctl start "$t"; elif systemctl is-active -q "$t"; then systemctl stop "$t"; fi`;

const attempt = (file, text, name, ...words) => cockpit.spawn(["sh", "-c", TRY, "sh", file, name, ...words], ROOT).input(text);

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

export async function editor(name, close) {
	const [relative, path] = (await cockpit.spawn(["sh", "-c", FIND, "sh", name], ROOT)).split("\n");
	if (!relative)
		throw new Error(_("No file in $0 has it in lines of its own.", DIR));
	const file = cockpit.file(path, { superuser: "require" });
	const [old, tag] = await file.read().then((...both) => both);
	const lines = old.split("\n"), [first, end] = linesOf(lines, name), before = lines.slice(first, end);
	const checked = said(), place = said(), plan = h("div");
	const area = h("textarea", { rows: before.length + 2, spellcheck: false, value: before.join("\n"), oninput: later,
		"aria-label": _("Policy $0, in $1", name, path) });
	const now = () => area.value.split("\n"), whole = () => [...lines.slice(0, first), ...now(), ...lines.slice(end)].join("\n");
	let timer = 0;

	function later() {
		clearTimeout(timer);
		timer = setTimeout(check, 500);
	}

	/* Whether the daemon would take it. */
	async function check() {
		const text = whole();
		try {
			const { errors, warnings } = JSON.parse(await attempt(relative, text, "", "reclaimctl", "check-config", "--json"));
			if (text !== whole())
				return false;
			say(checked, errors.length ? "bad" : "good", list([...errors, ...warnings].map(e =>
				(e.file?.endsWith("/" + relative) ? _("line $0: ", e.line - first) : line(e.file) + ": ") + line(e.text))) ||
				_("The daemon would take this."));
			return errors.length === 0;
		} catch (e) {
			say(checked, "bad", bus.words(e));
			return false;
		}
	}

	async function write() {
		const text = whole(), changes = difference(before, now());
		const isTimed = changes.some(([sign, l]) => sign !== " " && l.includes("schedule"));
		if (!await check())
			throw new Error(_("It is not written: see above."));
		if (!await ask(_("Write $0?", path), [h("pre", changes.map(([sign, l]) =>
			h("span", { "data-sign": sign }, sign + " " + line(l) + "\n"))),
		_("The daemon reads it at once, and the next run goes by it."),
		isTimed && _("The service manager reads its units again, and starts or stops the timer of this policy.")], _("Write"), "main"))
			return "";
		await file.replace(text, tag);
		await bus.manager("Reload").catch(e => {
			throw new Error(_("It is written, but not in force: $0", bus.words(e)));
		});
		if (isTimed)
			await cockpit.spawn(["sh", "-c", TIMER, "sh", name], ROOT);
		bus.readPolicies();
		close();
	}

	later();
	return h("div.editor", h("p", h("code", path)), area, checked, h("p.row",
		button(_("What would it delete?"), place, async () => plan.replaceChildren(...planView(planOf(
			await attempt(relative, whole(), name, "reclaimctl", "policy", "plan", "--json", "--configuration-directory"))))),
		button(_("Write…"), place, write, { className: "main" }),
		h("button", { type: "button", onclick: close }, _("Close"))), place, plan);
}
