#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Protected places that are recognised where they are, not by a list: staging areas, homes of accounts
that cannot be listed, devices, sockets, and databases of package managers."""
import os
import socket
import stat

import contents
import daemon_fixture
import dbuswire
import fixture
from fixture import Proc, USER, build, command, scratch, write

HOUR = 3600 * 1000000
REMOTE = 64002  # the account that nss-hidden.c has


class Case(daemon_fixture.Case):
    env = None

    def ctl(self, *words, cwd=None, **how):
        return Proc([scratch.binary, *words], cwd or self.data, env=self.env, **how).finish()

    def bind(self, source, name):
        target = os.path.join(self.daemon.dir, name)
        os.makedirs(target, exist_ok=True)
        command("mount", "--bind", source, target)
        self.addCleanup(fixture.unmount, target)
        return target

    def unsubmitted(self, path, why):
        with self.assertRaises(dbuswire.Error, msg=path) as e:
            self.daemon.client().submit(path, undo_usec=HOUR)
        self.assertIn(why, e.exception.text, path)

    def kept(self, path, why, cwd=None):
        """By run, a list of run, and plan; if the path is absolute, by submit too."""
        at = os.path.join(cwd or self.data, path)
        before = os.lstat(at)
        write(self.path("list"), path + "\n")
        for words in (["run", path], ["run", "--files-from=" + self.path("list")], ["plan", path]):
            r = self.ctl(*words, cwd=cwd)
            self.assertEqual(r.status, 1, (words, r))
            self.assertIn(why, r.out + r.err, words)
        if os.path.isabs(path):
            self.unsubmitted(path, why)
        self.assertEqual(os.lstat(at).st_ino, before.st_ino)

    def goes(self, path):
        r = self.ctl("run", path)
        self.assertEqual(r.status, 0, (path, r))
        self.assertFalse(os.path.lexists(os.path.join(self.data, path)))


class Staging(Case):
    why = "belongs to reclaimd itself"

    def setUp(self):
        super().setUp()
        build(self.data, "t/f = held")
        c = self.daemon.client()
        self.number = c.submit(self.path("t"), undo_usec=HOUR)
        self.top = os.path.join(self.root, ".reclaim")
        [self.job] = self.in_staging()
        self.held = os.path.join(self.job, "1")
        self.assertTrue(os.path.isdir(self.held))

    def comes_back(self):
        self.daemon.client().call("Restore", "ta{sv}", self.number, {})
        with open(self.path("t/f")) as f:
            self.assertEqual(f.read(), "held")

    def paths(self):
        return [self.top, os.path.dirname(self.job), self.job, self.held, os.path.join(self.held, "f")]

    def test_attack_59_by_path(self):
        before = contents.fingerprint(os.fsencode(self.top))
        for path in self.paths():
            self.kept(path, self.why)
        # From inside, and relative.
        self.kept("1", self.why, cwd=self.job)
        self.kept("f", self.why, cwd=self.held)
        self.kept(os.path.relpath(self.held, self.root), self.why, cwd=self.root)
        os.symlink(self.job, self.path("link"))
        self.kept("link/1", "symbolic link on the way")
        self.assertEqual(contents.fingerprint(os.fsencode(self.top)), before)
        self.comes_back()

    def test_attack_59_without_a_daemon(self):
        self.daemon.stop()
        for path in self.paths():
            self.assertIn(self.why, self.ctl("run", path).err, path)
        self.daemon.start()
        self.comes_back()

    def test_attack_59_by_mounts(self):
        """Of the area, of a part of it, and of what holds it."""
        for number, path in enumerate(self.paths()[:-1]):
            alias = self.bind(path, "alias-%d" % number)
            for name in os.listdir(alias):
                self.kept(os.path.join(alias, name), self.why)
        alias = self.bind(self.root, "root")
        self.kept(os.path.join(alias, ".reclaim"), self.why)
        self.kept(os.path.join(alias, os.path.relpath(self.held, self.root)), self.why)
        self.comes_back()

    def test_attack_59_of_another_host(self):
        for name, mode, uid in (("@other", 0o711, 0), ("@other/0", 0o700, 0), ("@other/0/job", 0o700, 0)):
            os.mkdir(os.path.join(self.top, name), mode)
        held = os.path.join(self.top, "@other/0/job/1")
        write(held)
        for path in (held, os.path.dirname(held), os.path.join(self.top, "@other")):
            self.kept(path, self.why)
        self.comes_back()

    def test_attack_59_by_a_policy(self):
        conf = os.path.join(self.daemon.dir, "policy")
        os.mkdir(conf)
        for base in (self.job, self.held):
            write(os.path.join(conf, "reclaimd.yaml"), "policies: {p: {path: %s, max-age: 1s, match: '*'}}\n" % base)
            r = self.ctl("policy", "plan", "p", "--configuration-directory=" + conf)
            self.assertIn(self.why, r.out + r.err, r)
        self.comes_back()

    def test_attack_59_what_is_not_ours(self):
        """The name alone protects nothing."""
        build(self.data, "mine/.reclaim/a/f\nmine/.reclaim/b\nmine/d/.reclaim\nroots/.reclaim/f")
        command("chown", "-R", "%d:%d" % (USER, USER), self.path("mine"))
        self.goes("mine/.reclaim/a/f")
        c = self.daemon.client(USER)
        n = c.submit(self.path("mine/.reclaim/b"), undo_usec=HOUR)
        c.call("Restore", "ta{sv}", n, {})
        self.assertTrue(os.path.exists(self.path("mine/.reclaim/b")))
        self.goes("mine/d/.reclaim")
        self.assertEqual(c.wait(c.submit(self.path("mine/.reclaim"))), "done")
        self.goes("roots/.reclaim/f")
        self.goes("roots/.reclaim")
        self.comes_back()


class Homes(Case):
    """Of an account that getpwent(3) does not return."""
    why = "account's home directory"

    def setUp(self):
        super().setUp()
        build(self.data, "homes/remote/f\nhomes/other/f\nreal/f")
        self.home = self.path("homes/remote")
        command("chown", "-R", str(REMOTE), self.home)

    def account(self, home):
        """Adds the account to what reclaimctl and the daemon are told."""
        at = os.path.join(self.daemon.dir, "nss-%d" % len(os.listdir(self.daemon.dir)))
        os.mkdir(at)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nss-hidden.c")
        command("cc", "-shared", "-fPIC", "-O2", "-DACCOUNT_UID=%d" % REMOTE, '-DACCOUNT_HOME="%s"' % home,
                "-o", os.path.join(at, "libnss_hidden.so.2"), program)
        write(os.path.join(at, "nsswitch.conf"), "passwd: files hidden\ngroup: files\n")
        command("mount", "--bind", os.path.join(at, "nsswitch.conf"), "/etc/nsswitch.conf")
        self.addCleanup(fixture.unmount, "/etc/nsswitch.conf")
        self.env = {"LD_LIBRARY_PATH": at}
        self.daemon.stop()
        self.daemon.start(env=self.env)

    def test_attack_60_by_its_owner(self):
        self.account(self.home)
        write(self.path("one"), "homes/remote\n")
        for words in (["run", "homes/remote"], ["run", self.home + "/"], ["plan", self.home]):
            r = self.ctl(*words)
            self.assertEqual(r.status, 1, (words, r))
            self.assertIn(self.why, r.out + r.err)
        self.unsubmitted(self.home, self.why)
        c = self.daemon.client()
        with self.assertRaises(dbuswire.Error) as e:
            c.submit_list(self.path("homes"), ["other", "remote"])
        self.assertIn(self.why, e.exception.text)
        alias = self.bind(self.path("homes"), "alias")
        self.unsubmitted(os.path.join(alias, "remote"), self.why)
        # What lies in it may go, and so may another directory of its owner.
        self.goes("homes/remote/f")
        os.chown(self.path("homes/other"), REMOTE, REMOTE)
        self.goes("homes/other")

    def test_attack_60_by_a_symbolic_link(self):
        os.chown(self.path("real"), REMOTE, REMOTE)
        os.symlink(self.path("real"), self.path("homes/link"))
        os.chown(self.path("homes/link"), REMOTE, REMOTE, follow_symlinks=False)
        self.account(self.path("homes/link"))
        self.kept_alone(self.path("real"))
        self.kept_alone(self.path("homes/link"))

    def kept_alone(self, path):
        r = self.ctl("run", path)
        self.assertEqual(r.status, 1, r)
        self.assertIn(self.why, r.err)
        self.unsubmitted(path, self.why)

    def test_attack_60_below_home(self):
        """What holds it, a list, and a home that is another user's."""
        build(self.data, "top/REALM/r/remote/f\ntop/REALM/r/g\ntop/free/d/f")
        os.chown(self.path("top/REALM/r/remote"), REMOTE, REMOTE)
        command("mount", "--bind", self.path("top"), "/home")
        self.addCleanup(fixture.unmount, "/home")
        self.account("/home/REALM/r/remote")
        for path in ("/home/REALM/r/remote", "/home/REALM/r", "/home/REALM", self.path("top/REALM")):
            self.kept(path, self.why)
        self.goes("/home/REALM/r/g")
        self.goes("/home/free")
        os.chown("/home/REALM/r/remote", 0, 0)
        self.kept("/home/REALM/r/remote", self.why)


