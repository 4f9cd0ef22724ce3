#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A master of MooseFS that answers nonsense, or nothing: what it was to remove at once is unlinked name
by name, nothing else is touched, and no job waits for it for ever."""
import contextlib
import os
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time

import fixture
from daemon_fixture import Daemon
from fixture import Canary, Case, command, fill, scratch

SAY_REGISTER, SAY_STATFS, SAY_LOOKUP, SAY_READDIR, SAY_GETTRASHTIME = 400, 402, 406, 428, 442
SAY_GETEATTR, SAY_SETEATTR, SAY_SNAPSHOT = 472, 474, 468
ATTRIBUTES = 36
ENDED = "the master no longer answers"
PATIENCE_FIRST, PATIENCE = 5, 20  # seconds, of the program


def message(kind, body, length=None):
    return struct.pack(">II", kind, len(body) if length is None else length) + body


def entry(name, inode, directory=False, nlink=1):
    attributes = bytearray(ATTRIBUTES)
    attributes[1] = (2 if directory else 1) << 4
    struct.pack_into(">I", attributes, 23, nlink)
    return bytes([len(name)]) + name + struct.pack(">I", inode) + bytes(attributes)


class Master(threading.Thread):
    """Listens, introduces itself as `first` says, and answers questions as `answers` says: a function of the
    question's type, number and body whose bytes are sent; None ends the conversation."""

    def __init__(self, answers, first=lambda: message(SAY_REGISTER + 1, b"\0")):
        super().__init__(daemon=True)
        self.answers, self.first = answers, first
        self.asked = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.start()

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                with peer, contextlib.suppress(OSError):
                    self.talk(peer)

    def receive(self, peer):
        head = peer.recv(8, socket.MSG_WAITALL)
        if len(head) < 8:
            return None
        kind, length = struct.unpack(">II", head)
        self.asked.append(kind)
        return kind, peer.recv(length, socket.MSG_WAITALL)

    def talk(self, peer):
        answer = self.first() if self.receive(peer) else None
        while answer is not None:
            for part in [answer] if isinstance(answer, bytes) else answer:
                peer.sendall(part)
            question = self.receive(peer)
            if not question:
                return
            kind, body = question
            answer = self.answers(kind, body[:4], body[4:])

    def end(self):
        with contextlib.suppress(OSError):  # it is over
            # Which wakes it up, as closing would not.
            self.socket.shutdown(socket.SHUT_RDWR)
        self.join()
        self.socket.close()


def cut(part):
    """A part of an answer, and the end."""
    yield part
    raise ConnectionError


def drops():
    """One byte after the other, which would take an hour."""
    while True:
        time.sleep(0.2)
        yield b"\0"


def nothings():
    """What is said while an answer takes long, and no answer."""
    while True:
        time.sleep(0.1)
        yield message(0, b"")


class Obliging:
    """Knows what there is, lists it as it is told to, and says that it has removed it."""

    def __init__(self, top, entries):
        self.inode = {name: os.lstat(os.path.join(top, name)).st_ino for name in ("", "tree")}
        self.entries = entries

    def __call__(self, kind, number, body):
        if kind == SAY_LOOKUP:
            name = body[5:5 + body[4]].decode()
            return message(kind + 1, number + struct.pack(">I", self.inode.get(name, 99)) + bytes(ATTRIBUTES))
        if kind in (SAY_READDIR, SAY_READDIR + 2):
            return message(kind + 1, number + bytes(8) + b"".join(self.entries))
        if kind == SAY_GETEATTR:
            # One kind of directories, one of files, as many as are listed, with no attributes.
            return message(kind + 1, number + struct.pack(">BBBIBI", 1, 1, 0, 1, 0, len(self.entries)))
        if kind == SAY_SETEATTR:
            return message(kind + 1, number + struct.pack(">III", 1 + len(self.entries), 0, 0))
        if kind == SAY_GETTRASHTIME:
            return message(kind + 1, number + struct.pack(">IIII", 1, 0, 60, 1))
        if kind == SAY_STATFS:
            return message(kind + 1, number + bytes(44))
        return message(kind + 1, number + b"\0")


