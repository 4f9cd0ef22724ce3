#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Large files that something refers to without having them open: no write lease shows that. What could
be read after rm can be read afterwards, every byte of it.

Attack 2 of the second round, and 15: what shares blocks, or never had a name."""
import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import shutil
import signal
import socket
import subprocess

import daemon_fixture
import fixture
from contents import big_file, digest
from fixture import Case, DISKS, MIB, TIMEOUT, USER, command, libc, matrix
from test_truncate import Mapping, held_fd

SHRINKING = DISKS + ("ext4-discard",)
OPEN_TREE_CLONE, SYS_OPEN_TREE = 1, 428
FICLONE = 0x40049409
IN_STEPS, WHOLE = "1 large freed in steps", "1 large unlinked whole"


def read_pinned(fd):
    with open("/proc/self/fd/%d" % fd, "rb") as f:
        return digest(f)


@contextlib.contextmanager
def pinned(path):
    fd = os.open(path, os.O_PATH)
    try:
        yield lambda: read_pinned(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def once_called_otherwise(path):
    """By a name that is not there any more."""
    os.link(path, path + ".other")
    fd = os.open(path + ".other", os.O_PATH)
    os.unlink(path + ".other")
    try:
        yield lambda: read_pinned(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def in_flight(path):
    """No process has it: it is in a socket."""
    a, b = socket.socketpair()
    fd = os.open(path, os.O_PATH)
    socket.send_fds(a, [b"x"], [fd])
    os.close(fd)

    def read():
        _, fds, _, _ = socket.recv_fds(b, 1, 1)
        try:
            return read_pinned(fds[0])
        finally:
            os.close(fds[0])
    with a, b:
        yield read


@contextlib.contextmanager
def by_its_handle(path):
    """By a reference that never had a name, made before there was one that had."""
    handle = (ctypes.c_uint32 * 34)(128)
    at = ctypes.c_int()
    if libc.name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(at), 0) < 0:
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    top = os.path.dirname(path)
    while not os.path.ismount(top):
        top = os.path.dirname(top)
    command("mount", "-o", "remount", top)  # drops what is remembered of names
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    fd = libc.open_by_handle_at(directory, handle, os.O_PATH)
    error = ctypes.get_errno()
    os.close(directory)
    if fd < 0:
        raise OSError(error, "open_by_handle_at")
    try:
        assert os.readlink("/proc/self/fd/%d" % fd) == "/"
        yield lambda: read_pinned(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def mounted(path):
    at = os.path.join(fixture.scratch.dir, "mounted")
    open(at, "w", encoding="ascii").close()
    command("mount", "--bind", path, at)

    def read():
        with open(at, "rb") as f:
            return digest(f)
    try:
        yield read
    finally:
        fixture.unmount_when_free(at)


@contextlib.contextmanager
def mounted_elsewhere(path):
    """In a mount namespace of another process, as in a container."""
    at = os.path.join(fixture.scratch.dir, "mounted")
    open(at, "w", encoding="ascii").close()
    with subprocess.Popen(["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && echo up && exec sleep 600',
                           path, at], stdout=subprocess.PIPE) as p:
        try:
            assert p.stdout.readline() == b"up\n"

            def read():
                with open("/proc/%d/root%s" % (p.pid, at), "rb") as f:
                    return digest(f)
            yield read
        finally:
            p.kill()


@contextlib.contextmanager
def mounted_nowhere(path):
    """A mount in no namespace, which is in no table."""
    fd = libc.syscall(SYS_OPEN_TREE, -100, os.fsencode(path), OPEN_TREE_CLONE)
    if fd < 0:
        raise OSError(ctypes.get_errno(), "open_tree")
    try:
        yield lambda: read_pinned(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def in_a_layer(path):
    """Of an overlay that has looked at it and has nothing open."""
    top = os.path.join(fixture.scratch.dir, "overlay")
    for d in ("", "/upper", "/work", "/view"):
        os.mkdir(top + d)
    command("mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=%s/upper,workdir=%s/work"
            % (os.path.dirname(path), top, top), "overlay", top + "/view")
    seen = os.open(os.path.join(top, "view", os.path.basename(path)), os.O_PATH)
    try:
        yield lambda: read_pinned(seen)
    finally:
        os.close(seen)
        command("umount", top + "/view")
        shutil.rmtree(top)


REFERENCES = (pinned, once_called_otherwise, by_its_handle, in_flight, mounted, mounted_elsewhere, mounted_nowhere,
              in_a_layer)


def said_by_plan(w, path, user):
    r = fixture.Proc([fixture.scratch.binary, "plan", "--json", path], w.dir, user=user).finish()
    return r.json[0]["strategy"]["large_files"]


class Referred(Case):
    @matrix(fs=SHRINKING)
    def test_attack_02_every_reference(self, w):
        for refer in REFERENCES if w.backend == "threads" else (pinned,):
            content = big_file(w.path("big"))
            with self.subTest(by=refer.__name__), refer(w.path("big")) as read:
                r = w.run("--json", "big")
                self.check_gone(w, r)
                self.assertEqual(read(), content)
                self.assertIn(WHOLE, r.json["strategy"])

    @matrix(fs=SHRINKING)
    def test_attack_02_without_a_reference(self, w):
        """It is known as well, or nothing would ever be freed in steps."""
        big_file(w.path("big"))
        r = w.run("--json", "big")
        self.check_gone(w, r)
        self.assertIn(IN_STEPS, r.json["strategy"])

    @matrix(fs=SHRINKING, backends=("threads",))
    def test_attack_02_taken_at_the_last_moment(self, w):
        """The name goes after the lease was granted: what was pinned in between is noticed."""
        content = big_file(w.path("big"))
        p = w.at_gate("shrink:big", "big")
        with pinned(w.path("big")) as read:
            self.check_gone(w, p.go_on().finish())
            self.assertEqual(read(), content)

    @matrix(fs=SHRINKING, backends=("threads",))
    def test_attack_02_one_of_two_lets_go_meanwhile(self, w):
        """Two hold it by names that went earlier: the end of one is not that of the other."""
        for kept in (0, 1):
            content = big_file(w.path("big"))
            fds = []
            for name in ("second", "third"):
                os.link(w.path("big"), w.path(name))
                fds.append(os.open(w.path(name), os.O_PATH))
                os.unlink(w.path(name))
            p = w.start("--json", "big", gate="last-reference:watched")
            stopped = p.comes_to_its_gate()
            os.close(fds[1 - kept])
            r = (p.go_on() if stopped else p).finish()
            self.check_gone(w, r)
            self.assertEqual(read_pinned(fds[kept]), content)
            self.assertIn(WHOLE, r.json["strategy"])
            os.close(fds[kept])

    @matrix(fs=SHRINKING, backends=("threads",))
    def test_attack_02_opened_by_its_handle(self, w):
        """Once nothing refers to it any more, a handle still leads to it: an open, as a lease shows."""
        content = big_file(w.path("big"))
        p = w.at_gate("shrink:alone", "big")
        with open(held_fd(p.pid, w.dir), "rb") as f:
            self.check_gone(w, p.go_on().finish())
            self.assertEqual(digest(f), content)

    @matrix(fs=("ext4",), backends=("threads",))
    def test_attack_02_who_cannot_know(self, w):
        """A user cannot look for the references of others, so nothing is emptied."""
        os.mkdir(w.path("own"))
        content = big_file(w.path("own/big"))
        for path in ("own", "own/big"):
            os.chown(w.path(path), USER, USER)
        self.assertIn("only root can find out", said_by_plan(w, "own/big", USER))
        self.assertIn("unlinked whole if it is in use elsewhere", said_by_plan(w, "own/big", 0))
        with pinned(w.path("own/big")) as read:
            r = w.run("--json", "own/big", user=USER)
            self.assertEqual(r.status, 0, r)
            self.assertEqual(read(), content)
            self.assertIn("other references cannot be ruled out", r.json["strategy"])

    @matrix(fs=SHRINKING, backends=("threads",))
    def test_attack_02_pages_in_a_pipe(self, w):
        """They show as no reference. The file's length is no multiple of anything; what a first step of 64 MiB
        would end within is one folio where folios are large, and so is its end."""
        size = 320 * MIB + (64 << 10) + 100
        with open(w.path("big"), "w+b") as f:
            os.posix_fallocate(f.fileno(), 0, size)
            held = []
            for at in (0, 256 * MIB, 320 * MIB):
                os.pwrite(f.fileno(), b"A" * min(MIB, size - at), at)
                os.fsync(f.fileno())
                held.append((in_a_pipe(f.fileno(), at, min(MIB, size - at)), min(MIB, size - at)))
        r = w.run("--json", "big")
        self.check_gone(w, r)
        self.assertIn(IN_STEPS, r.json["strategy"])
        for pipe, length in held:
            with pipe:
                self.assertTrue(pipe.read(length) == b"A" * length, "what was in the pipe has changed")


def in_a_pipe(fd, at, length):
    """Pages of a file, spliced and not copied. Returns the end that they can be read from."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, MIB)
    done = 0
    while done < length:
        done += os.splice(fd, into, length - done, offset_src=at + done)
    os.close(into)
    return open(out, "rb")


