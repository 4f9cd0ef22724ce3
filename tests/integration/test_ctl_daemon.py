#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl and a real reclaimd, over the private socket and over a bus of their own."""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
import unittest

import daemon_fixture
import dbuswire
import fixture
import terminal
from contents import fingerprint
from fixture import USER, Canary, Proc, build, fill, listing, scratch, write
from json_page import described, printed

NOBODY = 65534
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Case(daemon_fixture.Case):
    def ctl(self, *args, status=0, user=None, tty=False):
        """Runs reclaimctl where the test's files are; returns what it said."""
        p = Proc([scratch.binary, *args], self.data, env=self.env(), user=user)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r

    def env(self):
        return {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "TZ": "UTC"}

    def submit(self, *args, **kw):
        """The number of the only job that it became."""
        r = self.ctl("submit", "--json", *args, **kw)
        (number,) = json.loads(r.out)["jobs"]
        return str(number)

    def jobs(self, *args):
        return {j["id"]: j for j in json.loads(self.ctl("list", "--json", *args).out)}

    def state(self, number):
        return self.jobs("--all")[int(number)]["state"]

    def left(self):
        return listing(self.data)


class Completion(Case):
    """The numbers of jobs: of all where finished ones are of use, else of those that are left."""

    def ask(self, shell, words, line):
        if not shutil.which(shell):
            self.skipTest("there is no " + shell)
        env = dict(os.environ, PATH=os.path.dirname(scratch.binary) + ":" + os.environ["PATH"], **self.env())
        return set(subprocess.run(words, input=line + "\n", env=env, cwd=TOP, text=True, check=True,
                                  stdout=subprocess.PIPE).stdout.split())

    def check(self, ask):
        write(self.path("a"))
        write(self.path("b"))
        self.ctl("submit", "--wait", "a")
        self.ctl("submit", "--undo=1h", "b")
        self.assertEqual(ask("reclaimctl cancel ") - {"reclaimctl", "cancel"}, {"2"})
        self.assertEqual(ask("reclaimctl show ") - {"reclaimctl", "show"}, {"1", "2"})

    def test_bash(self):
        script = ("source contrib/completions/reclaimctl.bash; read -ra COMP_WORDS; COMP_WORDS+=('');"
                  "COMP_CWORD=2; _reclaimctl; echo ${COMPREPLY[@]}")
        self.check(lambda line: self.ask("bash", ["bash", "-c", script], line))

    def test_zsh(self):
        self.check(lambda line: self.ask("zsh", ["tests/completion-zsh"], line))

    def test_fish(self):
        script = "source contrib/completions/reclaimctl.fish; read line; complete -C $line"
        self.check(lambda line: self.ask("fish", ["fish", "--no-config", "-c", script], line))


class Keys(Case):
    """What is printed as JSON has the keys that the page names, and no others."""

    def test_of_verbs_that_need_no_more_than_a_job(self):
        for name in ("a", "b", "c"):
            write(self.path(name))
        self.ctl("submit", "--wait", "c")
        for verb, words in (("wait", ("1",)), ("submit", ("--undo=1h", "a", "b")), ("set", ("--priority=low", "2")),
                            ("pause", ("2",)), ("resume", ("2",)), ("list", ()), ("restore", ("2",))):
            self.assertEqual(printed(json.loads(self.ctl(verb, "--json", *words).out)), described(verb), verb)
        os.mkdir(self.path("spool"))
        self.daemon.configure("spools: {%s: {settle: 1h}}\n" % self.path("spool"))
        self.daemon.client().call("Reload", "")
        self.assertEqual(printed(json.loads(self.ctl("spools", "--json").out)), described("spools"))
        told = json.loads(self.ctl("status", "--json").out)
        trim = {"mount", "finished_usec", "outcome", "why", "trimmed_bytes", "steps", "elapsed_usec",
                "longest_step_usec"}
        self.assertEqual(set(told) | set(told["trim_timers"]) | trim, described("status", besides=("list",)))


class Listing(Case):
    def test_json_is_the_same_in_both_forms(self):
        self.assertEqual(self.ctl("list", "--json=short").out, "[]\n")
        for name in ("plain", 'a "quoted" one', "back\\slash", "new\nline", "é", os.fsdecode(b"\xff\xfe")):
            write(os.path.join(os.fsencode(self.data), os.fsencode(name)))
            self.ctl("submit", "--undo=1h", "--priority=low", "--", name)
        short = self.ctl("list", "--json=short").out
        self.assertEqual(short.count("\n"), 1)
        pretty = self.ctl("list", "--json=pretty").out
        self.assertEqual(json.loads(short, object_pairs_hook=list), json.loads(pretty, object_pairs_hook=list))
        self.assertEqual(len(json.loads(short)), 6)


