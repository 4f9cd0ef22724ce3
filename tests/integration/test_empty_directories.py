#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Directories that are to be deleted if they are empty: what is put into one meanwhile stays."""
import os
import signal
import time

import fixture
import test_pins
import test_policy
import test_policy_run
from dbuswire import Error
from fixture import DISKS, FS_IMMUTABLE_FL, USER, Proc, command, matrix, scratch, set_flag, write

DAY = 86400
KEYS = "match: '**', kind: empty-directory, max-age: 1d, max-delete: 100%"
plain = (None,)


def make(base, *names, days=5.0):
    """Directories that are so old, whatever is in them."""
    for name in names:
        os.makedirs(os.path.join(base, name), exist_ok=True)
    for name in names:
        then = time.time() - days * DAY
        os.utime(os.path.join(base, name), (then, then))


def everything(base):
    """Directories and files, without what is reclaimd's or the filesystem's."""
    return {os.path.relpath(os.path.join(d, n), base) for d, dirs, files in os.walk(base) for n in dirs + files
            if ".reclaim" not in d and n not in (".reclaim", "lost+found")}


class Plan(fixture.Case):
    @matrix(fs=DISKS + ("tmpfs",), backends=plain)
    def test_entries(self, w):
        """At all levels; what holds nothing but an empty directory is not empty itself."""
        test_policy.one(w, "match: '**', kind: empty-directory, max-age: 1d, exclude: not")
        w.build("base/full/f\nbase/file\nbase/link -> old\nbase/.hidden/f")
        make(w.path("base"), "old", "outer/inner", "outer", "full/of/a", "full", "not")
        make(w.path("base"), "young", days=0)
        self.assertEqual(test_policy.plan(w)[0],
                         {"old": ("delete", "max-age"), "young": ("keep", "within-limits"), "outer": ("keep", "not-empty"),
                          "outer/inner": ("delete", "max-age"), "full": ("keep", "not-empty"),
                          "full/of": ("keep", "not-empty"), "full/of/a": ("delete", "max-age")})
        self.assertIn("full  (is not empty)\n", test_policy.policy(w, "plan").out)
        test_policy.one(w, "match: '*', kind: empty-directory, max-age: 1d")
        self.assertEqual(set(test_policy.plan(w)[0]), {"old", "young", "outer", "full", "not"})

    @matrix(fs=("ext4",), backends=plain)
    def test_what_else_keeps_them(self, w):
        """Of those alone that are empty."""
        names = ["pinned", "immutable", "locked", "used", "protected", "another"]
        make(w.path("base"), *names, *[n + "-full/x" for n in names])
        for name in names:
            make(w.path("base"), name + "-full/x", name + "-full")
        for name in ("pinned", "pinned-full"):
            test_pins.pin(w.path("base", name), b"2099-01-31T22:59:59Z")
        for name in ("immutable", "immutable-full"):
            set_flag(w.path("base", name), FS_IMMUTABLE_FL)
        self.addCleanup(os.close, test_policy.lock(w.path("base/locked")))
        for name in ("used", "used-full"):
            w.procs.append(Proc(["sleep", "1000"], w.path("base", name)))
        for name in ("another", "another-full"):
            os.chown(w.path("base", name), USER, USER)
        keys = "path: BASE, match: '*', kind: empty-directory, max-age: 1d, max-delete: 100%, skip-open: "
        test_policy.configure(w, "protect: [BASE/protected, BASE/protected-full/x]\npolicies:\n"
                                 "  p: {%strue, owner: root}\n  q: {%sfalse, owner: %d}\n" % (keys, keys, USER))
        fates, o = test_policy.plan(w, "p")
        self.assertEqual({n: f[1] for n, f in fates.items()},
                         {"pinned": "pinned", "immutable": "immutable", "locked": "open", "used": "open",
                          "protected": "protected", **{n + "-full": "not-empty" for n in names if n != "another"}})
        self.assertEqual({n for n, f in fates.items() if f[0] != "keep"}, set())
        self.assertEqual((o["refused"]["entries"], o["left_out"]["owner"]), (1, 2))
        self.assertEqual({e["name"] for e in o["entries"] if e["pinned_until_usec"]}, {"pinned"})
        self.assertEqual(test_policy.plan(w, "q")[0], {"another": ("delete", "max-age"),
                                                       "another-full": ("keep", "not-empty")})
        for p in w.procs:
            p.kill()
        for name in ("immutable", "immutable-full"):
            set_flag(w.path("base", name), FS_IMMUTABLE_FL, False)

    @matrix(fs=("tmpfs",), backends=plain)
    def test_rules(self, w):
        """Those with something in them count for max-delete, but nothing is kept in their place."""
        make(w.path("base"), *["full%d/x" % i for i in range(8)])
        make(w.path("base"), *["full%d" % i for i in range(8)], days=1)
        for i in range(4):
            make(w.path("base"), "e%d" % i, days=5 + i)

        def deleted(rules, fate="delete"):
            test_policy.configure(w, "policies: {p: {path: BASE, match: '*', kind: empty-directory, %s}}\n" % rules)
            return "".join(sorted(n[1:] for n, f in test_policy.plan(w)[0].items() if f[0] == fate))

        self.assertEqual(deleted("keep: {last: 2}"), "23")
        self.assertEqual(deleted("max-age: 1d, min-count: 3"), "3")
        self.assertEqual(deleted("max-files: 10"), "23")
        self.assertEqual(deleted("max-age: 1d"), "")
        self.assertEqual(deleted("max-age: 1d", "excess"), "0123")
        self.assertEqual(deleted("max-age: 1d, max-delete: 34%"), "0123")


