/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A table of any length: only rows that are seen are made. All have the height --row. */
import { h } from "./dom.js";

const MORE = 8; /* rows beyond those that are seen, so that Tab finds them */

export class Rows {
	/* make(item) returns the cells, each an element or a list; update(row, item) writes what may have changed. */
	constructor(label, head, make, update = () => {}) {
		Object.assign(this, { make, update, items: [], made: new Map() });
		this.space = h("div.space", { role: "presentation" });
		this.scroller = h("div.scroller", { role: "rowgroup", tabindex: 0, "aria-label": label, onscroll: () => {
			this.frame = this.frame || requestAnimationFrame(() => this.draw());
		} }, this.space);
		this.element = h("div.rows", { role: "table", "aria-label": label }, h("div", { role: "rowgroup" },
			h("div.head", { role: "row" }, head.map(c => h("span", { role: "columnheader" }, c)))), this.scroller);
		new ResizeObserver(() => this.draw()).observe(this.scroller);
	}

	set(items) {
		this.items = items;
		this.element.setAttribute("aria-rowcount", items.length + 1);
		this.element.hidden = items.length === 0;
		this.draw();
	}

	row(item) {
		const row = h("div.item", { role: "row" });
		row.append(...this.make(item, row).map((kids, i) => h("span.c" + i, { role: "cell" }, kids)));
		return row;
	}

	draw() {
		const height = parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) *
			parseFloat(getComputedStyle(document.documentElement).fontSize);
		const { scrollTop, clientHeight } = this.scroller, seen = new Map();
		const first = Math.max(0, Math.floor(scrollTop / height) - MORE);
		const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / height) + MORE);
		this.frame = 0;
		this.space.style.setProperty("--n", this.items.length);
		for (let i = first; i < last; i++) {
			const item = this.items[i], row = this.made.get(item.id) || this.row(item);
			row.style.setProperty("--n", i);
			row.setAttribute("aria-rowindex", i + 2);
			this.update(row, item);
			seen.set(item.id, row);
		}
		for (const [id, row] of this.made)
			if (!seen.has(id))
				row.remove();
		this.made = seen;
		let at = this.space.firstChild;
		for (const row of seen.values())
			if (row === at)
				at = at.nextSibling;
			else
				this.space.insertBefore(row, at);
	}
}
