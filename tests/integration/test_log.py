#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a name can do to those who read the log, an error's text or a terminal: nothing."""
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest
import unicodedata

import daemon_fixture
import dbuswire
from daemon_fixture import user
from fixture import FULL, TIMEOUT, USER, Canary, Proc, command, scratch, write

HOUR = 3600 * 1000000
FORGED = "reclaimd: Job 7 is done: 1 entry deleted"
# Lines, controls of both kinds, right-to-left, zero width, a tag, what is not UTF-8, and what looks
# like an escape.
HOSTILE = os.fsencode("x\n" + FORGED + "\r\x1b]0;x\x07\x1b[31m\x7f\x9b31m\x85\u2028\u2029\u202e\u2066\u200b\ufe0f\U000e0041\t\\n\\x1b")
HOSTILE += b"\xff\xc2"
SHOWN = (r"x\n" + FORGED + r"\x0d\x1b]0;x\x07\x1b[31m\x7f\xc2\x9b31m\xc2\x85\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae"
         r"\xe2\x81\xa6\xe2\x80\x8b\xef\xb8\x8f\xf3\xa0\x81\x81\t\\n\\x1b\xff\xc2")


class Safe(unittest.TestCase):
    def check(self, text, lines=True, begins=None):
        """UTF-8 of which each line is ours."""
        if isinstance(text, bytes):
            text = text.decode()
        for c in text:
            bad = unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") or c == "\ufe0f"
            self.assertFalse(bad and not (lines and c == "\n"), repr(text))
        for line in text.split("\n")[:-1] if lines else [text]:
            self.assertFalse(line.startswith(FORGED), text)
            if begins:
                self.assertTrue(line.startswith(begins), line)


