# SPDX-License-Identifier: LGPL-2.1-or-later
"""A real reclaimd in the scratch directory, and a client of its private socket.

  RECLAIMD, RECLAIM_WORKER   the programs under test (required, besides RECLAIMCTL)
"""
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest

import dbuswire
import fixture
from fixture import TIMEOUT, USER, command, is_stopped, scratch

FINISHED = ("done", "partial", "failed", "cancelled", "restored")
FIELDS = ("id", "state", "uid", "origin", "priority", "path", "entries", "done", "bytes", "freed",
          "errors", "created", "held_until", "finished", "started", "kind", "rate", "expected_end", "deadline",
          "message", "names")


@contextlib.contextmanager
def user(uid=USER, groups=()):
    """Everything in it is done as that user, who is in these groups; by root again afterwards."""
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([])


BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_type="method_return"/>
    <allow send_type="error"/>
    <allow send_type="signal"/>
    <allow receive_type="method_call"/>
    <allow receive_type="signal"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
  </policy>
</busconfig>
"""


class Client:
    """Who is connected is who this is while it is made."""

    def __init__(self, daemon):
        self.wire = dbuswire.Connection(daemon.socket, timeout=TIMEOUT)
        self.finished = {}

    def __getattr__(self, name):
        return getattr(self.wire, name)

    def submit(self, *paths, **options):
        """Names in their directories; returns the job's number."""
        fds, entries, parents = [], [], {}
        for path in paths:
            directory, name = os.path.split(os.fsencode(path))
            if directory not in parents:
                parents[directory] = len(fds)
                fds.append(os.open(directory, os.O_PATH | os.O_DIRECTORY))
            entries.append((parents[directory], name))
        try:
            return self.call("SubmitFiles", "aha(uay)a{sv}", list(range(len(fds))), entries,
                             described(options), fds=fds).body[0]
        finally:
            for fd in fds:
                os.close(fd)

    def send_submit(self, path, **options):
        """Does not wait for the answer; returns the serial for it."""
        fd = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
        try:
            return self.send("SubmitFiles", "aha(uay)a{sv}", [0],
                             [(0, os.path.basename(path).encode())], described(options), fds=[fd])
        finally:
            os.close(fd)

    def submit_list(self, directory, names, **options):
        """Many names as a file; returns job, accepted, missing."""
        fds = [os.open(directory, os.O_PATH | os.O_DIRECTORY), os.memfd_create("names")]
        try:
            with os.fdopen(os.dup(fds[1]), "wb") as f:
                f.write(b"".join(os.fsencode(n) + b"\0" for n in names))
            m = self.call("SubmitLists", "a(hh)a{sv}", [(0, 1)], described(options), fds=fds)
            return m.body[0], m.body[2], m.body[3]
        finally:
            for fd in fds:
                os.close(fd)

    def jobs(self, **query):
        kinds = {"states": "as", "uid": "u", "finished": "b", "limit": "u", "ids": "at"}
        found = self.call("ListJobs", "a{sv}", {k: (kinds[k], v) for k, v in query.items()}).body[0]
        return [dict(zip(FIELDS, j)) for j in found]

    def job(self, number):
        return self.jobs(ids=[number], finished=True)[0]

    def get(self, number, name):
        return self.call("Get", "ss", "org.reclaimd1.Job", name,
                         path="/org/reclaimd1/job/%d" % number,
                         interface="org.freedesktop.DBus.Properties").body[0]

    def problems(self, number):
        return self.call("GetProblems", "tu", 0, 1000, path="/org/reclaimd1/job/%d" % number,
                         interface="org.reclaimd1.Job").body[0]

    def wait(self, number):
        """Until it has finished; its state."""
        if self.job(number)["state"] in FINISHED:
            return self.job(number)["state"]
        while number not in self.finished:
            m = self.signal("JobFinished")
            self.finished[m.body[0]] = m.body[2]
        return self.finished[number]

    def wait_state(self, number, *states):
        """Until it is in one of these; asks again and again, as not every change is told."""
        def state():
            now = self.job(number)["state"]
            return now if now in states + FINISHED else None

        return fixture.until(state)


def described(options):
    kinds = {"undo_usec": "t", "deadline_usec": "t", "priority": "s", "dry_run": "b", "records": "b",
             "keep_moved": "b", "rmdir": "b", "bytes": "t"}
    return {k.replace("_", "-"): (kinds[k], v) for k, v in options.items()}