class Case(test_policy_run.Case):
    def make(self, *names, **kw):
        make(self.data, *names, **kw)

    def everything(self):
        return everything(self.data)


class Run(Case):
    def test_empty_ones_go(self):
        """Level by level, as what is above one has changed."""
        self.policy(KEYS)
        self.make("a", "b/c/d", "b/c", "b", "full")
        write(self.path("full/f"))
        self.make("full")
        before = self.everything()
        self.assertEqual(self.run_policy()["entries"], 2)
        c = self.daemon.client()
        self.assertEqual((c.wait(1), self.everything()), ("done", before - {"a", "b/c/d"}))
        self.assertEqual((c.job(1)["kind"], c.job(1)["done"]), ("rmdir", 2))
        self.assertEqual(self.ctl("run", "p").out, "p: nothing to delete\n")
        self.make("b/c", "b")
        self.assertEqual((self.run_policy()["entries"], c.wait(2)), (1, "done"))
        self.assertEqual(self.everything(), {"b", "full", "full/f"})
        for words in (("show", "1"), ("list", "--all")):
            p = Proc([scratch.binary, *words, "--runtime-directory=" + os.path.dirname(self.daemon.socket)], self.daemon.dir)
            self.addCleanup(p.close)
            self.assertIn("rmdir", p.finish().out)

    def test_undo(self):
        self.policy(KEYS + ", undo: 1h")
        self.make("a", "b")
        os.chown(self.path("a"), USER, USER)
        os.chmod(self.path("a"), 0o2770)
        os.setxattr(self.path("a"), "user.mark", b"mine")
        then = os.lstat(self.path("a"))
        self.make("a")
        self.run_policy()
        c = self.daemon.client()
        self.assertEqual((c.job(1)["state"], self.everything()), ("held", set()))
        self.daemon.stop()
        c = self.daemon.start().client()
        c.call("Restore", "ta{sv}", 1, {})
        self.assertEqual((c.job(1)["state"], self.everything()), ("restored", {"a", "b"}))
        now = os.lstat(self.path("a"))
        self.assertEqual((now.st_ino, now.st_mode, now.st_uid), (then.st_ino, then.st_mode, then.st_uid))
        self.assertEqual(os.getxattr(self.path("a"), "user.mark"), b"mine")

    def test_filled_since_it_was_planned_for(self):
        """That is no failure: it is left out of the job."""
        self.policy(KEYS)
        for gate in ("policy-again:p", "policy:p"):
            self.make("a", "b", "c")
            p = self.begin("run", "p", "--json", gate=gate).meet()
            write(self.path("a/f"), "precious")
            test_pins.pin(self.path("b"))
            o = p.go_on().finish().json
            self.assertEqual((o["entries"], o["missing"]), (1, 2))
            self.assertEqual(self.daemon.client().wait(o["job"]), "done")
            self.assertEqual(self.everything(), {"a", "a/f", "b"})
            os.removexattr(self.path("b"), test_pins.PIN)
            os.unlink(self.path("a/f"))

    def test_many(self):
        """Each in a directory of its own: one job, and as many as there are."""
        self.policy("match: '*/*', kind: empty-directory, max-age: 1d, max-delete: 100%")
        names = ["%d/x" % i for i in range(300)]
        self.make(*names)
        for name in names[::3]:
            write(self.path(name, "f"))
        self.make(*names)
        self.assertEqual(self.run_policy()["entries"], 200)
        c = self.daemon.client()
        self.assertEqual((c.wait(1), c.job(1)["done"]), ("done", 200))
        self.assertEqual(self.left(), {name + "/f" for name in names[::3]})


