/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Bytes, times and names, for a person to read. A path is a byte string: a character of 0 to 255 for each byte. It is
 * shown as reclaimctl shows it, so that no two names look alike, and unescape() has the bytes again. */
const language = (cockpit.language || "en").replace("_", "-");

/* _`Job ${id}` is "Job {0}" for xgettext, which takes --keyword=total:2,3 for the others. */
export const _ = (parts, ...values) => cockpit.gettext(parts.reduce((text, part, i) => text + "{" + (i - 1) + "}" + part))
	.replace(/{(\d)}/g, (all, i) => values[i] ?? "");
export const count = n => Number(n).toLocaleString(language);
export const total = (n, one, many) => cockpit.format(cockpit.ngettext(one, many, n), count(n));
export const entries = n => total(n, "$0 entry", "$0 entries");
export const jobs = n => total(n, "$0 job", "$0 jobs");

export function size(n) {
	let i = 0;
	for (n = Number(n) || 0; n >= 1023.95; n /= 1024)
		i++;
	return (i ? n.toFixed(1) : Math.round(n)) + " " + "B KiB MiB GiB TiB PiB EiB".split(" ")[i];
}

export const rate = n => _`${size(n)}/s`;
export const dots = (...words) => words.filter(w => w).join(" · ");
export const share = (part, all) => _`${part} of ${all}`;

/* Of microseconds: "250 µs", "1.3 ms", "2 min 5 s". */
export function span(usec) {
	if (usec < 999500)
		return usec < 1000 ? Math.round(usec) + " µs" : (usec / 1000).toFixed(usec < 1e4 ? 1 : 0) + " ms";
	const s = Math.round(usec / 1e6), part = (n, name) => n >= 1 && Math.floor(n) + " " + name;
	const parts = [part(s / 86400, _`d`), part(s / 3600 % 24, _`h`), part(s / 60 % 60, _`min`), part(s % 60, _`s`)];
	const first = parts.findIndex(p => p);
	return parts.slice(first, first + 2).filter(p => p).join(" ");
}

export const until = usec => usec > Date.now() * 1000 ? span(usec - Date.now() * 1000) : "";
export const date = (usec, how) => new Date(usec / 1000).toLocaleString(language, how);
export const moment = usec => usec ? date(usec, { dateStyle: "medium", timeStyle: "short" }) : _`never`;
/* Of datetime-local, whose form is nearly the Swedish one. */
export const usecOf = value => Date.parse(value) * 1000 || 0;
export const inputOf = usec => usec
	? new Date(usec / 1000).toLocaleString("sv", { dateStyle: "short", timeStyle: "short" }).replace(" ", "T") : "";

/* What looks like nothing, or changes what is around it. */
const DECEPTIVE = /[\p{Cc}\p{DI}\p{Zl}\p{Zp}\ufff9-\ufffb]/gu;
/* What may be a character by its length, and lone bytes. */
const UNPLAIN = /[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}|[^ -[\]-~]/g;
const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const bytesOf = base64 => atob(base64 || "").replace(/\0$/, "");
export const encode = text => String.fromCharCode(...new TextEncoder().encode(text));
export const decode = (bytes, by = new TextDecoder()) => by.decode(Uint8Array.from(bytes, c => c.charCodeAt(0)));
export const hex = c => c.charCodeAt(0).toString(16).padStart(2, "0");

function character(bytes) {
	try {
		const c = decode(bytes, strict);
		if (c !== "\\" && c.search(DECEPTIVE) < 0)
			return c;
	} catch { /* no UTF-8 */ }
	return bytes.replace(/[^]/g, b => ({ "\n": "\\n", "\t": "\\t", "\\": "\\\\" })[b] || "\\x" + hex(b));
}

export const show = bytes => bytes.replace(UNPLAIN, character);

/* In texts, names have been escaped already: backslashes stay. */
export const line = text => String(text ?? "").replace(DECEPTIVE, c => show(encode(c)));

/* Null if there is no such escape. */
export function unescape(text) {
	let good = true;
	const bytes = encode(text).replace(/\\(?:x([0-9a-fA-F]{2})|([nt\\]))?/g, (all, code, letter) => {
		good = good && all.length > 1;
		return code ? String.fromCharCode(parseInt(code, 16)) : { n: "\n", t: "\t" }[letter] || letter;
	});
	return good && !bytes.includes("\0") ? bytes : null;
}

export function pathOf(text) {
	const bytes = unescape(text);
	if (!bytes?.startsWith("/"))
		throw new Error(_`That is no absolute path. A backslash is written \\\\, another byte \\xNN.`);
	return bytes;
}
