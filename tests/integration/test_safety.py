#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What must never happen, through a real reclaimd: the negative tests of SAFETY.md by their numbers."""
import array
import contextlib
import os
import socket
import stat
import subprocess
import sys

import fixture
from daemon_fixture import Case, user
from dbuswire import Error
from fixture import USER, Canary, Proc, build, command, scratch, write

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOUR = 3600 * 1000000
GROUP = USER - 2  # of which a user is a member in some sessions only
OTHER = USER - 1


def unmounted(path):
    command("umount", "-l", path)


class Safety(Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)
        self.canary = Canary(self.path("canary"))

    def finish(self):
        self.canary.check()
        super().finish()

    def refused(self, name, client, *paths, **options):
        with self.assertRaises(Error) as e:
            client.submit(*paths, **options)
        self.assertEqual(e.exception.name, name, e.exception.text)
        return e.exception.text

    def refused_path(self, name, client, path):
        with self.assertRaises(Error) as e:
            client.call("Submit", "aaya{sv}", [os.fsencode(path)], {})
        self.assertEqual(e.exception.name, name, (path, e.exception.text))
        return e.exception.text

    def own(self, text, uid=USER):
        with user(uid):
            build(self.data, text)


class Whose(Safety):
    def test_01_in_a_private_directory(self):
        os.mkdir(self.path("private"), 0o700)
        canary = Canary(self.path("private", "c"))
        c = self.daemon.client(USER)
        there = self.refused_path("NotAuthorized", c, self.path("private", "c"))
        not_there = self.refused_path("NotAuthorized", c, self.path("private", "d"))
        self.assertEqual(there.replace("/c", "/d"), not_there)
        # With a descriptor of it, as root may have left it open.
        fd = os.open(self.path("private"), os.O_PATH)
        said = []
        for name in (b"c", b"d"):
            with self.assertRaises(Error) as e:
                c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name)], {}, fds=[fd])
            said.append((e.exception.name, e.exception.text.replace("/c", "/d")))
        os.close(fd)
        self.assertEqual(said[0], said[1])
        self.assertEqual(said[0][0], "NotAuthorized")
        canary.check()

    def test_02_sticky(self):
        os.mkdir(self.path("tmp"))
        os.chmod(self.path("tmp"), 0o1777)
        write(self.path("tmp", "roots"))
        os.mkdir(self.path("tmp", "dir"))
        canary = Canary(self.path("tmp", "c"))
        with user(OTHER):
            write(self.path("tmp", "others"))
        c = self.daemon.client(USER)
        for name in ("roots", "dir", "c", "others"):
            self.refused("NotAuthorized", c, self.path("tmp", name))
        self.assertEqual(len(os.listdir(self.path("tmp"))), 4)
        canary.check()

    def test_03_group_of_the_session(self):
        os.mkdir(self.path("shared"))
        os.chown(self.path("shared"), 0, GROUP)
        os.chmod(self.path("shared"), 0o770)
        for name in "abc":
            write(self.path("shared", name))
        without = self.daemon.client(USER)
        with_group = self.daemon.client(USER, groups=[GROUP])
        self.refused_path("NotAuthorized", without, self.path("shared", "a"))
        held = with_group.call("Submit", "aaya{sv}", [os.fsencode(self.path("shared", "a"))],
                               {"undo-usec": ("t", HOUR)}).body[0]
        self.assertFalse(os.path.exists(self.path("shared", "a")))
        # The job is the same user's; but what it may do is what the one who submitted could.
        without.call("Restore", "ta{sv}", held, {})
        self.assertTrue(os.path.exists(self.path("shared", "a")))
        self.refused_path("NotAuthorized", without, self.path("shared", "b"))

    def test_04_others_directory_in_ones_own(self):
        self.own("own/mine\nown/sub/mine")
        os.mkdir(self.path("own", "sub", "theirs"))
        canary = Canary(self.path("own", "sub", "theirs", "c"))
        before = os.lstat(self.path("own")).st_ino
        c = self.daemon.client(USER)
        n = c.submit(self.path("own"))
        self.assertEqual(c.wait(n), "partial")
        canary.check()
        self.assertEqual(os.lstat(self.path("own")).st_ino, before)
        self.assertTrue(c.problems(n))

    def test_32_anothers_job_on_every_method(self):
        write(self.path("a"))
        n = self.daemon.client().submit(self.path("a"), undo_usec=HOUR)
        c = self.daemon.client(USER)
        fd = os.open(self.data, os.O_PATH)
        job = {"path": "/org/reclaimd1/job/%d" % n, "interface": "org.reclaimd1.Job"}
        for number in (n, n + 1000):
            for member in ("Cancel", "Pause", "Resume"):
                with self.assertRaises(Error) as e:
                    c.call(member, "at", [number])
                self.assertEqual(e.exception.name, "NoSuchJob")
            with self.assertRaises(Error) as e:
                c.call("Restore", "ta{sv}", number, {"directory": ("h", 0)}, fds=[fd])
            self.assertEqual(e.exception.name, "NoSuchJob")
            with self.assertRaises(Error) as e:
                c.call("GetJob", "t", number)
            self.assertEqual(e.exception.name, "NoSuchJob")
        os.close(fd)
        for member, signature, *args in (("Cancel", ""), ("Pause", ""), ("Resume", ""),
                                         ("GetProblems", "tu", 0, 10), ("GetContents", "tu", 0, 10)):
            with self.assertRaises(Error) as e:
                c.call(member, signature, *args, **job)
            self.assertIn(e.exception.name, ("NoSuchJob", "org.freedesktop.DBus.Error.UnknownMethod",
                                             "UnknownMethod"), member)
        with self.assertRaises(Error):
            c.get(n, "Path")
        said = []
        for number in (n, n + 1000):
            with self.assertRaises(Error) as e:
                c.jobs(ids=[number], finished=True)
            said.append(e.exception.text.replace(str(number), "N"))
        self.assertEqual(said[0], said[1])
        self.assertEqual(c.jobs(finished=True), [])
        self.assertEqual(self.daemon.client().job(n)["state"], "held")

    def test_47_by_acl_and_setgid_directory_only(self):
        os.mkdir(self.path("acl"), 0o755)
        command("setfacl", "-m", "u:%d:rwx" % USER, self.path("acl"))
        os.mkdir(self.path("setgid"))
        os.chown(self.path("setgid"), 0, USER)
        os.chmod(self.path("setgid"), 0o2775)
        c = self.daemon.client(USER)
        for directory in ("acl", "setgid"):
            os.mkdir(self.path(directory, "theirs"))
            canary = Canary(self.path(directory, "theirs", "c"))
            write(self.path(directory, "file"))
            self.assertEqual(c.wait(c.submit(self.path(directory, "file"))), "done")
            n = c.submit(self.path(directory, "theirs"))
            self.assertIn(c.wait(n), ("failed", "partial"))
            canary.check()
        command("setfacl", "-m", "u:%d:r-x" % USER, self.path("acl"))
        write(self.path("acl", "file"))
        self.refused("NotAuthorized", c, self.path("acl", "file"))


