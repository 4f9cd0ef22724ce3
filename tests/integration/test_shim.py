#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The shim, loaded into real programs, with a real reclaimd and without one."""
import contextlib
import errno
import glob
import os
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import daemon_fixture
import fixture
from fixture import MIB, USER, command, scratch

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(os.environ.get("RECLAIMCTL", "."))))
LARGE = 2 * MIB


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        # Where every user can run them.
        self.shim = os.path.join(scratch.dir, "reclaim-shim.so")
        self.helper = os.path.join(scratch.dir, "reclaim-hand-over")
        if not os.path.exists(self.shim):
            shutil.copy(os.path.join(BUILD, "lib", "reclaim-shim.so"), self.shim)
            shutil.copy(os.path.join(BUILD, "bin", "reclaim-hand-over"), self.helper)
        os.chmod(self.data, 0o777)

    def env(self, **more):
        """What the shim wants; the timeout is one for slow machines and sanitizers."""
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C", "LD_PRELOAD": self.shim,
               "RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket),
               "RECLAIM_SHIM_PATHS": "/nowhere:" + self.data, "RECLAIM_SHIM_SIZE": "1M",
               "RECLAIM_SHIM_TIMEOUT": "60s", "RECLAIM_SHIM_HELPER": self.helper}
        env.update(more)
        return {name: value for name, value in env.items() if value is not None}

    def large(self, *names, size=LARGE):
        path = self.path(*names)
        with open(path, "wb") as f:
            f.write(b"x" * size)
        return path

    def run_it(self, *words, env=None, status=0, cwd=None, user=None):
        ids = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        p = subprocess.run(words, env=self.env(**(env or {})), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, cwd=cwd or self.data, check=False, timeout=fixture.TIMEOUT, **ids)
        self.assertEqual(p.returncode, status, p)
        return p.stdout

    def unlinker(self, *words, **kw):
        return self.run_it(scratch.helper("unlinker"), *words, **kw).splitlines()

    def handed_over(self):
        """The names of all jobs, which are waited for."""
        client = self.daemon.client()
        jobs = client.jobs(finished=True)
        for job in jobs:
            self.assertEqual(client.wait(job["id"]), "done")
        return sorted(os.path.basename(os.fsdecode(bytes(job["path"]))) for job in jobs)


class Programs(Case):
    def test_rm(self):
        os.mkdir(self.path("tree"))
        for name in ("a", "tree/b"):
            self.large(name)
        self.large("small", size=4096)
        self.run_it("rm", "-r", "a", "tree", "small")
        self.assertEqual(os.listdir(self.data), [])
        self.assertEqual(self.handed_over(), ["a", "b"])

    def test_python(self):
        os.mkdir(self.path("d"))
        for name in ("a", "b", "d/c"):
            self.large(name)
        self.run_it(sys.executable, "-c", """if 1:
            import os
            os.unlink(os.path.abspath("a"))
            os.remove("d/../b")
            fd = os.open("d", os.O_RDONLY)
            os.unlink("c", dir_fd=fd)
            for name in ("a", "b"):
                try:
                    os.unlink(name)
                except FileNotFoundError:
                    pass
            """)
        self.assertEqual(os.listdir(self.data), ["d"])
        self.assertEqual(self.handed_over(), ["a", "b", "c"])

    def test_remove_of_the_c_library(self):
        self.assertEqual(self.unlinker("remove", self.large("a")), ["remove: 0"])
        os.mkdir(self.path("d"))
        self.assertEqual(self.unlinker("remove", self.path("d")), ["remove: 0"])
        self.assertEqual(self.handed_over(), ["a"])

    def test_as_a_user(self):
        self.large("a")
        os.chown(self.path("a"), USER, USER)
        self.run_it("rm", "a", user=USER)
        self.assertEqual(self.handed_over(), ["a"])
        self.assertEqual(self.daemon.client().job(1)["uid"], USER)

    @unittest.skipUnless(shutil.which("sqlite3"), "there is no sqlite3")
    def test_vacuum_of_sqlite(self):
        """Its rollback journal is as long as the database, and deleted with unlink()."""
        fill = ("pragma page_size=4096; create table t(x); with recursive n(i) as (values(1) union all select i+1 "
                "from n where i<400) insert into t select randomblob(10000) from n; delete from t where rowid%2;")
        self.run_it("sqlite3", "db", fill, env={"LD_PRELOAD": None})
        self.run_it("sqlite3", "db", "vacuum;")
        self.assertIn("db-journal", self.handed_over())
        self.assertEqual(self.run_it("sqlite3", "db", "pragma integrity_check; select count(*) from t;"),
                         "ok\n200\n")
        self.assertEqual(os.listdir(self.data), ["db"])


