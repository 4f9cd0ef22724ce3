# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimd's part in what it and reclaim-fleet say to each other (src/wire/fleet-messages.h), for tests that
play it: messages with a header of four 32-bit numbers, then fields."""
import collections
import os
import select
import socket
import stat
import struct
import subprocess
import unittest

import postgres
from fixture import scratch

PROGRAM = os.path.join(os.path.dirname(os.environ.get("RECLAIMCTL", "")), "reclaim-fleet")
NULL = 0xffffffff
VERSION = 1

Identity = collections.namedtuple("Identity", "inode birth type")


def server_of(case):
    """A PostgreSQL that all tests of the class share, as its attribute `server`."""
    if not os.path.exists(PROGRAM):
        raise unittest.SkipTest("reclaim-fleet is not built")
    scratch.open()
    if not case.server:
        case.server = postgres.Server(scratch.dir)
    if not case.server.process:
        case.server.start()


def directory(inode, birth=1):
    return Identity(inode, birth, stat.S_IFDIR)


def regular(inode, birth=1):
    return Identity(inode, birth, stat.S_IFREG)


# N a number, T a text (or None), I an identity.
REQUESTS = {
    "JOIN": (1, "N version T database T host T boot T uid_space N lease_msec", "T name T identity T path"),
    "CAPACITY": (2, "T filesystem N units N works N rate", ""),
    "PUBLISH": (3, "N serial T owner N token N job N uid T filesystem T directory I parent N slice N slices",
                "T name I id"),
    "FINISH": (4, "N unit N token N entries N bytes N errors N ended", "T path T what N error"),
    "PROGRESS": (5, "N token N entries N bytes", ""),
    "RECALL": (6, "N job", ""),
    "FORGET": (7, "N job", ""),
}
REPORTS = {
    32: ("JOINED", "", ""),
    33: ("REFUSED", "T text", ""),
    34: ("LOST", "T text", ""),
    35: ("PUBLISHED", "N serial N published", ""),
    36: ("CLAIMED", "N unit N token T owner N job N uid T filesystem T directory I parent N slice N slices", "T name I id"),
    37: ("REVOKED", "N unit N token N lost", ""),
    38: ("DEMAND", "T filesystem N units", ""),
    39: ("JOB", "N job N open N claimed N entries N bytes N errors N others_claimed N others_units "
         "N others_entries N others_bytes", ""),
    40: ("PROBLEM", "N job T path T what N error", ""),
    41: ("LEASE", "N until_usec", ""),
    42: ("WORKING", "T filesystem N hosts", ""),
}


def fields(text):
    words = text.split()
    return list(zip(words[::2], words[1::2]))


def put(kind, value):
    if kind == "N":
        return struct.pack("=Q", value)
    if kind == "I":
        return struct.pack("=QqQ", *value)
    if value is None:
        return struct.pack("=I", NULL)
    data = os.fsencode(value) + b"\0"
    return struct.pack("=I", len(data)) + data


def encode(name, repeated=(), **values):
    number, once, items = REQUESTS[name]
    body = b"".join(put(kind, values[field]) for kind, field in fields(once))
    for item in repeated:
        body += b"".join(put(kind, value) for (kind, _), value in zip(fields(items), item))
    return struct.pack("=IIII", number, 0, 0, 0) + body


class Reader:
    def __init__(self, data):
        self.data = data

    def take(self, layout):
        values = struct.unpack_from(layout, self.data)
        self.data = self.data[struct.calcsize(layout):]
        return values

    def get(self, kind):
        if kind == "N":
            return self.take("=Q")[0]
        if kind == "I":
            return Identity(*self.take("=QqQ"))
        length, = self.take("=I")
        if length == NULL:
            return None
        text, self.data = self.data[:length], self.data[length:]
        assert len(text) == length and text.endswith(b"\0")
        return os.fsdecode(text[:-1])


class Message:
    """What was said: a name, fields as attributes, and the items behind them."""

    def __init__(self, data):
        reader = Reader(data)
        kind, _, _, _ = reader.take("=IIII")
        self.name, once, items = REPORTS[kind]
        for what, field in fields(once):
            setattr(self, field, reader.get(what))
        self.items = []
        while reader.data:
            self.items.append(tuple(reader.get(what) for what, _ in fields(items)))

    def __repr__(self):
        return "%s%s" % (self.name, {k: v for k, v in vars(self).items() if k != "name"})


class Companion:
    """A reclaim-fleet, and reclaimd's end of its socket."""

    PATIENCE = 90

    def __init__(self, program, host, env=None):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.host, self.socket, self.heard = host, ours, []
        # The socket's own number may be 3 already, or anything's; not every sh knows those above 9.
        os.set_inheritable(theirs.fileno(), True)
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            ["bash", "-c", 'exec "$0" 3<&%d' % theirs.fileno(), program], pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
        theirs.close()

    def say(self, name, repeated=(), **values):
        self.socket.send(encode(name, repeated, **values))

    def join(self, string, filesystems=(("scratch", "id-of-scratch", "/mnt/scratch"),), lease=600000, boot=None,
             uid_space="one", version=VERSION):
        self.say("JOIN", filesystems, version=version, database=string, host=self.host,
                 boot=boot or "boot-of-" + self.host, uid_space=uid_space, lease_msec=lease)

    def capacity(self, units, filesystem="scratch", works=0, rate=0):
        self.say("CAPACITY", filesystem=filesystem, units=units, works=works, rate=rate)

    def publish(self, serial, job=1, names=(("a", regular(11)),), directory_="", parent=directory(5), slice_=0, slices=0,
                uid=1000, filesystem="scratch", owner=None, token=0):
        self.say("PUBLISH", names, serial=serial, owner=owner, token=token, job=job, uid=uid, filesystem=filesystem,
                 directory=directory_, parent=parent, slice=slice_, slices=slices)

    def finish(self, claimed, entries=1, nbytes=10, errors=0, ended=1, problems=()):
        self.say("FINISH", problems, unit=claimed.unit, token=claimed.token, entries=entries, bytes=nbytes,
                 errors=errors, ended=ended)

    def receive(self):
        """The next message; None: the program has ended."""
        ready, _, _ = select.select([self.socket], [], [], self.PATIENCE)
        if not ready:
            raise AssertionError("%s says nothing; it said %r" % (self.host, self.heard[-20:]))
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:  # it has not read all
            data = b""
        if not data:
            return None
        message = Message(data)
        # Comes again and again, whatever else there is.
        if message.name != "LEASE":
            self.heard.append(message)
        return message

    def expect(self, name, **values):
        """Reads up to a message with that name and those values."""
        while True:
            m = self.receive()
            if m is None:
                raise AssertionError("%s has ended: %s; it said %r" % (self.host, self.process.communicate()[1].decode(), self.heard[-20:]))
            if m.name == name and all(getattr(m, k) == v for k, v in values.items()):
                return m

    def end(self):
        """As when reclaimd ends. Returns what it said on standard error."""
        self.socket.close()
        said = self.process.communicate(timeout=self.PATIENCE)[1].decode()
        return self.process.returncode, said