class Paths(Safety):
    def test_05_06_07_symbolic_links(self):
        self.own("real/a\nlink -> real\nlink2 -> canary\nlink3 -> real/a")
        c = self.daemon.client(USER)
        for name in ("link/a", "link2/file", "link/"):
            self.refused_path("InvalidPath", c, self.path(name))
        self.assertEqual(c.wait(c.submit(self.path("link2"))), "done")
        self.assertEqual(c.wait(c.submit(self.path("link3"))), "done")
        self.assertEqual(fixture.listing(self.path("real")), ["a"])
        self.assertFalse(os.path.lexists(self.path("link2")))

    def test_14_names_that_are_none(self):
        c = self.daemon.client(USER)
        with user():
            os.mkdir(self.path("d"))
        for name in (b".", b"..", b"./", b".///", b"a/../b", b"/", b"//", b"", b"canary/file", b"a\0b"):
            fd = os.open(self.path("d"), os.O_PATH)
            with self.assertRaises(Error) as e:
                c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name)], {}, fds=[fd])
            os.close(fd)
            self.assertEqual(e.exception.name, "InvalidArgument", name)
            with self.assertRaises(Error) as e:
                c.submit_list(self.path("d"), [name or "", "x"])
            self.assertIn(e.exception.name, ("InvalidPath", "InvalidArgument", "NoSuchPath"), name)
        for path in ("canary", "./canary", "../canary", "", "."):
            self.refused_path("InvalidArgument", c, path)
        for path in (self.path("d", "..", "canary"), self.path("canary", "."), self.path("d", ".///"),
                     "/../" + self.path("canary") + "/../canary"):
            self.refused_path("InvalidPath", c, path)

    def test_19_20_root_and_system(self):
        c = self.daemon.client()
        for path in ("/", "//", "///"):
            self.refused_path("Protected", c, path)
        for path in ("/usr", "/home", "/etc/passwd", "/usr/bin/env", "/tmp", "/root", "/proc/1", "/dev/null"):
            self.refused_path("Protected", c, path)

    def test_21_22_our_own(self):
        c = self.daemon.client()
        write(self.path("a"))
        n = c.submit(self.path("a"), undo_usec=HOUR)
        staging = os.path.join(self.root, ".reclaim")
        for path in (staging, staging + "/0", self.root, self.daemon.dir, self.daemon.state,
                     os.path.join(self.daemon.state, os.listdir(self.daemon.state)[0]), self.daemon.socket):
            self.assertIn(self.refused_path_any(c, path), ("Protected", "CrossesMount"), path)
        for path in (self.daemon.state, self.daemon.socket):
            self.assertIn("reclaimd itself", self.refused_path("Protected", c, path))
        (job,) = os.listdir(staging + "/0")
        for path in (staging + "/0/" + job, staging + "/0/" + job + "/1"):
            self.refused_path("Protected", c, path)
        # Through another mount of the same.
        os.mkdir(self.daemon.dir + "/other")
        command("mount", "--bind", staging + "/0", self.daemon.dir + "/other")
        self.addCleanup(unmounted, self.daemon.dir + "/other")
        self.refused_path("Protected", c, self.daemon.dir + "/other/" + job)
        self.assertEqual(c.job(n)["state"], "held")

    def refused_path_any(self, client, path):
        with self.assertRaises(Error) as e:
            client.call("Submit", "aaya{sv}", [os.fsencode(path)], {})
        return e.exception.name

    def test_23_24_mounts(self):
        c = self.daemon.client()
        os.mkdir(self.path("mount"))
        command("mount", "--bind", self.path("canary"), self.path("mount"))
        self.assertIn(self.refused_path_any(c, self.path("mount")), ("CrossesMount", "Protected"))
        build(self.data, "tree/a\ntree/in/side/x")
        command("mount", "--bind", self.path("canary"), self.path("tree/in/side"))
        self.assertIn(self.refused_path_any(c, self.path("tree")), ("CrossesMount", "Protected"))
        self.assertTrue(os.path.exists(self.path("tree/a")))

    def test_24_mounted_while_it_is_held(self):
        build(self.data, "tree/a\ntree/in/side/x")
        c = self.daemon.client()
        n = c.submit(self.path("tree"), undo_usec=2000000)
        (job,) = os.listdir(os.path.join(self.root, ".reclaim/0"))
        at = os.path.join(self.root, ".reclaim/0", job, "1/in/side")
        command("mount", "--bind", self.path("canary"), at)
        state = c.wait(n)
        self.canary.check()
        for m in fixture.mounts():
            if m.endswith("/in/side"):
                command("umount", "-l", m)
        self.assertIn(state, ("partial", "failed"))

    def test_31_42_names(self):
        c = self.daemon.client(USER)
        names = [b"esc\x1b[31m", b"new\nline", "bidi\u202e".encode(), b"\xff\xfe", b"-rf", b"*", b"x" * 255,
                 b"%s%n", b"..."]
        with user():
            os.mkdir(self.path("odd"))
            for name in names:
                write(os.path.join(os.fsencode(self.path("odd")), name))
        for name in names:
            n = c.submit(os.path.join(os.fsencode(self.path("odd")), name))
            self.assertEqual(c.wait(n), "done")
        self.assertEqual(os.listdir(self.path("odd")), [])
        fd = os.open(self.path("odd"), os.O_PATH)
        with self.assertRaises(Error) as e:
            c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"x" * 256)], {}, fds=[fd])
        os.close(fd)
        self.assertEqual(e.exception.name, "InvalidArgument")
        self.refused_path("InvalidArgument", c, "/" + "a/" * 2100)
        self.assertNotIn("\x1b[31m", self.daemon.said())

    def test_46_duplicates_and_overlaps(self):
        self.own("t/a/b/c\nt/d")
        c = self.daemon.client(USER)
        with contextlib.suppress(Error):
            c.wait(c.submit(self.path("t/a"), self.path("t/a"), self.path("t/a/b"), self.path("t")))
        with contextlib.suppress(Error):
            c.wait(c.submit(self.path("t")))
        self.assertFalse(os.path.exists(self.path("t")))


