#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A process deletes what its own mounts let it delete, and names what they name, through a real
reclaimd that has other mounts."""
import ctypes
import json
import os
import socket
import struct
import subprocess
import unittest.mock

import fixture
from daemon_fixture import Case, Client, OnTheBus
from dbuswire import Error
from fixture import CLONE_NEWNS, USER, Canary, build, command, libc, scratch

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4
HOUR = 3600 * 1000000


def read_only(path):
    return [["mount", "--bind", path, path], ["mount", "-o", "remount,ro,bind", path]]


class Views(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)

    def own(self, text):
        build(self.data, text)
        for top, dirs, files in os.walk(self.data):
            for name in dirs + files:
                os.chown(os.path.join(top, name), USER, USER)

    def there(self, mounts, ask, uid=0, root=None, users=False, wait=True):
        """What it says to a process with these mounts: its result, or a name and a text of an error."""
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            answer = ["died", ""]
            try:
                os.close(r)
                if users:
                    self.become_root_of_users(uid)
                elif libc.unshare(CLONE_NEWNS):
                    raise OSError(ctypes.get_errno(), "unshare")
                command("mount", "--make-rprivate", "/")
                for words in mounts:
                    command(*words)
                c = Client(self.daemon) if root else None
                if root:
                    os.chroot(root)
                    os.chdir("/")
                if uid and not users:
                    os.setgroups([])
                    os.setresgid(uid, uid, uid)
                    os.setresuid(uid, uid, uid)
                c = c or Client(self.daemon)
                answer = ask(c)
                c.close()
            except Error as e:
                answer = [e.name, e.text]
            except BaseException as e:  # pylint: disable=broad-except
                answer = ["died", repr(e)]
            finally:
                os.write(w, json.dumps(answer).encode())
                os._exit(0)
        os.close(w)
        with os.fdopen(r) as f:
            answer = json.loads(f.read())
        if wait:
            os.waitpid(pid, 0)
        if isinstance(answer, list):
            self.assertNotEqual(answer[0], "died", answer)
        return answer

    @staticmethod
    def become_root_of_users(uid):
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (("setgroups", b"deny"), ("uid_map", b"0 %d 1" % uid), ("gid_map", b"0 %d 1" % uid)):
            with open("/proc/self/" + name, "wb") as f:
                f.write(text)

    def ways(self, path):
        """All ways to name it."""
        directory, name = os.path.split(path)
        return (lambda c: c.submit(path),
                lambda c: c.submit_list(directory, [name])[0],
                lambda c: c.submit(path, dry_run=True),
                lambda c: self.by_path(c, path))

    @staticmethod
    def by_path(c, path):
        return c.call("Submit", "aaya{sv}", [os.fsencode(path)], {}).body[0]

    def refused(self, mounts, ask, name, word="", **how):
        answer = self.there(mounts, ask, **how)
        self.assertIsInstance(answer, list, "was accepted")
        self.assertEqual(answer[0], name, answer)
        self.assertIn(word, answer[1])

    def done(self, mounts, ask, path, **how):
        n = self.there(mounts, ask, **how)
        self.assertIsInstance(n, int, n)
        self.assertEqual(self.daemon.client().wait(n), "done", self.daemon.said())
        self.assertFalse(os.path.lexists(path))


class Submits(Views):
    def test_attack_04_read_only(self):
        self.own("d/x/f\nd/f")
        canary = Canary(self.path("d/canary"))
        for ask in self.ways(self.path("d/x")) + self.ways(self.path("d/f")):
            for how in ({}, {"uid": USER}, {"uid": USER, "users": True}):
                self.refused(read_only(self.data), ask, "NotAuthorized", "read-only", **how)
        self.refused([["mount", "-o", "remount,ro,bind", self.root]], self.ways(self.path("d"))[0],
                     "NotAuthorized", "read-only")
        canary.check()
        self.assertEqual(sorted(os.listdir(self.path("d"))), ["canary", "f", "x"])

    def test_attack_04_writable_goes_on(self):
        """As in a service of systemd with a mount namespace of its own, or a container with the
        same directory in it."""
        same = [["mount", "--bind", self.data, self.data]]
        part = [["mount", "-o", "remount,ro,bind", self.root]] + same + [
            ["mount", "-o", "remount,rw,bind", self.data]]
        for mounts in ([], same, part):
            for how in ({}, {"uid": USER}):
                for i in range(4):
                    if i == 2:
                        continue
                    self.own("x/f")
                    self.done(mounts, self.ways(self.path("x"))[i], self.path("x"), **how)
        self.own("x/f")
        self.done(same, self.ways(self.path("x"))[0], self.path("x"), uid=USER, users=True)

    def test_attack_04_paths_that_lead_elsewhere(self):
        self.own("d/x/f\nother/x/f")
        canary = Canary(self.path("d/canary"))
        over = ([["mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", self.path("d")]],
                [["mount", "--bind", self.path("other"), self.path("d")]],
                # Of two over each other the upper one counts, and what is over its parent.
                [["mount", "--bind", self.path("d"), self.path("d")],
                 ["mount", "--bind", self.path("other"), self.path("d")]],
                [["mount", "--bind", self.path("d"), self.path("d")],
                 ["mount", "-t", "tmpfs", "tmpfs", self.data]])
        for mounts in over:
            self.refused(mounts, lambda c: self.by_path(c, self.path("d/x")), "InvalidPath", "descriptor")
        # In a directory that is its root, and in one that is a mount's own.
        for mounts in ([], [["mount", "--bind", self.path("other"), self.path("other")]]):
            self.refused(mounts, lambda c: self.by_path(c, self.path("d/x")), "InvalidPath", "descriptor",
                         root=self.path("other"))
        canary.check()
        self.assertTrue(os.path.exists(self.path("d/x/f")))

    def test_attack_04_mounted_in_it(self):
        self.own("d/keep/f\nd/file = x\nd/sub/keep/f")
        canary = Canary(self.path("d/keep/canary"))
        for part in ("d/keep", "d/file", "d/sub/keep"):
            mounts = read_only(self.path(part))
            for path in (self.path("d"), self.path(part)):
                for ask in self.ways(path):
                    self.refused(mounts, ask, "CrossesMount", "mount point for the submitter")
        canary.check()
        self.done(read_only(self.path("d/keep")), self.ways(self.path("d/sub"))[0], self.path("d/sub"))

    def test_attack_04_mounted_on_the_way(self):
        """Paths beneath a directory lead through no mount."""
        self.own("d/keep/x = x\nd/free/x = x")

        def ask(c):
            fds = [os.open(self.path("d"), os.O_PATH), os.memfd_create("records")]
            for name in ("keep/x", "free/x"):
                st = os.lstat(self.path("d", name))
                os.write(fds[1], struct.pack("=QqQ", st.st_ino, self.born(name), st.st_mode & 0o170000) +
                         name.encode() + b"\0")
            return c.call("SubmitLists", "a(hh)a{sv}", [(0, 1)], {"records": ("b", True)}, fds=fds).body[0]
        self.done(read_only(self.path("d/keep")), ask, self.path("d/free/x"))
        self.assertTrue(os.path.exists(self.path("d/keep/x")))

    def test_attack_04_beneath_what_is_read_only(self):
        """A record names what lies beneath the directory that is handed over."""
        self.own("d/keep/x = x")
        st = os.lstat(self.path("d/keep/x"))
        record = struct.pack("=QqQ", st.st_ino, self.born("keep/x"), st.st_mode & 0o170000) + b"keep/x\0"

        def ask(c):
            fds = [os.open(self.path("d"), os.O_PATH), os.memfd_create("records")]
            os.write(fds[1], record)
            return c.call("SubmitLists", "a(hh)a{sv}", [(0, 1)], {"records": ("b", True)}, fds=fds).body[0]

        self.refused(read_only(self.data), ask, "NotAuthorized", "read-only", uid=USER, users=True)
        self.assertTrue(os.path.exists(self.path("d/keep/x")))

    def born(self, name):
        """As btime of statx(2)."""
        text = command("stat", "-c", "%.9W", self.path("d", name)).strip()
        return int(text.replace(".", ""))

    def test_attack_04_has_ended(self):
        """Whose connection another process has: what mounts it had cannot be seen any more."""
        self.own("x/f")

        class Connected(socket.socket):
            """A child connects it."""

            def connect(self, address):
                pid = os.fork()
                if pid == 0:
                    super().connect(address)
                    os._exit(0)
                os.waitpid(pid, 0)

        with unittest.mock.patch("socket.socket", Connected):
            c = Client(self.daemon)
        for ask in self.ways(self.path("x")):
            with self.assertRaises(Error) as e:
                ask(c)
            self.assertEqual(e.exception.name, "NotAuthorized", e.exception.text)
            self.assertIn("mounts", e.exception.text)
        self.assertEqual(c.jobs(finished=True), [])
        self.assertTrue(os.path.exists(self.path("x/f")))
        c.close()

    def test_attack_04_varlink(self):
        path = os.path.join(os.path.dirname(self.daemon.socket), "org.reclaimd.Reclaim")
        if not os.path.exists(path):
            self.skipTest("built without Varlink")
        self.own("d/x/f")

        def ask(_):
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.sendall(json.dumps({"method": "org.reclaimd.Reclaim.Submit", "parameters": {
                    "paths": [self.path("d/x")]}}).encode() + b"\0")
                answer = b""
                while not answer.endswith(b"\0"):
                    answer += s.recv(65536)
            answer = json.loads(answer[:-1])
            if "error" in answer:
                return [answer["error"].rsplit(".", 1)[1], json.dumps(answer)]
            return 1
        self.refused(read_only(self.data), ask, "NotAuthorized", "read-only")
        self.assertTrue(os.path.exists(self.path("d/x/f")))


class Restores(Views):
    def test_attack_04_restore(self):
        self.own("x/f\nother/")
        held = self.daemon.client(USER).submit(self.path("x"), undo_usec=HOUR)

        def restore(to=None):
            def ask(c):
                fd = os.open(to, os.O_PATH) if to else -1
                c.call("Restore", "ta{sv}", held, {"directory": ("h", 0)} if to else {},
                       fds=[fd] if to else [])
                return held
            return ask
        self.refused(read_only(self.data), restore(), "NotAuthorized", "Read-only", uid=USER)
        self.refused(read_only(self.path("other")), restore(self.path("other")), "NotAuthorized", "Read-only",
                     uid=USER)
        # Hidden, and not elsewhere.
        self.refused([["mount", "-t", "tmpfs", "tmpfs", self.root]], restore(), "NotAuthorized",
                     "Read-only", uid=USER)
        self.assertFalse(os.path.lexists(self.path("x")))
        self.assertEqual(os.listdir(self.path("other")), [])
        self.assertEqual(self.daemon.client().job(held)["state"], "held")
        same = [["mount", "--bind", self.data, self.data]]
        self.assertEqual(self.there(same, restore(), uid=USER), held)
        self.assertTrue(os.path.exists(self.path("x/f")))


class OnBus(OnTheBus):
    def test_attack_04_on_the_bus(self):
        """reclaimctl, which hands descriptors over."""
        def submit(mounts):
            script = "".join("mount %s && " % m for m in mounts) + 'exec "$0" submit "$1"'
            return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", script,
                                   scratch.binary, self.path("x")], capture_output=True, text=True)
        build(self.data, "x/f")
        bind = "--bind '%s' '%s'" % (self.data, self.data)
        p = submit([bind, "-o remount,ro,bind '%s'" % self.data])
        self.assertNotEqual(p.returncode, 0, p)
        self.assertIn("read-only", p.stderr)
        self.assertTrue(os.path.exists(self.path("x/f")))
        p = submit([bind])
        self.assertEqual(p.returncode, 0, p)
        self.daemon.wait_gone(self.path("x"))


if __name__ == "__main__":
    fixture.main()
