#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hosts of a fleet on one cluster filesystem, each with its own mount of it: what each stages is its own, and
what one has to delete all of them delete."""
import contextlib
import json
import os
import re
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
import fleet
from fixture import fill, listing, names_in


class Staging(fleet.Case):
    def trees(self, host, n, files=20):
        """Directories of that host, in the test's; their names."""
        names = [os.path.join(self.name, "%s-%d" % (host.name, k)) for k in range(n)]
        for name in names:
            fill(self.fleet.path(name, "sub"), files)
        return names

    def nothing_is_staged(self):
        def empty():
            return [job for host in self.hosts if os.path.isdir(self.fleet.part(host, "0"))
                    for job in os.listdir(self.fleet.part(host, "0"))] == []

        self.until(empty)

    def no_orphans(self):
        for host in self.hosts:
            self.assertNotIn("of no job", host.daemon.said())
            self.assertNotIn("another reclaimd", host.daemon.said())

    def again(self, host):
        self.assertEqual(host.daemon.stop(), 0, host.daemon.said())
        host.daemon.start()

    def staged(self, host, job):
        c = host.client()
        self.assertEqual(c.get(job, "Inplace"), "")
        at = c.get(job, "Staging").decode()
        self.assertEqual(os.path.dirname(at), os.path.join(host.mountpoint, ".reclaim", "@" + host.name, "0"))
        return os.path.basename(at)

    def test_attack_09_hosts_at_once(self):
        """Each stages and deletes its own, while the other is stopped and started."""
        jobs = {host: [] for host in self.hosts}
        trees = {host: self.trees(host, 6) for host in self.hosts}
        for k in range(6):
            for host in self.hosts:
                held = ("--undo=1h",) if k % 2 else ()
                jobs[host].append(host.submit(trees[host][k], options=held))
            self.again(self.hosts[k % len(self.hosts)])
        for host in self.hosts:
            c = host.client()
            for job in jobs[host][::2]:
                self.assertEqual(c.wait(job), "done", host.daemon.said())
            for job in jobs[host][1::2]:
                self.staged(host, job)
            host.ctl("restore", str(jobs[host][1]))
            for job in jobs[host][3::2]:
                c.call("Cancel", "at", [job])
        self.no_orphans()
        back = [os.path.join("%s-%d" % (host.name, k), "sub") for host in self.hosts for k in (1, 3, 5)]
        self.assertEqual(sorted(d for d in listing(self.fleet.path(self.name)) if d.endswith("/sub")
                                and not d.startswith("canary")), sorted(back))
        for name in back:
            self.assertEqual(len(os.listdir(self.fleet.path(self.name, name))), 20)
        self.nothing_is_staged()

    def test_attack_09_a_host_that_crashed(self):
        """The others leave what it had; in its next boot it goes on."""
        first, second = self.hosts[:2]
        (name,) = self.trees(first, 1)
        job = first.submit(name, options=("--undo=1h",))
        staged = self.fleet.part(first, "0", self.staged(first, job))
        first.crash()
        empty = self.fleet.part(first, "0", "0" * 32)
        os.mkdir(empty, 0o700)
        for _ in range(2):
            self.again(second)
        self.assertTrue(os.path.isdir(empty))
        self.assertEqual(os.listdir(staged), ["1"])
        self.assertNotIn("of no job", second.daemon.said())
        first.daemon.start()
        first.ctl("restore", str(job))
        self.assertEqual(len(os.listdir(self.fleet.path(name, "sub"))), 20)
        first.daemon.wait_gone(empty)
        self.nothing_is_staged()

    def test_attack_09_two_of_one_name(self):
        first, second = self.hosts[:2]
        a, b = self.trees(first, 2)
        job = first.submit(a, options=("--undo=1h",))
        self.assertEqual(second.daemon.stop(), 0)
        second.daemon.configure(self.fleet.configuration(first.name))
        second.daemon.start()
        c = second.client()
        other = second.submit(b)
        self.assertEqual(c.wait(other), "done")
        self.assertIn("another reclaimd has it", c.get(other, "Inplace"))
        second.daemon.wait_said("(on %s, process %d) is called %s in the fleet, too"
                                % (first.name, first.daemon.process.pid, first.name))
        first.ctl("restore", str(job))
        self.assertEqual(len(os.listdir(self.fleet.path(a, "sub"))), 20)

    def test_put_back_never_over_another(self):
        """Also where the filesystem cannot rename without replacing."""
        first, second = self.hosts[:2]
        kinds = ("empty directory", "directory", "file")
        for kind, name in zip(kinds, self.trees(first, len(kinds))):
            job = first.submit(name, options=("--undo=1h",))
            self.staged(first, job)
            at = second.path(name)
            if kind == "file":
                os.mknod(at)
            else:
                fill(at, kind == "directory")
            c = first.client()
            with self.assertRaises(RuntimeError):
                first.ctl("restore", str(job))
            self.assertEqual(c.job(job)["state"], "held", kind)
            self.assertEqual(os.path.isdir(at) and os.listdir(at),
                             {"directory": ["f00000"], "empty directory": [], "file": False}[kind])
            fixture.command("rm", "-r", at)
            self.until(lambda at=first.path(name): not os.path.lexists(at))
            first.ctl("restore", str(job))
            self.assertEqual(len(os.listdir(self.fleet.path(name, "sub"))), 20)
            fixture.command("rm", "-r", self.fleet.path(name))