class System(Case):
    def mount(self, at):
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", at)
        self.addCleanup(command, "umount", "-l", at)

    def bound(self, path):
        s = socket.socket(socket.AF_UNIX)
        self.addCleanup(s.close)
        s.bind(path)

    def test_attack_61_devices_on_a_tmpfs(self):
        """As in a container."""
        alias = self.path("alias")
        os.mkdir(alias)
        script = """
            set -e
            mount -t tmpfs -o mode=0755 tmpfs /dev
            mknod -m 666 /dev/null c 1 3
            mkdir -p /dev/d /dev/shm/d
            touch /dev/d/f /dev/shm/d/f
            mount --bind /dev $ALIAS
            cd /
            for p in /dev/null /dev/d /dev/d/f /dev/shm /dev dev/null $ALIAS/null $ALIAS/d/f; do
                ! "$RECLAIMCTL" run $p
                test -e $p
            done
            "$RECLAIMCTL" run /dev/shm/d
            test ! -e /dev/shm/d
        """
        p = Proc(["unshare", "-m", "sh", "-c", script], self.data, env={"RECLAIMCTL": scratch.binary, "ALIAS": alias}).finish()
        self.assertEqual(p.status, 0, p)
        self.assertRegex(p.err, "/dev/null: belongs to the system")

    def test_attack_61_sockets_and_nodes_in_run(self):
        self.mount("/run")
        build("/run", "systemd/x\ndbus/\napp/deep/f\nfree/f\nuser/")
        os.makedirs("/run/user/%d" % USER)
        self.mount("/run/user/%d" % USER)
        self.bound("/run/systemd/private")
        self.bound("/run/dbus/system_bus_socket")
        self.bound("/run/app/deep/socket")
        self.bound("/run/user/%d/bus" % USER)
        os.mknod("/run/node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        for path, why in (("/run/systemd", "belongs to the system"), ("/run/systemd/private", "belongs to the system"),
                          ("/run/systemd/x", "belongs to the system"), ("/run/dbus", "belongs to the system"),
                          ("/run/dbus/system_bus_socket", "belongs to the system"),
                          ("/run/app/deep/socket", "is a socket in /run"), ("/run/app/deep", "holds a socket in /run"),
                          ("/run/app", "holds a socket in /run"), ("/run/node", "is a device node in /run"),
                          ("/run/user/%d/bus" % USER, "is a socket in /run"), ("/run/user", ""), ("/run/user/%d" % USER, "")):
            self.kept(path, why)
        app = self.bind("/run/app", "alias")
        self.kept(app + "/deep/socket", "is a socket in /run")
        self.kept(app + "/deep", "holds a socket in /run")
        self.goes("/run/app/deep/f")
        self.goes("/run/free")

    def test_attack_62_package_databases(self):
        fake = self.path("lib")
        build(fake, "dpkg/status\nrpm/Packages\npacman/local/p/desc\napt/extended_states\napt/lists/l\ndnf/history.sqlite\n"
                    "other/f\nsystemd/coredump/c")
        command("mount", "--bind", fake, "/var/lib")
        self.addCleanup(fixture.unmount, "/var/lib")
        for path in ("dpkg", "dpkg/status", "rpm", "rpm/Packages", "pacman/local/p/desc", "pacman/local", "dnf/history.sqlite",
                     "apt/extended_states"):
            self.kept("/var/lib/" + path, "belongs to a package manager")
            self.kept(os.path.join(fake, path), "belongs to a package manager")
        self.kept("/var/lib/apt", "holds what is protected")
        self.kept("/var/lib/systemd", "directory of the system")
        for path in ("apt/lists", "other", "systemd/coredump/c"):
            self.goes("/var/lib/" + path)


if __name__ == "__main__":
    fixture.main()
