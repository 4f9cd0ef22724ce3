#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a person has pinned stays, in whatever way reclaimd is asked to delete it; the rest goes."""
import json
import os
import re
import signal
import time
import unittest

import daemon_fixture
import test_policy
import test_policy_run
from dbuswire import Error
from fixture import USER, Canary, Case, DISKS, Proc, build, command, fill, matrix, scratch, unmount, write

PIN = "user.reclaimd.pin"
SAID = "is pinned: see reclaimctl unpin"
AROUND = "lies in a directory that is pinned: see reclaimctl unpin"
plain = (None,)


def pin(path, value=b"always"):
    os.setxattr(path, PIN, value)


def value(path):
    return os.getxattr(path, PIN) if PIN in os.listxattr(path) else None


def ctl(case, directory, *args, status=0, **kw):
    p = Proc([scratch.binary, *args], directory, **kw)
    case.addCleanup(p.close)
    r = p.finish()
    case.assertEqual(r.status, status, r)
    return r


class Verbs(Case):
    """What pin, unpin and pin --list do to files."""

    def ctl(self, w, *args, **kw):
        return ctl(self, w.dir, *args, **kw)

    @matrix(fs=DISKS, backends=plain)
    def test_pin_and_unpin(self, w):
        w.build("d/f\nd/g")
        self.assertEqual(self.ctl(w, "pin", "d/f", "d").out, "d/f %s\nd %s\n" % (SAID, SAID))
        self.assertEqual((value(w.path("d/f")), value(w.path("d")), value(w.path("d/g"))),
                         (b"always", b"always entries", None))
        r = self.ctl(w, "pin", "--until=2099-01-31", "d/f", env={"TZ": "UTC-1"})
        self.assertEqual(r.out, "d/f is pinned until 2099-01-31 22:59:59 UTC: see reclaimctl unpin\n")
        self.assertEqual(value(w.path("d/f")), b"2099-01-31T22:59:59Z")
        self.ctl(w, "pin", "--until=2d", "d/g")
        until = time.strptime(value(w.path("d/g")).decode() + "UTC", "%Y-%m-%dT%H:%M:%SZ%Z")
        self.assertAlmostEqual(time.mktime(until) - time.timezone, time.time() + 2 * 86400, delta=600)
        self.assertEqual(self.ctl(w, "unpin", "d", "d/f", "d/f").out,
                         "d is not pinned any more\nd/f is not pinned any more\nd/f was not pinned\n")
        # What the directory holds is still to be asked for.
        self.assertEqual((value(w.path("d/f")), value(w.path("d"))), (None, b"entries"))

    @matrix(fs=("ext4",), backends=plain)
    def test_directory_is_pinned_at_the_same_moment(self, w):
        w.build("d/f")
        p = Proc(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=setxattr:delay_enter=1000000:when=1",
                  scratch.binary, "pin", "d/f"], w.dir, env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.addCleanup(p.close)
        time.sleep(0.5)
        pin(w.path("d"))
        self.assertEqual(p.finish().status, 0)
        self.assertEqual((value(w.path("d")), value(w.path("d/f"))), (b"always entries", b"always"))
        pin(w.path("d"), b"2001-01-01T00:00:00Z")
        self.ctl(w, "pin", "d/f")
        self.assertEqual(value(w.path("d")), b"entries")

    @matrix(fs=("ext4",), backends=plain)
    def test_list(self, w):
        w.build("d/f\nd/g\nd/h\nd/e/x\nother")
        self.ctl(w, "pin", "d/f", "d/e")
        pin(w.path("d/g"), b"2001-01-01T00:00:00Z")
        pin(w.path("d/h"), b"soon")
        before = {n: value(w.path(n)) for n in w.left()}
        out = self.ctl(w, "pin", "--list", "d", "d/e/x", "other").out.splitlines()
        self.assertEqual((out[0], out[-2:]), ("d is not pinned", ["d/e/x " + AROUND, "other is not pinned"]))
        self.assertEqual(sorted(out[1:-2]), ["d/e " + SAID, "d/f " + SAID,
                                             "d/h is pinned, by a value of user.reclaimd.pin that is not understood: "
                                             "see reclaimctl unpin"])
        r = self.ctl(w, "pin", "--list", "--json", "d/e/x", "other")
        self.assertEqual(r.json, [{"path": "d/e/x", "pinned": True, "until_usec": None, "around": True, "words": AROUND},
                                  {"path": "other", "pinned": False, "until_usec": None, "around": False,
                                   "words": "is not pinned"}])
        self.assertEqual({n: value(w.path(n)) for n in w.left()}, before)

    @matrix(fs=("ext4",), backends=plain)
    def test_what_cannot_be_pinned(self, w):
        w.build("f\nl -> f\np |\nd/own")
        for name in ("l", "p"):
            self.assertIn("%s: cannot be pinned, as it is no file and no directory" % name,
                          self.ctl(w, "pin", name, status=1).err)
        self.assertIn("absent: does not exist", self.ctl(w, "pin", "f", "absent", status=3).err)
        self.assertEqual(value(w.path("f")), b"always")
        for args, words in (((), "no PATH given"), (("--list", "--until=1d", "f"), "do not go together"),
                            (("--until=7", "f"), "is not accepted"), (("--until=2001-01-01", "f"), "is not accepted")):
            self.assertIn(words, self.ctl(w, "pin", *args, status=2).err)
        # A user's own file in a directory that the user may not change, and one of root's.
        os.chown(w.path("d/own"), USER, USER)
        self.assertIn("not where d is deleted as a whole", self.ctl(w, "pin", "d/own", status=3, user=USER).err)
        self.assertEqual(value(w.path("d/own")), b"always")
        self.assertIn("permission denied", self.ctl(w, "unpin", "f", status=1, user=USER).err)

    @matrix(fs=("tmpfs",), backends=plain)
    def test_without_attributes(self, w):
        os.mkdir(w.path("m"))
        command("mount", "-t", "ramfs", "ramfs", w.path("m"))
        self.addCleanup(unmount, w.path("m"))
        w.build("m/t/f")
        self.assertIn("m/t: cannot be pinned: its filesystem has no extended attributes",
                      self.ctl(w, "pin", "m/t", status=1).err)
        self.assertEqual(self.ctl(w, "pin", "--list", "m/t").out, "m/t is not pinned\n")
        self.assertEqual(self.ctl(w, "unpin", "m/t").out, "m/t was not pinned\n")
        self.ctl(w, "run", "m/t")
        self.assertEqual(os.listdir(w.path("m")), [])


