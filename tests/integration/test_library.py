#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libreclaim with a real reclaimd: library.c calls each function and prints what it returns."""
import os
import re
import shutil
import signal
import subprocess
import unittest

import daemon_fixture
import fixture
from fixture import USER, Canary, Proc, build, command, scratch, write

BUILD = os.path.dirname(os.path.dirname(os.path.abspath(os.environ.get("RECLAIMCTL", "."))))
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOBODY = 65534
# As reclaim.h has them.
DONE, CANCELLED = 5, 8


def exported(path):
    """Functions and their versions, of a shared library."""
    said = command("nm", "-D", "--defined-only", path)
    return {line.split()[2] for line in said.splitlines() if line.split()[1] != "A"}


def in_map():
    with open(os.path.join(TOP, "src/lib/libreclaim.sym")) as f:
        version = None
        for word in re.findall(r"[\w*]+(?= \{|;)", f.read()):
            if word.startswith("RECLAIM_"):
                version = word
            elif word != "*":
                yield "%s@@%s" % (word, version)


class Case(daemon_fixture.Case):
    def env(self):
        return {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)}

    @staticmethod
    def program(name):
        """A copy that every user can run, with the library."""
        directory = os.path.join(scratch.dir, "library")
        if not os.path.exists(directory):
            os.mkdir(directory, 0o755)
            shutil.copy(os.path.join(BUILD, "lib", "libreclaim.so.0"), directory)
        if not os.path.exists(os.path.join(directory, name)):
            shutil.copy(os.path.join(BUILD, "bin", name), directory)
        return os.path.join(directory, name)

    def begin(self, *words, name="library", user=None, env=None):
        read, self.line = os.pipe()
        environment = {"LD_LIBRARY_PATH": os.path.join(scratch.dir, "library"), **self.env(), **(env or {})}
        p = Proc([self.program(name), *map(str, words)], self.data, env=environment, user=user, stdin=read)
        os.close(read)
        self.addCleanup(p.close)
        self.addCleanup(p.kill)
        self.addCleanup(os.close, self.line)
        return p

    def run_it(self, *words, status=0, **kw):
        r = self.begin(*words, **kw).finish()
        self.assertEqual(r.status, status, r)
        self.assertEqual(r.err, "", r)
        return r.out.splitlines()

    def submit(self, name, undo="", priority=0, timeout="", **kw):
        said = self.run_it("submit", self.data, name, undo, priority, timeout, **kw)
        self.assertEqual(said[0], "open: 0")
        return said[1:]

    def until_said(self, p, text):
        """Until the program has printed that."""
        self.until(lambda: text.encode() in os.pread(p.out.fileno(), 65536, 0))


