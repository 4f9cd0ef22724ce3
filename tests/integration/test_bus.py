# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimd's D-Bus interface as other programs meet it: on the private socket and on a bus.

  RECLAIMD, RECLAIM_WORKER   the programs under test (required)
"""
import contextlib
import ctypes
import os
import random
import select
import shutil
import socket
import struct
import subprocess
import unittest
import xml.etree.ElementTree as ElementTree

import dbuswire
from dbuswire import Connection, Error, unpacked
from bus_fixture import GROUP, HOUR, INTERFACE, JOB, NOBODY, POLICY, SUBMIT, Case, content, main
from daemon_fixture import user
from fixture import USER, until


DRIVER = {"path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus",
          "destination": "org.freedesktop.DBus"}


def described(interface):
    """An interface element as comparable data."""
    found = set()
    for e in interface:
        args = tuple((a.get("name"), a.get("type"), a.get("direction") or "out")
                     for a in e.findall("arg"))
        notes = tuple((a.get("name"), a.get("value")) for a in e.findall("annotation"))
        found.add((e.tag, e.get("name"), e.get("type"), e.get("access"), args, notes))
    return found


class Interface(Case):
    def test_introspection_is_what_is_documented(self):
        self.s.start()
        documented = {i.get("name"): described(i) for i in ElementTree.parse(INTERFACE).getroot()}
        with self.s.client() as c:
            for path, name in (("/org/reclaimd1", "org.reclaimd1.Manager"),
                               ("/org/reclaimd1/job/1", JOB)):
                text = c.call("Introspect", path=path,
                              interface="org.freedesktop.DBus.Introspectable").body[0]
                told = {i.get("name"): described(i)
                        for i in ElementTree.fromstring(text).findall("interface")}
                self.assertEqual(told[name], documented[name])

    def test_properties(self):
        self.s.start()
        with self.s.client() as c:
            told = c.call("GetAll", "s", "org.reclaimd1.Manager",
                          interface="org.freedesktop.DBus.Properties").body[0]
            self.assertEqual(told["ConfigurationError"], "")
            self.assertEqual(told["StoreError"], "")
            self.assertFalse(told["Paused"])


class BadInput(Case):
    def test_44_bytes_that_are_no_message(self):
        self.s.start()
        good = dbuswire.message(1, {dbuswire.PATH: "/org/reclaimd1", dbuswire.MEMBER: "ListJobs",
                                    dbuswire.INTERFACE: "org.reclaimd1.Manager"}, "a{sv}", {})
        huge = bytearray(good)
        huge[4:8] = struct.pack("<I", 200 << 20)
        fields = bytearray(good)
        fields[12:16] = struct.pack("<I", 100 << 20)
        bad = [b"\0" * 64, b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), bytes(huge), bytes(fields),
               b"B" + good[1:], good[:3] + b"\x63" + good[4:], good[:17],
               dbuswire.message(1, {dbuswire.PATH: "not/a/path", dbuswire.MEMBER: "x"}),
               dbuswire.message(1, {dbuswire.MEMBER: "ListJobs"}),
               dbuswire.message(1, {dbuswire.PATH: "/", dbuswire.MEMBER: "x" * 300}),
               dbuswire.message(1, {dbuswire.PATH: "/", dbuswire.MEMBER: "a"}, "s", b"\xff\xfe"),
               dbuswire.message(1, {dbuswire.PATH: "/", dbuswire.MEMBER: "a",
                                    dbuswire.FDS: 1000})]
        chance = random.Random(4)
        for _ in range(300):
            flipped = bytearray(good)
            flipped[chance.randrange(len(flipped))] ^= 1 << chance.randrange(8)
            bad.append(bytes(flipped))
        for data in bad:
            with self.s.client() as c, contextlib.suppress(OSError):
                c.socket.sendall(data)
                c.socket.shutdown(socket.SHUT_WR)
                while c.socket.recv(65536):
                    pass
        self.lives()

    def test_44_nonsense_instead_of_authentication(self):
        self.s.start()
        for data in (b"x", b"\0AUTH\r\nAUTH\r\n", b"\0" + b"A" * 70000, b"\0BEGIN\r\n",
                     b"\0AUTH ANONYMOUS\r\nBEGIN\r\n", b"\0AUTH EXTERNAL 30\r\nERROR\r\n"):
            with socket.socket(socket.AF_UNIX) as raw, contextlib.suppress(OSError):
                raw.settimeout(30)
                raw.connect(self.s.private)
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(65536):
                    pass
        self.lives()

    def test_connect_rejects_claimed_uid(self):
        self.s.start()
        canary = self.s.file("roots")
        with user():
            c = Connection(self.s.private, claim=0)
        with c:
            self.refused("NotAuthorized", "", c, "Submit", "aaya{sv}", [canary.encode()], {})
        self.assertTrue(os.path.exists(canary))
        self.lives()

    def test_44_wrong_types(self):
        self.s.start()
        with self.s.client() as c:
            self.refused("InvalidArgument", "takes", c, "Submit", "s", "/x")
            self.refused("InvalidArgument", "takes", c, "ListJobs")
            self.refused("InvalidArgument", "takes", c, "GetProblems", "s", "x",
                         path="/org/reclaimd1/job/1", interface=JOB)
            self.refused("InvalidArgument", "no option", c, "Submit", "aaya{sv}", [b"/x"],
                         {"shoes": ("b", 1)})
            self.refused("InvalidArgument", "type", c, "Submit", "aaya{sv}", [b"/x"],
                         {"dry-run": ("s", "yes")})
            self.refused("InvalidArgument", "relative", c, "Submit", "aaya{sv}", [b"x"], {})
            self.refused("InvalidArgument", "NUL", c, "Submit", "aaya{sv}", [b"/x\0y"], {})
            self.refused("InvalidArgument", "NUL", c, "Submit", "aaya{sv}", [b"/x\0\0"], {})
            self.refused("InvalidArgument", "cannot be read", c, "SubmitFiles", SUBMIT, [7],
                         [(0, b"x")], {})
            self.lives(c)

    def test_44_many_names(self):
        self.s.start()
        with self.s.client() as c:
            fd = os.open(self.s.path("data"), os.O_PATH)
            self.refused("LimitExceeded", "100000", c, "SubmitFiles", SUBMIT, [0],
                         [(0, b"x%d" % i) for i in range(100001)], {}, fds=[fd])
            self.refused("LimitExceeded", "8 MiB", c, "SubmitFiles", SUBMIT, [0],
                         [(0, b"x" * 255)] * 40000, {}, fds=[fd])
            os.close(fd)
            self.lives(c)

    def test_15_descriptors_of_all_kinds(self):
        self.s.start()
        canary = self.s.file("canary")
        left, right = socket.socketpair()
        pipe = os.pipe()
        epoll = select.epoll()
        kinds = [os.open(canary, os.O_RDONLY), os.open(canary, os.O_WRONLY),
                 os.open(canary, os.O_PATH), left.fileno(), pipe[0], pipe[1],
                 os.open("/dev/null", os.O_RDWR), os.memfd_create("x"),
                 epoll.fileno()]
        directory = os.open(self.s.path("data"), os.O_PATH)
        with self.s.client() as c:
            for fd in kinds:
                self.refused("InvalidArgument", "not a directory", c, "SubmitFiles", SUBMIT, [0],
                             [(0, b"canary")], {}, fds=[fd])
            for fd in (kinds[1], kinds[2], left.fileno(), pipe[0], directory):
                self.refused("InvalidArgument", "file of names", c, "SubmitLists", "a(hh)a{sv}",
                             [(0, 1)], {}, fds=[directory, fd])
            for pseudo in ("/proc/self", "/proc/self/fd", "/sys/kernel", "/dev/pts"):
                if not os.path.isdir(pseudo):
                    continue
                fd = os.open(pseudo, os.O_PATH)
                with self.assertRaises(Error):
                    c.call("SubmitFiles", SUBMIT, [0], [(0, b"canary")], {}, fds=[fd])
                os.close(fd)
            self.lives(c)
        for fd in kinds[:3] + [kinds[6], kinds[7], directory] + list(pipe):
            os.close(fd)
        for thing in (left, right, epoll):
            thing.close()
        self.assertEqual(content(canary), "canary")

    def test_16_detached_tree(self):
        self.s.start()
        canary = self.s.file("canary")
        libc = ctypes.CDLL(None, use_errno=True)
        flags = 1 | os.O_CLOEXEC  # OPEN_TREE_CLONE; the number is the same everywhere
        fd = libc.syscall(428, -100, self.s.path("data").encode(), flags)
        if fd < 0:
            self.skipTest("open_tree: " + os.strerror(ctypes.get_errno()))
        with self.s.client() as c:
            with self.assertRaises(Error):
                c.call("SubmitFiles", SUBMIT, [0], [(0, b"canary")], {}, fds=[fd])
            self.lives(c)
        os.close(fd)
        self.assertEqual(content(canary), "canary")


class Others(Case):
    def hidden(self, client, job, **kw):
        """What a client is told when it asks for a job in every way there is."""
        path = "/org/reclaimd1/job/%d" % job
        properties = "org.freedesktop.DBus.Properties"
        for args, place in (
                (("GetJob", "t", job), {}), (("Cancel", "at", [job]), {}),
                (("Pause", "at", [job]), {}), (("Resume", "at", [job]), {}),
                (("Restore", "ta{sv}", job, {}), {}), (("SetPriority", "ats", [job], "high"), {}),
                (("SetDeadline", "att", [job], 1), {}),
                (("SetPriority", "s", "low"), {"path": path, "interface": JOB}),
                (("SetDeadline", "t", 0), {"path": path, "interface": JOB}),
                (("ListJobs", "a{sv}", {"ids": ("at", [job]), "finished": ("b", 1)}), {}),
                (("Cancel",), {"path": path, "interface": JOB}),
                (("Pause",), {"path": path, "interface": JOB}),
                (("Resume",), {"path": path, "interface": JOB}),
                (("Restore", "a{sv}", {}), {"path": path, "interface": JOB}),
                (("GetProblems", "tu", 0, 9), {"path": path, "interface": JOB}),
                (("GetEntries", "tu", 0, 9), {"path": path, "interface": JOB}),
                (("GetKept", "tu", 0, 9), {"path": path, "interface": JOB}),
                (("GetAll", "s", JOB), {"path": path, "interface": properties}),
                (("Get", "ss", JOB, "State"), {"path": path, "interface": properties})):
            with self.assertRaises(Error) as caught:
                client.call(*args, **place, **kw)
            self.assertEqual(caught.exception.name, "NoSuchJob", args)
            yield args[0], caught.exception.text.replace(str(job), "N")

    def test_32_job_ids(self):
        self.s.start()
        self.s.file("mine")
        with self.s.client() as root:
            job = self.s.submit(root, self.s.path("data"), "mine", undo_usec=("t", HOUR))
            with user():
                other = self.s.client()
            with other:
                self.assertEqual(list(self.hidden(other, job)), list(self.hidden(other, job + 9)))
                self.assertEqual(other.call("ListJobs", "a{sv}", {"finished": ("b", 1)}).body, [[]])
                self.assertEqual(other.call("ListJobs", "a{sv}", {"uid": ("u", 0)}).body, [[]])
                managed = other.call("GetManagedObjects",
                                     interface="org.freedesktop.DBus.ObjectManager").body[0]
                self.assertFalse([p for p in managed if "/job/" in p])
            root.call("Cancel", "at", [job])
        self.assertTrue(os.path.exists(self.s.path("data/mine")))

    def test_managed_objects_have_a_bound(self):
        """The first thousand jobs."""
        self.s.start()
        with self.s.client() as c:
            for i in range(1003):
                self.s.file("j%d" % i)
                self.s.submit(c, self.s.path("data"), "j%d" % i, undo_usec=("t", HOUR))
            managed = c.call("GetManagedObjects", interface="org.freedesktop.DBus.ObjectManager").body[0]
            jobs = {int(p.split("/")[-1]) for p in managed if "/job/" in p}
            self.assertEqual(jobs, set(range(1, 1001)))

    def test_entries_have_a_bound(self):
        """A thousand at once, whatever is asked for; the others come behind them."""
        names = ["n%d" % i for i in range(1003)]
        paths = {self.s.file(name) for name in names}
        self.s.start()
        with self.s.client() as c:
            fd = os.open(self.s.path("data"), os.O_PATH | os.O_DIRECTORY)
            job = c.call("SubmitFiles", SUBMIT, [0], [(0, name.encode()) for name in names],
                         {"undo-usec": ("t", HOUR)}, fds=[fd]).body[0]
            os.close(fd)

            def told(offset, limit):
                return [os.fsdecode(bytes(path)) for path, _ in c.call(
                    "GetEntries", "tu", offset, limit, path="/org/reclaimd1/job/%d" % job, interface=JOB).body[0]]

            first = told(0, 0)
            self.assertEqual(len(first), 1000)
            self.assertEqual(told(0, 1001), first)
            self.assertEqual(told(0, 0xffffffff), first)
            self.assertEqual(told(998, 2), first[998:])
            self.assertEqual(set(first + told(1000, 0)), paths)
            self.assertEqual(told(1003, 0), [])

    def test_list_jobs_packed_equals_list_jobs(self):
        """What ListJobsPacked tells is what ListJobs tells, of what is in memory and of the history, all at
        once and from page to page."""
        self.s.start()
        with self.s.client() as c:
            for i in range(6):
                self.s.file("j%d" % i)
                self.s.submit(c, self.s.path("data"), "j%d" % i, undo_usec=("t", HOUR if i % 2 else 0))
                if i % 2 == 0:
                    self.assertEqual(c.signal("JobFinished").body[0], i + 1)
            for kw in ({}, {"finished": ("b", 1)}, {"states": ("as", ["done"])}, {"states": ("as", ["held", "failed"])},
                       {"finished": ("b", 1), "since-id": ("t", 3)}, {"finished": ("b", 1), "limit": ("u", 4)},
                       {"ids": ("at", [2, 5])}, {"uid": ("u", USER)}):
                with self.subTest(kw):
                    (jobs,) = c.call("ListJobs", "a{sv}", kw).body
                    self.assertEqual(unpacked(c.call("ListJobsPacked", "a{sv}", kw)), [tuple(j) for j in jobs])
            no_users = {"uid": ("u", 0xffffffff)}  # a filter like any other
            self.assertEqual(c.call("ListJobs", "a{sv}", no_users).body[0], [])
            self.assertEqual(unpacked(c.call("ListJobsPacked", "a{sv}", no_users)), [])
            for limit in (1, 2, 3, 4):
                seen = []
                while page := unpacked(c.call("ListJobsPacked", "a{sv}", {
                        "finished": ("b", 1), "limit": ("u", limit),
                        "since-id": ("t", seen[-1] + 1 if seen else 0)})):
                    seen += [j[0] for j in page]
                self.assertEqual(seen, [1, 2, 3, 4, 5, 6])

    def test_signals_on_the_socket(self):
        self.s.start()
        self.s.file("roots")
        self.s.file("users", owner=USER)
        os.chmod(self.s.path("data"), 0o777)
        with user():
            other = self.s.client()
        with other, self.s.client() as root:
            self.lives(other)
            hidden = self.s.submit(root, self.s.path("data"), "roots")
            root.signal("JobFinished")
            own = self.s.submit(other, self.s.path("data"), "users")
            other.signal("JobFinished")
            told = [m for m in other.signals if m.kind == dbuswire.SIGNAL]
            self.assertTrue(told)
            for m in told:
                self.assertNotIn("/org/reclaimd1/job/%d" % hidden, [m.path] + m.body)
            self.assertIn("/org/reclaimd1/job/%d" % own, [m.path for m in told])

    def test_ten_thousand_jobs_in_one_call(self):
        """And what becomes of them in as many messages as a quarter of a second each, and one mebibyte, take."""
        self.s.start()
        fd = os.open(self.s.path("data"), os.O_PATH | os.O_DIRECTORY)
        with self.s.client() as c:
            c.call("Subscribe")
            for at in range(0, 10000, 500):
                for i in range(at, at + 500):
                    self.s.file("j%d" % i)
                sent = [c.send("SubmitFiles", SUBMIT, [0], [(0, b"j%d" % i)], {"undo-usec": ("t", HOUR)}, fds=[fd])
                        for i in range(at, at + 500)]
                for serial in sent:
                    c.answer(serial)
            os.close(fd)
            jobs = c.call("ListJobs", "a{sv}", {}).body[0]
            self.assertEqual([j[0] for j in jobs], list(range(1, 10001)))
            told = {}
            while len(told) < 10000 or set(told.values()) != {"held"}:
                told.update({j[0]: j[1] for j in c.signal("JobsChanged").body[0]})

    def test_subscriptions_are_bounded(self):
        self.s.start()
        with user():
            clients = [self.s.client() for _ in range(17)]
        for c in clients[:16]:
            for _ in range(2):
                c.call("Subscribe")
        self.refused("LimitExceeded", "", clients[16], "Subscribe")
        clients[3].call("Unsubscribe")
        clients[3].call("Unsubscribe")
        clients[16].call("Subscribe")
        clients[5].close()
        with self.s.client() as root:
            root.call("Subscribe")
            until(lambda: not self.raises(clients[3]))
        for c in clients:
            c.close()

    @staticmethod
    def raises(c):
        with contextlib.suppress(Error):
            c.call("Subscribe")
            return False
        return True

    def test_37_clients_that_never_read(self):
        self.s.start()
        with self.s.client() as silent:
            silent.socket.settimeout(60)
            with self.assertRaises(OSError):
                for _ in range(1000000):
                    silent.send("ListJobs", "a{sv}", {})
        self.lives()

    def test_two_hundred_clients_are_served(self):
        self.s.start()
        clients = [self.s.client() for _ in range(200)]
        serials = [c.send("ListJobs", "a{sv}", {}) for c in clients]
        for c, serial in zip(clients, serials):
            self.assertEqual(c.answer(serial).body, [[]])
        for c in clients:
            c.close()

    def test_long_messages_of_a_user_are_bounded(self):
        """Only two at a time: the others' bytes stay with who sends them."""
        self.s.start()
        fields = {dbuswire.PATH: "/", dbuswire.MEMBER: "NoSuchMethod"}
        data = dbuswire.message(1, fields, "ay", b"x" * (12 << 20))
        with user():
            clients = [self.s.client() for _ in range(8)]
        for c in clients[:2]:
            c.socket.sendall(data[:-1])
        sent = {c.socket: 0 for c in clients[2:]}
        self.send_on(sent, data[:-1], 0.5)
        self.assertLess(max(sent.values()), 1 << 20)
        self.lives()
        # One ends, one gives up; and so there is room for all, in whatever order.
        clients[0].socket.sendall(data[-1:])
        clients[1].close()
        self.send_on(sent, data, 90)
        for c in clients[:1] + clients[2:]:
            self.refused_answer(c)
            c.close()

    @staticmethod
    def send_on(sent, data, timeout):
        """As far as they are taken from, until for so long none is."""
        left = list(sent)
        while ready := left and select.select([], left, [], timeout)[1]:
            for s in ready:
                sent[s] += s.send(data[sent[s]:][:65536], socket.MSG_DONTWAIT)
            left = [s for s in left if sent[s] < len(data)]

    def refused_answer(self, c):
        with self.assertRaises(Error) as e:
            c.answer(1)
        self.assertEqual(e.exception.name, "org.freedesktop.DBus.Error.UnknownObject")

    def test_too_long_message_closes_connection(self):
        self.s.start()
        data = dbuswire.message(1, {dbuswire.PATH: "/", dbuswire.MEMBER: "X"}, "ay", b"x" * (17 << 20))
        with self.s.client() as c, self.assertRaises(OSError):
            c.socket.sendall(data)
            c.receive()
        self.lives()

    def test_connections_of_a_user_are_bounded(self):
        self.s.start()
        with user():
            clients = [self.s.client() for _ in range(64)]
            with self.assertRaises(OSError):
                self.s.client()
        self.lives()
        clients.pop().close()
        for c in clients:
            c.close()


