# SPDX-License-Identifier: LGPL-2.1-or-later
"""No call of a client blocks the event loop. The methods come from the interface descriptions in conf/, so a new
method is covered without a new test: each is called with descriptors, paths and jobs that do not answer. The
daemon logs each callback that was blocked for more than 100 ms (daemon/context/loop-watch.h)."""
import contextlib
import ctypes
import json
import mmap
import os
import re
import socket
import xml.etree.ElementTree

import dbuswire
from daemon_fixture import user
from fixture import TIMEOUT, USER, main, write
from test_hanging import Hanging

CONF = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "conf")
BLOCKED = "callback of the event loop was blocked"


def described_methods():
    """(interface, method, signature) of org.reclaimd1.xml, and its options as {name: type}."""
    with open(os.path.join(CONF, "org.reclaimd1.xml"), encoding="utf-8") as f:
        text = f.read()
    found = [(i.get("name"), m.get("name"),
              "".join(a.get("type") for a in m.iter("arg") if a.get("direction") == "in"))
             for i in xml.etree.ElementTree.fromstring(text).iter("interface") for m in i.iter("method")]
    types = r"(aay|ay|as|at|[bhstu])"
    options = dict(re.findall(r"^ {7}([a-z-]+) +%s +\S" % types, text, re.M))
    options.update(re.findall(r"([a-z-]+) \(%s[):]" % types, text))
    return found, options


def varlink_methods():
    """(method, {parameter: type}) of org.reclaimd.Reclaim.varlink."""
    with open(os.path.join(CONF, "org.reclaimd.Reclaim.varlink"), encoding="utf-8") as f:
        text = re.sub(r"#.*", "", f.read())
    return [(name, dict(re.findall(r"(\w+): ([^,\s]+)", parameters)))
            for name, parameters in re.findall(r"^method (\w+)\(([^)]*)\)", text, re.M)]


class Hostile:
    """What one set of calls is made with: two descriptors, a path and a job."""

    def __init__(self, what, fds, path, job, answers=True):
        self.what, self.fds, self.path, self.job = what, fds, os.fsencode(path), job
        # False if the client's own proxy hangs, too.
        self.answers = answers

    def value(self, t, options, nested=False):
        """A value of this D-Bus type."""
        if t == "a{sv}":
            return {name: (kind, self.value(kind, options)) for name, kind in options.items()}
        if t == "ay":
            return b"f0" if nested else self.path
        if t[0] == "a":
            return [self.value(t[1:], options, nested)]
        if t[0] == "(":
            values = []
            for kind in dbuswire.types(t[1:-1]):
                # The second descriptor of a pair is a list of names.
                values.append(values.count(0) if kind == "h" else self.value(kind, options, True))
            return tuple(values)
        return {"h": 0, "t": self.job, "u": 0, "b": True, "s": "low"}[t]

    def described(self, kind):
        """A value of this type of Varlink."""
        kind = kind.lstrip("?")
        if kind.startswith("[]"):
            return [self.described(kind[2:])]
        return {"int": self.job, "bool": True, "string": os.fsdecode(self.path)}.get(kind, "low")