class Functions(Case):
    def test_submit_and_wait(self):
        canary = Canary(self.path("canary"))
        build(self.data, "tree/a/b\nfile")
        self.assertEqual(self.submit("tree"), ["submit: 0", "job: 1"])
        self.assertEqual(sorted(os.listdir(self.data)), ["canary", "file"])
        wait, status = self.run_it("wait", 1, 60000000)[1:]
        self.assertEqual(wait, "wait: 0")
        self.assertRegex(status, r"^state: 5 job: 1 uid: 0 entries: 0 done: 3 bytes: \d+ freed: \d+ errors: 0 "
                                 r"created: 1 held: 0 started: 1 finished: 1$")
        canary.check()

    def test_options_of_submit(self):
        build(self.data, "held\nhigh\nlow")
        self.submit("held", undo=3600000000, priority=1)
        self.submit("high", undo=0, priority=2)
        client = self.daemon.client()
        self.assertEqual(client.wait(2), "done")
        jobs = client.jobs(ids=[1, 2], finished=True)
        self.assertEqual([(j["priority"], j["state"]) for j in jobs], [("low", "held"), ("high", "done")])
        self.assertRegex(self.run_it("get", 1)[2], r"^state: 1 job: 1 .* held: 1 started: 0 finished: 0$")
        # No time is left for it; outputs stay as they were.
        said = self.run_it("wait", 1, 0)
        self.assertEqual(said[1], "wait: ETIMEDOUT: the job has not ended yet")
        self.assertTrue(said[2].startswith("state: 77 job: 0 "), said)
        self.assertEqual(self.run_it("cancel", 1)[1:], ["cancel: 0"])
        self.assertEqual(sorted(os.listdir(self.data)), ["held", "low"])
        self.assertTrue(self.run_it("wait", 1, 0)[2].startswith("state: %d job: 1 " % CANCELLED))

    def test_refusals(self):
        write(self.path("file"))
        command("mount", "-t", "tmpfs", "tmpfs", self.make("mount"))
        self.addCleanup(command, "umount", self.path("mount"))
        self.daemon.configure("protect: [%s]\n" % self.make("kept"))
        self.daemon.client().call("Reload", "")
        for name, error in (("absent", "ENOENT"), ("mount", "EXDEV|EPERM"), ("kept", "EPERM"), ("..", "EINVAL"),
                            ("file/", "EINVAL"), ("", "EINVAL"), ("x" * 256, "ENAMETOOLONG")):
            with self.subTest(name):
                said = self.submit(name)
                self.assertRegex(said[0], "^submit: (%s): ." % error)
                self.assertEqual(said[1], "job: 77")
        self.assertRegex(self.submit("file", undo=10**18)[0], "^submit: EINVAL: undo-usec is more than ten years")
        for verb in (["get", 99], ["cancel", 99], ["wait", 99, 0]):
            self.assertRegex(self.run_it(*verb)[1], "^%s: ESRCH: there is no .*job 99" % verb[0])
        self.assertEqual(sorted(os.listdir(self.data)), ["file", "kept", "mount"])
        self.assertEqual(self.daemon.client().jobs(finished=True), [])

    def make(self, name):
        os.mkdir(self.path(name))
        return self.path(name)

    def test_not_authorized(self):
        build(self.data, "roots/file\nown/file")
        os.chmod(self.data, 0o755)
        for name in ("own", "own/file"):
            os.chown(self.path(name), USER, USER)
        said = self.run_it("submit", self.path("roots"), "file", "", 0, "", user=USER)
        self.assertRegex(said[1], "^submit: EACCES: .*roots")
        said = self.run_it("submit", self.path("own"), "file", 3600000000, 0, "", user=USER)
        self.assertEqual(said[1:], ["submit: 0", "job: 1"])
        self.assertIn("uid: %d " % USER, self.run_it("get", 1, user=USER)[2])
        self.assertRegex(self.run_it("get", 1, user=USER + 1)[1], "ESRCH")
        self.assertTrue(os.path.exists(self.path("roots/file")))

    def test_plan(self):
        with open(self.path("file"), "wb") as f:
            f.write(b"x" * 8192)
        self.assertEqual(self.run_it("plan", self.data, "file")[1:],
                         ["plan: 0", "length: 8192 frees: 8192 links: 1 mode: 100644"])
        os.link(self.path("file"), self.path("other"))
        self.assertIn("frees: 0 links: 2", self.run_it("plan", self.data, "file")[2])
        os.mkdir(self.path("dir"), 0o755)
        self.assertIn("length: 0 frees: 0 links: 2 mode: 40755", self.run_it("plan", self.data, "dir")[2])
        os.chmod(self.data, 0o755)
        self.assertRegex(self.run_it("plan", self.data, "file", user=USER)[1], "^plan: EACCES: .")
        self.assertEqual(sorted(os.listdir(self.data)), ["dir", "file", "other"])
        self.assertEqual(self.daemon.client().jobs(finished=True), [])

    def test_structures_of_other_headers(self):
        build(self.data, "a\nb")
        self.assertEqual(self.run_it("sizes", self.data, "a", "b")[1:], [
            "newer, used: E2BIG: the options are those of a newer libreclaim",
            "reserved: EINVAL: the options have a value that has no meaning",
            "priority: EINVAL: the options have a value that has no meaning",
            "no size: EINVAL: a structure does not begin with its size",
            "big: 0", "links: 1 more: 0",
            "small: 0", "length: 1 frees: 77",
            "older: 0",
            "newer, unused: 0"])
        self.assertEqual(os.listdir(self.data), [])

    def test_event_loop(self):
        self.daemon.configure("protect: [%s]\n" % self.make("kept"))
        self.daemon.client().call("Reload", "")
        write(self.path("file"))
        said = self.run_it("loop", self.data, "file", "absent", "kept", 1)
        self.assertEqual(said[1:6], [
            "on_finished: 0", "absent: ENOENT: No such file or directory",
            'bad: EINVAL: "a/b" is not a name in one directory', "protected: 0", "good: 0"])
        self.assertRegex(said[6], "^answer for protected: EPERM: .*kept")
        self.assertEqual(said[7:], ["job: 0", "answer for good: 0", "job: 1", "finished: 1 %d" % DONE, "loop: 0",
                                    "no callback: 0"])

    def test_threads(self):
        for i in range(8):
            for k in range(20):
                write(self.path("%d.%d" % (i, k)))
        self.assertEqual(self.run_it("threads", self.data), ["good: 160"])
        self.assertEqual(os.listdir(self.data), [])

    def test_attack_23_one_handle_for_all_threads(self):
        """One after the other, as the manual has it, while children come and go."""
        for i in range(8):
            for k in range(20):
                write(self.path("%d.%d" % (i, k)))
        self.assertEqual(self.run_it("sharing", self.data), ["open: 0", "good: 160"])
        self.assertEqual(os.listdir(self.data), [])

    def test_attack_23_children_of_every_kind(self):
        """They are refused whatever they call, and the parent gets its answers, and all of them."""
        canary = Canary(self.path("canary"))
        for i in range(4):
            write(self.path("parent.%d" % i))
            write(self.path("child.%d" % i))
        self.assertEqual(self.run_it("forks", self.data), ["open: 0", "on_finished: 0", "loop: 0", "answers: 4"])
        self.assertEqual(os.listdir(self.data), ["canary"])
        canary.check()

    def test_processes(self):
        write(self.path("file"))
        self.assertEqual(self.run_it("fork", self.data, "file")[1:], [
            "child submit: ECHILD: No child processes", "child process: ECHILD: No child processes",
            "parent submit: 0"])
        self.assertEqual(self.run_it("cloexec")[1:], ["left open: 0, ours is 1, signals: 0", "flags: EINVAL"])