class Submit(Case):
    def test_submit_file_and_tree(self):
        canary = Canary(self.path("canary"))
        build(self.data, """
            file
            tree/a/b
            tree/c
        """)
        r = self.ctl("submit", "--wait", "file", "tree")
        self.assertRegex(r.out, r"^Job 1: 2 names in \.\nJob 1 done: 5 entries, .*\n$")
        self.assertEqual((r.err, os.listdir(self.data)), ("", ["canary"]))
        canary.check()

    def test_submit_output(self):
        for name in ("a", "b", "c", "d"):
            write(self.path(name))
        os.mkdir(self.path("sub"))
        for name in ("e", "f"):
            write(self.path("sub", name))
        said = self.ctl("submit", "--undo=1h", "a").out
        self.assertRegex(said, r"^Job 1: a; reclaimctl restore 1 has it back until \d{4}-\d\d-\d\d "
                               r"\d\d:\d\d:\d\d \(in 1h 0min\)\n$")
        self.assertEqual(self.ctl("submit", self.path("b")).out, "Job 2: %s\n" % self.path("b"))
        self.assertEqual(self.ctl("submit", "c", "sub/e").out, "Job 3: 2 names in 2 directories\n")
        self.assertEqual(self.ctl("submit", "-q", "sub/f").out, "")
        self.assertEqual(self.ctl("submit", "--dry-run", "d").out, "Would submit d\n")
        self.assertEqual(self.left(), ["d", "sub"])

    def test_strange_names(self):
        write(os.fsencode(self.data) + b"/esc\x1b[31m\xff")
        write(self.path("-rf"))
        r = self.ctl("submit", "--wait", "--", b"esc\x1b[31m\xff")
        self.assertTrue(r.out.startswith("Job 1: esc\\x1b[31m\\xff\n"), r)
        self.ctl("submit", "--wait", "--", "-rf")
        self.assertEqual(self.left(), [])
        self.assertIn("/esc\\x1b[31m\\xff\n", self.ctl("show", "1").out)

    def test_submit_from_list(self):
        fill(self.path("many"), 1500)
        names = "".join("many/f%05d\n" % i for i in range(0, 1500, 2)) + "many/gone\nnowhere/x\n"
        write(self.path("names"), names)
        r = self.ctl("submit", "--files-from=names", "--wait")
        self.assertIn("Job 1: 750 names in many; 1 does not exist\n", r.out)
        self.assertEqual(len(os.listdir(self.path("many"))), 750)
        nul = "\0".join("many/f%05d" % i for i in range(1, 1500, 2))
        write(self.path("names"), nul)
        r = self.ctl("submit", "--files-from=names", "-0", "--json", "--wait=done", "-q")
        self.assertEqual(json.loads(r.out.split("\n")[0]), {"jobs": [2], "accepted": 750, "missing": 0})
        self.assertEqual(os.listdir(self.path("many")), [])

    def test_submit_more_names_than_a_message_holds(self):
        fill(self.path("many"), 1500)
        r = self.ctl("submit", "--wait", *("many/f%05d" % i for i in range(1500)))
        self.assertIn("Job 1: 1,500 names in many\n", r.out)
        self.assertEqual(os.listdir(self.path("many")), [])

    def test_result_that_cannot_be_written_names_what_was_done(self):
        write(self.path("a"))
        for words, done in (
                (("submit", "--undo=1h", "a"), "job 1 was accepted"), (("pause", "1"), "job 1 was paused"),
                (("resume", "1"), "job 1 was resumed"), (("set", "--priority=low", "1"), "job 1 was changed"),
                (("pause", "--all"), "all jobs were paused"), (("resume", "--all"), "all jobs were resumed"),
                (("restore", "1"), "job 1 was restored"), (("submit", "--undo=1h", "--json", "a"), "job 2 was accepted"),
                (("cancel", "2"), "job 2 was cancelled"), (("list",), None)):
            with open("/dev/full", "wb") as full:
                p = subprocess.run([scratch.binary, *words, "--no-pager"] if words == ("list",) else
                                   [scratch.binary, *words], cwd=self.data, env=dict(os.environ, **self.env()),
                                   stdout=full, stderr=subprocess.PIPE, timeout=fixture.TIMEOUT, check=False)
            self.assertEqual(p.returncode, 3 if done else 1, words)
            self.assertRegex(p.stderr.decode(), "^reclaimctl: standard output: the result could not be written"
                             "(: No space left on device)?%s\n$" % (
                                 "[.] This was done all the same: " + done if done else ""), words)
        self.assertEqual(self.left(), ["a"])

    def test_says_what_it_waits_for(self):
        write(self.path("a"))
        self.daemon.process.send_signal(signal.SIGSTOP)
        self.addCleanup(self.daemon.process.send_signal, signal.SIGCONT)
        p = subprocess.Popen([scratch.binary, "submit", "--wait", "a"], cwd=self.data, stderr=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, env=dict(os.environ, **self.env()))
        said = p.stderr.readline()
        self.daemon.process.send_signal(signal.SIGCONT)
        self.assertEqual((p.wait(fixture.TIMEOUT), p.stderr.read()), (0, b""))
        p.stderr.close()
        self.assertEqual(said, b"reclaimctl: reclaimd: has not answered the call SubmitFiles for 5 seconds; still waiting. "
                         b"systemctl status reclaimd shows whether it is stopped\n")
        self.assertEqual(self.left(), [])

    def test_submit_more_directories_than_a_call_takes(self):
        for i in range(150):
            build(self.data, "d%03d/file" % i)
        r = self.ctl("submit", "--wait", *("d%03d/file" % i for i in range(150)))
        self.assertIn("Job 1: 120 names in 120 directories\nJob 2: 30 names in 30 directories\n", r.out)
        self.assertFalse([n for n in self.left() if n.endswith("file")])

    def test_submit_of_two_mounts_makes_two_jobs_or_none(self):
        os.mkdir(self.path("other"))
        fixture.command("mount", "-t", "tmpfs", "tmpfs", self.path("other"))
        try:
            for path in ("a", "other/b"):
                write(self.path(path))
            self.daemon.configure("protect: [%s]\n" % self.path("other", "b"))
            self.daemon.stop()
            self.daemon.start()
            r = self.ctl("submit", "a", "other/b", status=1)
            self.assertIn("other/b", r.err)
            self.assertIn("reclaimctl: submit: nothing was submitted\n", r.err)
            self.assertEqual(self.left(), ["a", "other", "other/b"])
            self.daemon.configure("")
            self.daemon.stop()
            self.daemon.start()
            r = self.ctl("submit", "--wait", "a", "other/b")
            self.assertEqual(r.out.count("Job "), 4, r)
            self.assertEqual([n for n in self.left() if ".reclaim" not in n], ["other"])
        finally:
            fixture.unmount(self.path("other"))

    def test_options_arrive(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "--priority=high", "--by=2h", "a")
        (j,) = json.loads(self.ctl("show", "--json", n).out)
        self.assertEqual((j["state"], j["priority"]), ("held", "high"))
        self.assertAlmostEqual((j["held_until_usec"] - j["created_usec"]) / 1e6, 3600, delta=5)
        self.assertAlmostEqual((j["by_usec"] - j["created_usec"]) / 1e6, 7200, delta=5)

    def test_an_ordinary_user(self):
        os.chmod(self.data, 0o777)
        write(self.path("roots"))
        os.mkdir(self.path("mine"))
        write(self.path("mine", "file"))
        os.mkdir(self.path("closed"), 0o755)
        write(self.path("closed", "file"))
        os.chown(self.path("mine"), USER, USER)
        n = self.submit("mine", user=USER)
        self.ctl("wait", n, user=USER)
        r = self.ctl("submit", "closed/file", status=4, user=USER)
        self.assertIn("closed/file", r.err)
        self.assertEqual(self.left(), ["closed", "closed/file", "roots"])
        # Of others' jobs there is nothing to be known.
        other = self.submit("--undo=1h", "closed")
        for verb in ("show", "wait", "cancel", "pause", "resume", "restore"):
            r = self.ctl(verb, other, status=1, user=USER)
            self.assertEqual(r.out, "")
            self.assertIn(other, r.err)
        self.assertNotIn(int(other), [j["id"] for j in json.loads(
            self.ctl("list", "--all", "--json", user=USER).out)])
        self.assertEqual(self.state(other), "held")


