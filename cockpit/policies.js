/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Policies: when they ran and run next, what that deletes, and their configuration. */
import * as bus from "./bus.js";
import { ask, button, facts, fill, h, link, list, path, said, state, text } from "./dom.js";
import { editor } from "./editor.js";
import { _, entries, line, moment, span, total } from "./format.js";
import { planOf, planView, sum } from "./plan.js";

const { daemon } = bus;

async function run(p) {
	const plan = planOf(await bus.policyCall(p.name, "Plan"));
	if (!await ask(_("Run policy $0 now?", p.name), [
		_("As of now it deletes $0 and keeps $1. The run looks again before it does.", sum(plan.deleted), sum(plan.kept)),
		_("A run deletes $0 % of what matches at most (max-delete). In excess of that, and kept for now: $1.",
			Math.round(p.maxDelete * 100), sum(plan.excess)),
		p.undo ? _("It can be restored for $0, and takes space until then.", span(p.undo)) : _("It cannot be restored.")], _("Run it")))
		return "";
	const id = await bus.policyCall(p.name, "Run");
	bus.readPolicies();
	return id ? link("jobs/" + id, _("Job $0", id)) : _("There was nothing to delete.");
}

const policyFacts = p => facts([
	[_("Directory"), path(p.path)],
	[_("Matches"), p.match.map(line).join(", ")],
	[_("Last run"), p.last ? [state(p.result), " ", moment(p.last), " ",
		p.lastJob && link("jobs/" + p.lastJob, _("job $0", p.lastJob))] : _("never")],
	[_("Stayed, and why"), list(p.why.map(line))],
	[_("In excess of max-delete"), p.excess && entries(p.excess)],
	[_("Next run"), p.running ? _("it runs") : p.next ? moment(p.next) : p.watched ? _("when space is short, or too much is there")
		: p.schedule ? _("not known: its timer is not active") : _("when it is started")],
	[_("Schedule"), line(p.schedule)],
	[_("Oldest kept"), p.oldestKept && moment(p.oldestKept)],
	[_("Restorable for"), p.undo ? span(p.undo) : _("not at all")],
]);

function card(name) {
	const place = said(), more = h("div"), close = () => more.replaceChildren();
	const element = h("section.card", { "aria-label": name }, h("h2", name), h("div"), h("p.row",
		button(_("What would it delete?"), place,
			async () => more.replaceChildren(...planView(planOf(await bus.policyCall(name, "Plan"))))),
		button(_("Run now…"), place, () => run(daemon.policies.find(p => p.name === name))),
		button(_("Edit…"), place, async () => more.replaceChildren(await editor(name, close)))), place, more);
	return { element, draw: p => fill(element.children[1], p, () => policyFacts(p)) };
}

export function policiesPart() {
	const counts = h("p"), cards = h("div"), made = new Map();
	return {
		element: h("div", counts, cards),
		open: bus.readPolicies,
		onJobs: jobs => jobs.some(j => j.origin.startsWith("policy:")) && bus.readPolicies(),
		draw() {
			text(counts, total(daemon.policies.length, "$0 policy", "$0 policies"));
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
