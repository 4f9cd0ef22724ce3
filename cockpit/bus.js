/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The daemon as the page knows it: lists once, and then what it sends by itself.
 *
 *   connecting -> ready -> stopped -> connecting ...      closed: the bridge has ended the channel
 *
 * While its name has no owner nothing is asked: the bus would start a daemon that was stopped on purpose. */
import { _, bytesOf, encode, hex, line } from "./format.js";

const NAME = "org.reclaimd1", ROOT = "/org/reclaimd1", DBUS = "org.freedesktop.DBus", PROPERTIES = DBUS + ".Properties";
const AT_ONCE = 500; /* jobs in an answer */
export const PROBLEMS = 1000; /* of a job: the daemon knows no more */
/* For files and units, which polkit cannot allow. */
export const AS_ROOT = { superuser: "require", err: "message" };

export const daemon = { phase: "connecting", problem: "", properties: {}, jobs: new Map(), listed: false,
	devices: [], latencies: [], policies: [], spools: [], filesystems: [], marks: [], trims: [],
	failed: {} }; /* why what could not be read */
const permission = cockpit.permission({ admin: true });
export const isAdmin = () => permission.allowed === true;
export const rights = () => isAdmin() ? _`It is deleted with the rights of root.` : _`It is deleted with your rights.`;

let client, listing, history, reading = 0, news = new Set();

export const on = { draw() {}, read() {} };
let drawn = 0, timer = 0;

export function changed() {
	timer = timer || setTimeout(() => {
		timer = 0;
		drawn = performance.now();
		on.draw();
	}, Math.max(0, drawn + 250 - performance.now()));
}

cockpit.addEventListener("visibilitychange", changed);
permission.addEventListener("changed", changed);
setInterval(changed, 1000); /* what counts down */
export const isBusy = () => reading > 0 || (isThere() && !daemon.listed);

const LOST = _`There was no answer. Whether it was done is not known: look before you try again.`;
const REFUSED = _`Not allowed without administrative access.`;
const UNKNOWN = DBUS + ".Error.UnknownMethod";
const KNOWN = {
	[UNKNOWN]: _`This reclaimd is older than the page and cannot do that.`,
	[DBUS + ".Error.NoReply"]: LOST,
	[DBUS + ".Error.Timeout"]: LOST,
	[NAME + ".Error.NotAuthorized"]: REFUSED,
	"access-denied": REFUSED,
	"change-conflict": _`The file was changed meanwhile: close the editor, and begin anew.`,
	"not-found": _`It is not installed, or cannot be started.`,
	disconnected: LOST,
	terminated: LOST,
};

export function words(e) {
	const known = KNOWN[e.name] || KNOWN[e.problem], why = line(e.message || e.name || e.problem || e);
	return known === REFUSED && e.message ? known + " (" + why + ")" : known || why;
}

export const isThere = () => daemon.phase === "ready" || daemon.phase === "connecting";

const call = (object, iface, method, type = "", args = [], timeout = 60000) => isThere()
	? client.call(ROOT + object, iface, method, args, { type, timeout }).then(answer => answer[0])
	: Promise.reject(new Error(_`reclaimd does not run. Nothing was done.`));

export const manager = (...args) => call("", NAME + ".Manager", ...args);
export const problems = id => call("/job/" + id, NAME + ".Job", "GetProblems", "tu", [0, PROBLEMS]);
/* Names are written as sd_bus_path_encode(3) does it. */
export const policyCall = (name, method) => call("/policy/" + name.replace(/[_-]|^\d/g, c => "_" + hex(c)), NAME + ".Policy",
	method, "", [], 600000);
const properties = async (object, kind) => Object.fromEntries(Object.entries(await call(object, PROPERTIES, "GetAll", "s",
	[NAME + kind])).map(([name, variant]) => [name, variant.v]));
export const jobProperties = id => properties("/job/" + id, ".Job");