class Run(Case):
    @matrix(fs=DISKS, backends=("threads",))
    def test_what_is_named(self, w):
        w.build("f = x\nd/e/g = y\nh => f")
        pin(w.path("f"))
        pin(w.path("d"))
        for name in ("f", "h", "d"):
            self.check_refused(w, [name], "%s: %s" % (name, SAID))
        for name in ("d/e", "d/e/g"):
            self.check_refused(w, [name], "%s: %s" % (name, AROUND))
        write(w.path("other"))
        self.check_refused(w, ["other", "f"], SAID)
        os.removexattr(w.path("f"), PIN)
        os.removexattr(w.path("d"), PIN)
        self.assertEqual(w.run("f", "h", "d", "other").status, 0)
        self.assertEqual(w.left(), [])

    @matrix(fs=("ext4",), backends=("threads",))
    def test_far_below(self, w):
        """Also where as many times `..` as it takes to get there do not fit into a path."""
        deep = w.path("d" + "/a" * 1700)
        command("mkdir", "-p", deep)
        write(deep + "/f")
        self.addCleanup(command, "rm", "-rf", w.path("d"))
        pin(w.path("d"))
        self.assertIn("f: " + AROUND, ctl(self, deep, "run", "f", status=1).err)
        self.assertEqual(os.listdir(deep), ["f"])
        os.removexattr(w.path("d"), PIN)
        ctl(self, deep, "run", "f")

    @matrix(fs=("ext4",), backends=("threads",))
    def test_values(self, w):
        write(w.path("f"))
        for bad in (b"", b"x", b"Always", b"always ", b"entries always", b"2099-01-31", b"2099-13-01T00:00:00Z",
                    b"2001-01-01T00:00:00", b"2001-01-01T00:00:00Z ", b"always\0", b"\0", b"\xff", b"a" * 300):
            pin(w.path("f"), bad)
            self.check_refused(w, ["f"], "is pinned, by a value of user.reclaimd.pin that is not understood")
        for good in (b"always", b"always entries", b"2099-01-31T00:00:00Z", b"2099-01-31T00:00:00Z entries"):
            pin(w.path("f"), good)
            self.check_refused(w, ["f"], "is pinned")
        for past in (b"2001-01-01T00:00:00Z", b"1901-01-01T00:00:00Z entries", b"entries"):
            write(w.path("f"))
            pin(w.path("f"), past)
            self.assertEqual(w.run("f").status, 0)
        self.assertEqual(w.left(), [])

    @matrix(fs=DISKS, latency=("auto", "off"))
    def test_inside_of_a_tree(self, w):
        w.build("""
            t/a/b/c/kept = x
            t/a/b/c/d/e = x
            t/a/b/goes
            t/p/q/file = x
            t/p/q/goes
            t/p/q/link -> file
            t/p/r/file = y
            t/z/goes
        """)
        for i in range(40):
            fill(w.path("t/many/%d" % i), 20)
        ctl(self, w.dir, "pin", "t/a/b/c", "t/p/q/file")
        pin(w.path("t/z"), b"2001-01-01T00:00:00Z")
        self.assertEqual(w.run("--dry-run", "--json", "t").json["skipped_why"]["pinned"], 2)
        r = w.run("t", "--json")
        self.assertEqual(r.status, 3, r)
        self.assertEqual((r.json["errors"], r.json["skipped_why"]["pinned"]), (0, 2), r)
        self.assertEqual(sorted(r.err.splitlines()), ["reclaimctl: t/a/b/c: " + SAID, "reclaimctl: t/p/q/file: " + SAID])
        self.assertEqual(w.left(), ["t", "t/a", "t/a/b", "t/a/b/c", "t/a/b/c/d", "t/a/b/c/d/e", "t/a/b/c/kept",
                                    "t/p", "t/p/q", "t/p/q/file"])
        ctl(self, w.dir, "unpin", "t/a/b/c", "t/p/q/file")
        self.assertEqual(w.run("t").status, 0)

    @matrix(fs=("ext4",), latency=("auto", "off"))
    def test_from_a_list(self, w):
        w.build("a\nb\nc/d")
        pin(w.path("b"))
        pin(w.path("c"))
        write(w.path("list"), "a\nb\nc\n")
        r = w.run("--files-from=list")
        self.assertEqual(r.status, 3, r)
        self.assertIn("b: " + SAID, r.err)
        self.assertIn("c: " + SAID, r.err)
        self.assertEqual(w.left(), ["b", "c", "c/d", "list"])

    @matrix(fs=("ext4",), latency=("auto", "off"))
    def test_pinned_at_the_last_moment(self, w):
        for gate, what, names in (("unlink:f", "f", ["f"]), ("opened:t", "t", ["t", "t/a", "t/a/x"]),
                                  ("opened:a", "t/a", ["t", "t/a", "t/a/x"])):
            w.build("t/a/x\nf")
            p = w.at_gate(gate, names[0])
            pin(w.path(what))
            r = p.go_on().finish()
            self.assertEqual(r.status, 1, r)
            self.assertIn("%s: %s" % (what, SAID), r.err)
            for name in names:
                self.assertTrue(w.exists(name), name)
            os.removexattr(w.path(what), PIN)

    @matrix(fs=("btrfs",), backends=("threads",))
    def test_subvolumes(self, w):
        os.mkdir(w.path("t"))
        for name in ("kept", "goes"):
            command("btrfs", "-q", "subvolume", "create", w.path("t", name))
            write(w.path("t", name, "f"))
        pin(w.path("t/kept"))
        r = w.run("t")
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left(), ["t", "t/kept", "t/kept/f"])
        os.removexattr(w.path("t/kept"), PIN)
        w.run("t")

    @matrix(fs=("btrfs",), backends=("threads",))
    def test_file_in_a_subvolume(self, w):
        """It would go with the whole: what is marked is deleted name by name."""
        os.mkdir(w.path("t"))
        command("btrfs", "-q", "subvolume", "create", w.path("t", "sub"))
        write(w.path("t/sub/f"))
        write(w.path("t/sub/g"))
        ctl(self, w.dir, "pin", "t/sub/f")
        r = w.run("t")
        self.assertEqual(r.status, 3, r)
        self.assertEqual(w.left(), ["t", "t/sub", "t/sub/f"])
        ctl(self, w.dir, "unpin", "t/sub/f")
        self.assertEqual(w.run("t").status, 0)
        self.assertEqual(w.left(), [])

    @matrix(fs=("ext4",), backends=("threads",), latency=("auto", "off"))
    def test_one_call_for_each_directory(self, w):
        for i in range(30):
            fill(w.path("t/%02d" % i), 50)
        ctl(self, w.dir, "pin", "t/07/f00001")
        os.removexattr(w.path("t/07/f00001"), PIN)
        trace = os.path.join(scratch.dir, "trace")
        r = w.run("t", env={"ASAN_OPTIONS": "detect_leaks=0"},
                  wrapper=["strace", "-f", "-qq", "-o", trace])
        self.assertEqual(r.status, 0, r)
        with open(trace, encoding="ascii") as f:
            lines = list(f)
        # An older strace than the kernel has neither a name for getxattrat nor the texts of its arguments.
        at = [line for line in lines if re.search(r"\b(getxattrat|syscall_0x1d0)\b", line)]
        asked = sum("resumed" not in c for c in at) - sum(bool(re.search("ENOSYS|EPERM", c)) for c in at)
        calls = [line for line in lines if PIN in line and line not in at]
        # The directories of the tree; the files of one of them, and t; the directories that t lies in.
        self.assertEqual(sum("fgetxattr(" in c and "EBADF" not in c for c in calls), 31)
        self.assertEqual(sum("lgetxattr(" in c for c in calls) + asked, 51)
        self.assertLess(len(calls) + asked, 31 + 50 + 1 + 16)

    @matrix(fs=("ext4",), backends=plain)
    def test_plan(self, w):
        w.build("t/a/f\nt/b\nf")
        pin(w.path("f"))
        pin(w.path("t/a"))
        r = ctl(self, w.dir, "plan", "--json", "f", status=1)
        self.assertEqual([(p["verdict"], p["reason"]) for p in r.json], [("refused", SAID)])
        r = ctl(self, w.dir, "plan", "t")
        self.assertIn("t/a: is pinned", r.out)
        self.assertIn("Frees: at most ", r.out)
        self.assertNotIn("could not be read", r.out)
        (p,) = ctl(self, w.dir, "plan", "--json", "t").json
        self.assertEqual((p["unread"], p["undeletable"]["entries"], p["bytes_exact"]), (0, 1, False))