class Hostile(Case):
    def setUp(self):
        self.below = os.path.join(scratch.dir, self.id())
        os.mkdir(self.below)
        self.canary = Canary(os.path.join(self.below, "canary"))
        self.addCleanup(self.canary.check)
        self.grow()

    def grow(self):
        for name in ("d", "e"):
            fill(os.path.join(self.below, "tree", name), 20)

    @contextlib.contextmanager
    def mounted(self, master):
        """A mount that says that the master is there."""
        program = scratch.helper("moosefs-mount", command("pkg-config", "--cflags", "--libs", "fuse3").split())
        at = self.below + ".mount"
        os.mkdir(at)
        process = subprocess.Popen([program, self.below, str(master.port), at], stderr=subprocess.DEVNULL)
        try:
            fixture.until(lambda: os.path.ismount(at) or process.poll() is not None)
            self.assertIsNone(process.poll())
            yield at
        finally:
            command("umount", at)
            process.send_signal(signal.SIGTERM)
            process.wait()
            os.rmdir(at)
            master.end()

    def check(self, master, said=None, complaint=None, most=PATIENCE):
        """The tree goes, all of it by name."""
        with self.mounted(master) as at:
            began = time.monotonic()
            p = fixture.Proc([scratch.binary, "run", "--json=short", "--strategy=moosefs-snapshot",
                              os.path.join(at, "tree")], at)
            r = p.finish()
            self.assertLess(time.monotonic() - began, most, r)
        self.assertEqual(r.status, 0, r)
        # Of what a master says it has removed, the number is not doubted.
        self.assertEqual(r.json["entries"] - self.claimed(r), 43, r)
        self.assertFalse(os.path.exists(os.path.join(self.below, "tree")))
        if complaint:
            self.assertIn("name by name: " + complaint, r.err)
        if said:
            self.assertIn("moosefs: 0 by snapshot (others: %s)" % said, r.json["strategy"])
        return r

    @staticmethod
    def claimed(r):
        """How many entries the master is said to have removed."""
        found = re.search(r"(\d+) by snapshot", r.json["strategy"])
        return int(found.group(1)) if found else 0

    def check_answer(self, answer, said=ENDED, **kw):
        """The same to each question, made of its type and its number."""
        self.check(Master(lambda kind, number, body: answer(kind, number)), said, **kw)
        self.grow()

    def check_first(self, answer, complaint, **kw):
        master = Master(lambda *question: None, lambda: answer)
        self.check(master, complaint=complaint, **kw)
        self.assertEqual(master.asked, [SAY_REGISTER])


class Introductions(Hostile):
    def test_register_with_no_listener(self):
        master = Master(lambda *question: None)
        master.end()
        self.check(master, complaint="Connection refused")

    def test_closes(self):
        self.check_first(None, "Broken pipe")

    def test_closes_in_the_middle(self):
        self.check_first(cut(message(SAY_REGISTER + 1, b"")[:5]), "Broken pipe")

    def test_register_denied(self):
        self.check_first(message(SAY_REGISTER + 1, b"\x04"), "Permission denied")

    def test_another_type(self):
        self.check_first(message(7, b"\0"), "Protocol error")

    def test_register_answered_too_long(self):
        self.check_first(message(SAY_REGISTER + 1, b"\0\0"), "Protocol error")

    def test_register_answered_empty(self):
        self.check_first(message(SAY_REGISTER + 1, b""), "Protocol error")

    def test_register_unanswered(self):
        self.check_first(b"", "Connection timed out", most=PATIENCE_FIRST + 10)

    def test_register_answered_bytewise(self):
        self.check_first(drops(), "Connection timed out", most=PATIENCE_FIRST + 10)


class Answers(Hostile):
    def test_closes(self):
        self.check(Master(lambda *question: None), ENDED)

    def test_answer_has_huge_length(self):
        self.check_answer(lambda kind, number: message(kind + 1, number, 0xffffffff))

    def test_closes_in_the_middle(self):
        self.check_answer(lambda kind, number: cut(message(kind + 1, number, 100)))

    def test_answer_ends_early(self):
        # The program waits for the rest, and this for the next question.
        self.check_answer(lambda kind, number: message(kind + 1, number, 100), most=PATIENCE + 10)

    def test_answer_has_short_number(self):
        for n in range(4):
            with self.subTest(n=n):
                self.check_answer(lambda kind, number, n=n: message(kind + 1, number[:n]))

    def test_answer_has_wrong_number(self):
        right = Obliging(self.below, [entry(b"a", 100)])
        self.check(Master(lambda kind, number, body: right(kind, b"\xff" + number[1:], body)), ENDED)

    def test_another_type(self):
        right = Obliging(self.below, [entry(b"a", 100)])
        self.check(Master(lambda kind, number, body: right(kind + 2, number, body)
                          if kind == SAY_READDIR else right(kind, number, body)), ENDED)

    def test_answer_has_number_only(self):
        self.check_answer(lambda kind, number: message(kind + 1, number))

    def test_answer_is_error(self):
        self.check_answer(lambda kind, number: message(kind + 1, number + b"\x09"), "not to be listed")

    def test_answer_is_noise(self):
        for seed in range(8):
            with self.subTest(seed=seed):
                noise = bytes((seed * 37 + i * i * 11) % 256 for i in range(999))
                self.check_answer(lambda kind, number, b=noise: message(kind + 1, number + b))

    def test_answer_is_endless_keepalive(self):
        self.check_answer(lambda kind, number: nothings(), most=PATIENCE + 10)