class Shared(Case):
    @matrix(fs=("xfs", "btrfs"))
    def test_attack_15_reflinks(self, w):
        """What shares every block, and what shares some in the midst."""
        for shared in ("copy", "part"):
            content = big_file(w.path("big"))
            with open(w.path("big"), "rb") as f:
                f.seek(64 * MIB)
                middle = f.read(16 * MIB)
            if shared == "copy":
                command("cp", "--reflink=always", w.path("big"), w.path("copy"))
            else:
                command("xfs_io", "-fc", "reflink %s %d 0 %d" % (w.path("big"), 64 * MIB, 16 * MIB),
                        w.path("part"))
            r = w.run("--json", "big")
            self.check_gone(w, r, shared)
            self.assertIn(IN_STEPS, r.json["strategy"])
            w.settle()
            with open(w.path(shared), "rb") as f:
                if shared == "copy":
                    self.assertEqual(digest(f), content)
                else:
                    self.assertEqual(f.read(), middle)
            os.unlink(w.path(shared))

    @matrix(fs=SHRINKING)
    def test_attack_15_made_without_a_name(self, w):
        """O_TMPFILE, linked later: while its maker has it open, and after."""
        for held in (True, False):
            fd = os.open(w.dir, os.O_TMPFILE | os.O_RDWR, 0o600)
            os.posix_fallocate(fd, 0, 256 * MIB)
            os.pwrite(fd, b"tail", 256 * MIB - 4)
            give_name(fd, w.path("big"))
            content = digest(fd)
            if not held:
                os.close(fd)
            r = w.run("--json", "big")
            self.check_gone(w, r)
            self.assertIn(WHOLE if held else IN_STEPS, r.json["strategy"])
            if held:
                self.assertEqual(digest(fd), content)
                # Nor may it have been spoilt for a name to come.
                with self.assertRaises(OSError):
                    give_name(fd, w.path("again"))
                os.close(fd)

    @matrix(fs=SHRINKING, backends=("threads",))
    def test_attack_15_mapped_in_mid_shrink(self, w):
        """A mapping made of what is left: it stays as it is from then on."""
        big_file(w.path("big"))
        p = w.at_gate("shrink:step", "big")
        # The open waits for the lease, which is given up with the file.
        (told, tell), (asked, ask) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ask)
            fd = os.open(held_fd(p.pid, w.dir), os.O_RDONLY)
            kept = Mapping(fd, mmap.ACCESS_READ)
            os.close(fd)
            first = kept.digest()
            os.write(tell, b"m")
            os.read(asked, 1)
            os._exit(0 if kept.size > 0 and kept.digest() == first else 1)
        os.close(tell)
        fixture.until(lambda: fixture.is_blocked_by_lease(child))
        self.check_gone(w, p.go_on().finish())
        self.assertEqual(os.read(told, 1), b"m")
        os.close(ask)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        os.close(told)
        os.close(asked)