class Doubt(Case):
    """The file goes, by the program itself."""

    def check_not_handed_over(self, *words, **kw):
        self.run_it(*words, **kw)
        self.assertEqual(self.daemon.client().jobs(finished=True), [])

    def test_unlink_of_small_files_asks_nothing(self):
        for env in ({"RECLAIM_SHIM_PATHS": None}, {"RECLAIM_SHIM_PATHS": ""}, {"RECLAIM_SHIM_PATHS": "fs"},
                    {"RECLAIM_SHIM_PATHS": self.data + "x"}, {"RECLAIM_SHIM_PATHS": self.data + "/" * 5000},
                    {"RECLAIM_SHIM_SIZE": "2M1"}, {"RECLAIM_SHIM_SIZE": "3M"}, {"RECLAIM_SHIM_TIMEOUT": "1h"},
                    {"RECLAIM_SHIM_HELPER": "/nowhere/at/all"}, {"RECLAIM_SHIM_HELPER": "/bin/true"},
                    {"RECLAIM_SHIM_HELPER": "/bin/false"}):
            with self.subTest(env):
                self.large("a")
                self.check_not_handed_over("rm", "a", env=env)
                self.assertEqual(os.listdir(self.data), [])

    def test_unlink_of_other_files_asks_nothing(self):
        self.large("kept")
        os.link(self.path("kept"), self.path("hard"))
        os.symlink("kept", self.path("symbolic"))
        with open(self.path("sparse"), "wb") as f:
            f.truncate(LARGE)
        os.mkfifo(self.path("fifo"))
        self.check_not_handed_over("rm", "hard", "symbolic", "sparse", "fifo")
        self.assertEqual(os.listdir(self.data), ["kept"])

    def test_elsewhere(self):
        elsewhere = os.path.join(self.root, "elsewhere")
        os.mkdir(elsewhere)
        with open(os.path.join(elsewhere, "a"), "wb") as f:
            f.write(b"x" * LARGE)
        os.symlink(elsewhere, self.path("link"))
        self.check_not_handed_over("rm", "link/a")
        self.assertEqual(os.listdir(elsewhere), [])

    def test_other_ways_to_the_directory(self):
        """The setting means directories, whatever they are called."""
        os.symlink(self.data, os.path.join(self.root, "alias"))
        os.makedirs(self.path("x/y"))
        for env, word in (({"RECLAIM_SHIM_PATHS": os.path.join(self.root, "alias")}, self.path("a")),
                          ({}, os.path.join(self.root, "alias", "a")), ({}, "../data/x/../a")):
            self.large("a")
            self.run_it("rm", word, env=env)
        self.large("x/y/a")
        self.run_it("rm", "a", cwd=self.path("x/y"))
        self.assertEqual(self.handed_over(), ["a"] * 4)

    def test_errors_are_those_of_unlink(self):
        os.chmod(self.data, 0o755)
        path = self.large("a")
        self.assertEqual(self.unlinker("errors", path, path + "/", "", self.path("absent"), user=USER),
                         ["EACCES", "ENOTDIR", "ENOENT", "ENOENT", "errors: 0"])
        self.assertEqual(self.unlinker("errors", self.data), ["EISDIR", "errors: 0"])
        self.assertEqual(self.daemon.client().jobs(finished=True), [])

    def test_other_rights(self):
        """Who has changed its user would hand over as another: not even the helper is run."""
        called, helper = self.path("called"), os.path.join(self.daemon.dir, "helper")
        with open(helper, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\necho >'%s'\n" % called)
        os.chmod(helper, 0o755)
        for change in ("os.seteuid(%d)" % USER, "os.setegid(%d)" % USER, "pass"):
            self.large("a")
            os.chown(self.path("a"), USER, USER)
            self.run_it(sys.executable, "-c", "import os; %s; os.unlink('a')" % change,
                        env={"RECLAIM_SHIM_HELPER": helper})
            self.assertEqual(os.listdir(self.data), ["called"] if change == "pass" else [])

    def test_no_daemon(self):
        self.daemon.stop()
        self.large("a")
        self.run_it("rm", "a")
        self.assertEqual(os.listdir(self.data), [])

    def test_unlink_when_daemon_hangs(self):
        """Its answer comes too late, and has no effect: not on the file that has got the name since."""
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            self.large("a")
            begin = time.monotonic()
            self.run_it("rm", "a", env={"RECLAIM_SHIM_TIMEOUT": "200ms"})
            took = time.monotonic() - begin
            self.large("a")
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        self.assertGreaterEqual(took, 0.2)
        self.assertEqual(self.daemon.client().jobs(finished=True), [])
        self.assertEqual(os.listdir(self.data), ["a"])

    def test_unlink_by_job_in_place(self):
        """The name is gone nevertheless, when unlink() has returned."""
        self.daemon.configure("staging: off\n")
        self.daemon.client().call("Reload", "")
        self.daemon.client().call("PauseAll", "")
        self.large("a")
        self.run_it("rm", "a")
        self.assertEqual(os.listdir(self.data), [])


class Rights(Case):
    """Of programs that may do other things than the process that the daemon would hear of."""

    def setUp(self):
        super().setUp()
        self.called, helper = os.path.join(self.root, "called"), os.path.join(self.daemon.dir, "helper")
        with open(helper, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\nexec >>'%s'\necho x\n" % self.called)
        os.chmod(helper, 0o755)
        os.chmod(self.root, 0o777)
        self.helper, self.real_helper = helper, self.helper

    def whose(self):
        """Names of all jobs, and who had them deleted."""
        jobs = self.daemon.client().jobs(finished=True, limit=1000)
        return {os.path.basename(j["path"]).decode(): j["uid"] for j in jobs}

    def was_called(self):
        if not os.path.exists(self.called):
            return False
        os.unlink(self.called)
        return True

    def make(self, name, mode, owner=0, capabilities=0):
        """A program that has the shim in it, whatever the environment says: LD_PRELOAD is not all."""
        path = os.path.join(self.root, name)
        command("cc", "-O2", "-D_GNU_SOURCE", "-o", path, os.path.join(os.path.dirname(__file__), "unlinker.c"),
                "-Wl,--no-as-needed", self.shim)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
        if capabilities:
            os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, capabilities, 0, 0, 0))
        return path

    def test_attack_22_programs_with_more_rights_than_their_caller(self):
        dac_override = 1 << 1
        for name, special, args in (
                ("plain", False, {"mode": 0o755}), ("setuid", True, {"mode": 0o4755}),
                ("setgid", True, {"mode": 0o2755}), ("to-another", True, {"mode": 0o4755, "owner": USER + 1}),
                ("capable", True, {"mode": 0o755, "capabilities": dac_override})):
            program = self.make(name, **args)
            for how in ("remove", "dropped", "vfork"):
                for preload in (None, self.shim):
                    with self.subTest(name, how=how, preload=preload):
                        os.chown(self.large("a"), USER, USER)
                        self.run_it(program, how, self.path("a"), user=USER, env={"LD_PRELOAD": preload})
                        self.assertEqual(os.listdir(self.data), [])
                        self.assertEqual(self.was_called(), not special)

    def test_attack_22_threads_give_up_their_rights(self):
        """What is removed after that is removed by the user, though all began as root."""
        os.chown(self.data, USER, USER)
        for i in range(1, 5):
            for name in ["before.%d.%d" % (i, k) for k in range(16)] + ["after.%d.0" % i, "after.%d.1" % i]:
                os.chown(self.large(name, size=MIB), USER, USER)
        self.helper = self.real_helper
        self.assertEqual(self.unlinker("giving-up", str(USER)), ["giving-up: 0"])
        jobs = self.whose()
        self.assertGreaterEqual(list(jobs.values()).count(0), 6, jobs)
        after = {name: uid for name, uid in jobs.items() if name.startswith("after")}
        self.assertEqual(len(after), 8)
        self.assertEqual(set(after.values()), {USER})

    def test_attack_22_one_thread_is_another_user(self):
        os.chown(self.data, USER, USER)
        for name in ("by-user", "by-root"):
            os.chown(self.large(name), USER, USER)
        self.helper = self.real_helper
        self.assertEqual(self.unlinker("one-thread", str(USER)), ["one-thread: 0"])
        self.assertEqual(self.whose(), {"by-user": USER, "by-root": 0})

    def check_kept(self, error, prepare, path, **kw):
        said = self.run_it(sys.executable, "-c", prepare + "\ntry: os.unlink(%r)\nexcept OSError as e: print(e.errno)"
                           % path, **kw)
        self.assertEqual(said.strip(), str(error))
        self.assertFalse(self.was_called())
        self.assertTrue(os.path.exists(path))

    def test_attack_22_what_the_kernel_would_not_let_the_program_do(self):
        """root has its capabilities again when it runs the helper, and a mount its other ways in."""
        drop = ("import ctypes, os, struct\n"
                "header, kept = struct.pack('<II', 0x20080522, 0), (ctypes.c_uint32 * 6)()\n"
                "c = ctypes.CDLL(None)\n"
                "assert c.capget(header, kept) == 0\n"
                "kept[0] &= ~%d\n"
                "assert c.capset(header, kept) == 0")
        os.mkdir(self.path("own"), 0o755)
        path = self.large("own", "a")
        for p in (self.path("own"), path):
            os.chown(p, USER, USER)
        some = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        self.check_kept(errno.EACCES, drop % some, path)
        os.chmod(self.path("own"), 0o1777)
        some = 1 << 3  # CAP_FOWNER
        self.check_kept(errno.EPERM, drop % some, path)
        os.chmod(self.path("own"), 0o777)
        view = os.path.join(self.root, "view")
        os.mkdir(view)
        command("mount", "--bind", self.data, view)
        self.addCleanup(command, "umount", "-l", view)
        command("mount", "-o", "remount,bind,ro", view)
        self.check_kept(errno.EROFS, "import os", os.path.join(view, "own", "a"))
        # And where it would.
        self.run_it(sys.executable, "-c", "import os; os.unlink(%r)" % path)
        self.assertTrue(self.was_called())

    def test_attack_22_what_a_sandbox_would_not_let_the_program_do(self):
        """Landlock's rules do not show where the kernel is asked; that there may be some does."""
        sandbox = ("import ctypes, os, struct, sys\n"
                   "c = ctypes.CDLL(None, use_errno=True)\n"
                   "assert c.prctl(38, 1, 0, 0, 0) == 0\n")  # PR_SET_NO_NEW_PRIVS
        rules = ("attr = struct.pack('<Q', 1 << 5)\n"  # LANDLOCK_ACCESS_FS_REMOVE_FILE, and no rule for it
                 "fd = c.syscall(444, attr, len(attr), 0)\n"
                 "if fd < 0: sys.exit('no Landlock')\n"
                 "assert c.syscall(446, fd, 0) == 0\n")
        # Without rules the program itself unlinks it.
        path = self.large("a")
        self.run_it(sys.executable, "-c", sandbox + "os.unlink(%r)" % path)
        self.assertFalse(self.was_called())
        self.assertFalse(os.path.exists(path))
        if subprocess.run([sys.executable, "-c", sandbox + rules], check=False).returncode != 0:
            self.skipTest("this kernel has no Landlock")
        self.check_kept(errno.EACCES, sandbox + rules, self.large("a"))