class Descriptors(Safety):
    def submit_fd(self, client, fd, name=b"x"):
        with self.assertRaises(Error) as e:
            client.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, name)], {}, fds=[fd])
        return e.exception.name

    def test_15_no_directories(self):
        c = self.daemon.client(USER)
        self.own("f")
        a, b = socket.socketpair()
        fds = [os.open(self.path("f"), os.O_RDONLY), os.open(self.path("f"), os.O_WRONLY),
               os.open(self.path("f"), os.O_PATH), a.detach(), b.detach(), os.memfd_create("x"),
               os.open("/dev/null", os.O_RDWR), *os.pipe()]
        for fd in fds:
            self.assertEqual(self.submit_fd(c, fd), "InvalidArgument")
            os.close(fd)

    def test_16_pseudo_filesystems_and_detached_mounts(self):
        c = self.daemon.client(USER)
        for path in ("/proc/self", "/proc/self/task", "/sys/kernel", "/proc/self/fd"):
            fd = os.open(path, os.O_PATH)
            name = sorted(os.listdir(path))[0].encode()
            self.assertIn(self.submit_fd(c, fd, name), ("Protected", "NotAuthorized", "NoSuchPath"), path)
            os.close(fd)
        os.mkdir(self.path("gone"))
        command("mount", "-t", "tmpfs", "-o", "mode=0777", "tmpfs", self.path("gone"))
        fd = os.open(self.path("gone"), os.O_PATH)
        write(self.path("gone/x"))
        command("umount", "-l", self.path("gone"))
        self.assertEqual(self.submit_fd(c, fd), "Protected")
        self.assertTrue(os.stat("x", dir_fd=fd))
        os.close(fd)

    def test_12_another_mount_namespace(self):
        """The same words, and another directory: the descriptor counts; what cannot be named here is
        not deleted by its words."""
        self.own("here/x = here")
        script = ("mount -t tmpfs -o mode=0777 tmpfs %s && echo there > %s && "
                  "chown %d %s && echo ready && cat" %
                  (self.path("here"), self.path("here/x"), USER, self.path("here/x")))
        p = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", script],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        root = os.open("/proc/%d/root" % p.pid, os.O_PATH)
        fd = os.open(self.path("here")[1:], os.O_PATH, dir_fd=root)
        c = self.daemon.client(USER)
        with contextlib.suppress(Error):
            n = c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"x")], {}, fds=[fd]).body[0]
            c.wait(n)
        with open(self.path("here/x"), encoding="ascii") as f:
            self.assertEqual(f.read(), "here")
        for f in (fd, root):
            os.close(f)
        p.communicate(b"")