class Daemon:
    """Started at once; its directories outlive it, so that it can be started again."""

    count = 0

    def __init__(self, state=None, config=""):
        scratch.open()
        for name in ("RECLAIMD", "RECLAIM_WORKER"):
            if not os.environ.get(name):
                sys.exit(name + " is not set: it names the program to be tested")
        Daemon.count += 1
        self.dir = os.path.join(scratch.dir, "daemon-%d" % Daemon.count)
        self.state = state or os.path.join(self.dir, "state")
        os.mkdir(self.dir, 0o755)
        for name in ("run", "conf"):
            os.mkdir(os.path.join(self.dir, name), 0o755)
        if not state:
            os.mkdir(self.state, 0o700)
        self.worker = os.path.join(scratch.dir, "reclaim-worker")
        if not os.path.exists(self.worker):
            subprocess.check_call(["cp", os.environ["RECLAIM_WORKER"], self.worker])
            os.chmod(self.worker, 0o755)
        self.socket = os.path.join(self.dir, "run", "private")
        self.log = os.path.join(self.dir, "log")
        self.process = None
        self.clients = []
        self.starts = 0
        self.configure(config)

    def configure(self, text):
        with open(os.path.join(self.dir, "conf", "reclaimd.yaml"), "w") as f:
            f.write(text)

    def words(self):
        return [os.environ["RECLAIMD"], "--no-bus", "--state-directory=" + self.state,
                "--runtime-directory=" + os.path.join(self.dir, "run"),
                "--configuration-directory=" + os.path.join(self.dir, "conf"),
                "--worker=" + self.worker, "--reclaimctl=" + scratch.binary]

    def start(self, env=None):
        """Returns when it says that it is ready."""
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.starts += 1
        path = os.path.join(self.dir, "notify-%d" % self.starts)
        notify.bind(path)
        notify.settimeout(TIMEOUT)
        e = dict(os.environ, NOTIFY_SOCKET=path, **(env or {}))
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words(), stderr=log, env=e)
        ender = threading.Thread(target=self.tell_of_end, args=(self.process, path))
        ender.start()
        while True:
            text = notify.recv(65536)
            if b"READY=1" in text:
                break
            if text == b"ENDED":
                raise AssertionError("reclaimd has ended: " + self.said())
        notify.close()
        ender.join(0)
        return self

    @staticmethod
    def tell_of_end(process, path):
        process.wait()
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b"ENDED", path)

    def client(self, uid=0, groups=()):
        with user(uid, groups):
            self.clients.append(Client(self))
        return self.clients[-1]

    def kill(self):
        self.process.kill()
        return self.process.wait()

    def stop(self, timeout=TIMEOUT):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout)
        for c in self.clients:
            c.close()
        self.clients = []
        return self.process.returncode

    def workers(self):
        pid = self.process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(worker) for worker in f.read().split() if not fixture.is_keeper(int(worker))]

    def stopped_worker(self, besides=()):
        """The worker that stands at its gate, and is none of these."""
        return fixture.until(lambda: next((w for w in self.workers() if w not in besides and is_stopped(w)), None),
                             lambda: "no worker has come to its gate: " + self.said())

    def again_with_gate(self, gate):
        """Stopped and started; each worker stops where the gate is."""
        if not scratch.gates:
            raise unittest.SkipTest("built without RECLAIM_TEST_GATES")
        self.stop()
        self.start(env={"RECLAIM_GATE": gate})
        return self.client()

    def again_and_looked(self, users_dir):
        """Its next life, from when it has looked for directories of no job in a user's staging directory: it does so
        once, some time after it has started. What is made there from now on stays until another start."""
        self.stop()
        seen = os.path.join(users_dir, "f" * 32)
        os.mkdir(seen, 0o700)
        self.start()
        self.wait_gone(seen)
        return self.client()

    def wait_said(self, text, times=1):
        """Until it has logged that."""
        fixture.until(lambda: self.said().count(text) >= times,
                      lambda: "never said %r, but: %s" % (text, self.said()))

    def wait_gone(self, path):
        """Until there is no such name."""
        fixture.until(lambda: not os.path.lexists(path), lambda: "%s is still there: %s" % (path, self.said()))

    def said(self):
        with open(self.log, errors="replace") as f:
            return f.read()