class Log(daemon_fixture.Case, Safe):
    def path(self, *names):
        return os.path.join(os.fsencode(self.data), *names)

    def said(self):
        with open(self.daemon.log, "rb") as f:
            return f.read()

    def again(self, **kw):
        self.daemon.stop()
        self.daemon.start(**kw)
        return self.daemon.client(USER)

    def staging_of_user(self):
        """A user's own staging directory, in which there is a job of the user's."""
        c = self.daemon.client(USER)
        os.chown(self.data, USER, USER)
        with user():
            write(self.path(b"a"))
        c.submit(self.path(b"a"), undo_usec=HOUR)
        return os.path.join(os.fsencode(self.root), b".reclaim", b"%d" % USER)

    def test_attack_03_names_in_staging(self):
        top = self.staging_of_user()
        n = 32756 if FULL else 2000
        with user():
            for i in range(n):
                os.makedirs(os.path.join(top, HOSTILE + b"%05d" % i, b"in"))
        canary = Canary(os.path.join(top, HOSTILE))
        self.again()
        self.daemon.wait_said("of no job that is on record")
        self.check(self.said(), begins="reclaimd: ")
        (line,) = [l for l in self.said().decode().split("\n") if "on record" in l and os.fsdecode(top) in l]
        self.assertIn("has {:,} directories of no job".format(n + 1), line)
        self.assertIn(SHOWN, line)
        self.assertIn(" and %d more)" % (n - 2), line)
        canary.check()

    def hostile_mount(self):
        """A job on a mount of such a name, that could not delete all."""
        place = self.path(HOSTILE)
        os.mkdir(place)
        command("mount", "-t", "tmpfs", "tmpfs", place)
        self.addCleanup(command, "umount", "-l", place)
        os.makedirs(os.path.join(place, HOSTILE, HOSTILE))
        write(os.path.join(place, HOSTILE, HOSTILE, b"kept"))
        os.chown(place, USER, USER)
        os.chown(os.path.join(place, HOSTILE), USER, USER)
        return place

    def test_attack_03_journal_errors_and_terminals(self):
        """Every message with its fields, every error, every output."""
        messages = self.journal()
        # The journal's socket is found once, at its start.
        st = os.stat(self.daemon.log)
        self.daemon.stop()
        self.daemon.start(env={"JOURNAL_STREAM": "%d:%d" % (st.st_dev, st.st_ino)})
        place = self.hostile_mount()
        c = self.daemon.client(USER)
        n = c.submit(os.path.join(place, HOSTILE))
        self.assertIn(c.wait(n), ("partial", "failed"))
        for path in (os.path.join(place, b"absent" + HOSTILE), place, os.path.join(place, HOSTILE, HOSTILE, b"x")):
            with self.assertRaises(dbuswire.Error) as e:
                c.submit(path)
            self.check(str(e.exception), lines=False)
        with self.assertRaises(dbuswire.Error) as e:
            fd = os.open("/", os.O_PATH)
            self.addCleanup(os.close, fd)
            c.call("SubmitFiles", "aha(uay)a{sv}", [0], [(0, b"x")], {"x\n\x1b\u202e": ("b", True)}, fds=[fd])
        self.assertIn(r"x\n\x1b\xe2\x80\xae", str(e.exception))
        self.check(c.get(n, "Message"), lines=False)
        for problem in c.problems(n):
            self.check(problem[1], lines=False)
        for worker in self.daemon.workers():
            os.kill(worker, signal.SIGKILL)
        self.outputs(place, n)
        self.daemon.stop()
        self.check(self.said())
        seen = set()
        for fields in messages():
            for name, value in fields:
                self.check(value, lines=False)
                seen.add(name)
            self.assertEqual([name for name, value in fields].count(b"MESSAGE"), 1)
        self.assertLessEqual({b"MESSAGE", b"PATH", b"DEVICE", b"JOB"}, seen)

    def journal(self):
        """Takes the place of the journal; returns what gives all messages, as lists of fields."""
        os.makedirs("/run/systemd/journal", exist_ok=True)
        command("mount", "-t", "tmpfs", "tmpfs", "/run/systemd/journal")
        self.addCleanup(command, "umount", "-l", "/run/systemd/journal")
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
        s.bind("/run/systemd/journal/socket")
        s.setblocking(False)

        def messages():
            while True:
                try:
                    data = s.recv(1 << 20)
                except BlockingIOError:
                    return
                fields = []
                while data:
                    line, _, data = data.partition(b"\n")
                    name, equals, value = line.partition(b"=")
                    if not equals:  # its length, and the bytes
                        size = int.from_bytes(data[:8], "little")
                        value, data = data[8:8 + size], data[9 + size:]
                    fields.append((name, value))
                yield fields
        return messages

    def outputs(self, place, n):
        for words in (("list",), ("list", "--all"), ("show", str(n)), ("status",), ("spools",), ("metrics",),
                      ("plan", place), ("devices", "--interval=0", place), ("wait", str(n)), ("cancel", str(n)),
                      ("submit", os.path.join(place, b"absent")), ("run", os.path.join(place, b"absent")),
                      ("submit", "--dry-run", place), ("run", "--dry-run", place)):
            for json_too in ((), ("--json",), ("--json=pretty",)):
                p = Proc([scratch.binary, *words, *json_too], "/",
                         env={"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket)})
                self.addCleanup(p.close)
                r = p.finish()
                for text in r.out, r.err:
                    self.check(os.fsencode(text))
                if json_too and r.out and not r.status:
                    json.loads(r.out)

    def test_attack_03_a_user_fills_the_log(self):
        begun = time.monotonic()
        c = self.daemon.client(USER)
        os.chown(self.data, USER, USER)
        with user():
            for i in range(700):
                write(self.path(b"f%d" % i))
        for i in range(700):
            c.submit(self.path(b"f%d" % i), undo_usec=HOUR)
        write(self.path(b"root's"))
        root = self.daemon.client()
        n = root.submit(self.path(b"root's"))
        root.wait(n)
        self.assertIn(b"Job %d is done" % n, self.said())
        self.daemon.stop()
        told = len(re.findall(rb" accepted: 1 name", self.said())) - 1
        left_out = sum(map(int, re.findall(rb"reclaimd: (\d+) more messages about user %d suppressed" % USER,
                                           self.said())))
        self.assertEqual(told + left_out, 700, self.said())
        self.assertLessEqual(told, 300 * ((time.monotonic() - begun) // 60 + 2))

    def test_attack_03_options(self):
        """What they are given is shown as any other name; what they are called, not at all."""
        word = "--" + os.fsdecode(HOSTILE)
        for words in ([os.environ["RECLAIMD"], word], [os.environ["RECLAIMD"], os.fsdecode(HOSTILE)],
                      [os.environ["RECLAIMD"], "-\x1b"], [os.environ["RECLAIMD"], "--state-directory"],
                      [os.environ["RECLAIMD_GENERATOR"], word], [os.environ["RECLAIMD_GENERATOR"], "-\x9b"],
                      [os.environ["RECLAIM_WORKER"], word], [scratch.binary, word], [scratch.binary, "run", word],
                      [scratch.binary, "run", "--undo" + word], [scratch.binary, "list", "-\x1b"],
                      [scratch.binary, "list", "--json=" + word], [scratch.binary, "list", "-H" + word],
                      [scratch.binary, "list", "-H", "a\rb"], [scratch.binary, "submit", "--undo"],
                      [scratch.binary, "list", "--quiet=" + word], [scratch.binary, os.fsdecode(HOSTILE)],
                      [scratch.binary, "show", os.fsdecode(HOSTILE)]):
            r = subprocess.run([os.fsdecode(HOSTILE), *words[1:]], executable=words[0], capture_output=True,
                               timeout=TIMEOUT, check=False)
            self.assertNotIn(r.returncode, (0, 255), words)
            self.assertTrue(r.stderr, words)
            self.check(r.stderr, begins=os.path.basename(words[0])[:8])
            self.assertEqual(r.stdout, b"")


class Configuration(daemon_fixture.Case, Safe):
    def test_attack_03_configuration(self):
        text = b'"' + rb'x\n' + FORGED.encode() + rb'\e[31m\x85\u202E"' + b": {}\n"
        with open(os.path.join(self.daemon.dir, "conf", "reclaimd.yaml"), "wb") as f:
            f.write(text)
        with self.assertRaises(dbuswire.Error) as e:
            self.daemon.client().call("Reload")
        self.check(str(e.exception), lines=False)
        with open(self.daemon.log, "rb") as f:
            self.check(f.read(), begins="reclaimd: ")
        shown = self.daemon.client().call("Get", "ss", "org.reclaimd1.Manager", "ConfigurationError",
                                          interface="org.freedesktop.DBus.Properties").body[0]
        self.assertIn(r"\x1b[31m", shown)
        self.check(shown, lines=False)


if __name__ == "__main__":
    from fixture import main
    main()