class Filled(Case):
    """At each step on the way to its deletion: what was put into it is at its place, or where the job
    says."""

    def send(self, gate, *names):
        """Submits them to a daemon whose worker has come to its gate: client, serial, worker."""
        self.make(*names)
        c = self.daemon.again_with_gate(gate)
        c.call("PauseAll")
        fd = os.open(self.data, os.O_PATH)
        serial = c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, n.encode()) for n in names], {"rmdir": ("b", True)},
                        fds=[fd])
        os.close(fd)
        return c, serial, self.daemon.stopped_worker()

    def submit_held_up(self, *names):
        """They are in staging, and wait; returns the client and where they are."""
        self.make(*names)
        c = self.daemon.client()
        c.call("PauseAll")
        c.submit(*[self.path(n) for n in names], rmdir=True)
        self.assertEqual(self.everything(), set())
        return c, self.in_staging()[0]

    def check_kept(self, c, path="a"):
        """It is told which, and why."""
        (problem,) = c.problems(1)
        self.assertEqual(os.fsdecode(problem[0].rstrip(b"\0")), self.path(path))
        self.assertEqual(problem[1], "is not empty any more, and stays with all that is in it")
        self.check_content(path)

    def check_content(self, path="a"):
        with open(self.path(path, "f")) as f:
            self.assertEqual(f.read(), "precious")

    def test_before_it_is_moved(self):
        """It is back before the submit is answered; the others go."""
        c, serial, worker = self.send("stage:a", "b", "a", "c")
        write(self.path("a/f"), "precious")
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        self.assertEqual(self.everything(), {"a", "a/f"})
        self.check_content()
        c.call("ResumeAll")
        self.assertEqual((c.wait(n), self.everything()), ("partial", {"a", "a/f"}))
        self.check_kept(c)

    def test_as_it_is_moved(self):
        c, serial, worker = self.send("staged:a", "a")
        write(os.path.join(self.in_staging()[0], "1", "f"), "precious")
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        self.check_content()
        c.call("ResumeAll")
        self.assertEqual((c.wait(n), self.everything()), ("failed", {"a", "a/f"}))
        self.check_kept(c)
        self.assertEqual(self.staged(), [])

    def test_as_it_is_moved_and_its_place_is_taken(self):
        """What has come there stays, too."""
        c, serial, worker = self.send("staged:a", "a")
        staged = os.path.join(self.in_staging()[0], "1", "f")
        write(staged, "precious")
        self.make("a")
        write(self.path("a/g"), "new")
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        c.call("ResumeAll")
        self.assertEqual((c.wait(n), self.everything()), ("failed", {"a", "a/g"}))
        with open(staged) as f:
            self.assertEqual(f.read(), "precious")
        self.assertIn(os.path.dirname(os.path.dirname(staged)), c.job(n)["message"] or c.get(n, "Message"))

    def test_while_it_waits(self):
        c, staged = self.submit_held_up("b", "a", "c")
        write(os.path.join(staged, "2", "f"), "precious")
        c.call("ResumeAll")
        self.assertEqual((c.wait(1), self.everything()), ("partial", {"a", "a/f"}))
        self.check_kept(c)
        self.assertEqual(self.staged(), [])

    def test_while_it_waits_over_a_restart(self):
        """That it is to go only if it is empty is on record."""
        c, staged = self.submit_held_up("a", "b")
        self.daemon.kill()
        write(os.path.join(staged, "1", "f"), "precious")
        c = self.daemon.start().client()
        self.assertEqual(c.job(1)["kind"], "rmdir")
        c.call("ResumeAll")
        self.assertEqual((c.wait(1), self.everything()), ("partial", {"a", "a/f"}))
        self.check_kept(c)

    def test_at_the_last_moment(self):
        c, serial, worker = self.send("unlink:1,stage:a", "a")
        os.kill(worker, signal.SIGCONT)
        n = c.answer(serial).body[0]
        c.call("ResumeAll")
        deleter = self.daemon.stopped_worker()
        write(os.path.join(self.in_staging()[0], "1", "f"), "precious")
        os.kill(deleter, signal.SIGCONT)
        self.assertEqual((c.wait(n), self.everything()), ("failed", {"a", "a/f"}))
        self.check_kept(c)

    def test_in_place(self):
        """Where nothing can be moved."""
        self.daemon.configure("staging: off\n")
        c = self.daemon.client()
        c.call("Reload")
        c.call("PauseAll")
        self.make("a", "b")
        n = c.submit(self.path("b"), self.path("a"), rmdir=True)
        self.assertEqual(self.everything(), {"a", "b"})
        write(self.path("a/f"), "precious")
        c.call("ResumeAll")
        self.assertEqual((c.wait(n), self.everything()), ("partial", {"a", "a/f"}))
        self.check_kept(c)

    def test_fault_01_all_is_killed(self):
        """And goes on, with what is in it at its place, whether or not the submit counts."""
        for gate in ("stage:a", "staged:a", "unlink:1"):
            c, serial, worker = self.send(gate if gate != "unlink:1" else "stage:a,unlink:1", "a")
            if gate == "unlink:1":
                os.kill(worker, signal.SIGCONT)
                c.answer(serial)
                c.call("ResumeAll")
                worker = self.daemon.stopped_worker()
            write(self.path("a/f") if gate == "stage:a" else os.path.join(self.in_staging()[0], "1", "f"), "precious")
            self.daemon.kill()
            os.kill(worker, signal.SIGKILL)
            self.daemon.stop()
            c = self.daemon.start().client()
            c.call("ResumeAll")
            self.until(lambda: not c.jobs())
            self.assertEqual(self.everything(), {"a", "a/f"}, gate)
            self.check_content()
            os.unlink(self.path("a/f"))

    def test_retry_does_not_take_the_rest(self):
        c, staged = self.submit_held_up("a", "b")
        write(os.path.join(staged, "1", "f"), "precious")
        c.call("ResumeAll")
        self.assertEqual(c.wait(1), "partial")

        def retry():
            p = Proc([scratch.binary, "retry", "1", "--runtime-directory=" + os.path.dirname(self.daemon.socket)],
                     self.daemon.dir)
            self.addCleanup(p.close)
            return p.finish()

        r = retry()
        self.assertEqual(r.status, 1, r)
        self.assertIn("a: is no empty directory", r.err)
        self.check_content()
        os.unlink(self.path("a/f"))
        self.assertEqual((retry().status, c.wait(2)), (0, "done"))
        self.assertEqual((c.job(2)["kind"], self.everything()), ("rmdir", set()))

    def test_what_is_submitted_has_to_be_empty(self):
        c = self.daemon.client()
        self.make("a", "full/x", "full")
        write(self.path("file"))
        os.symlink("a", self.path("link"))
        for name in ("full", "file", "link"):
            for names in ([name], ["a", name]):
                with self.assertRaises(Error) as e:
                    c.submit(*[self.path(n) for n in names], rmdir=True)
                self.assertEqual((e.exception.name, e.exception.text),
                                 ("InvalidPath", self.path(name) + ": is no empty directory"))
        self.assertEqual(self.everything(), {"a", "full", "full/x", "file", "link"})
        # Of a user, who cannot look into it.
        os.chmod(self.data, 0o777)
        os.mkdir(self.path("closed"), 0)
        write(self.path("closed/f"), "precious")
        os.chown(self.path("closed"), USER, USER)
        client = self.daemon.client(USER)
        n = client.submit(self.path("closed"), rmdir=True)
        self.assertEqual(client.wait(n), "failed")
        self.assertIn("closed/f", self.everything())

    def test_subvolume(self):
        """That goes as a whole, if it may have something in it."""
        image = os.path.join(self.daemon.dir, "image")
        self.data = os.path.join(self.daemon.dir, "disk")
        os.mkdir(self.data)
        with open(image, "wb") as f:
            f.truncate(256 << 20)
        command("mkfs.btrfs", "-q", image)
        command("mount", "-o", "loop", image, self.data)
        self.addCleanup(fixture.unmount, self.data)
        for name in ("empty", "filled"):
            command("btrfs", "-q", "subvolume", "create", self.path(name))
        c = self.daemon.client()
        c.call("PauseAll")
        fd = os.open(self.path("filled"), os.O_PATH)
        n = c.submit(self.path("empty"), self.path("filled"), rmdir=True)
        write("/proc/self/fd/%d/f" % fd, "precious")
        os.close(fd)
        c.call("ResumeAll")
        self.assertEqual((c.wait(n), self.everything()), ("partial", {"filled", "filled/f"}))
        self.check_content("filled")


if __name__ == "__main__":
    fixture.main()
