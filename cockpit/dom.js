/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Elements, what is said in place, and questions. Text is always a text node, never markup. */
import { words } from "./bus.js";
import { _, show } from "./format.js";

/* h("a.class", { href: "#/", onclick: f }, "text", element, [more]) */
export function h(name, ...kids) {
	const [tag, ...classes] = name.split(".");
	const e = document.createElement(tag);
	e.className = classes.join(" ");
	if (kids[0]?.constructor === Object)
		for (const [key, value] of Object.entries(kids.shift()))
			if (key.startsWith("on"))
				e.addEventListener(key.slice(2), value);
			else if (key in e && !key.startsWith("aria") && key !== "list")
				e[key] = value;
			else
				e.setAttribute(key, value);
	e.append(...kids.flat(9).filter(k => k || k === 0));
	return e;
}

export const path = bytes => h("span.path", show(bytes));
export const state = (word, name) => h("span.state", { "data-state": word }, name || word);
export const link = (to, ...kids) => h("a", { href: "#/" + to }, ...kids);

/* Writes only what is different, so that nothing is drawn or read out anew. */
export function text(e, value) {
	if (e.textContent !== value)
		e.textContent = value;
}

/* The same for elements, which `key` tells apart. */
export function fill(e, key, make) {
	const of = JSON.stringify(key);
	if (e.of !== of)
		e.replaceChildren(...[make()].flat(9).filter(k => k));
	e.of = of;
}

/* Where it is said what became of an action. */
export const said = () => h("div.said", { role: "status" });

export function say(place, kind, what) {
	place.className = "said " + kind;
	place.setAttribute("role", kind === "bad" ? "alert" : "status");
	place.replaceChildren(...[what || ""].flat());
}

/* Does what a control is for, once, and says what became of it. */
export async function act(control, place, work) {
	if (control.getAttribute("aria-disabled") === "true")
		return;
	control.setAttribute("aria-disabled", true);
	say(place, "busy", _("One moment…"));
	try {
		say(place, "good", await work());
	} catch (e) {
		say(place, "bad", words(e));
	} finally {
		control.setAttribute("aria-disabled", false);
	}
}

export const button = (label, place, work, props) =>
	h("button", { type: "button", ...props, onclick: e => act(e.currentTarget, place, work) }, label);

/* Asks before something is done, and says with numbers what that is. */
export function ask(title, what, verb, kind = "danger") {
	const dialog = document.querySelector("dialog");
	return new Promise(resolve => {
		dialog.replaceChildren(h("form", { method: "dialog" }, h("h2", { id: "question" }, title),
			what.filter(w => w).map(w => w.nodeType ? w : h("p", w)), h("p.row", h("button." + kind, { value: "yes" }, verb),
				h("button", { value: "", autofocus: true, formNoValidate: true }, _("Do nothing")))));
		dialog.returnValue = "";
		dialog.onclose = () => resolve(dialog.returnValue === "yes");
		dialog.showModal();
	});
}

/* Names and values; a pair without a value is left out. */
export const facts = pairs => h("dl", pairs.filter(p => p && p[1] && p[1].length !== 0)
	.map(([name, ...value]) => h("div", h("dt", name), h("dd", value))));

export const list = lines => lines?.length ? h("ul", lines.map(l => h("li", l))) : null;

export const table = (caption, head, rows) => h("table", h("caption", caption),
	h("thead", h("tr", head.map(c => h("th", { scope: "col" }, c)))),
	h("tbody", rows.map(r => h("tr", r.map((c, i) => h("td", { "data-name": head[i] }, c))))));

export const choice = (label, options, value, onchange = () => {}) => h("label", label, " ",
	h("select", { onchange }, Object.entries(options).map(([v, name]) => h("option", { value: v, selected: v === value }, name))));