class Lost(Case):
    def test_no_daemon(self):
        self.daemon.stop()
        self.assertEqual(self.run_it("get", 1, status=1), ["open: ECONNREFUSED: "])
        os.mkdir(self.path("empty"))
        self.assertEqual(self.run_it("get", 1, status=1, env={"RECLAIMD_RUNTIME_DIRECTORY": self.path("empty")}),
                         ["open: ECONNREFUSED: "])
        os.chmod(self.path("empty"), 0o700)
        self.assertEqual(self.run_it("get", 1, status=1, user=USER,
                                     env={"RECLAIMD_RUNTIME_DIRECTORY": self.path("empty", "in")}),
                         ["open: EACCES: "])

    def test_the_daemon_is_killed(self):
        """No signal of a broken connection ends the program either."""
        write(self.path("file"))
        p = self.begin("lost", self.data, "file")
        self.until_said(p, "submit: 0")
        self.daemon.kill()
        os.write(self.line, b"\n")
        r = p.finish()
        write(self.path("file"))
        self.assertEqual(r.status, 0, r)
        said = r.out.splitlines()
        self.assertEqual([line.split(":")[1] for line in said], [" 0", " 0"] + [" ECONNRESET"] * 7, r)
        self.daemon.start()

    def test_the_daemon_is_killed_while_we_wait(self):
        write(self.path("file"))
        self.daemon.configure("undo: 1h\n")
        self.daemon.client().call("Reload", "")
        p = self.begin("wait-lost", self.data, "file")
        self.until_said(p, "submit: 0")
        self.daemon.kill()
        self.assertEqual(p.finish().out.splitlines()[2].split(":")[1], " ECONNRESET")
        self.daemon.start()

    def test_no_answer_and_another_file(self):
        """What was not answered in time never reaches another that has got the name."""
        write(self.path("file"), "old")
        write(self.path("other"))
        p = self.begin("replaced", self.data, "file", "other")
        self.until_said(p, "open: 0")
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        try:
            os.write(self.line, b"\n")
            self.until_said(p, "submit: 0")
            write(self.path("new"), "new")
            os.rename(self.path("new"), self.path("file"))
            os.unlink(self.path("other"))
        finally:
            os.kill(self.daemon.process.pid, signal.SIGCONT)
        os.write(self.line, b"\n")
        r = p.finish()
        self.assertRegex(r.out, r"^open: 0\nin time: ETIMEDOUT: .+\nsubmit: 0\nanswer: ENOENT: .+\njob: 0\nloop: 0\n$")
        with open(self.path("file"), encoding="ascii") as f:
            self.assertEqual(f.read(), "new")