class Processes(Safety):
    def test_have_given_up_what_is_not_theirs(self):
        """What looks, what deletes, and what stands before a client, while they live."""
        self.own("mine")
        c = self.daemon.client(USER)
        self.assertEqual(c.wait(c.submit(self.path("mine"))), "done")
        pid, theirs = self.daemon.process.pid, []
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            children = f.read().split()
        for child in children:
            with open("/proc/%s/status" % child, encoding="ascii") as f:
                status = dict(line.split(":\t", 1) for line in f.read().splitlines())
            if status["State"].startswith("Z"):
                continue
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"), status)
            if status["Uid"].split()[0] != "0":
                theirs.append(status)
        self.assertIn("reclaim-proxy", [status["Name"] for status in theirs])
        self.assertIn("reclaim-worker", [status["Name"] for status in theirs])
        for status in theirs:
            for ids in ("Uid", "Gid"):
                self.assertEqual(set(status[ids].split()), {str(USER)}, status)
            for caps in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                self.assertEqual(int(status[caps], 16), 0, status)


class Hanging(Safety):
    """A user's filesystem that answers nothing any more."""

    def mount(self, kind):
        """Mounts it, and leaves the switch on."""
        self.trigger = self.path("trigger")
        write(self.trigger)
        return self.mount_hangfs(self.path("hangs"), kind, self.trigger)

    def others_go_on(self):
        for uid in (0, OTHER):
            with user(uid):
                write(self.path("of-%d" % uid))
            c = self.daemon.client(uid)
            self.assertEqual(c.wait(c.submit(self.path("of-%d" % uid))), "done")

    def finish(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.trigger)
        super().finish()

    def test_13_asked_by_the_daemon(self):
        at = self.mount("root")
        c = self.daemon.client(USER)
        with user():
            n = c.submit(os.path.join(at, "tree"))
        self.assertEqual(c.wait(n), "failed")
        self.assertIn("staging", c.get(n, "Inplace"))
        self.others_go_on()

    def test_13_asked_by_the_worker(self):
        at = self.mount("look")
        os.unlink(self.trigger)
        c = self.daemon.client(USER)
        fd = os.open(at, os.O_PATH)
        write(self.trigger)
        c.send("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"tree")], {}, fds=[fd])
        os.close(fd)
        self.others_go_on()

    def test_13_closing_a_file(self):
        """A process that has such a file and closes it, or ends, waits: this sender, but not the daemon."""
        mounted, mount = os.pipe()
        told, tell = os.pipe()
        sender = os.fork()
        if sender == 0:
            try:
                os.close(told)
                os.read(mounted, 1)
                self.send_files(self.path("hangs"), tell)
            finally:
                os._exit(0)
        os.close(tell)
        self.addCleanup(os.waitpid, sender, 0)
        self.mount("flush")
        os.write(mount, b"x")
        self.assertEqual(os.read(told, 1), b"x")
        for fd in (mounted, mount, told):
            os.close(fd)
        self.others_go_on()

    def send_files(self, at, tell):
        """In calls that are refused, served, and never complete."""
        clients = [self.daemon.client(USER) for _ in range(3)]
        fds = [os.open(at, os.O_PATH), os.open(os.path.join(at, "names"), os.O_RDONLY)]
        clients[0].send("NoSuchMethod", "h", 1, fds=fds)
        clients[1].send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {}, fds=fds)
        clients[2].socket.sendmsg([b"l"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                            array.array("i", fds))])
        os.write(tell, b"x")