/* What a program prints, which has failed if that is nothing. The path, behind its last word, need not be UTF-8. */
export function program(argv, path = "") {
	const octal = path.replace(/[^\w/.-]/g, c => "\\0" + c.charCodeAt(0).toString(8).padStart(3, "0"));
	return cockpit.script('p=$(printf "%b." "$1"); p=${p%.}; shift; exec "$@$p"', [octal, ...argv],
		{ superuser: "try", err: "message" }).then(null, (e, said) => said?.trim() && said.trim() !== "[]" ? said : Promise.reject(e));
}

export const isOpen = j => !["done", "partial", "failed", "cancelled", "restored"].includes(j.state);
export const isBad = j => j.state === "partial" || j.state === "failed";

const named = names => values => Object.fromEntries(names.split(" ").map((n, i) =>
	[n, n === "path" ? bytesOf(values[i]) : values[i]]));
const jobOfLine = named("id state uid origin priority path entries entriesDone bytes bytesDone errors created heldUntil " +
	"finished started kind rate expectedEnd deadline message names");

/* What is sent meanwhile is newer than the answer. */
export async function listJobs(filter) {
	let since = 0, lines;
	do {
		lines = await manager("ListJobs", "a{sv}", [{ ...filter, limit: cockpit.variant("u", AT_ONCE),
			"since-id": cockpit.variant("t", since) }]);
		for (const j of lines.map(jobOfLine))
			if (!news.has(j.id))
				daemon.jobs.set(j.id, j);
		since = lines.at(-1)?.[0] + 1;
		changed();
	} while (lines.length === AT_ONCE);
}

export function listHistory() {
	if (!history && daemon.phase === "ready")
		history = listJobs({ finished: cockpit.variant("b", true) }).catch(e => console.debug(words(e)));
}

function jobsChanged(path, iface, signal, [lines]) {
	for (const j of lines.map(jobOfLine)) {
		news.add(j.id);
		daemon.jobs.set(j.id, j);
	}
	on.read();
	changed();
}

/* For what has no signal: read again when jobs change, no more often than every msec. */
export function reader(msec, of, read) {
	let last = -Infinity, waiting = false;
	return () => {
		const wait = Math.max(0, last + msec - performance.now()), soon = wait === 0;
		if (waiting || daemon.phase !== "ready")
			return;
		waiting = true;
		reading += soon;
		setTimeout(async () => {
			waiting = false;
			last = performance.now();
			daemon.failed[of] = await read().then(() => "", words);
			reading -= soon;
			changed();
		}, wait);
	};
}

const lister = (msec, to, method, names) => reader(msec, to, async () => {
	daemon[to] = (await manager(method)).map(named(names));
});
export const readDevices = lister(3000, "devices", "ListDevices", "name mode observed target sync cost entriesRate rate owed");
export const readLatencies = lister(20000, "latencies", "ListLatencies", "name of deleting begin count half most");
/* Marks are in the configuration, which not all may read. */
const readMarks = reader(60000, "marks", async () => {
	daemon.marks = JSON.parse(await program(["reclaimctl", "policy", "list", "--json"]) || "[]");
});
/* The results are in the state directory, which only root may read. */
export const readTrims = reader(60000, "trims", async () => {
	daemon.trims = JSON.parse(await program(["reclaimctl", "status", "--json=short"])).trims || [];
});
export const readPolicies = lister(3000, "policies", "ListPolicies", "name path match schedule watched maxDelete undo " +
	"running job next last result lastJob refused excess why success oldestKept");
const readSpools = lister(10000, "spools", "ListSpools", "path state message settle undo waiting");
export const readProperties = reader(1000, "properties", async () => {
	daemon.properties = await properties("", ".Manager");
});

const deeper = (a, b) => b.target.length - a.target.length;
const NETWORK = /^(nfs|cifs|smb3|ceph|lustre|9p|fuse\.)/;
/* One that hangs holds up no other. */
const SIZES = 'n=0; for f; do timeout 5 stat -fc "$n %S %b %f %a" -- "$f" & n=$((n + 1)); done; wait';