def give_name(fd, path):
    """As the manual of O_TMPFILE says."""
    if libc.linkat(-100, b"/proc/self/fd/%d" % fd, -100, os.fsencode(path), 0x400) < 0:
        raise OSError(ctypes.get_errno(), "linkat")


class OfTheDaemon(daemon_fixture.Case):
    """Also for a user, whose worker may not ask for itself."""

    def setUp(self):
        super().setUp()
        self.data = fixture.scratch.filesystem("ext4")

    def large(self, uid, name):
        top = os.path.join(self.data, "of-%d" % uid)
        os.makedirs(top, exist_ok=True)
        path = os.path.join(top, name)
        content = big_file(path)
        for p in (top, path):
            os.chown(p, uid, uid)
        return path, content

    def test_attack_02_jobs(self):
        for uid in (0, USER):
            client = self.daemon.client(uid)
            path, content = self.large(uid, "held")
            with pinned(path) as read:
                n = client.submit(path)
                self.assertEqual(client.wait(n), "done", self.daemon.said())
                self.assertEqual(read(), content)
                self.assertIn(WHOLE, client.get(n, "Strategy"))
            path, _ = self.large(uid, "free")
            n = client.submit(path)
            self.assertEqual(client.wait(n), "done", self.daemon.said())
            self.assertIn(IN_STEPS, client.get(n, "Strategy"))


    def descriptors(self, pid):
        """But for the one that it is told by what has ended."""
        found = set()
        for fd in os.listdir("/proc/%d/fd" % pid):
            with contextlib.suppress(FileNotFoundError):
                if os.readlink("/proc/%d/fd/%s" % (pid, fd)) != "anon_inode:inotify":
                    found.add(fd)
        return found

    def test_attack_02_the_process_that_asks_for_a_user(self):
        """It has two capabilities and one socket, and ends with the worker that it is there for."""
        client = self.daemon.again_with_gate("shrink:step")
        client = self.daemon.client(USER)
        path, _ = self.large(USER, "free")
        client.submit(path)
        worker = self.daemon.stopped_worker()
        with open("/proc/%d/task/%d/children" % (worker, worker), encoding="ascii") as f:
            (pid,) = map(int, f.read().split())
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            status = dict(line.split(":", 1) for line in f)
        for held in ("CapPrm", "CapEff"):
            self.assertEqual(int(status[held], 16), 0x6, "DAC_OVERRIDE and DAC_READ_SEARCH")
        self.assertEqual((status["Seccomp"].strip(), status["NoNewPrivs"].strip()), ("2", "1"))
        # What a question came with is closed a moment after its answer.
        self.until(lambda: self.descriptors(pid) == {"0", "1", "2", "3", "4"}, lambda: self.descriptors(pid))
        process = os.pidfd_open(pid)
        os.kill(worker, signal.SIGKILL)
        self.assertTrue(select.select([process], [], [], TIMEOUT)[0], "it did not end")
        os.close(process)

    def test_attack_02_it_ends_with_its_worker_even_if_it_hangs(self):
        """Stopped, it reads no end of its socket, just as in a filesystem that does not answer."""
        client = self.daemon.again_with_gate("shrink:step")
        for uid in (USER, 0):
            client = self.daemon.client(uid)
            path, _ = self.large(uid, "hangs")
            n = client.submit(path)
            worker = self.daemon.stopped_worker()
            with open("/proc/%d/task/%d/children" % (worker, worker), encoding="ascii") as f:
                (pid,) = map(int, f.read().split())
            # In a group of its own it would get SIGHUP, because it is stopped, and end anyway.
            self.assertEqual(os.getpgid(pid), os.getpgid(self.daemon.process.pid))
            process = os.pidfd_open(pid)
            os.kill(pid, signal.SIGSTOP)
            try:
                os.kill(worker, signal.SIGKILL)
                self.assertTrue(select.select([process], [], [], TIMEOUT)[0], "it did not end")
            finally:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                os.close(process)
            # Another worker goes on with the file.
            os.kill(self.daemon.stopped_worker(besides=(worker,)), signal.SIGCONT)
            self.assertEqual(client.wait(n), "done")


if __name__ == "__main__":
    fixture.main()