class Anywhere(Case):
    """unlink() may be called from anywhere."""

    def test_in_a_signal_handler(self):
        for _ in range(5):
            self.assertEqual(self.unlinker("handler", self.large("a")), ["handler: 0"])
        self.assertEqual(self.handed_over(), ["a"] * 5)

    def test_beside_children(self):
        """The program sees no child but its own, and no signal of another."""
        self.assertEqual(self.unlinker("child", self.large("a")),
                         ["ends: 0, waiting: 0", "status: 7", "then: -1", "child: 0"])
        self.assertEqual(self.unlinker("ignoring", self.large("b")), ["ignoring: 0"])
        self.assertEqual(self.handed_over(), ["a", "b"])

    def test_in_a_child_of_vfork(self):
        self.assertEqual(self.unlinker("vfork", self.large("a")), ["vfork: 0"])
        self.assertEqual(self.handed_over(), ["a"])

    def test_in_threads(self):
        names = [self.large("f%02d" % i) for i in range(16)]
        self.assertEqual(self.unlinker("threads", *names), ["threads: 0"])
        self.assertEqual(self.handed_over(), ["f%02d" % i for i in range(16)])

    def test_traces(self):
        """errno, signal mask and descriptors are as if nothing had been."""
        self.assertEqual(self.unlinker("bare", self.large("a")), ["errno: ENOTTY, mask: 0", "bare: 0"])
        self.assertEqual(self.handed_over(), ["a"])

    def test_symbols(self):
        said = command("nm", "-D", "--defined-only", os.path.join(BUILD, "lib", "reclaim-shim.so"))
        self.assertEqual({line.split()[2] for line in said.splitlines()}, {"unlink", "unlinkat", "remove"})