class Policy(Case):
    @matrix(fs=("ext4",), backends=plain)
    def test_entries(self, w):
        test_policy.one(w, "match: '**', max-age: 1d")
        for name in ("a", "b", "c", "d/e", "d/f/g", "h"):
            test_policy.make(w, name, 5)
        pin(w.path("base/a"), b"2099-01-31T22:59:59Z")
        pin(w.path("base/b"))
        pin(w.path("base/d"))
        pin(w.path("base/h"), b"2001-01-01T00:00:00Z")
        fates, o = test_policy.plan(w)
        self.assertEqual(fates, {"a": ("keep", "pinned"), "b": ("keep", "pinned"), "c": ("delete", "max-age"),
                                 "d/e": ("keep", "pinned"), "d/f/g": ("keep", "pinned"), "h": ("delete", "max-age")})
        self.assertEqual({e["name"]: e["pinned_until_usec"] for e in o["entries"]},
                         {"a": 4073583599 * 10**6, "b": None, "c": None, "d/e": None, "d/f/g": None, "h": None})
        self.assertEqual(o["refused"]["entries"], 0)
        out = test_policy.policy(w, "plan").out
        self.assertIn("a  (pinned until 2099-01-31 22:59:59 UTC)", out)
        self.assertIn("b  (pinned)", out)
        pin(w.path("base"))
        self.assertEqual({f for f, _ in test_policy.plan(w)[0].values()}, {"keep"})

    @matrix(fs=("ext4",), backends=plain)
    def test_trees(self, w):
        test_policy.one(w, "match: '*', kind: tree, max-age: 1d")
        w.build("base/file/x/f\nbase/dir/x/f\nbase/free/x/f")
        ctl(self, w.dir, "pin", "base/file/x/f")
        ctl(self, w.dir, "pin", "--until=2099-01-31 12:00", "base/dir/x", env={"TZ": "UTC"})
        command("find", w.path("base"), "-exec", "touch", "-d", "5 days ago", "{}", "+")
        fates, o = test_policy.plan(w)
        self.assertEqual(fates, {"file": ("keep", "pinned"), "dir": ("keep", "pinned"), "free": ("delete", "max-age")})
        self.assertEqual({e["name"]: e["pinned_until_usec"] for e in o["entries"]},
                         {"file": None, "dir": 4073544000 * 10**6, "free": None})