class Joined(fleet.Case):
    DATABASE = True
    ENVIRONMENT = {"SYSTEMD_LOG_LEVEL": "debug"}
    DIRECTORIES, FILES = 120, 40
    ENTRIES = 1 + DIRECTORIES * (FILES + 1)

    def setUp(self):
        super().setUp()
        for host in self.hosts:
            host.daemon.wait_said("This host is %s in the fleet" % host.name)

    def tree(self, name="tree"):
        name = os.path.join(self.name, name)
        for d in range(self.DIRECTORIES):
            fill(self.fleet.path(name, "d%03d" % d), self.FILES)
        # Else what has made it is asked for each name on CephFS: five go in a second, and nothing is given away.
        self.fleet.cluster.forget()
        return name

    @staticmethod
    def helped(host):
        """What that host has deleted of units."""
        return sum(int(n) for n in re.findall(r"fleet: unit \d+ of job \d+ of \S+: \w+(?: back)?, (\d+) entries",
                                              host.daemon.said()))

    def begins_to_help(self, host):
        self.until(lambda: re.search(r"fleet: unit \d+ of job \d+ of \S+ begins", host.daemon.said()))

    def ends(self, host, job, state="done"):
        self.assertEqual(host.client().wait(job), state, host.daemon.said())
        self.until(lambda: names_in(self.fleet.part(host, "0")) == [])
        self.until(lambda: names_in(self.fleet.part(host, "marks")) == [])
        for other in self.hosts:
            self.assertNotIn("of no job", other.daemon.said())