def postgres():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    with contextlib.suppress(KeyError):
        pwd.getpwnam("postgres")
        return found[-1] if found else None
    return None


@unittest.skipUnless(postgres(), "there is no PostgreSQL")
class PostgreSQL(Case):
    """A server whose files are deleted by the shim. What it drops for good it truncates before it
    unlinks it, so that nothing is left to be handed over; temporary tables and files it does not."""

    def setUp(self):
        super().setUp()
        self.cluster = self.path("cluster")
        os.mkdir(self.cluster, 0o700)
        self.account = pwd.getpwnam("postgres")
        os.chown(self.cluster, self.account.pw_uid, self.account.pw_gid)
        os.chmod(self.data, 0o777)
        self.postgres("initdb", "-D", self.cluster, "-A", "trust", "-N", "--no-locale", env={"LD_PRELOAD": None})
        self.postgres("pg_ctl", "-D", self.cluster, "-w", "-l", self.path("log"), "-o",
                      "-k %s -c listen_addresses= -c fsync=off" % self.data, "start")
        self.addCleanup(self.postgres, "pg_ctl", "-D", self.cluster, "-m", "immediate", "stop")

    def postgres(self, program, *arguments, env=None):
        # The server keeps what it is started with open.
        p = subprocess.run(["setpriv", "--reuid=%d" % self.account.pw_uid, "--regid=%d" % self.account.pw_gid,
                            "--clear-groups", os.path.join(postgres(), program), *arguments],
                           env=self.env(**(env or {})), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, cwd="/", check=False, timeout=fixture.TIMEOUT)
        self.assertEqual(p.returncode, 0, (program, self.daemon.said()))

    def test_drop_table(self):
        script = self.path("script")
        with open(script, "w", encoding="ascii") as f:
            f.write("create temp table t as select repeat('x', 1000) x, n from generate_series(1, 5000) n;\n"
                    "select 'file ' || pg_relation_filepath('t');\ndrop table t;\n"
                    "set work_mem = '64kB';\n"
                    "select count(*) from (select * from generate_series(1, 400000) n order by -n) s;\n")
        self.postgres("psql", "-v", "ON_ERROR_STOP=1", "-h", self.data, "-d", "postgres", "-o", self.path("out"),
                      "-qAt", "-f", script)
        with open(self.path("out"), encoding="ascii") as f:
            table, count = f.read().split("\n")[:2]
        self.assertEqual(count, "400000")
        table = os.path.basename(table)
        names = self.handed_over()
        self.assertIn(table, names)
        self.assertTrue([n for n in names if n.startswith("pgsql_tmp")], names)
        self.assertFalse(glob.glob(self.path("cluster/base/*/" + table)))


if __name__ == "__main__":
    fixture.main()
