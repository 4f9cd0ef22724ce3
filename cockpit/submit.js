/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Submit: a path, what deleting it would do, and only then the button that does it. */
import * as bus from "./bus.js";
import { act, ask, button, choice, facts, field, h, jobLink, list, said } from "./dom.js";
import { _, cockpit, decode, encode, entries, line, pathOf, share, show, size, span, total, unescape, usecOf } from "./format.js";
import { PRIORITIES, undoWords } from "./jobs.js";

const MOST = 300; /* names that are offered */
const VERDICTS = { delete: _("All of it can be deleted."), partly: _("A part of it cannot be deleted, and stays."),
	blocked: _("It cannot be deleted now."), refused: _("It may not be deleted."), missing: _("It does not exist.") };
const UNDO = { "": _("as configured"), "0s": _("not at all"), "600s": _("for 10 minutes"), "3600s": _("for an hour"),
	"86400s": _("for a day"), "604800s": _("for a week") };

/* Names in a directory, by Cockpit's channel for files; others than UTF-8 it does not tell, they can be typed. */
function namesIn(directory) {
	return new Promise(resolve => {
		const found = [], channel = cockpit.channel({ payload: "fslist1", path: directory, superuser: "try", watch: false });
		channel.addEventListener("message", (event, data) => {
			const item = JSON.parse(data);
			if (item.event === "present" && found.length < MOST && !/[\p{Cs}\ufffd]/u.test(item.path))
				found.push(directory + item.path + (item.type === "directory" ? "/" : ""));
		});
		channel.addEventListener("close", () => resolve(found.sort()));
	});
}

const what = p => entries(p.entries) + ", " + (p.bytes_exact ? "" : _("about") + " ") + size(p.bytes);
const at = (x, words) => [h("span.path", line(x.path)), " ", words];

const planView = p => facts([
	[_("Verdict"), h("b", VERDICTS[p.verdict] || line(p.verdict)), " ", line(p.reason)],
	[_("What"), p.entries !== undefined && what(p) + " " + _("($0, $1)", total(p.files, "$0 file", "$0 files"),
		total(p.directories, "$0 directory", "$0 directories"))],
	[_("How long"), p.estimate && _("about $0 on an idle device, longer beside other programs", span(p.estimate.cold_usec))],
	[_("Filesystem"), p.filesystem && _("$0, $1; $2 free", line(p.filesystem.mount_point), line(p.filesystem.type),
		share(size(p.filesystem.free_bytes), size(p.filesystem.size_bytes)))],
	[_("How"), line(p.strategy?.name)],
	[_("Why slow"), list(p.costs?.map(line))],
	[_("Protected, or stays"), list(p.undeletable?.reasons?.map(r => at(r, line(r.reason))))],
	[_("In use by"), list(p.open?.holders?.map(o => at(o, line(o.command || o.how))))],
	[_("Hard links elsewhere"), p.hard_links?.entries &&
		_("$0; they keep $1", entries(p.hard_links.entries), size(p.hard_links.kept_bytes))],
	[_("Largest files"), list(p.largest_files?.filter(f => f.bytes).map(f => at(f, size(f.bytes))))],
]);

export function submitPart() {
	const names = h("datalist", { id: "names" }), shown = h("section", { "aria-label": _("Plan") });
	const undo = choice(_("Restorable"), UNDO, ""), priority = choice(_("Priority"), PRIORITIES, "normal");
	const deadline = h("input", { type: "datetime-local" });
	const path = h("input", { list: "names", spellcheck: false, autocapitalize: "none", required: true, oninput: complete });
	const look = h("button.main", _("Show the plan")), go = button(_("Delete…"), submit, { class: "danger", disabled: true });
	let plan = null, listed = "";

	async function complete() {
		const directory = path.value.slice(0, path.value.lastIndexOf("/") + 1), bytes = unescape(directory);
		set(null);
		if (!bytes?.startsWith("/") || directory === listed)
			return;
		listed = directory;
		const found = await namesIn(decode(bytes));
		if (listed === directory)
			names.replaceChildren(...found.map(n => h("option", { value: show(encode(n)) })));
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
		const p = plan, usec = undo.control.value && parseInt(undo.control.value) * 1e6;
		await ask(_("Delete $0?", show(p.path)), [what(p) + ". " + _("The name is gone at once."),
			usec === "" ? _("How long it can be restored is what the configuration says.") : undoWords(usec), bus.rights()], _("Delete"));
		const options = { priority: cockpit.variant("s", priority.control.value), bytes: cockpit.variant("t", p.bytes) };
		if (usec !== "")
			options["undo-usec"] = cockpit.variant("t", usec);
		if (deadline.value)
			options["deadline-usec"] = cockpit.variant("t", usecOf(deadline.value));
		const id = await bus.manager("Submit", "aaya{sv}", [[btoa(p.path)], options], 600000);
		path.value = "";
		set(null);
		return [jobLink(id), ": " + show(p.path)];
	}

	return {
		element: h("form", { onsubmit: e => {
			e.preventDefault();
			act(look, showPlan);
		} }, h("p.row", h("label.row.wide", _("Path"), path), names, look), said(), shown,
		h("p.row", undo, priority, field(_("Done by"), deadline), go)),
		draw() {},
	};
}
