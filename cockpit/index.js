/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The page: which part is shown, light or dark, and what stands above where there is no daemon.
 *
 *   format.js    bytes, times, names            jobs.js       Jobs and Undo
 *   dom.js       elements, answers, questions   submit.js     Submit
 *   rows.js      tables of any length           policies.js   Policies, with plan.js and editor.js
 *   bus.js       what is known of the daemon    devices.js    Devices
 *   overview.js  Overview
 *
 * A part has element and draw(), and maybe open(path, options), close() and onJobs(jobs). */
import * as bus from "./bus.js";
import { devicesPart } from "./devices.js";
import { button, fill, h, said } from "./dom.js";
import { _, cockpit, line } from "./format.js";
import { jobsPart, undoPart } from "./jobs.js";
import { overviewPart, troubles } from "./overview.js";
import { policiesPart } from "./policies.js";
import { submitPart } from "./submit.js";

const MAKE = { overview: overviewPart, jobs: jobsPart, undo: undoPart, submit: submitPart, policies: policiesPart,
	devices: devicesPart };
const { daemon } = bus, made = {};
const main = document.querySelector("main"), banner = document.getElementById("daemon"), part = document.getElementById("part");
const isDark = matchMedia("(prefers-color-scheme: dark)");
let shown = null, notified = "null";

function setStyle(style) {
	style = style || localStorage.getItem("shell:style") || "auto";
	document.documentElement.dataset.style = style === "dark" || (style === "auto" && isDark.matches) ? "dark" : "light";
}

function go() {
	const { path, options } = cockpit.location, name = MAKE[path[0]] ? path[0] : "overview";
	const next = made[name] = made[name] || MAKE[name]();
	if (next !== shown) {
		shown?.close?.();
		part.replaceChildren(next.element);
		for (const a of document.querySelectorAll("nav a"))
			a.setAttribute("aria-current", a.dataset.part === name ? "page" : false);
	}
	shown = next;
	next.open?.(path.slice(1), options);
	bus.changed();
}

/* Where there is no daemon: why, and how to start it. What was shown stays as it was. */
function drawBanner() {
	const words = { connecting: _("Connecting to reclaimd…"), stopped: _("reclaimd has stopped. What is shown was so before."),
		closed: _("reclaimd cannot be reached.") }[daemon.phase], place = said();
	fill(banner, [daemon.phase, daemon.problem, bus.isAdmin()], () => words && h("div.banner",
		h("p", words + " " + line(daemon.problem)),
		!bus.isThere() && h("p.row", h("code", "systemctl start reclaimd"),
			button(_("Start it"), place, () => cockpit.spawn(["systemctl", "start", "reclaimd"],
				{ superuser: "require", err: "message" }), { disabled: !bus.isAdmin() }),
			daemon.phase === "closed" && button(_("Connect again"), place, async () => bus.connect())),
		place));
	main.setAttribute("aria-busy", bus.isBusy());
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
bus.on.draw = () => {
	drawBanner();
	notify();
	shown.draw();
};
bus.on.jobs = jobs => shown.onJobs?.(jobs);
cockpit.addEventListener("locationchanged", go);
bus.connect();
go();
