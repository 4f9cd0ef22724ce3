# SPDX-License-Identifier: LGPL-2.1-or-later
"""A fleet on this machine that needs no cluster: hosts that mount one disk, and a PostgreSQL.

A host is a mount and a UTS namespace, with a mount of its own of an ext4 on a loop device, at the same path on
all; the kernel has that filesystem once, so all of them see the same. Each host speaks to the database through
a proxy, which can be cut. Of a disk nothing can be cut: a host that loses its filesystem has it no more
mounted, as by umount -l.

All else is as on a cluster filesystem (fleet.py), and everything ends with this process.
"""
import contextlib
import os
import select
import socket
import threading
import types

import fleet
import postgres
import servers
from fixture import TIMEOUT, command, scratch

SIZE = 4 << 30
INODES = 1000000

# As HOST of fleet.py: $1 its directory, $2 its name, and then what it must not see.
SCRIPT = """
set -e
[ ! -e /etc/machine-id ] || mount --bind "$1/machine-id" /etc/machine-id
mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id
hostname "$2"
shift 2
for path; do umount -l "$path"; done
echo ready
exec sleep infinity
"""


class Proxy(threading.Thread):
    """Between a host and the database: what each says is passed on ("open"), or is lost for as long as it is
    "silent", as in a network that is cut; or connections are refused, and those that are there end ("closed")."""

    def __init__(self, path, server):
        super().__init__(daemon=True)
        self.path, self.server = path, server
        self.state = "open"
        self.listener = None
        self.ends = {}  # of a connection: its other end
        self.waiting = {}  # what is to be sent there, which could not be yet
        self.wake, self.woken = socket.socketpair()
        self.applied = threading.Event()
        self.start()
        self.wait_applied()

    def set(self, state):
        """It is so when this returns."""
        self.applied.clear()
        self.state = state
        self.wake.send(b"x")
        self.wait_applied()

    def wait_applied(self):
        if not self.applied.wait(TIMEOUT):
            raise RuntimeError("the proxy at %s does nothing" % self.path)

    def run(self):
        while self.state != "ended":
            self.apply()
            reading, writing = [self.woken], []
            if self.state == "open":
                reading += [self.listener, *(s for s in self.ends if self.ends[s] not in self.waiting)]
                writing = list(self.waiting)
            readable, writable, _ = select.select(reading, writing, [])
            for s in writable:
                self.send(s)
            for s in readable:
                self.receive(s)
        self.apply()

    def apply(self):
        if self.state in ("closed", "ended"):
            for s in list(self.ends):
                self.drop(s)
            if self.listener:
                self.listener.close()
                os.unlink(self.path)
            self.listener = None
        elif not self.listener:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.path)
            os.chmod(self.path, 0o777)
            self.listener.listen()
        self.applied.set()

    def receive(self, s):
        if s is self.woken:
            s.recv(1)
        elif s is self.listener:
            self.accept()
        elif s in self.ends:
            data = b""
            with contextlib.suppress(OSError):
                data = s.recv(1 << 16)
            if data:
                self.waiting[self.ends[s]] = data
            else:
                self.drop(s)

    def accept(self):
        client, _ = self.listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self.server)
        except OSError:
            client.close()
            server.close()
            return
        for s, other in ((client, server), (server, client)):
            s.setblocking(False)
            self.ends[s] = other

    def send(self, s):
        data = self.waiting.pop(s, b"")
        try:
            n = s.send(data) if s in self.ends else len(data)
        except BlockingIOError:
            n = 0
        except OSError:
            self.drop(s)
            return
        if n < len(data):
            self.waiting[s] = data[n:]

    def drop(self, s):
        """With its other end."""
        for end in (s, self.ends.get(s)):
            if end:
                self.ends.pop(end, None)
                self.waiting.pop(end, None)
                end.close()


class Host(fleet.Host):
    SCRIPT = SCRIPT
    NAMESPACES = ("mount", "uts")

    def link_make(self):
        at = os.path.join(self.dir, "database")
        os.mkdir(at)
        self.proxy = Proxy(os.path.join(at, ".s.PGSQL.5432"),  # pylint: disable=attribute-defined-outside-init
                           os.path.join(self.fleet.database.dir, ".s.PGSQL.5432"))

    def mount(self):
        self.run("mount", "-t", "ext4", self.fleet.device, self.mountpoint)

    def cut_database(self, how="silent"):
        self.proxy.set(how)

    def cut_filesystem(self):
        self.run("umount", "-l", self.mountpoint)

    def cut(self, *addresses):
        raise NotImplementedError

    def join(self):
        self.proxy.set("open")
        if not self.is_mounted():
            self.mount()

    def stop(self):
        super().stop()
        if self.proxy.state != "ended":
            self.proxy.set("ended")


class Database(postgres.Server):
    """With the interface of that of fleet.py."""

    def __init__(self, directory):
        super().__init__(directory)
        self.start()
        self.psql("CREATE DATABASE reclaimd")
        program = os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-fleet")
        if not os.path.exists(program):
            raise servers.Missing("built without reclaim-fleet")
        fleet.run(program, "init", env=dict(os.environ, RECLAIM_FLEET_DATABASE=self.string("reclaimd")))
        self.sql("CREATE ROLE reclaimd LOGIN IN ROLE reclaimd_host", "reclaimd")

    def sql(self, text, database="postgres"):
        return self.psql(text, database)


class Fleet(fleet.Fleet):
    """The disk is mounted for the test itself, too, where no host sees it."""

    def __init__(self, directory):  # pylint: disable=super-init-not-called
        self.dir = directory
        self.hosts = []
        self.mountpoint = os.path.join(directory, "shared")
        self.cluster = types.SimpleNamespace(mountpoint=os.path.join(directory, "disk"), stop=lambda: None)
        for path in (self.mountpoint, self.cluster.mountpoint):
            os.mkdir(path)
        self.device = self.make_disk(os.path.join(directory, "image"))
        self.database = Database(directory)

    def make_disk(self, image):
        with open(image, "wb") as f:
            f.truncate(SIZE)
        command("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", "-N", INODES, image)
        try:
            device = command("losetup", "--find", "--show", image).strip()
            command("mount", "-t", "ext4", device, self.cluster.mountpoint)
        except RuntimeError as e:
            raise servers.Missing("no loop device: %s" % e) from e
        # It is free when no host has it mounted any more.
        command("losetup", "-d", device)
        return device

    def grow(self, n):
        while len(self.hosts) < n:
            self.hosts.append(Host(self, len(self.hosts) + 1))
        return self.hosts[:n]

    def configuration(self, name):
        return ('fleet:\n  database: "host=%s dbname=reclaimd user=reclaimd"\n  name: %s\n'
                "  filesystems: {%s: shared}\npacing: {latency: off}\n"
                % (os.path.join(self.dir, name, "database"), name, self.mountpoint))


def make():
    """The fleet, which ends with the scratch directory."""
    scratch.open()
    directory = os.path.join(scratch.dir, "fleet")
    os.mkdir(directory)
    made = Fleet(directory)
    scratch.clusters.append(made)
    return made
