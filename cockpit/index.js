/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The page. A part has element, maybe draw() and open(path, options), and what it reads: when it is opened, and when jobs
 * change. */
import * as bus from "./bus.js";
import { button, fill, h, link, said } from "./dom.js";
import { devicesPart, overviewPart, troubles } from "./filesystems.js";
import { _, line } from "./format.js";
import { jobsPart, submitPart, undoPart } from "./jobs.js";
import { policiesPart } from "./policies.js";

const PARTS = { "": [_`Overview`, overviewPart], jobs: [_`Jobs`, jobsPart], undo: [_`Undo`, undoPart],
	submit: [_`Submit`, submitPart], policies: [_`Policies`, policiesPart], devices: [_`Devices`, devicesPart] };
const WORDS = { connecting: _`Connecting to reclaimd…`, stopped: _`reclaimd has stopped. What is shown was so before.`,
	closed: _`reclaimd cannot be reached.` };
const { daemon } = bus, made = {};
const [nav, main, banner, part] = ["nav", "main", "#daemon", "#part"].map(s => document.querySelector(s));
const links = Object.entries(PARTS).map(([to, [words]]) => link(to, words));
let shown = null, notified = "";

function setStyle(style = localStorage.getItem("shell:style")) {
	document.documentElement.dataset.style = style;
}

function go() {
	const { path, options } = cockpit.location, name = PARTS[path[0]] ? path[0] : "";
	const next = made[name] = made[name] || PARTS[name][1]();
	if (next !== shown) {
		part.replaceChildren(next.element);
		for (const a of links)
			a.ariaCurrent = a.hash === "#/" + name ? "page" : "false";
	}
	shown = next;
	next.open?.(path.slice(1), options);
	bus.on.read();
	bus.on.draw();
}

function drawBanner() {
	const { phase, problem } = daemon;
	fill(banner, WORDS[phase] && h("div.banner", h("p", WORDS[phase] + " " + line(problem)),
		!bus.isThere() && h("p.row", h("code", "systemctl start reclaimd"),
			button(_`Start it`, () => cockpit.spawn(["systemctl", "start", "reclaimd"], bus.AS_ROOT), { disabled: !bus.isAdmin() }),
			phase === "closed" && button(_`Connect again`, bus.connect)),
		said()));
	main.ariaBusy = bus.isBusy();
}

function notify() {
	const title = daemon.phase === "ready" && troubles()[0]?.[0] || "";
	if (title !== notified)
		cockpit.transport.control("notify", { page_status: title ? { type: "warning", title } : null });
	notified = title;
}

window.addEventListener("storage", e => e.key === "shell:style" && setStyle());
window.addEventListener("cockpit-style", e => setStyle(e.detail.style));
setStyle();
Object.assign(document.documentElement, { lang: cockpit.language, dir: cockpit.language_direction });
cockpit.translate();
nav.append(...links);
Object.assign(bus.on, { draw() {
	notify();
	if (cockpit.hidden)
		return;
	drawBanner();
	shown.draw?.();
}, read: () => shown.reads?.forEach(read => read()) });
cockpit.addEventListener("locationchanged", go);
bus.connect();
go();