class Staging(Safety):
    def test_staging_made_by_user_is_rejected(self):
        """A .reclaim that is not root's is not used, nor looked into, nor changed."""
        os.chmod(self.root, 0o777)
        with user():
            build(self.root, ".reclaim/%d/" % USER)
            os.chmod(os.path.join(self.root, ".reclaim"), 0o711)
        write(self.path("roots"))
        self.own("mine")
        for uid, name in ((0, "roots"), (USER, "mine")):
            c = self.daemon.client(uid)
            n = c.submit(self.path(name))
            self.assertEqual(c.wait(n), "done")
            self.assertTrue(c.get(n, "Inplace"))
        self.assertEqual(os.listdir(os.path.join(self.root, ".reclaim")), [str(USER)])

    def test_staging_with_mount_is_rejected(self):
        """What is there then is on another filesystem, of whatever owner."""
        at = os.path.join(self.root, ".reclaim")
        os.mkdir(at, 0o711)
        command("mount", "-t", "tmpfs", "-o", "mode=0711", "tmpfs", at)
        write(self.path("roots"))
        c = self.daemon.client()
        n = c.submit(self.path("roots"))
        self.assertEqual(c.wait(n), "done")
        self.assertTrue(c.get(n, "Inplace"))
        self.assertEqual(os.listdir(at), [])
        unmounted(at)

    def test_staging_as_link_is_rejected(self):
        os.chmod(self.root, 0o777)
        with user():
            os.symlink(self.path("canary"), os.path.join(self.root, ".reclaim"))
        write(self.path("roots"))
        c = self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("roots"))), "done")

    def test_staging_renamed_by_root_is_kept(self):
        """Who owns the root of a mount can call a directory of root's .reclaim, and must not have
        root remove for him what he could not remove."""
        build(self.root, "roots/%d/void/" % OTHER)
        os.chown(self.root, USER, USER)
        with user():
            os.rename(os.path.join(self.root, "roots"), os.path.join(self.root, ".reclaim"))
        self.daemon.stop()
        self.daemon.start()
        self.daemon.client().call("ListJobs", "a{sv}", {})
        self.daemon.stop()
        self.assertEqual(fixture.listing(os.path.join(self.root, ".reclaim")),
                         ["%d" % OTHER, "%d/void" % OTHER])

    def test_staging_closed_by_root_is_kept(self):
        build(self.root, "roots/secret")
        os.chmod(os.path.join(self.root, "roots"), 0)
        os.chown(self.root, USER, USER)
        with user():
            os.rename(os.path.join(self.root, "roots"), os.path.join(self.root, ".reclaim"))
        self.own("mine")
        c = self.daemon.client(USER)
        self.assertEqual(c.wait(c.submit(self.path("mine"))), "done")
        self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.root, ".reclaim")).st_mode), 0)