class Installed(unittest.TestCase):
    """What a program finds that was built against an installed tree."""

    @classmethod
    def setUpClass(cls):
        scratch.open()
        cls.tree = os.path.join(scratch.dir, "installed")
        command("cmake", "--install", BUILD, env=dict(os.environ, DESTDIR=cls.tree))
        with open(os.path.join(BUILD, "CMakeCache.txt")) as f:
            cache = dict(re.findall(r"^(\w+):\w+=(.*)$", f.read(), re.M))
        cls.prefix = cls.tree + cache["CMAKE_INSTALL_PREFIX"]
        cls.lib = os.path.join(cls.prefix, cache["CMAKE_INSTALL_LIBDIR"])
        cls.flags = [w for w in cache["CMAKE_C_FLAGS"].split() if w.startswith("-fsanitize")]
        cls.work = os.path.join(scratch.dir, "work")
        os.mkdir(cls.work)

    def check_runs(self, program):
        p = subprocess.run([program, os.path.join(self.work, "absent", "file")], stdout=subprocess.PIPE,
                           env=dict(os.environ, LD_LIBRARY_PATH=self.lib,
                                    RECLAIMD_RUNTIME_DIRECTORY=self.work),
                           stderr=subprocess.PIPE, text=True)
        self.assertEqual((p.returncode, p.stderr), (1, "no daemon: Connection refused\n"), p)
        self.assertIn("libreclaim.so.0 ", command("ldd", program, env=dict(os.environ, LD_LIBRARY_PATH=self.lib)))

    def test_pkg_config(self):
        env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(self.lib, "pkgconfig"),
                   PKG_CONFIG_SYSROOT_DIR=self.tree)
        words = command("pkg-config", "--cflags", "--libs", "libreclaim", env=env).split()
        self.assertIn("-lreclaim", words)
        program = os.path.join(self.work, "by-pkg-config")
        command("cc", "-Werror", "-Wall", "-Wextra", *self.flags, "-o", program,
                os.path.join(TOP, "contrib/examples/remove-file.c"), *words)
        self.check_runs(program)

    def test_cmake(self):
        write(os.path.join(self.work, "CMakeLists.txt"), """
            cmake_minimum_required(VERSION 3.25)
            project(user LANGUAGES C)
            find_package(reclaim 0.1 REQUIRED)
            add_executable(user %s/contrib/examples/remove-file.c)
            target_link_libraries(user PRIVATE reclaim::reclaim)
            """ % TOP)
        build_dir = os.path.join(self.work, "build")
        command("cmake", "-S", self.work, "-B", build_dir, "-DCMAKE_PREFIX_PATH=" + self.prefix,
                "-DCMAKE_C_FLAGS=" + " ".join(self.flags))
        command("cmake", "--build", build_dir)
        self.check_runs(os.path.join(build_dir, "user"))

    def test_languages(self):
        """The header is C99 and C++, and complains of nothing."""
        source = os.path.join(self.work, "source")
        write(source + ".c", """
            #include <reclaim.h>
            struct reclaim_options o = RECLAIM_OPTIONS_INIT;
            struct reclaim_plan p = RECLAIM_PLAN_INIT;
            struct reclaim_status s = RECLAIM_STATUS_INIT;
            int main(void) { return reclaim_open(0, ~0U) == 0; }
            """)
        shutil.copy(source + ".c", source + ".cc")
        include = "-I" + os.path.join(self.prefix, "include")
        for words in (["cc", "-std=c99", source + ".c"], ["c++", "-std=c++11", source + ".cc"],
                      ["c++", "-std=c++20", source + ".cc"]):
            if not shutil.which(words[0]):
                continue
            command(*words, "-pedantic", "-Wall", "-Wextra", "-Werror", include, *self.flags, "-L" + self.lib,
                    "-lreclaim", "-o", source)
            command(source, env=dict(os.environ, LD_LIBRARY_PATH=self.lib))

    def test_symbols(self):
        path = os.path.join(self.lib, "libreclaim.so.0")
        self.assertEqual(exported(path), set(in_map()))
        with open(os.path.join(self.prefix, "include", "reclaim.h")) as f:
            declared = set(re.findall(r"\b(reclaim_\w+)\(", re.sub(r"/\*.*?\*/|typedef [^;]*;", "", f.read(), flags=re.S)))
        self.assertEqual({name.split("@")[0] for name in in_map()}, declared)
        self.assertIn("Library soname: [libreclaim.so.0]", command("readelf", "-d", path))