class Lists(Hostile):
    def check_list(self, *entries):
        r = self.check(Master(Obliging(self.below, entries)))
        self.grow()
        return r

    def test_list_name_overruns(self):
        self.check_list(entry(b"a" * 9, 5)[:7])

    def test_list_attributes_overrun(self):
        self.check_list(entry(b"a", 5)[:-1])

    def test_list_has_invalid_names(self):
        for name in (b"", b"a/b", b"a\0b", b"/"):
            with self.subTest(name=name):
                self.check_list(entry(name, 5, directory=True))

    def test_list_is_too_long(self):
        self.check_list(*[entry(b"%d" % i, 100 + i) for i in range(40000)])

    def test_list_has_dot_and_dotdot(self):
        self.check_list(entry(b".", 1, directory=True), entry(b"..", 1, directory=True))

    def test_list_has_itself(self):
        self.check_list(entry(b"tree", os.stat(os.path.join(self.below, "tree")).st_ino, directory=True))

    def test_master_claims_removal(self):
        """The mount says otherwise."""
        r = self.check_list(*[entry(b"%d" % i, 100 + i) for i in range(5)])
        self.assertEqual(self.claimed(r), 6)


class Process(Hostile):
    """reclaim-moosefs, which reads what the master says."""

    def of(self, parent, master):
        """Its process and what the kernel says of that, once it waits for the master's answer to a question."""
        fixture.until(lambda: len(master.asked) > 1)  # the first is that it is there
        with open("/proc/%d/task/%d/children" % (parent, parent), encoding="ascii") as f:
            for pid in map(int, f.read().split()):
                with open("/proc/%d/status" % pid, encoding="ascii") as status:
                    fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
                if fields["Name"] == "reclaim-moosefs":
                    self.assertEqual(fields["Seccomp"], "2")
                    return pid, fields
        return self.fail("there is no reclaim-moosefs")

    def test_client_has_no_rights_and_ends_with_its_parent(self):
        master = Master(lambda kind, number, body: nothings())
        with self.mounted(master) as at:
            p = fixture.Proc([scratch.binary, "run", "--strategy=moosefs-snapshot", os.path.join(at, "tree")], at)
            self.addCleanup(p.close)
            pid, status = self.of(p.pid, master)
            for held in ("CapPrm", "CapEff", "CapInh", "CapBnd", "CapAmb"):
                self.assertEqual(int(status[held], 16), 0, held)
            self.assertEqual(status["NoNewPrivs"], "1")
            self.assertEqual(set(os.listdir("/proc/%d/fd" % pid)), {"0", "1", "2", "3", "4", "5"})
            for fd, kind in (("3", "socket:"), ("4", "pipe:"), ("5", "socket:")):
                self.assertTrue(os.readlink("/proc/%d/fd/%s" % (pid, fd)).startswith(kind), fd)
            process = os.pidfd_open(pid)
            self.addCleanup(os.close, process)
            # Stopped, it does not read that its socket has ended.
            os.kill(pid, signal.SIGSTOP)
            p.kill()
            self.assertTrue(select.select([process], [], [], fixture.TIMEOUT)[0], "it did not end")
        self.assertTrue(os.path.exists(os.path.join(self.below, "tree", "d")))

    def test_client_killed_in_mid_conversation(self):
        """What remains is unlinked by name."""
        master = Master(lambda kind, number, body: nothings())
        with self.mounted(master) as at:
            p = fixture.Proc([scratch.binary, "run", "--json=short", "--strategy=moosefs-snapshot",
                              os.path.join(at, "tree")], at)
            os.kill(self.of(p.pid, master)[0], signal.SIGKILL)
            r = p.finish()
        self.assertEqual((r.status, r.json["entries"]), (0, 43), r)
        self.assertIn(ENDED, r.json["strategy"])

    def test_client_is_not_installed(self):
        name = os.path.join(scratch.dir, "reclaim-moosefs")
        os.rename(name, name + ".away")
        self.addCleanup(os.rename, name + ".away", name)
        self.check(Master(lambda *question: None), complaint="the program reclaim-moosefs is not installed")


class Jobs(Hostile):
    def test_job_of_root_uses_master(self):
        """By its worker, which has the program beside it."""
        master = Master(Obliging(self.below, [entry(b"%d" % i, 100 + i) for i in range(5)]))
        with self.mounted(master) as at:
            daemon = Daemon(config="strategy: {moosefs: snapshot}\n")
            daemon.start()
            try:
                client = daemon.client()
                job = client.submit(os.path.join(at, "tree"))
                self.assertEqual(client.wait(job), "done", daemon.said())
                self.assertIn("moosefs: 6 by snapshot", client.get(job, "Strategy"))
            finally:
                daemon.stop()  # it has the mount open
        self.assertFalse(os.path.exists(os.path.join(self.below, "tree")))
        self.assertIn(SAY_SNAPSHOT, master.asked)


if __name__ == "__main__":
    fixture.main()