class Trash(Safety):
    """contrib/trash/reclaim-trash, run by root for a user."""

    def trash(self, *names):
        for directory in ("files", "info"):
            os.makedirs(self.path(*names, directory))
        write(self.path(*names, "files", "old"))
        write(self.path(*names, "info", "old.trashinfo"), "[Trash Info]\nDeletionDate=2020-01-01T00:00:00\n")

    def empty(self, *names, status):
        programs = os.path.join(self.daemon.dir, "bin")
        os.makedirs(programs, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(scratch.binary, os.path.join(programs, "reclaimctl"))
        p = Proc([sys.executable, os.path.join(TOP, "contrib/trash/reclaim-trash"), self.path(*names)], self.root,
                 env={"PATH": programs + ":" + os.environ["PATH"],
                      "RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)})
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def test_05_root_follows_no_link_of_a_user(self):
        self.trash("theirs", "Trash")
        os.mkdir(self.path("own"))
        os.symlink(self.path("theirs", "Trash"), self.path("own", "Trash"))
        os.symlink("theirs", self.path("link"))
        for names in (("own", "Trash"), ("link", "Trash")):
            self.assertIn("root follows no symbolic link there", self.empty(*names, status=1).err)
        self.assertTrue(os.path.exists(self.path("theirs", "Trash", "files", "old")))
        # Behind a link in it, nothing is accepted.
        self.trash("other")
        os.rename(self.path("other", "files"), self.path("elsewhere"))
        os.symlink(self.path("elsewhere"), self.path("other", "files"))
        self.empty("other", status=1)
        self.assertTrue(os.path.exists(self.path("elsewhere", "old")))
        self.empty("missing", status=0)
        self.empty("theirs", "Trash", status=0)
        self.daemon.wait_gone(self.path("theirs", "Trash", "files", "old"))


if __name__ == "__main__":
    fixture.main()
