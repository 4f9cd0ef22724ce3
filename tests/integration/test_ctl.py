#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl's verbs of the daemon where there is none: what is wrong is said before it is looked for,
and then that it is not there and what to do."""
import json
import os
import re
import shlex
import socket
import unittest

import fixture
import terminal
from contents import fingerprint
from fixture import Case, Proc, USER, matrix, scratch, write

# No backend: the daemon's workers choose.
plain = (None,)

HERE = os.path.dirname(os.path.abspath(__file__))


def ctl(w, *args, **kw):
    """Runs reclaimctl in the world's directory, where no daemon is to be found."""
    env = dict({"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent"}, **kw.pop("env", {}))
    p = Proc([scratch.binary, *args], w.dir, env=env, **kw)
    w.procs.append(p)
    return p.finish()


class Absent(Case):
    VERBS = (("list",), ("show", "1"), ("wait", "1"), ("wait", "--free=1G", "."), ("cancel", "1"),
             ("pause", "1"), ("pause", "--all"), ("resume", "1"), ("restore", "1"), ("spools",),
             ("status",), ("submit", "file"))

    def check_absent(self, w, *words, **kw):
        for verb in self.VERBS:
            for more in ((), ("--json",), ("-q",)):
                r = ctl(w, *verb, *more, **kw)
                self.assertEqual((r.status, r.out), (5, ""), (verb, r))
                self.assertEqual(r.err.count("\n"), 1, r)
                for word in words:
                    self.assertIn(word, r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_neither_bus_nor_socket(self, w):
        write(w.path("file"))
        self.check_absent(w, "reclaimctl: reclaimd: no daemon to talk to", "systemctl start reclaimd",
                          "reclaimctl run")
        self.assertTrue(w.exists("file"))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_runtime_directory_is_the_only_socket(self, w):
        write(w.path("file"))
        runtime = w.path("runtime")
        env = {"RECLAIMD_RUNTIME_DIRECTORY": runtime}
        self.check_absent(w, "reclaimctl: %s: no daemon to talk to" % runtime, env=env)
        os.mkdir(runtime)
        self.check_absent(w, "reclaimctl: %s: no daemon to talk to" % runtime, env=env)
        # A process was there, and is not any more.
        s = socket.socket(socket.AF_UNIX)
        s.bind(os.path.join(runtime, "private"))
        s.close()
        self.check_absent(w, "Connection refused", env=env)
        # The option wins over the variable.
        r = ctl(w, "list", "--runtime-directory=/nowhere", env=env)
        self.assertEqual(r.status, 5)
        self.assertIn("reclaimctl: /nowhere: no daemon", r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_runtime_directory_with_long_name(self, w):
        # Longer than the address of a socket may be.
        runtime = w.path(*["n" * 60] * 4)
        os.makedirs(runtime)
        r = ctl(w, "list", "--runtime-directory=" + runtime)
        self.assertEqual(r.status, 5, r)
        self.assertIn("No such file or directory", r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_socket_of_another_program(self, w):
        os.mkdir(w.path("runtime"))
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(w.path("runtime", "private"))
            s.listen()
            p = Proc([scratch.binary, "list", "--runtime-directory=runtime"], w.dir)
            w.procs.append(p)
            s.accept()[0].close()
            r = p.finish()
        self.assertEqual((r.status, r.out), (1, ""), r)
        self.assertIn("reclaimctl: reclaimd: ", r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_no_such_machine(self, w):
        for words in (("list", "-M", "no-such-machine"), ("-M", "no-such-machine", "show", "1"),
                      ("cancel", "--machine=no-such-machine", "1")):
            r = ctl(w, *words, env={"RECLAIMD_RUNTIME_DIRECTORY": "/nowhere"})
            self.assertEqual((r.status, r.out, r.err), (
                5, "", "reclaimctl: no-such-machine: no machine of this name runs: see machinectl list\n"))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_devices_does_without(self, w):
        r = ctl(w, "devices", "--json", "--interval=0")
        self.assertEqual((r.status, r.err), (0, ""), r)
        self.assertIsNone(json.loads(r.out)[0]["daemon"])


class Usage(Case):
    @matrix(backends=plain, fs=("tmpfs",))
    def test_wrong_usage_is_said_first(self, w):
        for words, why in (
                (("submit",), "no PATH given"), (("show",), "no JOB given"), (("wait",), "no JOB given"),
                (("wait", "--free=1G"), "exactly one PATH"),
                (("wait", "--free=1G", "a", "b"), "exactly one PATH"),
                (("wait", "--free=lots", "."), "lots: is not accepted by --free"),
                (("cancel",), "no JOB given"), (("cancel", "x"), "x: invalid job ID"),
                (("cancel", "1", "0"), "0: invalid job ID"), (("pause", "-q", "+1"), "+1: invalid job ID"),
                (("show", "1x"), "1x: invalid job ID"), (("resume", ""), "'': invalid job ID"),
                (("show", "99999999999999999999"), "invalid job ID"),
                (("pause",), "no JOB given, nor --all"), (("resume", "--all", "1"), "either"),
                (("restore",), "no JOB given"), (("restore", "--to=a", "1", "2"), "exactly one JOB"),
                (("list", "x"), "takes no arguments"), (("status", "x"), "takes no arguments"),
                (("list", "--state=runing"), "runing: is not accepted by --state: give accepted, held"),
                (("list", "--state=held,"), "accepted by --state"), (("list", "--state="), "accepted by --state"),
                (("list", "--user=nobody-has-this"), "a user's name or number"), (("list", "--user="), "user's name"),
                (("list", "-n", "0"), "a number above 0"), (("list", "--lines=x"), "a number above 0"),
                (("list", "-M", ""), "give a machine's name"), (("submit", "-M", "box", "a"), "unrecognized option '-M'"),
                (("restore", "-M", "box", "1"), "unrecognized option '-M'"),
                (("wait", "--machine=box", "--free=1G", "."), "a path of this machine"),
                (("submit", "--undo=5", "a"), "5: is not accepted by --undo: give a time such as 1h"),
                (("submit", "--undo=1h 5", "a"), "such as 1h"), (("submit", "--by=2", "a"), "such as 2h"),
                (("run", "--latency=5", "a"), "such as 5ms"), (("devices", "--interval=2"), "such as 500ms"),
                (("wait", "--free=120", "a"), "120G"), (("submit", "--wait=free:120", "a"), "free:120G"),
                (("trim", "--min=4096", "a"), "such as 1M"),
                (("run", "--strategy=moosefs-snapshot:20", "a"), "moosefs-snapshot:20ms"),
                (("submit", "--undo=soon", "a"), "soon: is not accepted by --undo"),
                (("submit", "--by=yesterday", "a"), "yesterday: is not accepted by --by"),
                (("submit", "--by=2001-01-01 12:00", "a"), "still to come"),
                (("submit", "--priority=urgent", "a"), "low, normal or high"),
                (("submit", "--wait=long", "a"), "free:SIZE"),
                (("submit", "--wait=free:", "a"), "free:SIZE"),
                (("submit", "--latency=off", "a"), "unrecognized option"),
                (("run", "--undo=1h", "a"), "unrecognized option"),
                (("list", "--runtime-directory=", ), "--runtime-directory"),
                (("list", "--json=loud"), "short, pretty or off")):
            r = ctl(w, *words)
            self.assertEqual((r.status, r.out), (2, ""), (words, r))
            self.assertIn(why, r.err, words)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_every_verb_has_help(self, w):
        everything = ctl(w, "--help").out
        self.assertEqual([line for line in everything.splitlines() if len(line) >= 80], [])
        verbs = re.findall("^reclaimctl ([a-z-]+)", everything, re.MULTILINE)
        self.assertGreater(len(verbs), 16)
        for verb in verbs:
            r = ctl(w, verb, "--help")
            self.assertEqual((r.status, r.err), (0, ""), r)
            self.assertRegex(r.out, "^Usage: reclaimctl %s\\b" % verb)
            self.assertEqual([line for line in r.out.splitlines() if len(line) >= 80], [])
            said, examples = r.out.split("\nExamples:\n")
            # Its usage and options are those of the help of all verbs.
            for line in said.splitlines():
                self.assertIn(re.sub("^(Usage:|      ) reclaimctl |^         ", "", line),
                              everything + "\nOptions:\n")
            self.assertEqual(set(re.findall("reclaimctl ([a-z-]+)", examples.rsplit("\n\n", 1)[0])), {verb})
            self.assertEqual(ctl(w, "help", verb).out, r.out)
        self.assertEqual(ctl(w, "help").out, everything)
        r = ctl(w, "list", "--undo=1h")
        self.assertEqual((r.status, r.err),
                         (2, "reclaimctl: unrecognized option '--undo': see reclaimctl list --help\n"))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_examples_of_the_help_are_right_usage(self, w):
        """By a user who may do nothing with what they name, on a machine without a daemon."""
        examples = []
        for verb in re.findall("^reclaimctl ([a-z-]+)", ctl(w, "help").out, re.MULTILINE):
            examples += re.findall("^  .*?(reclaimctl .*)", ctl(w, "help", verb).out.split("\nExamples:")[1], re.MULTILINE)
        self.assertGreater(len(examples), 30)
        for line in examples:
            r = ctl(w, *shlex.split(line)[1:], user=USER)
            self.assertNotEqual(r.status, 2, (line, r))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_options_anywhere(self, w):
        write(w.path("file"))
        for before, words in (
                (("-q",), ("list",)), (("--json",), ("list",)), (("--json=pretty",), ("list", "--all")),
                (("--runtime-directory", "/nowhere"), ("list",)), (("--runtime", "/nowhere", "-q"), ("list",)),
                (("--undo", "1h"), ("submit", "missing")), (("--undo=1h", "-q"), ("submit", "file")),
                (("-qv", "--latency", "5ms"), ("run", "missing")), (("--",), ("list",)),
                (("-q", "--"), ("show", "1")), (("--json",), ("policy", "list")),
                (("--log-level", "info"), ("status",))):
            r, behind = ctl(w, *before, *words), ctl(w, words[0], *before, *words[1:])
            self.assertEqual((r.status, r.out, r.err), (behind.status, behind.out, behind.err), words)
            self.assertNotEqual(r.status, 2, (words, r))
        for words, why in ((("--undo=1h", "list"), "unrecognized option '--undo'"), (("-q",), "no command given"),
                           (("--files-from", "list"), "no command given"), (("-x",), "unrecognized option '-x'"),
                           ((), "no command given")):
            r = ctl(w, *words)
            self.assertEqual((r.status, r.out), (2, ""), r)
            self.assertIn(why, r.err, words)
        self.assertTrue(w.exists("file"))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_slips_are_answered_with_what_is_likely(self, w):
        for words, why in (
                (("lst",), "lst: no such command: did you mean list?"),
                (("-q", "submti", "a"), "did you mean submit?"),
                (("help", "cancle"), "cancle: no such command: did you mean cancel?"),
                (("list", "--quite"), "unrecognized option '--quite': did you mean --quiet?"),
                (("--josn", "list"), "did you mean --json?"), (("submit", "--udno=1h", "a"), "did you mean --undo?"),
                (("--hlep",), "did you mean --help?"), (("list", "--frobnicate"), "see reclaimctl list --help"),
                (("--frobnicate",), "unrecognized option '--frobnicate': see reclaimctl --help"),
                (("policy", "lst"), "lst: no such command of policy: did you mean list?"),
                (("policy", "plna", "a"), "did you mean plan?"), (("policy", "delete"), "give list, plan or run"),
                (("policy",), "give list, plan or run")):
            r = ctl(w, *words)
            self.assertEqual((r.status, r.out), (2, ""), (words, r))
            self.assertIn(why, r.err, words)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_output_that_cannot_be_written(self, w):
        os.mkdir(w.path("t"))
        full = "reclaimctl: standard output: the result could not be written: No space left on device"
        for words, status, done in (
                (("--help",), 1, ""), (("help", "list"), 1, ""), (("--version",), 1, ""),
                (("devices", "--interval=0", "--json"), 1, ""), (("run", "--dry-run", "t"), 1, ""),
                (("run", "t"), 3, ". This was done all the same: 1 entry was deleted")):
            r = ctl(w, *words, preexec=lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 1))
            self.assertEqual((r.status, r.err), (status, full + done + "\n"), words)
        self.assertFalse(w.exists("t"))

    @matrix(backends=plain, fs=("tmpfs",))
    def test_help_in_whatever_spelling_deletes_nothing(self, w):
        os.mkdir(w.path("t"))
        write(w.path("t", "file"))
        for words in (("run", "--hel", "t"), ("run", "-vh", "t"), ("run", "t", "--he"), ("submit", "--versi", "t"),
                      ("wait", "--hel"), ("cancel", "--hel", "1")):
            r = ctl(w, *words)
            self.assertEqual((r.status, r.err), (0, ""), (words, r))
            self.assertRegex(r.out, "^reclaimctl [0-9]" if "--versi" in words else "^Usage: reclaimctl " + words[0])
        self.assertTrue(os.path.exists(w.path("t", "file")))

    @unittest.skipIf(terminal.pyte is None, "python3-pyte is missing")
    @matrix(backends=plain, fs=("tmpfs",))
    def test_errors_are_broken_at_blanks_on_a_terminal(self, w):
        t = terminal.Terminal([scratch.binary, "list", "--runtime-directory=/nowhere"], {}, columns=80)
        self.addCleanup(t.close)
        self.assertEqual(t.finish(), 5)
        lines = [line.rstrip() for line in t.screen.display if line.strip()]
        self.assertEqual(" ".join(lines) + "\n", ctl(w, "list", "--runtime-directory=/nowhere").err)
        self.assertGreater(len(lines), 1)


class Refused(Case):
    """What may not be deleted is known without the daemon, which is not even looked for."""

    def check_submit(self, w, args, *words):
        before = fingerprint(w.dir)
        r = ctl(w, "submit", *args)
        self.assertEqual((r.status, r.out), (1, ""), r)
        for word in words:
            self.assertIn(word, r.err, r)
        self.assertEqual(before, fingerprint(w.dir))
        return r

    @matrix(backends=plain, fs=("tmpfs",))
    def test_submit_rejects_all_for_one_bad_path(self, w):
        w.build("""
            file
            tree/a
            link -> tree
        """)
        nothing = "nothing was submitted"
        self.check_submit(w, ("file", "missing"), "reclaimctl: missing: does not exist", nothing)
        self.check_submit(w, ("missing",), "reclaimctl: missing: does not exist")
        self.check_submit(w, ("file", "/usr"), "/usr: belongs to the system", nothing)
        self.check_submit(w, ("file", "tree/.."), "tree/..: contains '..'", nothing)
        self.check_submit(w, ("file", "link/a"), "link/a: has a symbolic link on the way", nothing)
        self.check_submit(w, ("file", "link/"), "is a symbolic link, and the slash", nothing)
        self.check_submit(w, ("file", "file/"), "is no directory", nothing)
        self.check_submit(w, ("file", ""), "'': is empty", nothing)
        self.check_submit(w, ("file", "n" * 256), "component of more than 255 bytes", nothing)
        r = self.check_submit(w, ("file", b"no\x1b[31m\n"), "no\\x1b[31m\\n: does not exist")
        self.assertNotIn("\x1b", r.err)

    @matrix(backends=plain, fs=("tmpfs",))
    def test_lists(self, w):
        write(w.path("file"))
        write(w.path("list"), "file\nmissing\n../x\n")
        self.check_submit(w, ("--files-from=list",), "../x: contains '..'", "nothing was submitted")
        self.check_submit(w, ("--files-from=nowhere",), "nowhere: the list cannot be read")
        write(w.path("list"), "file\n/usr/bin\n")
        self.check_submit(w, ("--files-from=list",), "/usr", "belongs to the system")

    @matrix(backends=plain, fs=("tmpfs",))
    def test_an_ordinary_user(self, w):
        os.mkdir(w.path("closed"), 0o700)
        write(w.path("closed", "file"))
        before = fingerprint(w.dir)
        r = ctl(w, "submit", "closed/file", user=USER)
        self.assertEqual((r.status, r.out), (1, ""), r)
        self.assertIn("closed/file: ", r.err)
        self.assertEqual(before, fingerprint(w.dir))


if __name__ == "__main__":
    fixture.main()
