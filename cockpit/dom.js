/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Elements, what is said in place, questions and tables. Text is always a text node, never markup. */
import { daemon, words } from "./bus.js";
import { _, show } from "./format.js";

export const real = kids => kids.flat(9).filter(k => k || k === 0);

/* h("a.class", { href: "#/", onclick: f }, "text", element, [more]): texts are attributes, all else are properties. */
export function h(name, ...kids) {
	const [tag, ...classes] = name.split("."), isSvg = tag === "svg" || tag === "path";
	const e = document.createElementNS(isSvg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", tag);
	e.classList.add(...classes);
	if (kids[0]?.constructor === Object)
		for (const [key, value] of Object.entries(kids.shift()))
			if (typeof value === "string")
				e.setAttribute(key, value);
			else
				e[key] = value;
	e.append(...real(kids));
	return e;
}

export const path = bytes => h("span.path", show(bytes));
export const state = (word, name) => h("span.state", { "data-state": word }, name || word);
export const link = (to, ...kids) => h("a", { href: "#/" + to }, ...kids);
export const jobLink = id => link("jobs/" + id, _`Job ${id}`);
export const field = (label, control) => h("label", label, " ", control);
export const card = (name, ...kids) => h("section.card", { "aria-label": name }, h("h2", name), kids);

/* What is the same stays, so that it is not read out anew, and so does what a person is about to fill in. A button that
 * stays has to look up what it is about. */
export function fill(e, ...kids) {
	const old = [...e.childNodes], made = [...h("div", kids).childNodes], had = e.contains(document.activeElement);
	if (e.querySelector("input:focus, select:focus"))
		return;
	made.forEach((kid, i) => {
		kid.made = kid.outerHTML ?? kid.data;
		if (!old[i])
			e.append(kid);
		else if (old[i].made !== kid.made)
			old[i].replaceWith(kid);
	});
	old.slice(made.length).forEach(kid => kid.remove());
	if (had && !e.contains(document.activeElement))
		e.querySelector("a, button")?.focus();
}

/* An element for each key, in this order. */
export function keep(place, keys, make) {
	const had = place.kept || new Map();
	place.kept = new Map(keys.map(key => [key, had.get(key) || make(key)]));
	for (const [key, e] of had)
		if (!place.kept.has(key))
			e.remove();
	let at = place.firstChild;
	for (const e of place.kept.values())
		if (e === at)
			at = at.nextSibling;
		else
			place.insertBefore(e, at);
	return place.kept;
}

export const known = (of, kids) => daemon.failed[of] ? h("p.bad", daemon.failed[of]) : kids;

export const said = () => h("div", { "data-said": "", role: "status" });

export function say(place, kind, what = "") {
	place.className = kind;
	place.role = kind === "bad" ? "alert" : "status";
	place.replaceChildren(...real([what]));
}

/* Does what a control is for, once, and says in the nearest place what became of it. */
export async function act(control, work) {
	const place = control.closest(":has([data-said])").querySelector("[data-said]");
	if (control.ariaDisabled === "true")
		return;
	control.ariaDisabled = true;
	say(place, "busy", _`One moment…`);
	try {
		say(place, "good", await work());
	} catch (e) {
		say(place, "bad", words(e));
	}
	control.ariaDisabled = false;
}

export const button = (label, work, props) =>
	h("button", { type: "button", ...props, onclick: e => act(e.currentTarget, work) }, label);

/* Without a yes there is nothing to be said. */
export function ask(title, what, verb, kind = "danger") {
	const dialog = document.querySelector("dialog");
	return new Promise((resolve, reject) => {
		dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", { id: "question" }, title),
			real(what).map(w => w.nodeType ? w : h("p", w)), h("p.row", h("button." + kind, { value: "yes" }, verb),
				h("button", { value: "", autofocus: true, formNoValidate: true }, _`Do nothing`))));
		dialog.returnValue = "";
		dialog.onclose = () => dialog.returnValue ? resolve() : reject("");
		dialog.showModal();
	});
}

export const facts = pairs => h("dl", pairs.filter(p => p[1] && p[1].length !== 0)
	.map(([name, ...value]) => h("div", h("dt", name), h("dd", value))));

export const list = lines => lines?.length ? h("ul", lines.map(l => h("li", l))) : null;

export const choice = (label, options, value, onchange) => field(label, h("select", { onchange },
	Object.entries(options).map(([v, name]) => h("option", { value: v, defaultSelected: v === value }, name))));

const MORE = 8; /* rows beyond those that are seen, so that Tab finds them */

/* Of any length: only rows that are seen are made, all of one height, of what cells(item, row) returns. */
export function rowTable(label, head, cells) {
	const space = h("div.space", { role: "presentation" });
	const scroller = h("div.scroller", { role: "rowgroup", tabIndex: 0, "aria-label": label, onscroll: () => draw(true) }, space);
	const element = h("div.rows", { role: "table", "aria-label": label }, h("div", { role: "rowgroup" },
		h("div.head", { role: "row" }, head.map(c => h("span", { role: "columnheader" }, c)))), scroller);
	let items = [];

	function draw(isScrolled) {
		const height = space.offsetHeight / items.length || 1, { scrollTop, clientHeight } = scroller;
		const first = Math.max(0, Math.floor(scrollTop / height) - MORE);
		const seen = items.slice(first, Math.ceil((scrollTop + clientHeight) / height) + MORE);
		const rows = keep(space, seen.map(item => item.id), () =>
			h("div.item", { role: "row" }, head.map((c, i) => h("span.c" + i, { role: "cell" }))));
		seen.forEach((item, i) => {
			const row = rows.get(item.id);
			row.style.setProperty("--n", first + i);
			row.ariaRowIndex = first + i + 2;
			if (!isScrolled || !row.textContent)
				cells(item, row).forEach((kids, n) => fill(row.children[n], kids));
		});
	}

	new ResizeObserver(() => draw(true)).observe(scroller);
	return { element, set(to) {
		items = to;
		element.ariaRowCount = items.length + 1;
		element.hidden = items.length === 0;
		space.style.setProperty("--n", items.length);
		draw();
	} };
}