class Case(unittest.TestCase):
    config = ""

    def setUp(self):
        self.daemon = Daemon(config=self.config)
        self.addCleanup(self.finish)
        # Each test has its own, so that what is left in staging is its own doing.
        self.root = os.path.join(self.daemon.dir, "fs")
        os.mkdir(self.root)
        fixture.attach("tmpfs", self.root, "mode=0755,nr_inodes=0")
        self.data = os.path.join(self.root, "data")
        os.mkdir(self.data)
        self.daemon.start()

    def finish(self):
        status = self.daemon.stop()
        # It would hold what a test has stopped in the midst of, and its filesystem, for ever.
        fixture.end_keepers()
        # What a test leaves in staging on purpose is not for the next one to find.
        fixture.detach(self.root)
        self.assertEqual(status, 0, self.daemon.said())
        self.assertNotIn("ERROR: ", self.daemon.said())

    def until(self, condition, why=None):
        return fixture.until(condition, why or self.daemon.said)

    def mount_disk(self, size=64 << 20, inodes=8000, options="loop", where=None):
        """The data are on a disk, whose file is in that directory."""
        image = os.path.join(where or self.daemon.dir, "image")
        self.data = os.path.join(self.daemon.dir, "disk")
        os.mkdir(self.data)
        with open(image, "wb") as f:
            f.truncate(size)
        command("mkfs.ext4", "-q", "-F", "-N", str(inodes), image)
        command("mount", "-o", options, image, self.data)
        self.addCleanup(fixture.unmount, self.data)

    def mount_hangfs(self, at, kind, trigger):
        """A filesystem of a user's that answers no call of that kind while there is the file `trigger`."""
        program = scratch.helper("hangfs", command("pkg-config", "--cflags", "--libs", "fuse3").split())
        os.mkdir(at)
        fd = os.open("/dev/fuse", os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other" % (fd, USER, USER)
        if fixture.libc.mount(b"hangs", at.encode(), b"fuse.hangs", 0, options.encode()) != 0:
            self.skipTest("no FUSE: " + os.strerror(ctypes.get_errno()))
        self.addCleanup(command, "umount", "-l", at)
        process = subprocess.Popen([program, kind, trigger, "/dev/fd/%d" % fd], pass_fds=[fd],
                                   user=USER, group=USER, extra_groups=[])
        os.close(fd)
        self.server = process
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)  # which frees all that wait for it
        return at

    def mount_hanging(self):
        """A directory on such a filesystem, where nothing is answered any more."""
        trigger = os.path.join(self.daemon.dir, "trigger")
        tree = os.path.join(self.mount_hangfs(os.path.join(self.daemon.dir, "hangs"), "look", trigger), "tree")
        os.stat(tree)
        fixture.write(trigger)
        return tree

    def path(self, *names):
        return os.path.join(self.data, *names)

    def in_staging(self):
        top = os.path.join(self.root, ".reclaim")
        if not os.path.isdir(top):
            return []
        return [os.path.join(top, u, n) for u in os.listdir(top) if u.isdigit() for n in os.listdir(os.path.join(top, u))]

    def staged(self):
        """What lies in staging, but for the users' own directories, once all has come to an end: what
        is empty goes a moment after its job has ended."""
        def nothing_is_empty():
            with contextlib.suppress(FileNotFoundError):
                return all(os.listdir(path) for path in self.in_staging())
            return False

        self.until(lambda: self.daemon.process.poll() is not None or nothing_is_empty())
        self.daemon.stop()
        return self.in_staging()


class OnTheBus(Case):
    """Through a bus with the reference implementation's limits."""

    def setUp(self):
        scratch.open()
        directory = os.path.join(scratch.dir, "bus-%d" % Daemon.count)
        os.mkdir(directory, 0o755)
        self.bus_path = os.path.join(directory, "socket")
        self.address = "unix:path=" + self.bus_path
        with open(os.path.join(directory, "conf"), "w") as f:
            f.write(BUS_CONFIG % self.bus_path)
        self.bus = subprocess.Popen(["dbus-daemon", "--nofork", "--print-address",
                                "--config-file=" + os.path.join(directory, "conf")],
                               stdout=subprocess.PIPE)
        self.addCleanup(self.bus.wait)
        self.addCleanup(self.bus.terminate)
        self.addCleanup(self.bus.stdout.close)
        self.assertIn(b"unix:", self.bus.stdout.readline())
        os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = self.address
        self.addCleanup(os.environ.pop, "DBUS_SYSTEM_BUS_ADDRESS")
        words = Daemon.words
        self.addCleanup(setattr, Daemon, "words", words)
        Daemon.words = lambda daemon: [w for w in words(daemon) if w != "--no-bus"]
        super().setUp()
        self.until_named()
        # Descriptors go through the daemon's own socket, which is looked for at its usual place.
        command("mount", "-t", "tmpfs", "tmpfs", "/run")
        self.addCleanup(command, "umount", "-l", "/run")
        os.symlink(os.path.join(self.daemon.dir, "run"), "/run/reclaimd")

    def until_named(self):
        """Until the daemon has its name on the bus."""
        with dbuswire.Connection(self.bus_path, bus=True, timeout=TIMEOUT) as c:
            driver = {"path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus",
                      "destination": "org.freedesktop.DBus"}
            c.call("AddMatch", "s", "type='signal',member='NameOwnerChanged',arg0='org.reclaimd1'", **driver)
            if not c.call("NameHasOwner", "s", "org.reclaimd1", **driver).body[0]:
                c.signal("NameOwnerChanged")