class EventLoop(Hanging):
    def setUp(self):
        os.environ["RECLAIM_BLOCKED"] = "100"
        self.addCleanup(os.environ.pop, "RECLAIM_BLOCKED")
        super().setUp()
        self.jobs, self.fds, self.children = {}, [], []
        self.addCleanup(self.close_all)
        for where in "ab":
            path = self.file(where, "held", USER)
            self.jobs[where] = self.daemon.client(USER).submit(path, undo_usec=3600 * 10**6)
            write(os.path.join(self.at[where], "names"), "f0\0")
        self.fuse, self.servers = {}, []
        for kind in ("look", "flush", "read"):
            self.fuse[kind] = self.mount_fuse("fuse-" + kind, kind)
            self.servers.append(self.server)

    def open(self, *args):
        self.fds.append(os.open(*args))
        return self.fds[-1]

    def close_all(self):
        """Called when the servers of the filesystems have ended, for which closing waits."""
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)
        for child in self.children:
            os.waitpid(child, 0)

    def locked_memfd(self):
        """A list whose inode is locked, because a write to it waits for a page of a file that is never read."""
        names = os.memfd_create("names")
        self.addCleanup(os.close, names)
        os.write(names, b"f0\0")
        unread = self.open(os.path.join(self.fuse["read"], "names"), os.O_RDONLY)
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        page = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_PRIVATE, unread, ctypes.c_long(0))
        child = os.fork()
        if child == 0:
            libc.write(names, ctypes.c_void_p(page), ctypes.c_size_t(3))
            os._exit(0)
        self.children.append(child)
        self.until(lambda: self.is_stuck(child))
        return names

    def until_hanging(self):
        """Everything that a client could pass, once nothing of it answers any more."""
        data = self.open(os.path.join(self.at["c"], "data"), os.O_PATH | os.O_DIRECTORY)
        names = os.memfd_create("names")
        self.addCleanup(os.close, names)
        os.write(names, b"f0\0")
        tree = os.path.join(self.fuse["look"], "tree")
        full, never_read = os.pipe(), socket.socketpair()
        for fd in full:
            self.addCleanup(os.close, fd)
        for s in never_read:
            self.addCleanup(s.close)
        os.set_blocking(full[1], False)
        never_read[0].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(full[1], bytes(4096))
        with contextlib.suppress(BlockingIOError):
            while True:
                never_read[0].send(bytes(4096))
        frozen = os.path.join(self.at["a"], "data")
        kinds = [
            Hostile("FUSE, O_PATH", [self.open(tree, os.O_PATH), names], tree, self.jobs["a"]),
            Hostile("FUSE, directory", [self.open(tree, os.O_RDONLY | os.O_DIRECTORY), names], tree, self.jobs["a"]),
            Hostile("FUSE, file", [data, self.open(os.path.join(self.fuse["look"], "names"), os.O_RDONLY)],
                    os.path.join(self.fuse["look"], "names"), self.jobs["a"]),
            Hostile("FUSE, file that cannot be closed",
                    [self.open(os.path.join(self.fuse["flush"], "names"), os.O_RDONLY), names],
                    os.path.join(self.fuse["flush"], "names"), self.jobs["b"], answers=False),
            Hostile("frozen directory", [self.open(frozen, os.O_RDONLY | os.O_DIRECTORY), names], frozen,
                    self.jobs["a"]),
            Hostile("list on a frozen filesystem",
                    [self.open(frozen, os.O_PATH), self.open(os.path.join(self.at["a"], "names"), os.O_RDWR)],
                    os.path.join(frozen, "held"), self.jobs["a"]),
            Hostile("full pipe", [data, full[1]], "/proc/self/fd/%d" % full[1], self.jobs["b"]),
            Hostile("empty pipe as a directory", [full[0], names], "/", self.jobs["b"]),
            Hostile("socket that is never read", [data, never_read[0].fileno()], "/", self.jobs["b"]),
        ]
        self.hang()
        kinds.append(Hostile("locked memfd", [data, self.locked_memfd()], os.path.join(self.at["c"], "data/f0"),
                             self.jobs["b"]))
        self.freeze("a")
        # First of all cleanups: while they live, a process that this one starts waits for them, because it closes
        # the descriptors that it inherits.
        for server in self.servers:
            self.addCleanup(server.kill)
        return kinds

    def ping(self, client):
        client.answer(client.send("Get", "ss", "org.reclaimd1.Manager", "Version",
                                  interface="org.freedesktop.DBus.Properties"))

    def check(self, what):
        self.assertNotIn(BLOCKED, self.daemon.said(), what)

    def place(self, interface, job):
        """The path of an object with this interface."""
        return {"org.reclaimd1.Manager": "/org/reclaimd1", "org.reclaimd1.Job": "/org/reclaimd1/job/%d" % job,
                "org.reclaimd1.Policy": "/org/reclaimd1/policy/of_2da"}[interface]

    def test_attack_41_each_method_of_dbus(self):
        methods, options = described_methods()
        self.assertGreater(len(methods), 25)
        root = self.daemon.client()
        for kind in self.until_hanging():
            for interface, name, signature in methods:
                given = [{}] + [{n: t} for n, t in options.items()] if "a{sv}" in signature else [{}]
                for uid in (USER, 0) if kind.answers else (USER,):
                    self.each(kind, uid, interface, name, signature, given)
                self.ping(root)
                self.check((kind.what, name))
        self.assertEqual(root.wait(root.submit(self.file("c", "roots"))), "done")

    def each(self, kind, uid, interface, name, signature, given):
        with user(uid):
            c = dbuswire.Connection(self.daemon.socket, timeout=TIMEOUT)
        with c:
            for options in given:
                values = [kind.value(t, options) for t in dbuswire.types(signature)]
                c.send(name, signature, *values, path=self.place(interface, kind.job), interface=interface,
                       fds=kind.fds)
                if not kind.answers:
                    break
            if kind.answers:
                self.ping(c)

    def test_attack_41_each_method_of_varlink(self):
        at = os.path.join(self.daemon.dir, "run", "org.reclaimd.Reclaim")
        if not os.path.exists(at):
            self.skipTest("no Varlink in this build")
        methods = varlink_methods()
        self.assertGreater(len(methods), 15)
        root = self.daemon.client()
        for kind in self.until_hanging():
            for name, parameters in methods:
                with user(USER), socket.socket(socket.AF_UNIX) as c:
                    c.connect(at)
                    call = {"method": "org.reclaimd.Reclaim." + name, "oneway": True,
                            "parameters": {n: kind.described(t) for n, t in parameters.items()}}
                    last = {"method": "org.reclaimd.Reclaim.GetStatus", "parameters": {}}
                    c.sendmsg([json.dumps(m).encode() + b"\0" for m in (call, last)],
                              [(socket.SOL_SOCKET, socket.SCM_RIGHTS, b"".join(f.to_bytes(4, "little")
                                                                                for f in kind.fds))])
                    c.settimeout(TIMEOUT)
                    while not c.recv(1 << 16).endswith(b"\0"):
                        pass
                self.ping(root)
                self.check((kind.what, name))


if __name__ == "__main__":
    main()