/* Each once, deeper ones before, with the key of its devices. Behind a network only those with jobs, policies or spools. */
export const readFilesystems = reader(10000, "filesystems", async () => {
	const mounts = JSON.parse(await program(["findmnt", "--json", "--real", "--nofsroot", "--list", "--types", "nooverlay,nosquashfs",
		"--output", "TARGET,SOURCE,FSROOT,FSTYPE,MAJ:MIN"])).filesystems;
	await listing;
	const used = [...[...daemon.jobs.values()].filter(isOpen), ...daemon.policies, ...daemon.spools].map(x => x.path + "/");
	for (const f of mounts)
		f.prefix = encode(f.target).replace(/\/?$/, "/");
	/* What is mounted a second time is no filesystem, but a subvolume is. */
	const whole = mounts.filter(f => NETWORK.test(f.fstype) ? used.some(path => path.startsWith(f.prefix))
		: f.fstype === "btrfs" || f.fsroot === "/").sort(deeper);
	const found = [...new Map(whole.map(f => [f["maj:min"], f])).values()].sort(deeper), targets = of => of.map(f => f.target);
	for (const [l] of (await program(["sh", "-c", SIZES, "sh", ...targets(found)])).matchAll(/.+/g)) {
		const [n, unit, all, free, avail] = l.split(" ").map(Number);
		Object.assign(found[n], { size: all * unit, used: (all - free) * unit, avail: avail * unit });
	}
	const there = found.filter(f => f.size);
	const keys = JSON.parse(await program(["reclaimctl", "devices", "--json", "--interval=0", "--", ...targets(there)]));
	daemon.filesystems = there.map(f => ({ ...keys.find(k => k.path === f.target), ...f }));
});

function enter(phase, problem = "") {
	Object.assign(daemon, { phase, problem });
	changed();
}

/* Without what an older daemon has not the other parts work. */
function older(e) {
	if (e.name !== UNKNOWN)
		throw e;
	daemon.failed.jobs = words(e);
}

async function begin() {
	news = new Set();
	history = null;
	Object.assign(daemon, { jobs: new Map(), listed: false, failed: {} });
	enter("connecting");
	try {
		await manager("Subscribe").catch(older);
		daemon.properties = await properties("", ".Manager");
		if (!isThere())
			return;
		enter("ready");
		listing = listJobs({}).then(() => listJobs({ states: cockpit.variant("as", ["partial", "failed"]) })).catch(older);
		for (const read of [readPolicies, readMarks, readDevices, readLatencies, readSpools, readFilesystems, on.read])
			read();
		await listing;
		daemon.listed = true;
		changed();
	} catch (e) {
		if (isThere())
			enter("closed", words(e));
	}
}

export function connect() {
	let open = true;
	client = cockpit.dbus(NAME, { bus: "system", superuser: "try" });
	enter("connecting");
	/* This may come behind the end of the channel. */
	client.addEventListener("owner", (event, owner) => open && (owner ? begin() : enter("stopped")));
	client.addEventListener("close", (event, options) => {
		open = false;
		enter("closed", words(options));
	});
	client.subscribe({ path: ROOT, member: "JobsChanged" }, jobsChanged);
	client.subscribe({ path: ROOT, interface: PROPERTIES, member: "PropertiesChanged" },
		() => [readProperties, readPolicies, readMarks, readSpools].forEach(read => read()));
}

/* The channel has ended where the daemon could not be started. */
cockpit.dbus(DBUS, { bus: "system" }).subscribe({ interface: DBUS, path: "/org/freedesktop/DBus", member: "NameOwnerChanged",
	arg0: NAME }, (path, iface, signal, args) => args[2] && daemon.phase === "closed" && connect());

const users = {};
export const user = uid => users[uid] || String(uid);

cockpit.file("/etc/passwd").read().then(content => {
	for (const [, name, uid] of content.matchAll(/^(.*?):.*?:(\d+):/gm))
		users[uid] = line(name);
	changed();
}, () => {});