class Example(Case):
    def said(self, *names, **kw):
        p = self.begin(*(self.path(n) for n in names), name="remove-file", **kw).finish()
        return p.status, [line.replace(self.data + "/", "") for line in p.out.splitlines()], p.err

    def test_with_the_daemon(self):
        build(self.data, "a\nb\nkept/")
        self.daemon.configure("protect: [%s]\n" % self.path("kept"))
        self.daemon.client().call("Reload", "")
        status, out, err = self.said("a", "kept", "b", "absent")
        self.assertEqual(status, 1)
        self.assertEqual(sorted(out), ["a: deleted", "absent: cannot be found: No such file or directory",
                                       "b: deleted", "kept: refused: Operation not permitted"])
        self.assertIn("not handed over", err)
        self.assertEqual(os.listdir(self.data), ["kept"])

    def test_another_has_the_name(self):
        """It is not known whether the file was taken; the one that is called so now is another's."""
        write(self.path("a"))
        self.daemon.again_with_gate("stage:a")
        p = self.begin(self.path("a"), name="remove-file")
        self.daemon.stopped_worker()
        os.rename(self.path("a"), self.path("moved"))
        write(self.path("a"))
        self.daemon.kill()
        said = p.finish().out.replace(self.data + "/", "")
        self.assertEqual(said, "a: not there any more, another file has its name\n")
        self.daemon.start()
        self.daemon.client().jobs(finished=True)
        self.assertEqual(sorted(os.listdir(self.data)), ["a", "moved"])

    def test_without(self):
        build(self.data, "a\nb")
        self.daemon.stop()
        self.assertEqual(self.said("a", "b"), (0, ["a: unlinked", "b: unlinked"], "no daemon: Connection refused\n"))
        self.assertEqual(os.listdir(self.data), [])


class FileDeleter(Case):
    def said(self, *names):
        p = self.begin(self.data, *names, name="file-deleter").finish()
        return p.status, p.out, p.err

    def test_with_the_daemon(self):
        build(self.data, "a\nb\nkept/")
        self.daemon.configure("protect: [%s]\n" % self.path("kept"))
        self.daemon.client().call("Reload", "")
        status, out, err = self.said("a", "kept", "absent", "b")
        self.assertEqual((status, out), (1, "handed over: 2, unlinked: 0, failed: 1\n"))
        self.assertEqual(sorted(err.splitlines()), ["absent: cannot be found: No such file or directory",
                                                    "kept: cannot be deleted: Operation not permitted"])
        # It waits until all of it is deleted.
        self.assertEqual({j["state"] for j in self.daemon.client().jobs(finished=True)}, {"done"})
        self.assertEqual(os.listdir(self.data), ["kept"])

    def test_another_has_the_name(self):
        """It is not known whether the file was taken; the one that is called so now is another's."""
        write(self.path("a"))
        self.daemon.again_with_gate("stage:a")
        p = self.begin(self.data, "a", name="file-deleter")
        self.daemon.stopped_worker()
        os.rename(self.path("a"), self.path("moved"))
        write(self.path("a"))
        self.daemon.kill()
        p.finish()
        self.daemon.start()
        self.daemon.client().jobs(finished=True)
        self.assertEqual(sorted(os.listdir(self.data)), ["a", "moved"])

    def test_without(self):
        build(self.data, "a\nb")
        self.daemon.stop()
        self.assertEqual(self.said("a", "b"), (0, "handed over: 0, unlinked: 2, failed: 0\n", ""))
        self.assertEqual(os.listdir(self.data), [])


class OnTheBus(daemon_fixture.OnTheBus, Case):
    def env(self):
        return {"DBUS_SYSTEM_BUS_ADDRESS": self.address}

    def test_everything_once(self):
        os.chmod(self.data, 0o777)
        build(self.data, "a\nb\nc\nkept/")
        os.chown(self.path("c"), NOBODY, NOBODY)
        self.daemon.configure("protect: [%s]\n" % self.path("kept"))
        self.daemon.client().call("Reload", "")
        self.assertEqual(self.submit("a"), ["submit: 0", "job: 1"])
        self.assertEqual(self.run_it("wait", 1, 60000000)[1], "wait: 0")
        self.assertIn("finished: 2 5", self.run_it("loop", self.data, "b", "absent", "kept", 2))
        self.assertEqual(self.submit("c", user=NOBODY), ["submit: 0", "job: 3"])
        self.assertRegex(self.run_it("get", 1, user=NOBODY)[1], "ESRCH")
        self.daemon.stop()
        self.assertEqual(self.run_it("get", 1, status=1), ["open: ECONNREFUSED: "])


if __name__ == "__main__":
    fixture.main()
