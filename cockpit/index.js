/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The page: which part is shown, light or dark, and what stands above where there is no daemon. format.js, dom.js and
 * bus.js are for all parts. A part has element and draw(), and maybe open(path, options), close() and onJobs(jobs). */
import * as bus from "./bus.js";
import { button, fill, h, link, said } from "./dom.js";
import { devicesPart, overviewPart, troubles } from "./filesystems.js";
import { _, cockpit, line } from "./format.js";
import { jobsPart, undoPart } from "./jobs.js";
import { policiesPart } from "./policies.js";
import { submitPart } from "./submit.js";

const PARTS = { "": [_("Overview"), overviewPart], jobs: [_("Jobs"), jobsPart], undo: [_("Undo"), undoPart],
	submit: [_("Submit"), submitPart], policies: [_("Policies"), policiesPart], devices: [_("Devices"), devicesPart] };
const WORDS = { connecting: _("Connecting to reclaimd…"), stopped: _("reclaimd has stopped. What is shown was so before."),
	closed: _("reclaimd cannot be reached.") };
const { daemon } = bus, made = {};
const [nav, main, banner, part] = ["nav", "main", "#daemon", "#part"].map(s => document.querySelector(s));
const links = Object.entries(PARTS).map(([to, [words]]) => link(to, words));
const isDark = matchMedia("(prefers-color-scheme: dark)");
let shown = null, notified = "null";

function setStyle(style = localStorage.getItem("shell:style")) {
	document.documentElement.dataset.style = style === "dark" || (style !== "light" && isDark.matches) ? "dark" : "light";
}

function go() {
	const { path, options } = cockpit.location, name = PARTS[path[0]] ? path[0] : "";
	const next = made[name] = made[name] || PARTS[name][1]();
	if (next !== shown) {
		shown?.close?.();
		part.replaceChildren(next.element);
		for (const a of links)
			a.ariaCurrent = a.hash === "#/" + name ? "page" : "false";
	}
	shown = next;
	next.open?.(path.slice(1), options);
	bus.changed();
}

/* Where there is no daemon: why, and how to start it. What was shown stays as it was. */
function drawBanner() {
	const { phase, problem } = daemon;
	fill(banner, [phase, problem, bus.isAdmin()], () => WORDS[phase] && h("div.banner", h("p", WORDS[phase] + " " + line(problem)),
		!bus.isThere() && h("p.row", h("code", "systemctl start reclaimd"),
			button(_("Start it"), () => cockpit.spawn(["systemctl", "start", "reclaimd"], bus.AS_ROOT), { disabled: !bus.isAdmin() }),
			phase === "closed" && button(_("Connect again"), async () => bus.connect())),
		said()));
	main.ariaBusy = bus.isBusy();
}

/* The sign beside the page's name in Cockpit's menu. */
function notify() {
	const [first] = daemon.phase === "ready" ? troubles() : [], status = first ? { type: "warning", title: first[0] } : null;
	if (JSON.stringify(status) !== notified)
		cockpit.transport.control("notify", { page_status: status });
	notified = JSON.stringify(status);
}

window.addEventListener("storage", e => e.key === "shell:style" && setStyle());
window.addEventListener("cockpit-style", e => setStyle(e.detail.style));
isDark.addEventListener("change", () => setStyle());
setStyle();
cockpit.translate();
nav.append(...links);
bus.on.draw = () => {
	drawBanner();
	notify();
	shown.draw();
};
bus.on.jobs = jobs => shown.onJobs?.(jobs);
cockpit.addEventListener("locationchanged", go);
bus.connect();
go();
