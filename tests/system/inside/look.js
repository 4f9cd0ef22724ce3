// SPDX-License-Identifier: LGPL-2.1-or-later
// What tests ask of a page that is shown: a global `look`, in every document of the browser. Each check returns what is
// wrong as a list of sentences. Where a modal dialog is open, only that is looked at: nothing else can be reached.
"use strict";
globalThis.look = (() => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const colors = new Map();
    // Text lines reach a little above and below what is drawn of them.
    const SLACK = 0.2;

    const seen = e => e.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const top = () => [...document.querySelectorAll("dialog:modal")].pop() ?? document.body;
    const words = text => text.replace(/\s+/g, " ").trim();

    function who(e) {
        const name = e.id ? `#${e.id}` : [...e.classList].map(c => `.${c}`).join("");
        return `${e.localName}${name} “${words(e.textContent).slice(0, 40)}”`;
    }

    // The part of a box that scrolled and clipped parents leave of it.
    function clip(box, e) {
        let { left, top: upper, right, bottom } = box;
        for (let p = e; p && p !== document.documentElement; p = p.parentElement) {
            const style = getComputedStyle(p);
            if (style.clipPath === "inset(50%)")
                return null;
            if (style.overflowX !== "visible" || style.overflowY !== "visible" || style.clipPath !== "none") {
                const b = p.getBoundingClientRect();
                [left, upper] = [Math.max(left, b.left), Math.max(upper, b.top)];
                [right, bottom] = [Math.min(right, b.right), Math.min(bottom, b.bottom)];
            }
            if (style.position === "fixed")
                break;
        }
        return right - left > 1 && bottom - upper > 1 ? { left, top: upper, right, bottom } : null;
    }

    // Text that can be read, with the boxes of its lines.
    function texts() {
        const found = [];
        const walk = document.createTreeWalker(top(), NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const node = walk.currentNode, parent = node.parentElement;
            if (!node.data.trim() || parent.closest("script, style, template, option, textarea") || !seen(parent))
                continue;
            const range = document.createRange();
            range.selectNodeContents(node);
            const boxes = [...range.getClientRects()].map(box => clip(box, parent)).filter(box => box);
            if (boxes.length)
                found.push({ node: parent, text: node, boxes });
        }
        return found;
    }

    const controls = () => [...top().querySelectorAll("button, input, select, textarea, meter, progress, svg, img")].filter(seen)
        .map(node => ({ node, boxes: [clip(node.getBoundingClientRect(), node)].filter(box => box) }));

    function meet(a, b) {
        const [slackA, slackB] = [a, b].map(box => (box.bottom - box.top) * SLACK);
        return Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
            Math.min(a.bottom - slackA, b.bottom - slackB) - Math.max(a.top + slackA, b.top + slackB) > 0;
    }

    function overlaps() {
        const all = [...texts(), ...controls()], wrong = [];
        all.forEach((a, n) => all.slice(n + 1).forEach(b => {
            const within = !a.text || !b.text ? a.node.contains(b.node) || b.node.contains(a.node) : false;
            if (!within && a.boxes.some(x => b.boxes.some(y => meet(x, y))))
                wrong.push(`${who(a.node)} lies over ${who(b.node)}`);
        }));
        return wrong;
    }

    function widths() {
        const page = document.documentElement, wrong = [];
        if (page.scrollWidth > page.clientWidth) {
            const out = [...document.body.querySelectorAll("*")].filter(e => seen(e) &&
                (clip(e.getBoundingClientRect(), e)?.right ?? 0) > page.clientWidth + 1);
            wrong.push(`the page is ${page.scrollWidth} wide in ${page.clientWidth}: ${out.slice(-3).map(who).join(", ")}`);
        }
        const { left, right } = top().getBoundingClientRect();
        if (top() !== document.body && (left < 0 || right > page.clientWidth))
            wrong.push(`${who(top())} reaches out of the window`);
        return wrong.concat(texts().filter(isCut).map(t => `${who(t.node)} is cut off`));
    }

    // Where something hides a part of the text, and one can neither scroll there nor see that it goes on.
    function isCut({ node, text }) {
        const range = document.createRange();
        range.selectNodeContents(text);
        const boxes = [...range.getClientRects()];
        for (let p = node; p && p !== document.documentElement; p = p.parentElement) {
            const style = getComputedStyle(p), b = p.getBoundingClientRect();
            if (/auto|scroll/.test(style.overflow))
                break;
            if (!/hidden|clip/.test(style.overflow))
                continue;
            if (boxes.some(({ left, top: upper, right, bottom }) => {
                const slack = (bottom - upper) * SLACK;
                return style.textOverflow !== "ellipsis" && (left < b.left - 1 || right > b.right + 1) ||
                    upper + slack < b.top || bottom - slack > b.bottom;
            }))
                return true;
            if (style.textOverflow === "ellipsis")
                break;
        }
        return false;
    }

    // As [red, green, blue, alpha].
    function color(css) {
        if (!colors.has(css)) {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = css;
            canvas.fillRect(0, 0, 1, 1);
            const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
            colors.set(css, [r, g, b, a / 255]);
        }
        return colors.get(css);
    }

    const over = ([r, g, b, a], below) => [r, g, b].map((c, n) => c * a + below[n] * (1 - a));

    function ground(e) {
        const chain = [];
        for (let p = e; p; p = p.parentElement)
            chain.unshift(p);
        const sheet = document.documentElement.appendChild(document.createElement("i"));
        sheet.style.background = "Canvas";
        const start = color(getComputedStyle(sheet).backgroundColor).slice(0, 3);
        sheet.remove();
        return chain.reduce((below, p) => over(color(getComputedStyle(p).backgroundColor), below), start);
    }

    function light(rgb) {
        const [r, g, b] = rgb.map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    }

    // What is disabled is to be seen as that, and exempt.
    function contrasts(least) {
        const wrong = [];
        const check = (e, css) => {
            let [r, g, b, alpha] = color(css);
            for (let p = e; p; p = p.parentElement)
                alpha *= getComputedStyle(p).opacity;
            const below = ground(e);
            const [x, y] = [light(over([r, g, b, alpha], below)), light(below)].sort((m, n) => n - m);
            const ratio = (x + 0.05) / (y + 0.05);
            if (ratio < least && !e.closest(":disabled, [aria-disabled=true]"))
                wrong.push(`${who(e)} has a contrast of ${ratio.toFixed(2)}: ${css} on ${below.map(Math.round)}`);
        };
        new Set(texts().map(t => t.node)).forEach(e => {
            const style = getComputedStyle(e);
            check(e, e instanceof SVGElement ? style.fill : style.color);
        });
        for (const { node } of controls())
            if (node.matches("input, select, textarea"))
                check(node, getComputedStyle(node, node.value || node.matches("select") ? null : "::placeholder").color);
        return wrong;
    }

    // What moves, or would: not for those who ask for less of it.
    function motions() {
        const lasts = times => times.split(",").some(t => parseFloat(t) > 0);
        return [...document.querySelectorAll("body, body *")].filter(e => {
            const style = getComputedStyle(e);
            return style.animationName !== "none" || lasts(style.transitionDuration) || style.scrollBehavior === "smooth" ||
                // The browser itself moves its bar.
                (e.matches("progress:indeterminate") && seen(e) && style.appearance !== "none");
        }).map(e => `${who(e)} moves`);
    }

    // Where the Tab key has to lead, in order, from the beginning; of a group of radio buttons to one.
    function stops() {
        look.expected = [...top().querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")]
            .filter(e => seen(e) && !e.disabled && e.tabIndex >= 0 && !(e.type === "radio" && !e.checked));
        return look.expected.map(who);
    }

    // Which of them has the focus, and whether one sees that.
    function stop() {
        const e = document.activeElement, style = getComputedStyle(e);
        return { at: look.expected.indexOf(e), who: who(e),
                 shown: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 || style.boxShadow !== "none" };
    }

    // Characters that would change what a reader sees of the rest.
    function controlCharacters() {
        return texts().filter(t => /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(t.text.data.replace(/[\n\t]/g, "")) ||
            (/\n/.test(t.text.data.trim()) && getComputedStyle(t.node).whiteSpace.startsWith("pre")))
            .map(t => `${who(t.node)} has a control character: ${JSON.stringify(t.text.data)}`);
    }

    // The element of these tags or roles with this name, in another one.
    function named(kinds, name, within = top()) {
        return [...(within?.querySelectorAll(kinds) ?? [])].find(e => seen(e) &&
            [e.ariaLabel, words(e.textContent), words(e.labels?.[0]?.firstChild.data ?? "")].includes(name));
    }

    function middle(e) {
        if (!e || e.disabled || e.ariaDisabled === "true")
            return null;
        e.scrollIntoView({ block: "center", behavior: "instant" });
        const box = e.getBoundingClientRect(), x = (box.left + box.right) / 2, y = (box.top + box.bottom) / 2;
        const hit = document.elementFromPoint(x, y);
        return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : null;
    }

    // When the first job was drawn, in milliseconds since the page was asked for.
    let firstJob = null;
    new MutationObserver((_, observer) => {
        if (document.querySelector("[data-job]")) {
            observer.disconnect();
            requestAnimationFrame(() => firstJob = performance.now());
        }
    }).observe(document, { childList: true, subtree: true });

    return { overlaps, widths, contrasts, motions, stops, stop, controlCharacters, named, middle,
             expected: [], firstJob: () => firstJob };
})();
