/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a run of a policy would delete and keep now, and why. */
import { choice, facts, h, state } from "./dom.js";
import { _, date, entries, line, moment, size } from "./format.js";
import { Rows } from "./rows.js";

const FATES = { keep: _("stays"), delete: _("is deleted"), excess: _("is to go, not in this run") };
/* Of those whose names do not say it. */
const RULES = { mount: _("is or holds a mount point"), unread: _("could not be looked at in full"),
	"no-time": _("has no time to go by"), "no-series": _("group-by does not match it"), "other-keep": _("keep of another policy"),
	future: _("its time is in the future"), "no-rule": _("the policy has no rule"), "not-kept": _("no rule of keep keeps it") };

export const sum = s => entries(s.entries) + ", " + size(s.bytes);

export function planOf(answer) {
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

export function planView(plan) {
	const all = plan.entries.map((e, id) => ({ ...e, id }));
	const rows = new Rows(_("Entries"), [_("Name"), _("Fate"), _("Reason"), _("Time"), _("Size")], e => [
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
		[_("Free"), plan.filesystem && _("$0 of $1", size(plan.filesystem.free_bytes), size(plan.filesystem.size_bytes))],
	]), calendar(all), h("p", filter), rows.element];
}