class PolicyRun(test_policy_run.Case):
    def test_run_and_list(self):
        self.mount_disk()
        self.policy("match: '*.gz', max-age: 1d, max-delete: 100%")
        for name in ("a.gz", "b.gz"):
            self.make(name, 5)
        pin(self.path("a.gz"))
        self.ctl("run", "p", "--wait")
        self.assertEqual(self.left(), {"a.gz"})
        (o,) = json.loads(self.ctl("list", "--json").out)
        self.assertEqual((o["last"]["result"], o["last"]["pinned"]["entries"]), ("done", 1))
        self.assertIn("\n  1 entry pinned: see reclaimctl policy plan p\n", self.ctl("list").out)


class Daemon(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.mount_disk()
        self.client = self.daemon.client()

    def refused(self, path, words, client=None):
        with self.assertRaises(Error) as e:
            (client or self.client).submit(path)
        self.assertEqual((e.exception.name, e.exception.text), ("Pinned", "%s: %s" % (path, words)))

    def left(self):
        return sorted(os.path.relpath(os.path.join(d, n), self.data) for d, dirs, files in os.walk(self.data)
                      for n in dirs + files if ".reclaim" not in d and n not in (".reclaim", "lost+found"))

    def test_submit_is_refused(self):
        build(self.data, "d/e/f\ng")
        pin(self.path("d"), b"2099-01-31T22:59:59Z")
        pin(self.path("g"))
        until = "pinned until 2099-01-31 22:59:59 UTC: see reclaimctl unpin"
        self.refused(self.path("d"), "is " + until)
        self.refused(self.path("d/e"), "lies in a directory that is " + until)
        self.refused(self.path("d/e/f"), "lies in a directory that is " + until)
        self.refused(self.path("g"), SAID)
        write(self.path("h"))
        for names in (["h", "g"], ["h", "d"]):
            with self.assertRaises(Error) as e:
                self.client.submit_list(self.data, names)
            self.assertEqual(e.exception.name, "Pinned")
        self.assertEqual(self.left(), ["d", "d/e", "d/e/f", "g", "h"])
        r = ctl(self, self.data, "submit", "h", "g", status=1,
                env={"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)})
        self.assertIn("g: " + SAID, r.err)
        os.removexattr(self.path("g"), PIN)
        self.assertEqual(self.client.wait(self.client.submit(self.path("g"))), "done")

    def test_inside_of_a_tree(self):
        build(self.data, "t/a/kept/f\nt/a/x\nt/p/file\nt/p/x")
        canary = Canary(self.path("t/a/kept/canary"))
        ctl(self, self.data, "pin", "t/a/kept", "t/p/file")
        n = self.client.submit(self.path("t"))
        self.assertEqual(self.client.wait(n), "partial")
        self.assertEqual({(what, error) for _, what, _, error in self.client.problems(n)}, {(SAID, False)})
        self.assertEqual([n for n in self.left() if "canary/" not in n],
                         ["t", "t/a", "t/a/kept", "t/a/kept/canary", "t/a/kept/f", "t/p", "t/p/file"])
        canary.check()

    def test_pinned_after_it_was_looked_at(self):
        write(self.path("f"))
        client = self.daemon.again_with_gate("stage:f")
        serial = client.send_submit(self.path("f"))
        worker = self.daemon.stopped_worker()
        pin(self.path("f"))
        os.kill(worker, signal.SIGCONT)
        client.answer(serial)
        self.until(lambda: client.job(1)["state"] == "partial" or client.job(1)["state"] == "failed")
        self.assertEqual(client.problems(1)[0][1], SAID)
        self.assertEqual(self.left(), ["f"])

    def test_pinned_while_it_waits(self):
        build(self.data, "f\nt/f")
        self.client.call("PauseAll")
        fds = [os.open(self.path(name), os.O_RDONLY) for name in ("f", "t")]
        jobs = [self.client.submit(self.path(name)) for name in ("f", "t")]
        self.assertEqual(self.left(), [])
        for fd in fds:
            pin(fd)
            os.close(fd)
        self.client.call("ResumeAll")
        for job in jobs:
            self.assertIn(self.client.wait(job), ("partial", "failed"))
        self.assertEqual(self.left(), ["f", "t", "t/f"])

    def test_directory_pinned_while_it_waits(self):
        """Of a job that works in place."""
        build(self.data, "d/f")
        self.daemon.configure("staging: off\n")
        self.client.call("Reload")
        self.client.call("PauseAll")
        job = self.client.submit(self.path("d/f"))
        pin(self.path("d"))
        self.client.call("ResumeAll")
        self.assertEqual(self.client.wait(job), "failed")
        self.assertEqual((self.client.problems(job)[0][1], self.left()), (AROUND, ["d", "d/f"]))

    def test_of_users(self):
        """Who may read a file sees its pin."""
        build(self.data, "d/own\nd/roots")
        for name in ("own", "roots"):
            os.chown(self.path("d", name), USER if name == "own" else 0, -1)
            os.chmod(self.path("d", name), 0o600)
        os.chown(self.path("d"), USER, USER)
        pin(self.path("d/roots"))
        client = self.daemon.client(USER)
        ctl(self, self.data, "pin", "d/own", user=USER)
        self.refused(self.path("d/own"), SAID, client)
        self.refused(self.path("d/roots"), SAID)
        self.assertEqual(client.wait(client.submit(self.path("d/roots"))), "done")
        ctl(self, self.data, "unpin", "d/own", user=USER)
        self.assertEqual(client.wait(client.submit(self.path("d/own"))), "done")

    def test_spool(self):
        # Not below /tmp, where every user may write: it would not be known who submits.
        command("mount", "--move", self.data, "/mnt")
        self.addCleanup(unmount, "/mnt")
        self.data = "/mnt"
        os.mkdir(self.path("spool"), 0o700)
        write(self.path("f"))
        write(self.path("g"))
        pin(self.path("f"))
        self.daemon.configure("spools: {%s: {settle: 100ms}}\n" % self.path("spool"))
        self.client.call("Reload")
        for name in ("f", "g"):
            os.rename(self.path(name), self.path("spool", name))
        self.daemon.wait_gone(self.path("spool/g"))
        self.daemon.wait_said("%s: %s" % (self.path("spool/f"), SAID))
        self.assertEqual(os.listdir(self.path("spool")), ["f"])
        ctl(self, self.data, "unpin", "spool/f")
        self.daemon.wait_gone(self.path("spool/f"))


if __name__ == "__main__":
    unittest.main()