@unittest.skipUnless(shutil.which("dbus-daemon"), "there is no dbus-daemon")
@unittest.skipUnless(os.path.exists(POLICY), "there is no policy for a bus yet")
class OnABus(Case):
    def test_fault_18_comes_goes_and_comes_again(self):
        self.s.start(bus=True)
        self.lives()
        for _ in range(3):
            self.s.start_bus()
            with self.s.wait_for_name() as c:
                c.call("ListJobs", "a{sv}", {})
            self.s.stop_bus()
            self.lives()

    def test_45_only_root_is_reclaimd(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        with user(NOBODY):
            c = Connection(self.s.bus_path, bus=True)
        with c:
            for flags in (0, 2, 4):
                self.refused("org.freedesktop.DBus.Error.AccessDenied", "", c, "RequestName", "su",
                             "org.reclaimd1", flags, **DRIVER)

    def test_caller_is_identified(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        os.mkdir(self.s.path("data/groups"))
        os.chown(self.s.path("data/groups"), 0, GROUP)
        os.chmod(self.s.path("data/groups"), 0o770)
        canary = self.s.file("roots")
        first, second = self.s.file("first", directory="groups"), self.s.file(
            "second", directory="groups")
        with user(NOBODY, groups=[GROUP]):
            member = Connection(self.s.bus_path, bus=True)
        with user(NOBODY):
            stranger = Connection(self.s.bus_path, bus=True)
        with member, stranger:
            self.refused("NotAuthorized", "", stranger, "Submit", "aaya{sv}", [first.encode()], {})
            self.refused("NotAuthorized", "", member, "Submit", "aaya{sv}", [canary.encode()], {})
            member.call("Submit", "aaya{sv}", [first.encode()], {})
            self.assertFalse(os.path.exists(first))
            self.assertTrue(os.path.exists(second))
        self.assertEqual(content(canary), "canary")

    @unittest.skipUnless(shutil.which("gdbus"), "there is no gdbus")
    def test_glib_reads_and_writes_paths(self):
        """A path is a byte string to GLib, which ends with a NUL: it is shown as text, and may be given so."""
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        env = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + self.s.bus_path, LC_ALL="C.UTF-8")

        def gdbus(path, method, *args):
            return subprocess.run(["gdbus", "call", "--system", "--dest", "org.reclaimd1", "--object-path", path,
                                   "--method", method, *args], env=env, check=True, stdout=subprocess.PIPE,
                                  text=True, timeout=60).stdout.strip()

        canary, other = self.s.file("cänary"), self.s.file("other")
        told = gdbus("/org/reclaimd1", "org.reclaimd1.Manager.Submit", "[b'%s', b'%s']" % (
            canary.replace("ä", "\\303\\244"), other), "{'undo-usec': <uint64 %d>}" % HOUR)
        self.assertEqual(told, "(uint64 1, objectpath '/org/reclaimd1/job/1')")
        self.assertFalse(os.path.exists(canary))
        shown = "b'%s'" % canary.replace("ä", "\\303\\244")
        job = "/org/reclaimd1/job/1"
        self.assertEqual(gdbus(job, "org.freedesktop.DBus.Properties.Get", JOB, "Path"), "(<%s>,)" % shown)
        self.assertIn(shown, gdbus("/org/reclaimd1", "org.reclaimd1.Manager.ListJobs", "{}"))
        self.assertIn("(%s, 'staged')" % shown, gdbus(job, JOB + ".GetEntries", "0", "0"))
        for name in ("Mount", "Staging"):
            self.assertRegex(gdbus(job, "org.freedesktop.DBus.Properties.Get", JOB, name), r"^\(<b'/.*'>,\)$")
        gdbus(job, JOB + ".Restore", "{}")
        self.assertTrue(os.path.exists(canary) and os.path.exists(other))

    @unittest.skipUnless(shutil.which("gdbus") and shutil.which("busctl"), "there is no gdbus or no busctl")
    def test_usual_clients_read_act_and_follow(self):
        """busctl and gdbus: each gets a property, pauses a job, and sees how it ends."""
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        env = dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + self.s.bus_path)
        gdbus = ("gdbus", "call", "--system", "--dest", "org.reclaimd1", "--object-path")

        def run(*words):
            return subprocess.run(words, env=env, check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout.strip()

        for number, monitor, get, pause, state, completed in (
                (1, ("busctl", "monitor", "--json=short", "--match=type='signal',member='Completed'"),
                 ("busctl", "get-property", "org.reclaimd1", "/org/reclaimd1/job/1", JOB, "State"),
                 ("busctl", "call", "org.reclaimd1", "/org/reclaimd1", "org.reclaimd1.Manager", "Pause", "at", "1", "1"),
                 's "%s"', '"data":["restored"]'),
                (2, ("gdbus", "monitor", "--system", "--dest", "org.reclaimd1"),
                 (*gdbus, "/org/reclaimd1/job/2", "--method", "org.freedesktop.DBus.Properties.Get", JOB, "State"),
                 (*gdbus, "/org/reclaimd1/job/2", "--method", JOB + ".Pause"),
                 "(<'%s'>,)", "Completed ('restored',)")):
            self.s.file("f")
            with self.s.client() as root, subprocess.Popen(monitor, env=env, stdout=subprocess.PIPE,
                                                           stderr=subprocess.STDOUT, text=True) as told:
                # Each says first that it listens, and gdbus then who has the name.
                self.assertTrue(told.stdout.readline())
                if monitor[0] == "gdbus":
                    self.assertIn("owned by", told.stdout.readline())
                self.assertEqual(self.s.submit(root, self.s.path("data"), "f", undo_usec=("t", HOUR)), number)
                self.assertEqual(run(*get), state % "held")
                run(*pause)
                self.assertEqual(run(*get), state % "paused")
                root.call("Restore", "ta{sv}", number, {})
                line = " "
                while line and completed not in line:
                    line = told.stdout.readline()
                self.assertIn(completed, line)
                told.terminate()
            os.unlink(self.s.path("data/f"))

    def test_signals_tell_nothing(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        self.s.file("secret-name")
        with user(NOBODY):
            c = Connection(self.s.bus_path, bus=True)
        with c, self.s.client() as root:
            c.call("AddMatch", "s", "type='signal',sender='org.reclaimd1'", **DRIVER)
            job = self.s.submit(root, self.s.path("data"), "secret-name")
            self.assertEqual(c.signal("JobFinished").body,
                             [job, "/org/reclaimd1/job/%d" % job, "done"])
            c.signal("InterfacesRemoved")
            for m in c.signals:
                if m.kind == dbuswire.SIGNAL:
                    self.assertNotIn("secret", str(m.body))
                if m.member == "InterfacesAdded":
                    self.assertEqual(set(m.body[1][JOB]), {"Id", "State"})

    def test_job_tells_that_it_has_completed(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        self.s.file("f")
        with Connection(self.s.bus_path, bus=True) as c, self.s.client() as root:
            c.call("AddMatch", "s", "type='signal',sender='org.reclaimd1',interface='%s'" % JOB, **DRIVER)
            job = self.s.submit(root, self.s.path("data"), "f")
            m = c.signal("Completed")
            self.assertEqual((m.path, m.interface, m.body), ("/org/reclaimd1/job/%d" % job, JOB, ["done"]))

    def test_subscriber_alone_is_told_of_its_jobs(self):
        """What a job is about is sent to those who may see it, and no other client hears it."""
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        os.chmod(self.s.path("data"), 0o777)
        self.s.file("secret")
        self.s.file("own", owner=NOBODY)
        with user(NOBODY):
            subscriber, listener = (Connection(self.s.bus_path, bus=True) for _ in range(2))
        with subscriber, listener, self.s.client() as root:
            listener.call("AddMatch", "s", "type='signal'", **DRIVER)
            subscriber.call("Subscribe")
            hidden = self.s.submit(root, self.s.path("data"), "secret")
            root.signal("JobFinished")
            own = subscriber.call("Submit", "aaya{sv}", [self.s.path("data/own").encode()], {}).body[0]
            told = []
            while not told or told[-1][1] != "done":
                m = subscriber.signal("JobsChanged")
                self.assertEqual(m.fields[dbuswire.DESTINATION], subscriber.name)
                told += m.body[0]
            self.assertEqual({j[0] for j in told}, {own})
            self.assertEqual({j[5] for j in told}, {os.fsencode(self.s.path("data/own"))})
            subscriber.call("Unsubscribe")
            subscriber.signals.clear()
            self.s.file("own", owner=NOBODY)
            subscriber.call("Submit", "aaya{sv}", [self.s.path("data/own").encode()], {})
            for name in (hidden, own, own + 1):
                while listener.signal("JobFinished").body[0] != name:
                    pass
            subscriber.call("GetId", **DRIVER)
            for c in (listener, subscriber):
                self.assertFalse([m for m in c.signals if m.member == "JobsChanged"])

    def test_subscriber_that_leaves_the_bus(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        for i in range(40):  # more than there may be at once
            with user(NOBODY):
                c = Connection(self.s.bus_path, bus=True)
            with c:
                until(lambda c=c: not self.raises(c))
            self.s.file("f%d" % i)
            with self.s.client() as root:
                self.s.submit(root, self.s.path("data"), "f%d" % i)
        # A connection to the bus that is lost takes them along.
        with Connection(self.s.bus_path, bus=True) as c:
            c.call("Subscribe")
            self.s.stop_bus()
        self.lives()

    raises = staticmethod(Others.raises)

    def test_many_calls_of_many(self):
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        clients = [Connection(self.s.bus_path, bus=True) for _ in range(100)]
        for _ in range(3):
            serials = [c.send("ListJobs", "a{sv}", {}) for c in clients]
            for c, serial in zip(clients, serials):
                self.assertEqual(c.answer(serial).body, [[]])
        for c in clients:
            c.close()

    def test_errors_are_the_sockets(self):
        self.s.start_bus()
        self.s.start(bus=True)
        with self.s.wait_for_name() as bus, self.s.client() as private:
            for args in (("Submit", "s", "/x"), ("Submit", "aaya{sv}", [b"x"], {}),
                         ("GetJob", "t", 5), ("Cancel", "at", []),
                         ("Submit", "aaya{sv}", [b"/"], {})):
                said = []
                for c in (bus, private):
                    with self.assertRaises(Error) as caught:
                        c.call(*args)
                    said.append((caught.exception.name, caught.exception.text))
                self.assertEqual(said[0], said[1])


if __name__ == "__main__":
    main()