class Show(Case):
    def test_list_jobs(self):
        self.assertEqual(self.ctl("list").out,
                         "No jobs that have not finished; --all shows the others\n")
        for name in ("a", "b"):
            write(self.path(name))
        self.ctl("submit", "--undo=1h", "a")
        self.ctl("submit", "--wait", "b")
        lines = self.ctl("list").out.split("\n")
        self.assertRegex(lines[0], r"^JOB STATE USER ENTRIES +FREED WHEN +PATH$")
        self.assertRegex(lines[1], r"^  1 held  root +0/1 +0B/4.0K in \d+min +%s/a$" % self.data)
        self.assertEqual(lines[2:], ["", "1 job not finished; --all shows the others too", ""])
        self.assertRegex(self.ctl("list", "--all").out, r"\n  2 done  root +1 .* %s/b\n" % self.data)
        self.assertEqual(sorted(self.jobs()), [1])
        self.assertEqual(sorted(self.jobs("--all")), [1, 2])
        self.assertEqual(self.ctl("list", "-q").out, "")
        self.assertIn("\n    \"id\": 1,\n", self.ctl("list", "--json=pretty").out)

    def test_list_tells_of_jobs_of_several_names(self):
        """The first of them and how many more, also when the job has ended and after a restart, but not of a
        job of one name, however much lies in it."""
        os.mkdir(self.path("tree"))
        for n in range(4):
            write(self.path("tree/%d" % n))
        names = ["d%04d" % n for n in range(1203)]
        for name in ["x", "y", *names]:
            write(self.path(name))
        write(self.path("list"), "\n".join(names) + "\n")
        self.ctl("submit", "--wait", "--files-from=list")
        self.ctl("submit", "--wait", "tree")
        self.ctl("submit", "--undo=1h", "x", "y")
        for again in (False, True):
            if again:
                self.daemon.stop()
                self.daemon.start()
            out = self.ctl("list", "--all").out
            self.assertRegex(out, r"(?m)^ +1 done .* %s/d0000 \+1,202 more$" % self.data)
            self.assertRegex(out, r"(?m)^ +2 done .* %s/tree$" % self.data)
            self.assertRegex(out, r"(?m)^ +3 held .* %s/x \+1 more$" % self.data)
            self.assertEqual([j["names"] for j in self.jobs("--all").values()], [1203, 1, 2])

    def test_list_filters(self):
        os.chmod(self.data, 0o777)
        for name in ("a", "b", "c", "d"):
            write(self.path(name))
        os.chown(self.path("c"), USER, USER)
        self.ctl("submit", "--undo=1h", "a")
        self.ctl("submit", "--wait", "b")
        self.ctl("submit", "--undo=1h", "c", user=USER)
        self.ctl("pause", self.submit("--undo=1h", "d"))
        for words, ids in ((("--state=held",), [1, 3]), (("--state=held,done",), [1, 2, 3]),
                           (("--state=done", "--all"), [2]), (("--state=failed,partial",), []),
                           (("--user=root",), [1, 4]), (("--user=%d" % USER, "--all"), [3]),
                           (("--user=%d" % NOBODY,), []), (("--user=0", "--state=done,paused"), [2, 4]),
                           (("-n", "2"), [3, 4]), (("--all", "-n3"), [2, 3, 4]), (("--lines=9",), [1, 3, 4])):
            self.assertEqual(sorted(self.jobs(*words)), ids, words)
        # To others their own jobs are all there are.
        self.assertEqual(self.ctl("list", "--user=root", "--all", "--json", user=USER).out, "[]\n")
        lines = self.ctl("list", "--all", "-n", "2").out.splitlines()
        self.assertEqual((len(lines), lines[0].split()[0], lines[-1]), (5, "JOB", "2 of 4 jobs"))
        self.assertEqual(self.ctl("list", "--state=failed").out, "No such jobs\n")
        bare = self.ctl("list", "--state=held", "--no-legend").out.splitlines()
        self.assertEqual([line.split()[:2] for line in bare], [["1", "held"], ["3", "held"]])
        self.assertEqual(self.ctl("list", "--state=failed", "--no-legend").out, "")
        self.assertEqual(self.ctl("spools", "--no-legend").out, "")

    def test_colours_are_for_those_who_want_them(self):
        build(self.data, "file")
        self.submit("--undo=1h", "file")
        for env, coloured in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": ""}, True),
                              ({"TERM": "xterm", "NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            master, slave = pty.openpty()
            self.assertEqual(subprocess.run(
                [scratch.binary, "list", "--no-pager"],
                stdout=slave, timeout=fixture.TIMEOUT, check=False,
                env={**os.environ, **self.env(), **env}).returncode, 0)
            os.close(slave)
            said = b""
            with contextlib.suppress(OSError):
                while data := os.read(master, 65536):
                    said += data
            os.close(master)
            self.assertIn(b"held", said)
            self.assertEqual(b"\033" in said, coloured, (env, said))

    def test_show_job(self):
        build(self.data, "tree/a\ntree/b\nfile")
        n = self.submit("--undo=1h", "tree", "file")
        said = self.ctl("show", n).out
        for line in (r"^Job 1: %s/tree$" % self.data, r"^ +State: held$",
                     r"^ +User: root \(0\), by submit, priority normal$", r"^Held until: .*\(in 59min ",
                     r"^ Staged in: %s/.reclaim/0/[0-9a-f]{32}$" % self.root, r"^     Names: 2$",
                     r"^ +%s/file \(staged\)$" % self.data, r"^      UUID: [0-9a-f-]{32,36}$"):
            self.assertRegex(said, re.compile(line, re.M))
        self.assertNotIn("\033", said)
        (j,) = json.loads(self.ctl("show", "--json", n).out)
        self.assertEqual(sorted(e["path"] for e in j["contents"]), [self.path("file"), self.path("tree")])
        self.assertEqual((j["names"], j["problems"], j["uid"]), (2, [], 0))

    def test_show_lists_all_names(self):
        """The first ten, and how many more; or all, which takes more than one answer of the daemon."""
        count = 2345
        os.mkdir(self.path("many"))
        fill(self.path("many"), count)
        write(self.path("names"), b"".join(b"many/%s\n" % os.fsencode(n) for n in sorted(os.listdir(self.path("many")))))
        job = self.submit("--undo=1h", "--files-from=names")
        shown = self.ctl("show", job).out
        self.assertEqual(shown.count("/many/"), 10 + 1, shown)
        self.assertIn("     Names: 2,345\n", shown)
        self.assertIn("and 2,335 more: reclaimctl show --all %s\n" % job, shown)
        shown = self.ctl("show", "--all", job).out
        self.assertEqual(len(set(re.findall(r"(?m)^ {12}(\S+) \(staged\)$", shown))), count)
        self.assertNotIn(" more", shown)
        (described,) = json.loads(self.ctl("show", "--json", job).out)
        self.assertEqual(len(described["contents"]), 1000)
        (described,) = json.loads(self.ctl("show", "--json", "--all", job).out)
        self.assertEqual(len({c["path"] for c in described["contents"]}), count)

    def test_show_names_what_stays(self):
        canary = Canary(self.path("tree", "canary"))
        os.chmod(self.data, 0o777)
        os.chown(self.path("tree"), USER, USER)
        write(self.path("tree", "mine"))
        n = self.submit("tree", user=USER)
        r = self.ctl("wait", n, status=3)
        self.assertIn("Job %s partial" % n, r.out)
        self.assertIn("reclaimctl show %s says why" % n, r.out)
        said = self.ctl("show", n).out
        self.assertIn(" Problems: ", said)
        self.assertIn("canary", said)
        shown = json.loads(self.ctl("show", "--json", n).out)
        self.assertTrue(shown[0]["problems"])
        listed = json.loads(self.ctl("list", "--all", "--json").out)
        self.assertEqual(printed(listed), described("list"))
        self.assertEqual(printed(shown), described("list") | described("show", besides=("list",)))
        canary.check()

    def test_words_for_what_stays(self):
        os.chmod(self.data, 0o777)
        for name, stays in (("a", True), ("b", False), ("c", True), ("d", True)):
            build(self.path(name), "x\nroots/x" if stays else "x")
            os.chown(self.path(name), USER, USER)
        for names, message in (("a", "partial: not all of it could be deleted; what is left is in its place"),
                               ("ab", "partial: 1 of 2 names could not be deleted and is in its place"),
                               ("cd", "partial: 2 of 2 names could not be deleted and are in their place")):
            n = self.submit(*names, user=USER)
            self.ctl("wait", n, status=3, user=USER)
            self.assertIn("State: %s\n" % message, self.ctl("show", n).out)

    def test_no_such_job(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        for verb in ("show", "cancel", "pause", "resume", "restore", "wait"):
            r = self.ctl(verb, "999", status=1)
            self.assertEqual(r.out, "")
            self.assertRegex(r.err, r"^reclaimctl: .*999.*\n$")
        r = self.ctl("show", "999", n, status=3)
        self.assertIn("Job %s: " % n, r.out)
        self.assertIn("999", r.err)

    def test_status(self):
        write(self.path("a"))
        self.submit("--undo=1h", "a")
        said = self.ctl("status").out
        self.assertRegex(said, r"^reclaimd \d+\.\d+\.\d+ \(")
        self.assertIn("  Jobs: 1 held\n", said)
        s = json.loads(self.ctl("status", "--json").out)
        self.assertEqual((s["jobs"]["held"], s["paused"], s["running"]), (1, False, []))
        self.assertEqual((s["configuration_error"], s["store_error"]), ("", ""))
        self.assertEqual(self.ctl("pause", "--all").out,
                         "Nothing is deleted any more until: reclaimctl resume --all\n")
        self.assertIn("Paused: nothing is deleted until", self.ctl("status").out)
        self.ctl("resume", "--all")
        self.assertFalse(json.loads(self.ctl("status", "--json").out)["paused"])

    def test_spools(self):
        self.assertIn("No spools are configured", self.ctl("spools").out)
        self.assertEqual(self.ctl("spools", "--json").out, "[]\n")


class Control(Case):
    def test_restore(self):
        canary = Canary(self.path("tree"))
        n = self.submit("--undo=1h", "tree")
        self.assertEqual(self.left(), [])
        self.assertEqual(self.ctl("restore", n).out, "Job %s restored\n" % n)
        canary.check()
        self.assertIn("Job %s restored" % n, self.ctl("wait", n, status=1).out)

    def test_restore_to_another_place(self):
        write(self.path("a"), "a")
        write(self.path("b"), "b")
        os.mkdir(self.path("to"))
        self.ctl("restore", "--to=to", self.submit("--undo=1h", "a"))
        self.ctl("restore", "--to=to/c", self.submit("--undo=1h", "b"))
        self.assertEqual(self.left(), ["to", "to/a", "to/c"])
        with open(self.path("to", "c")) as f:
            self.assertEqual(f.read(), "b")
        r = self.ctl("restore", "--to=nowhere/c", "1", status=1)
        self.assertEqual(r.err, "reclaimctl: nowhere/c: does not exist\n")

    def test_restore_never_replaces(self):
        write(self.path("a"), "old")
        n = self.submit("--undo=1h", "a")
        write(self.path("a"), "new")
        self.assertIn("reclaimctl: ", self.ctl("restore", n, status=1).err)
        with open(self.path("a")) as f:
            self.assertEqual(f.read(), "new")
        self.assertEqual(self.state(n), "held")

    def test_restore_where_nothing_is_mounted(self):
        self.mount_disk()
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        self.daemon.stop()
        fixture.command("umount", self.data)
        self.daemon.start()
        r = self.ctl("restore", n, status=1)
        self.assertIn("could not be put back: its filesystem is not mounted; it is held as before", r.err)
        fixture.command("mount", "-o", "loop", os.path.join(self.daemon.dir, "image"), self.data)
        self.ctl("restore", n)
        self.assertIn("a", os.listdir(self.data))

    def test_cancel_pause_and_resume(self):
        for name in ("a", "b"):
            write(self.path(name))
        a, b = self.submit("--undo=1h", "a"), self.submit("--undo=1h", "b")
        self.assertEqual(self.ctl("pause", a).out, "Job %s paused\n" % a)
        self.assertEqual(self.ctl("resume", a).out, "Job %s held\n" % a)
        r = self.ctl("cancel", "--json", a, "999", b, status=3)
        self.assertEqual([(j["id"], j["state"]) for j in json.loads(r.out)],
                         [(int(a), "cancelled"), (int(b), "cancelled")])
        self.assertIn("999", r.err)
        self.assertEqual(self.left(), ["a", "b"])
        self.assertIn("reclaimctl: ", self.ctl("cancel", a, status=1).err)


    def test_set(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "--by=none", "a")
        r = self.ctl("set", "--priority=high", "--by=2h", n)
        self.assertRegex(r.out, r"^Job 1 held: priority high, done by \d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(in .*\)\n$")
        (j,) = json.loads(self.ctl("show", "--json", n).out)
        self.assertEqual(j["priority"], "high")
        self.assertAlmostEqual(j["by_usec"] / 1e6, time.time() + 7200, delta=600)
        self.assertEqual(self.ctl("set", "--priority=low", n).out.split(", done")[0], "Job 1 held: priority low")
        r = self.ctl("set", "--json", "--by=none", n, "999", status=3)
        self.assertEqual(json.loads(r.out), [{"id": 1, "state": "held", "message": "", "priority": "low", "by_usec": 0}])
        self.assertIn("999", r.err)

    def test_set_refuses(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        self.assertIn("neither --priority= nor --by= given", self.ctl("set", n, status=2).err)
        self.assertIn("no JOB given", self.ctl("set", "--by=2h", status=2).err)
        for bad in ("--priority=urgent", "--by=7", "--by=yesterday", "--by="):
            self.assertIn("is not accepted by", self.ctl("set", bad, n, status=2).err)
        self.assertIn("there is no unfinished job 1", self.ctl("set", "--priority=high", n, status=1, user=NOBODY).err)
        self.ctl("cancel", n)
        self.ctl("set", "--priority=high", n, status=1)
        (j,) = json.loads(self.ctl("show", "--json", n).out)
        self.assertEqual((j["priority"], j["by_usec"]), ("normal", 0))


class Reasons(Case):
    """Why a path is refused: in the same sentence by the command line and the daemon."""

    def said(self, path, user=None):
        """By run, by submit, and by the method Submit of the daemon."""
        c = self.daemon.client(user or 0)
        with self.assertRaises(dbuswire.Error) as caught:
            c.call("Submit", "aaya{sv}", [os.fsencode(path)], {})
        texts = [caught.exception.text]
        for words in (("run", "--configuration-directory=" + os.path.join(self.daemon.dir, "conf")), ("submit",)):
            p = Proc([scratch.binary, *words, "--", path], self.data, env=self.env(), user=user)
            self.addCleanup(p.close)
            r = p.finish()
            self.assertIn(r.status, (1, 4), (path, r))
            self.assertEqual(r.err.count("\n"), 1, r)
            texts.append(r.err.replace("reclaimctl: ", "", 1).rstrip("\n"))
        return texts

    def check(self, why, *paths, user=None):
        for path in paths:
            texts = self.said(path, user)
            self.assertEqual(texts, [texts[0]] * 3)
            self.assertIn(": " + why, texts[0])

    def test_one_sentence_for_one_path(self):
        protected = self.path("keep")
        build(self.data, """
            file
            keep/file
            mount/
            holds/mount/
            link -> keep
        """)
        self.daemon.configure("protect: [%s]\n" % protected)
        self.daemon.stop()
        self.daemon.start()
        # Both that and that it holds mount points would be true later.
        self.assertIn("holds what is protected", self.said(self.data)[0])
        for name in ("mount", "holds/mount"):
            fixture.command("mount", "-t", "tmpfs", "tmpfs", self.path(name))
            self.addCleanup(fixture.unmount, self.path(name))
        # It makes the staging area.
        write(self.path("a"))
        self.ctl("submit", "--undo=1h", "a")
        before = self.left()
        self.check("is the root of everything", "/")
        self.check("belongs to the system", "/usr", "/etc/passwd", "/usr/bin")
        self.check("is on a pseudo-filesystem of the kernel", "/proc/self", "/sys/kernel")
        self.check("is protected by the configuration", protected, protected + "/file")
        self.check("belongs to reclaimd itself", os.path.join(self.root, ".reclaim"))
        self.check("is a mount point", self.path("mount"), self.root)
        self.check("holds a mount point", self.path("holds"))
        self.check("does not exist", self.path("none"), self.path("none/x"), "/usr/none", "/proc/none",
                   self.path("keep/none"))
        self.check("leads through something that is no directory", self.path("file/x"))
        self.check("has a symbolic link on the way", self.path("link/file"))
        self.check("is a symbolic link, and the slash", self.path("link/"))
        self.check("is no directory, but has a slash behind it", self.path("file/"))
        self.check("contains '..'", self.path("keep/../file"))
        self.check("ends in '.'", self.path("."))
        self.check("has a component of more than 255 bytes", self.path("n" * 256))
        self.assertEqual(self.left(), before)

    def test_one_sentence_for_a_user(self):
        build(self.path("closed"), "file\nd/file")
        os.chmod(self.path("closed"), 0o700)
        self.check("cannot be reached: permission denied", self.path("closed/file"), self.path("closed/d/file"),
                   self.path("closed/none"), user=USER)
        self.check("belongs to the system", "/usr/bin", user=USER)


class Retry(Case):
    """A user's tree, with something of root's in it, stays in part."""

    def setUp(self):
        super().setUp()
        os.chmod(self.data, 0o777)
        for name in ("tree", "other/tree"):
            build(self.path(name), "mine\nroots/a")
            os.chown(self.path(name), USER, USER)
        os.chown(self.path("other"), USER, USER)
        self.n = self.submit("--priority=high", "tree", "other/tree", user=USER)
        self.ctl("wait", self.n, status=3, user=USER)
        self.assertFalse(os.path.exists(self.path("tree/mine")))

    def give(self, *names):
        for name in names:
            for there in (self.path(name, "roots"), self.path(name, "roots/a")):
                os.chown(there, USER, USER)

    def test_retry(self):
        canary = Canary(self.path("canary"))
        self.give("tree", "other/tree")
        r = self.ctl("retry", self.n, user=USER)
        self.assertEqual(r.out, "Job 2: 2 names of job 1 in 2 directories\n")
        self.ctl("wait", "2", user=USER)
        (j,) = json.loads(self.ctl("show", "--json", "2").out)
        self.assertEqual((j["priority"], j["uid"], j["names"]), ("high", USER, 2))
        self.assertEqual([n for n in self.left() if not n.startswith("canary")], ["other"])
        canary.check()

    def test_retry_of_what_still_cannot_be_deleted(self):
        self.give("tree")
        self.assertEqual(json.loads(self.ctl("retry", "--json", self.n, user=USER).out),
                         [{"id": 1, "job": 2, "accepted": 2, "missing": 0}])
        self.ctl("wait", "2", status=3, user=USER)
        self.assertEqual(self.left(), ["other", "other/tree", "other/tree/roots", "other/tree/roots/a"])
        # Of that one what is left now is one name.
        self.give("other/tree")
        self.assertEqual(self.ctl("retry", "2", user=USER).out,
                         "Job 3: 1 name of job 2 in %s\n" % self.path("other"))
        self.ctl("wait", "3", user=USER)
        self.assertEqual(self.left(), ["other"])

    def test_retry_leaves_what_has_been_replaced(self):
        self.give("tree", "other/tree")
        os.rename(self.path("tree"), self.path("moved"))
        shutil.copytree(self.path("moved"), self.path("tree"))
        write(self.path("tree/new"))
        for name in ("tree", "tree/new", "tree/roots", "tree/roots/a"):
            os.chown(self.path(name), USER, USER)
        new = fingerprint(self.path("tree"))
        r = self.ctl("retry", self.n, user=USER)
        self.assertEqual(r.out, "Job 2: 1 name of job 1 in 2 directories; 1 gone, or not any more what was submitted\n")
        self.ctl("wait", "2", user=USER)
        self.assertEqual(fingerprint(self.path("tree")), new)
        self.assertEqual([n for n in self.left() if not n.startswith("tree/")],
                         ["moved", "moved/roots", "moved/roots/a", "other", "tree"])
        # If none is left that was meant, there is nothing to do; also where the directory has gone.
        shutil.rmtree(self.path("other"))
        r = self.ctl("retry", self.n, status=1, user=USER)
        self.assertEqual(r.err, "reclaimctl: %s: none of the names there is still what it was, or is there at all\n"
                         % self.data)
        self.assertEqual(fingerprint(self.path("tree")), new)
        os.rename(self.data, self.data + "-elsewhere")
        self.data = self.root
        self.assertIn("job 1: has left nothing in its place that is still there",
                      self.ctl("retry", self.n, status=1, user=USER).err)

    def test_retry_refuses_what_submit_refuses(self):
        self.give("tree", "other/tree")
        self.daemon.configure("protect: [%s]\n" % self.path("tree/roots"))
        self.daemon.stop()
        self.daemon.start()
        said = self.ctl("submit", self.path("tree"), status=1, user=USER).err
        self.assertIn("holds what is protected", said)
        self.assertEqual(self.ctl("retry", self.n, status=1, user=USER).err, said)
        # A way that leads elsewhere by now.
        self.daemon.configure("")
        self.daemon.stop()
        self.daemon.start()
        os.rename(self.path("other"), self.path("real"))
        os.symlink("real", self.path("other"))
        self.assertIn("%s: has a symbolic link on the way" % self.path("other"),
                      self.ctl("retry", self.n, status=3, user=USER).err)
        self.ctl("wait", "2", user=USER)
        self.assertEqual(self.left(), ["other", "real", "real/tree", "real/tree/roots", "real/tree/roots/a"])

    def test_retry_is_for_its_own_user_and_jobs_that_have_left_something(self):
        before = self.left()
        self.assertIn("job 1: is %d's, who alone may retry it" % USER, self.ctl("retry", self.n, status=4).err)
        os.chown(self.path("tree"), NOBODY, NOBODY)
        self.assertIn("there is no job 1", self.ctl("retry", self.n, status=1, user=NOBODY).err)
        write(self.path("a"))
        held = self.submit("--undo=1h", "a")
        self.assertIn("job %s: is held: retry is for" % held, self.ctl("retry", held, status=1).err)
        self.assertEqual(self.left(), before)
        self.ctl("cancel", held)
        self.assertIn("is cancelled: retry is for", self.ctl("retry", held, status=1).err)


class Wait(Case):
    def test_many_jobs_in_any_order(self):
        numbers = []
        for i in range(20):
            fill(self.path("t%d" % i), 50)
            numbers.append(self.submit("t%d" % i))
        r = self.ctl("wait", *reversed(numbers), numbers[0])
        self.assertEqual(r.out.count(" done: 51 entries"), 20)
        self.assertEqual(r.err, "")
        ended = json.loads(self.ctl("wait", "--json", *numbers).out)
        self.assertEqual([str(j["id"]) for j in ended], sorted(numbers, key=int))

    def test_wait_for_job_that_ends_meanwhile(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        p = Proc([scratch.binary, "wait", n], self.data, env=self.env())
        self.addCleanup(p.close)
        self.ctl("cancel", n)
        r = p.finish(20)
        self.assertEqual((r.status, r.out), (1, "Job %s cancelled; reclaimctl show %s says why\n" % (n, n)))

    @unittest.skipUnless(terminal.pyte, "there is no pyte, which is a terminal")
    def test_wait_output_breaks_at_blanks(self):
        name = "with a name that is long, " * 8
        write(self.path(name))
        t = terminal.Terminal([scratch.binary, "submit", "--undo=1h", self.path(name)], self.env(), columns=60)
        self.addCleanup(t.close)
        self.assertEqual(t.finish(), 0)
        self.assertEqual(" ".join(t.text().split()).rpartition(" until ")[0],
                         " ".join(("Job 1: %s; reclaimctl restore 1 has it back" % self.path(name)).split()))
        self.assertGreater(len(t.text().split("\n")), 2)
        # Elsewhere it is one line.
        self.assertEqual(self.ctl("cancel", "1").out.count("\n"), 1)

    def test_wait_free_until_free(self):
        fs = os.statvfs(self.data)
        with open(self.path("large"), "wb") as f:
            os.posix_fallocate(f.fileno(), 0, 64 << 20)
        free = os.statvfs(self.data)
        wanted = free.f_bavail * free.f_frsize + (48 << 20)
        self.assertLessEqual(wanted, fs.f_bavail * fs.f_frsize)
        r = self.ctl("submit", "--wait=free:%dB" % wanted, "large")
        self.assertEqual((r.out, r.err), ("Job 1: large\n", ""))
        after = os.statvfs(self.data)
        self.assertGreaterEqual(after.f_bavail * after.f_frsize, wanted)
        self.ctl("wait", "--free=1%", ".")

    def test_wait_free_fails_when_nothing_is_left(self):
        write(self.path("a"))
        r = self.ctl("wait", "--free=100%", self.data, status=1)
        self.assertRegex(r.err, r"^reclaimctl: %s: has only .* free, not .*, and no job is left there that "
                                r"will free more\n$" % self.data)
        n = self.submit("--undo=1h", "a")
        self.ctl("pause", n)
        r = self.ctl("wait", "--free=100%", ".", status=1)
        self.assertIn("; job %s is paused\n" % n, r.err)

    def test_wait_fails_when_daemon_ends(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        p = Proc([scratch.binary, "wait", n], self.data, env=self.env())
        self.addCleanup(p.close)
        self.until_connected(p)
        self.daemon.stop()
        r = p.finish(60)  # it waits for half a minute
        self.assertEqual((r.status, r.out), (1, ""), r)
        self.assertIn("is not to be reached any more", r.err)

    def test_wait_survives_daemon_restart(self):
        write(self.path("a"))
        write(self.path("b"))
        n = self.submit("--undo=1h", "a")
        waits = [Proc([scratch.binary, *words], self.data, env=self.env())
                 for words in (["wait", n], ["wait", "--free=100%", "."],
                               ["submit", "--wait", "--undo=1h", "b"])]
        for p in waits:
            self.addCleanup(p.close)
        while len(self.jobs()) < 2:
            pass
        for p in waits:
            self.until_connected(p)
        self.daemon.kill()
        self.daemon.start()
        self.ctl("cancel", n)
        self.ctl("cancel", "2")
        results = [p.finish(60) for p in waits]
        for r in results:
            self.assertIn("reclaimctl: reclaimd: has ended; waiting for it to come back\n", r.err)
            self.assertEqual(r.status, 1)
        self.assertIn("Job %s cancelled" % n, results[0].out)
        self.assertIn("no job is left there", results[1].err)
        self.assertIn("Job 2 cancelled", results[2].out)

    @staticmethod
    def until_connected(p):
        """Until it waits for what the daemon has to say."""
        while True:
            with open("/proc/%d/wchan" % p.pid) as f:
                if "poll" in f.read():
                    return


class OnTheBus(daemon_fixture.OnTheBus, Case):
    """The same, through a bus with the reference implementation's limits."""

    def env(self):
        return {"DBUS_SYSTEM_BUS_ADDRESS": self.address, "TZ": "UTC"}

    def test_everything_once(self):
        os.chmod(self.data, 0o777)
        build(self.data, "tree/a\nb\nc")
        self.assertIn("Job 1 done: 2 entries", self.ctl("submit", "--wait", "tree").out)
        n = self.submit("--undo=1h", "b")
        self.assertIn("State: held", self.ctl("show", n).out)
        self.assertIn("Jobs: 1 held", self.ctl("status").out)
        self.ctl("restore", n)
        self.assertEqual(self.left(), ["b", "c"])
        self.assertIn("999", self.ctl("cancel", "999", status=1).err)
        # The bus turns away users that have no account.
        os.chown(self.path("c"), NOBODY, NOBODY)
        self.ctl("submit", "--wait", "c", user=NOBODY)
        self.assertEqual([j["id"] for j in json.loads(
            self.ctl("list", "--all", "--json", user=NOBODY).out)], [3])
        self.assertEqual(self.left(), ["b"])

    def test_the_daemon_of_a_container(self):
        """A container is known by the first process in it, and its bus is at the usual place there. Here it has
        the mounts of this test."""
        if scratch.sanitized_threads:
            self.skipTest("each process has a thread of the sanitizer, and cannot enter a container")
        for name in ("dbus", "systemd/machines"):
            os.makedirs(os.path.join("/run", name))
        os.symlink(self.bus_path, "/run/dbus/system_bus_socket")
        leader = subprocess.Popen(["sleep", "infinity"])
        self.addCleanup(leader.wait)
        self.addCleanup(leader.kill)
        write("/run/systemd/machines/box", "LEADER=%d\nCLASS=container\n" % leader.pid)
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")

        def ctl(*words):
            p = Proc([scratch.binary, *words], self.data, env={
                "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent", "RECLAIMD_RUNTIME_DIRECTORY": "/nonexistent"})
            self.addCleanup(p.close)
            r = p.finish()
            self.assertEqual((r.status, r.err), (0, ""), (words, r))
            return r.out

        self.assertEqual([j["id"] for j in json.loads(ctl("-M", "box", "list", "--json"))], [int(n)])
        self.assertIn("State: held", ctl("show", "--machine=box", n))
        self.assertIn("Jobs: 1 held", ctl("status", "-Mbox"))
        self.assertIn("Job %s paused" % n, ctl("pause", n, "-M", "box"))
        self.assertIn("Job %s cancelled" % n, ctl("cancel", n, "-M", "box"))
        self.assertEqual(self.left(), ["a"])

    def test_submit_fails_when_daemon_is_killed(self):
        write(self.path("a"))
        n = self.submit("--undo=1h", "a")
        monitor = dbuswire.Connection(self.address.partition("=")[2], bus=True)
        self.addCleanup(monitor.close)
        monitor.call("BecomeMonitor", "asu", [], 0, path="/org/freedesktop/DBus",
                     interface="org.freedesktop.DBus.Monitoring", destination="org.freedesktop.DBus")
        self.daemon.process.send_signal(signal.SIGSTOP)
        p = Proc([scratch.binary, "wait", n], self.data, env=self.env())
        self.addCleanup(p.close)
        monitor.called("ListJobsPacked")
        self.daemon.kill()
        self.daemon.start()
        self.until_named()
        # It is accepted anew until its staging directory has been looked at.
        self.until(lambda: json.loads(self.ctl("show", "--json", n).out)[0]["state"] == "held")
        self.ctl("cancel", n)
        r = p.finish(60)
        self.assertEqual((r.status, r.err),
                         (1, "reclaimctl: reclaimd: has ended; waiting for it to come back\n"))

    def test_submit_fails_on_bus_without_daemon(self):
        self.daemon.stop()
        r = self.ctl("list", status=5)
        self.assertIn("no daemon to talk to", r.err)


if __name__ == "__main__":
    fixture.main()