class Shares(Joined):
    """What one has to delete, all of them delete."""

    def test_another_host_helps(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.ends(first, job)
        self.assertGreater(self.helped(second), 0, second.daemon.said())
        self.assertGreaterEqual(first.client().job(job)["done"], self.ENTRIES)
        self.until(lambda: self.database.sql("SELECT count(*) FROM reclaimd.units", "reclaimd").strip() == "0")

    def test_one_rate(self):
        """Each has half of it while both delete."""
        first, second = self.hosts[:2]
        rate = 1 << 20
        for host in self.hosts:
            host.daemon.configure(self.fleet.configuration(host.name).replace(
                ": shared}", ": {name: shared, max-rate: %d MiB/s}}" % (rate >> 20)))
            host.client().call("Reload")
        job = first.submit(self.tree())
        self.ends(first, job)
        self.assertGreater(self.helped(second), 0, second.daemon.said())
        for host in self.hosts:
            self.assertIn("at most %d " % (rate // 2), host.daemon.said())

    def test_the_helper_is_killed(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        second.crash()
        self.ends(first, job)
        second.daemon.start()

    def test_the_owner_is_killed(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        first.daemon.kill()
        first.daemon.start(self.ENVIRONMENT)
        self.ends(first, job)

    def test_without_the_database(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        self.database.kill()
        self.addCleanup(self.database.start)
        self.ends(first, job)

    def test_the_helper_has_no_database(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        second.cut_database()
        self.addCleanup(second.join)
        self.ends(first, job)

    def test_cancelled(self):
        """What is left comes back, and no host deletes anything of it any more."""
        first, second = self.hosts[:2]
        name = self.tree()
        job = first.submit(name)
        self.begins_to_help(second)
        first.ctl("cancel", str(job))
        self.assertIn(first.client().wait(job), ("cancelled", "done"))
        left = listing(self.fleet.path(self.name))
        self.until(lambda: self.database.sql("SELECT count(*) FROM reclaimd.units", "reclaimd").strip() == "0")
        self.assertEqual(listing(self.fleet.path(self.name)), left)

    def test_paused(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        first.ctl("pause", str(job))
        self.assertEqual(first.client().job(job)["state"], "paused")
        self.assertEqual(self.database.sql("SELECT count(*) FROM reclaimd.units WHERE host IS NOT NULL",
                                           "reclaimd").strip(), "0")
        first.ctl("resume", str(job))
        self.ends(first, job)

    def test_of_a_user(self):
        first, second = self.hosts[:2]
        name = self.tree()
        fixture.command("chown", "-R", "%d:%d" % (fixture.USER, fixture.USER), self.fleet.path(name))
        os.chmod(self.fleet.path(self.name), 0o1777)
        with self.subTest("as root, of a user's tree"):
            self.ends(first, first.submit(name))
        self.assertGreater(self.helped(second), 0)


class Withdrawn(Joined):
    """No host deletes in what has gone back to its place: not where the database cannot be asked, nor after a
    restart, nor by a process that nothing reaches any more."""

    WAITS = "waits before its names go back"
    ENDED = r"fleet: unit \d+ of job \d+ of \S+: (ended|given back), \d+ entries"

    def helper_at_gate(self, **env):
        """The second host's deleter is stopped in the midst of a unit, before it looks whether it may go on.
        The tree, its job, that process."""
        if not fixture.scratch.gates:
            self.skipTest("built without RECLAIM_TEST_GATES")
        first, second = self.hosts[:2]
        self.assertEqual(second.daemon.stop(), 0)
        second.start(RECLAIM_GATE="unlink:f00000", **env, **self.ENVIRONMENT)
        second.daemon.wait_said("This host is %s in the fleet" % second.name, 2)
        name = self.tree()
        job = first.submit(name)
        helper = second.daemon.stopped_worker()
        self.addCleanup(self.goes_on, helper)
        return name, job, helper

    @staticmethod
    def goes_on(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    def stops(self, host):
        """Its daemon, which says nothing to its processes any more. What speaks to the database goes on."""
        os.kill(host.daemon.process.pid, signal.SIGSTOP)
        self.addCleanup(self.goes_on, host.daemon.process.pid)

    def ends_by_itself(self, helper):
        """The run of a deleter whose daemon is stopped: its threads are gone, but for the one that listens."""
        def has_ended():
            with contextlib.suppress(FileNotFoundError):
                return len(os.listdir("/proc/%d/task" % helper)) <= 2
            return True

        self.goes_on(helper)
        self.until(has_ended)

    def cancel(self, host, job):
        c = host.client()
        serial = c.send("Cancel", "at", [job])
        c.jobs()  # which is answered when that was begun with
        return c, serial

    def stays(self, name, helper, host):
        """All that is back now stays, when the deleter and the daemon of that host go on."""
        left = listing(self.fleet.path(name))
        self.assertTrue(any(n.endswith("f00000") for n in left), left)
        self.ends_by_itself(helper)
        self.goes_on(host.daemon.process.pid)
        self.until(lambda: re.search(self.ENDED, host.daemon.said()))
        self.assertEqual(listing(self.fleet.path(name)), left)

    def test_attack_09_owner_was_killed(self):
        """Of what it has shared the next one knows by the mark alone; and by what the database says, as long
        as another host has it."""
        first, second = self.hosts[:2]
        name, job, helper = self.helper_at_gate()
        self.stops(second)
        first.daemon.kill()
        first.daemon.start(dict(self.ENVIRONMENT, RECLAIM_GATE="unlink:f00001"))
        own = first.daemon.stopped_worker()
        c, serial = self.cancel(first, job)
        self.goes_on(own)
        said = "job %d: another host has a part of it, says the database" % job
        self.until(lambda: said in first.daemon.said() or c.job(job)["state"] == "cancelled")
        self.assertIn(self.WAITS, c.job(job)["message"])
        self.assertEqual(first.daemon.said().count("Job %d %s" % (job, self.WAITS)), 1)
        self.assertFalse(os.path.lexists(self.fleet.path(name)))
        self.assertEqual(os.listdir(self.fleet.part(first, "marks", str(job))).count("mark=0"), 1)
        # It ends its part only now: the database is told, and the names go back.
        self.ends_by_itself(helper)
        self.goes_on(second.daemon.process.pid)
        c.answer(serial)
        self.stays(name, helper, second)
        self.until(lambda: os.listdir(self.fleet.part(first, "marks")) == [])

    def test_attack_09_without_the_database(self):
        """A deleter that nothing reaches stops by itself before the names go back."""
        first, second = self.hosts[:2]
        name, job, helper = self.helper_at_gate()
        self.stops(second)
        c, serial = self.cancel(first, job)
        self.until(lambda: "other hosts of the fleet are at" in c.job(job)["message"])
        self.database.kill()
        self.addCleanup(self.database.start)
        c.answer(serial)
        self.assertIn(self.WAITS, first.daemon.said())
        self.stays(name, helper, second)

    def test_attack_09_helper_without_the_database(self):
        """When its lease is over it does nothing more, although the job goes on and its mark is there."""
        first, second = self.hosts[:2]
        _, job, helper = self.helper_at_gate(RECLAIM_LEASE="6000")
        second.cut_database()
        self.addCleanup(second.join)
        self.until(lambda: self.database.sql("SELECT lease_until < clock_timestamp() FROM reclaimd.hosts "
                                             "WHERE name = '%s'" % second.name, "reclaimd").strip() == "t")
        self.goes_on(helper)
        self.assertEqual(self.until(lambda: re.search(self.ENDED, second.daemon.said())).group(1), "given back")
        self.ends(first, job)

    def test_10_tree_has_left_staging(self):
        """Which this host's kernel would not know if it did not look."""
        first, second = self.hosts[:2]
        _, job, helper = self.helper_at_gate()
        uuid = os.path.basename(first.client().get(job, "Staging").decode())
        staged, moved = self.fleet.part(first, "0", uuid, "1"), self.fleet.path(self.name, "moved")

        os.lstat(staged)  # for this mount it is still where it was submitted; a rename would be ESTALE
        os.rename(staged, moved)
        self.until(lambda: not os.path.lexists(second.path(".reclaim", "@" + first.name, "0", uuid, "1")))
        left = listing(moved)
        self.assertTrue(any(n.endswith("f00000") for n in left), left)
        self.goes_on(helper)
        self.until(lambda: re.search(self.ENDED, second.daemon.said()))
        self.assertIn(first.client().wait_state(job, "paused"), ("done", "paused"))
        self.assertEqual(listing(moved), left)

    def test_attack_09_mark_is_gone(self):
        """A unit that goes on for long is not gone on with."""
        first, second = self.hosts[:2]
        _, job, helper = self.helper_at_gate()
        fixture.command("rm", "-r", self.fleet.part(first, "marks", str(job)))
        second.daemon.wait_said("of job %d of %s: its mark is gone" % (job, first.name))
        self.goes_on(helper)
        self.assertEqual(self.until(lambda: re.search(self.ENDED, second.daemon.said())).group(1), "given back")
        self.ends(first, job)


class Session(fleet.Case):
    """What docs/fleet.md shows of three hosts: its commands are run, and print what stands there, but for what is another
    each time. With RECLAIM_WRITE_DOCS=1 it is written down anew."""

    HOSTS = 3
    DATABASE = True
    PAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "fleet.md")
    BLOCK = re.compile(r"(?<=^```\n)\$ reclaimctl fleet hosts\n.*?(?=^```$)", re.S | re.M)
    # A part takes its host long, however small it is, and a host renews its lease, and tells how far it is, more often.
    SLOW = "pacing: {max-rate: 16KiB/s, min-rate: 16KiB/s}\n"
    LEASE = {"RECLAIM_LEASE": "9000"}

    def setUp(self):
        super().setUp()
        program = os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-fleet")
        self.database.sql("CREATE DATABASE session")
        fleet.run(program, "init", env=dict(os.environ, RECLAIM_FLEET_DATABASE="host=%s user=postgres dbname=session"
                                            % self.database.dir))
        self.said = ""
        for host in self.hosts:
            self.assertEqual(host.daemon.stop(), 0)
            self.configure(host, self.SLOW if host.number > 1 else "")
            host.daemon.start(self.LEASE)
            host.daemon.wait_said("This host is rack%d in the fleet" % host.number)

    def configure(self, host, pacing):
        host.daemon.configure('%sfleet: {database: "host=%s dbname=session user=reclaimd", name: rack%d, filesystems: {%s: scratch}}\n'
                              % (pacing, fleet.DATABASE, host.number, host.mountpoint))

    def call(self, *words):
        """On the first host."""
        host = self.hosts[0]
        if "fleet" in words[0] or "--fleet" in words:
            words += ("--configuration-directory=" + os.path.join(host.daemon.dir, "conf"),)
        return host.ctl(*words)

    def show(self, *words):
        """A command, as a person types it."""
        there = os.path.join(self.hosts[0].mountpoint, self.name)
        said = self.call(*(w.replace("/mnt/scratch", there) for w in words))
        said = said.replace(there, "/mnt/scratch").replace(self.hosts[0].mountpoint, "/mnt/scratch")
        # What a terminal of 80 columns has.
        self.said += "$ reclaimctl %s\n%s" % (" ".join(words), "".join(
            (line if len(line) <= 80 or words[0] != "fleet" else line[:79] + "\u2026") + "\n" for line in said.splitlines()))

    def units(self):
        return json.loads(self.call("fleet", "units", "--json"))["units"]

    def test_three_hosts(self):
        name = os.path.join(self.name, "old-run")
        # More than the lanes of one host have before them when they begin.
        for d in range(240):
            fill(self.fleet.path(name, "step%03d" % d), 12)
        self.show("fleet", "hosts")
        self.show("submit", "/mnt/scratch/old-run")
        self.until(lambda: {"rack2", "rack3"} <= {u["host"] for u in self.units() if u["entries"] > 0},
                   lambda: self.call("fleet", "units") + self.call("show", "1"))
        self.until(lambda: json.loads(self.call("show", "--json", "1"))[0]["others_claimed"] > 0)
        self.show("fleet", "units")
        self.show("list", "--fleet")
        self.show("show", "1")
        for host in self.hosts[1:]:
            self.configure(host, "")
            host.client().call("Reload")
        self.assertEqual(self.hosts[0].client().wait(1), "done")
        self.show("show", "1")
        self.show("status")
        self.compare()

    @staticmethod
    def shape(block):
        """Commands, titles of tables, and what lines of other output begin with. How it deletes is told once the host's own
        part has ended, which may be before the others' have."""
        lines = [line for line in block.splitlines() if not line.startswith("       How: ")]
        return [" ".join(line.split()) if line.startswith("$") or re.match(r" *[A-Z]+ +[A-Z ]+$", line) else line.split(":")[0]
                for line in lines if line.startswith("$") or re.match(r" *[A-Z]+ +[A-Z ]+$| +[A-Z]\w+: ", line)]

    def compare(self):
        with open(self.PAGE, encoding="utf-8") as f:
            page = f.read()
        (block,) = self.BLOCK.findall(page)
        if os.environ.get("RECLAIM_WRITE_DOCS"):
            with open(self.PAGE, "w", encoding="utf-8") as f:
                f.write(page.replace(block, self.said))
        else:
            self.assertEqual(self.shape(self.said), self.shape(block))


class Hostile(Joined):
    """What is in the database can be of any make: it has nothing deleted that was not on its way."""

    @staticmethod
    def identity(path):
        st = os.lstat(path)
        return "%d:0:%s" % (st.st_ino, "d" if os.path.isdir(path) and not os.path.islink(path) else "f")

    def forge(self, owner, job, uid, directory, parent, names, slices=0):
        """names: of what lies in a directory."""
        self.database.sql("INSERT INTO reclaimd.jobs (owner, job, filesystem, uid) VALUES ('%s', %d, 'shared', %d) "
                          "ON CONFLICT DO NOTHING" % (owner, job, uid), "reclaimd")
        within = dict(names)
        self.database.sql(
            "INSERT INTO reclaimd.units (owner, job, filesystem, directory, parent, slice, slices, names, identities) "
            "VALUES ('%s', %d, 'shared', '\\x%s', '%s', 0, %d, '\\x%s', '%s'); NOTIFY reclaimd, 'open shared'"
            % (owner, job, os.fsencode(directory).hex(), parent, slices,
               b"".join(os.fsencode(n) + b"\0" for n in within).hex(), " ".join(within.values())), "reclaimd")

    def all_are_dealt_with(self):
        self.until(lambda: self.database.sql("SELECT count(*) FROM reclaimd.units", "reclaimd").strip() == "0")

    def test_whose_undo_is_not_over(self):
        first = self.hosts[0]
        name = self.tree()
        job = first.submit(name, options=("--undo=1h",))
        at = self.fleet.part(first, "0", os.path.basename(first.client().get(job, "Staging").decode()))
        before = listing(at)
        own = self.identity(at)
        for uid in (0, fixture.USER):
            self.forge("h1", job, uid, "", own, {"1": self.identity(os.path.join(at, "1"))})
            self.forge("h1", job, uid, "1", self.identity(os.path.join(at, "1")), {}, slices=1)
            self.forge("h1", job + 7, uid, "1", self.identity(os.path.join(at, "1")), {}, slices=2)
        self.all_are_dealt_with()
        self.assertEqual(listing(at), before)
        first.ctl("restore", str(job))

    def test_of_what_is_elsewhere(self):
        first, second = self.hosts[:2]
        job = first.submit(self.tree())
        self.begins_to_help(second)
        canary = self.canary.path
        inside = {n: self.identity(os.path.join(os.fsdecode(canary), n)) for n in ("file", "sub", "deep")}
        for directory in ("", "1", "1/d000", "canary", "1/../canary".replace("..", "c")):
            self.forge("h1", job, 0, directory, self.identity(canary), inside)
            self.forge("h1", job, 0, directory, self.identity(canary), {}, slices=2)
            self.forge("h1", job, fixture.USER, directory, self.identity(canary), inside)
        self.ends(first, job)
        self.canary.check()


if __name__ == "__main__":
    fixture.main()
