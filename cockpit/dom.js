/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Elements, what is said in place, questions, and tables of any length. Text is always a text node, never markup. */
import { daemon, words } from "./bus.js";
import { _, show } from "./format.js";

export const real = kids => kids.flat(9).filter(k => k || k === 0);

/* h("a.class", { href: "#/", onclick: f }, "text", element, [more]) */
export function h(name, ...kids) {
	const [tag, ...classes] = name.split("."), isSvg = tag === "svg" || tag === "path";
	const e = document.createElementNS(isSvg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag);
	e.classList.add(...classes);
	if (kids[0]?.constructor === Object)
		for (const [key, value] of Object.entries(kids.shift()))
			if (key.startsWith("on"))
				e.addEventListener(key.slice(2), value);
			else if (key in e && !isSvg && key !== "list")
				e[key] = value;
			else
				e.setAttribute(key, value);
	e.append(...real(kids));
	return e;
}

export const path = bytes => h("span.path", show(bytes));
export const state = (word, name) => h("span.state", { "data-state": word }, name || word);
export const link = (to, ...kids) => h("a", { href: "#/" + to }, ...kids);
export const jobLink = id => link("jobs/" + id, _("Job $0", id));

/* Writes only what is different, so that nothing is drawn or read out anew. */
export function text(e, value) {
	if (e.textContent !== value)
		e.textContent = value;
}

/* The same for elements, which `key` tells apart. */
export function fill(e, key, make) {
	const of = JSON.stringify(key);
	if (e.of !== of)
		e.replaceChildren(...real([make()]));
	e.of = of;
}

/* Why something could not be read, in its place; else what make() says. */
export const known = (of, make) => daemon.failed[of] ? h("p.bad", daemon.failed[of]) : make();

/* Where it is said what became of an action. */
export const said = () => h("div", { "data-said": "", role: "status" });

export function say(place, kind, what = "") {
	place.className = kind;
	place.role = kind === "bad" ? "alert" : "status";
	place.replaceChildren(...[what].flat());
}

/* Does what a control is for, once, and says what became of it in the nearest place for that. */
export async function act(control, work) {
	let box = control, place;
	if (control.ariaDisabled === "true")
		return;
	while (!(place = box.querySelector("[data-said]")))
		box = box.parentElement;
	control.ariaDisabled = true;
	say(place, "busy", _("One moment…"));
	try {
		say(place, "good", await work());
	} catch (e) {
		say(place, "bad", words(e));
	}
	control.ariaDisabled = false;
}

export const button = (label, work, props) =>
	h("button", { type: "button", ...props, onclick: e => act(e.currentTarget, work) }, label);

/* Asks before something is done, and says with numbers what that is. Without a yes there is nothing to be said. */
export function ask(title, what, verb, kind = "danger") {
	const dialog = document.querySelector("dialog");
	return new Promise((resolve, reject) => {
		dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", { id: "question" }, title),
			real(what).map(w => w.nodeType ? w : h("p", w)), h("p.row", h("button." + kind, { value: "yes" }, verb),
				h("button", { value: "", autofocus: true, formNoValidate: true }, _("Do nothing")))));
		dialog.returnValue = "";
		dialog.onclose = () => dialog.returnValue ? resolve() : reject("");
		dialog.showModal();
	});
}

/* Names and values; a pair without a value is left out. */
export const facts = pairs => h("dl", pairs.filter(p => p[1] && p[1].length !== 0)
	.map(([name, ...value]) => h("div", h("dt", name), h("dd", value))));

export const list = lines => lines?.length ? h("ul", lines.map(l => h("li", l))) : null;

export const table = (caption, head, rows) => h("table", h("caption", caption),
	h("thead", h("tr", head.map(c => h("th", { scope: "col" }, c)))),
	h("tbody", rows.map(r => h("tr", r.map((c, i) => h("td", { "data-name": head[i] }, c))))));

export const choice = (label, options, value, onchange = () => {}) => h("label", label, " ",
	h("select", { onchange }, Object.entries(options).map(([v, name]) => h("option", { value: v, selected: v === value }, name))));

const MORE = 8; /* rows beyond those that are seen, so that Tab finds them */

/* A table of any length: only rows that are seen are made, all of one height. make(item, row) returns the cells, each an
 * element or a list; update(row, item) writes what may have changed. */
export function rowTable(label, head, make, update = () => {}) {
	const space = h("div.space", { role: "presentation" });
	const scroller = h("div.scroller", { role: "rowgroup", tabIndex: 0, "aria-label": label, onscroll: () => {
		frame = frame || requestAnimationFrame(draw);
	} }, space);
	const element = h("div.rows", { role: "table", "aria-label": label }, h("div", { role: "rowgroup" },
		h("div.head", { role: "row" }, head.map(c => h("span", { role: "columnheader" }, c)))), scroller);
	let items = [], made = new Map(), frame = 0;

	function add(item) {
		const row = h("div.item", { role: "row" });
		row.append(...make(item, row).map((kids, i) => h("span.c" + i, { role: "cell" }, kids)));
		return row;
	}

	function draw() {
		const height = space.offsetHeight / items.length || 1, { scrollTop, clientHeight } = scroller, seen = new Map();
		const first = Math.max(0, Math.floor(scrollTop / height) - MORE);
		frame = 0;
		items.slice(first, Math.ceil((scrollTop + clientHeight) / height) + MORE).forEach((item, i) => {
			const row = made.get(item.id) || add(item);
			row.style.setProperty("--n", first + i);
			row.ariaRowIndex = first + i + 2;
			update(row, item);
			seen.set(item.id, row);
		});
		for (const [id, row] of made)
			if (!seen.has(id))
				row.remove();
		made = seen;
		let at = space.firstChild;
		for (const row of seen.values())
			if (row === at)
				at = at.nextSibling;
			else
				space.insertBefore(row, at);
	}

	new ResizeObserver(draw).observe(scroller);
	return { element, set(to) {
		items = to;
		element.ariaRowCount = items.length + 1;
		element.hidden = items.length === 0;
		space.style.setProperty("--n", items.length);
		draw();
	} };
}
