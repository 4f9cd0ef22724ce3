# SPDX-License-Identifier: LGPL-2.1-or-later
"""The API on Varlink, with varlinkctl, and with a socket where that is too well-behaved."""

import base64
import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import socket
import stat
import struct
import subprocess
import time
import unittest

from system import (BUS, SLOW, TIMEOUT_SECONDS, attempt, command, configure, full_speed, install, running_job,
                    unit_property)

INTERFACE = "org.reclaimd.Reclaim"
SOCKET = f"/run/reclaimd/{INTERFACE}"
DESCRIPTION = f"/usr/share/doc/reclaimd/{INTERFACE}.varlink"
CORPUS = "/corpus/varlink"
INVALID = "org.varlink.service.InvalidParameter"
USER = 64998
HOUR_USEC = 3600 * 1000 * 1000
MIB = 1 << 20
METHODS = set()


def setUpModule():
    install("deb", 1)


class Refused(Exception):
    def __init__(self, name, parameters):
        super().__init__(f"{name}: {parameters}")
        self.name = name.removeprefix(INTERFACE + ".")
        self.parameters = parameters


def varlinkctl(*arguments, user=None):
    who = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    return subprocess.run([*who, "varlinkctl", *arguments], check=False, text=True, capture_output=True,
                          timeout=TIMEOUT_SECONDS)


def call(method, user=None, **parameters):
    """Calls by varlinkctl, and returns the answer."""
    METHODS.add(method)
    r = varlinkctl("call", "-j", SOCKET, f"{INTERFACE}.{method}", json.dumps(parameters), user=user)
    if r.returncode != 0:
        name = re.search(r"failed: (\S+)", r.stderr)
        assert name, r.stderr
        raise Refused(name[1], json.loads(r.stdout))
    return json.loads(r.stdout)


class Wire:
    """A connection that may send anything."""

    def __init__(self, user=None):
        self.rest = b""
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_SECONDS)
        if user:
            os.setegid(user)
            os.seteuid(user)
        try:
            self.socket.connect(SOCKET)
        finally:
            os.seteuid(0)
            os.setegid(0)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.socket.close()

    def send(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\0")

    def receive(self):
        """The next message, or None at the end."""
        while b"\0" not in self.rest:
            try:
                got = self.socket.recv(65536)
            except ConnectionResetError:
                got = b""
            if not got:
                return None
            self.rest += got
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.send({"method": f"{INTERFACE}.{method}", "parameters": parameters})
        return self.receive()

    def monitor(self):
        """What happens from now on can be received."""
        self.send({"method": f"{INTERFACE}.Monitor", "more": True})
        ready = self.receive()
        assert ready == {"parameters": {"happening": "ready"}, "continues": True}, ready

    def happening(self, wanted):
        """The next that fulfils it."""
        while True:
            what = self.receive()["parameters"]
            if wanted(what):
                return what


class Case(unittest.TestCase):
    def setUp(self):
        self.top = f"/backups/{self.id()}"
        os.mkdir(self.top)
        self.addCleanup(shutil.rmtree, self.top)

    def file(self, name="file", user=None):
        path = os.path.join(self.top, name)
        with open(path, "wb") as f:
            f.write(b"x" * 5000)
        if user:
            os.chown(self.top, user, user)
            os.chown(path, user, user)
        return path

    def held(self, name="file", user=None):
        """A job that waits, and the file that is in it."""
        path = self.file(name, user)
        return call("Submit", user, paths=[path], undoUSec=HOUR_USEC)["id"], path

    def refused(self, name, method, /, user=None, words="", **parameters):
        with self.assertRaises(Refused) as caught:
            call(method, user, **parameters)
        self.assertEqual(caught.exception.name, name, caught.exception)
        self.assertIn(words, json.dumps(caught.exception.parameters))

    def wait(self, job, state, user=None):
        """For a job that is to get there by itself."""
        with Wire(user) as w:
            w.monitor()
            while (now := call("GetJob", user, id=job)["job"]["state"]) != state:
                self.assertNotIn(now, ("failed", "partial"))
                w.happening(lambda what: what.get("job", {}).get("id") == job)


class Interface(Case):
    def test_description(self):
        with open(DESCRIPTION, encoding="utf-8") as f:
            documented = f.read().split("\n\n", 1)[1]
        self.assertEqual(varlinkctl("introspect", SOCKET, INTERFACE).stdout, documented)
        told = varlinkctl("call", "-j", SOCKET, "org.varlink.service.GetInterfaceDescription",
                          json.dumps({"interface": INTERFACE})).stdout
        self.assertEqual(json.loads(told)["description"], documented)
        command("varlinkctl", "validate-idl", DESCRIPTION)

    def test_info(self):
        r = varlinkctl("info", SOCKET)
        self.assertIn("Product: reclaimd", r.stdout)
        self.assertIn(INTERFACE, r.stdout)
        print(r.stdout)
        self.assertEqual(varlinkctl("list-interfaces", SOCKET).stdout.split(),
                         ["io.systemd", INTERFACE, "org.varlink.service"])

    def test_every_method(self):
        """Each of them does what it is for."""
        METHODS.clear()
        job, path = self.held()
        self.assertFalse(os.path.exists(path))
        told = call("GetJob", id=job)["job"]
        self.assertEqual((told["id"], told["state"], told["path"], told["uid"], told["names"]),
                         (job, "held", path, 0, 1))
        self.assertEqual(call("ListJobs", ids=[job])["jobs"], [told])
        self.assertEqual(call("ListJobs", sinceId=job, limit=1, uid=0, states=["held"])["jobs"], [told])
        self.assertEqual(call("ListJobs", uid=USER)["jobs"], [])
        self.assertEqual(call("GetEntries", id=job), {"entries": [{"path": path, "state": "staged"}]})
        self.assertEqual(call("GetEntries", id=job, offset=1, limit=5), {"entries": []})
        self.assertEqual(call("GetProblems", id=job), {"problems": []})
        call("Pause", ids=[job])
        self.assertEqual(call("GetJob", id=job)["job"]["state"], "paused")
        call("Resume", ids=[job])
        self.assertEqual(call("GetJob", id=job)["job"]["state"], "held")
        call("SetPriority", ids=[job], priority="low")
        call("SetDeadline", ids=[job], deadlineUSec=7)
        told = call("GetJob", id=job)["job"]
        self.assertEqual((told["priority"], told["deadlineUSec"]), ("low", 7))
        call("Cancel", ids=[job])
        self.assertTrue(os.path.exists(path))
        self.assertEqual(call("GetJob", id=job)["job"]["state"], "cancelled")
        self.assertNotIn(job, [j["id"] for j in call("ListJobs")["jobs"]])
        self.assertIn(job, [j["id"] for j in call("ListJobs", finished=True)["jobs"]])
        job = call("Submit", paths=[path], undoUSec=HOUR_USEC, priority="high")["id"]
        self.assertEqual(call("GetJob", id=job)["job"]["priority"], "high")
        call("Restore", id=job)
        self.assertTrue(os.path.exists(path))
        self.assertEqual(call("Submit", paths=[path], dryRun=True), {"id": 0})
        call("PauseAll")
        self.assertTrue(call("GetStatus")["paused"])
        call("ResumeAll")
        status = call("GetStatus")
        self.assertFalse(status["paused"])
        self.assertIn("+varlink", status["features"])
        self.wait(call("Submit", paths=[path], deadlineUSec=(int(time.time()) + 3600) * 1000000)["id"], "done")
        on_bus = json.loads(command("busctl", "call", "--json=short", *BUS, "ListLatencies"))["data"][0]
        self.assertEqual([[x["name"], x["of"], x["deleting"], x["count"]] for x in call("ListLatencies")["latencies"]],
                         [[name, of, deleting, count] for name, of, deleting, _, count, *_ in on_bus])
        metrics = call("GetMetrics")
        self.assertGreater(metrics["jobsFinished"]["done"], 0)
        self.assertEqual(len(metrics["devices"][0]["reads"]["counts"]),
                         len(metrics["latencyBoundsUSec"]) + 1)
        self.kept()
        self.views()
        self.policies()
        METHODS.add("Monitor")
        with open(DESCRIPTION, encoding="utf-8") as f:
            self.assertEqual(METHODS, set(re.findall(r"^method (\w+)\(", f.read(), re.M)))

    def kept(self):
        """Every second name of a user's holds a directory of root's, which the user cannot empty."""
        top = f"{self.top}/users"
        paths = [f"{top}/{i:04}" for i in range(2002)]
        for path in paths:
            os.makedirs(path)
            os.chown(path, USER, USER)
        for path in paths[::2]:
            os.makedirs(f"{path}/roots/full")
        os.chown(top, USER, USER)
        job = call("Submit", USER, paths=paths)["id"]
        self.wait(job, "partial")
        self.assertEqual(sorted(os.listdir(top)), [os.path.basename(p) for p in paths[::2]])
        (first,) = call("GetKept", USER, id=job, limit=1)["names"]
        born = int(command("stat", "-c", "%W", paths[0]))
        self.assertEqual((first["number"], first["path"], first["inode"], first["birth"] // 10**9, first["type"]),
                         (1, paths[0], os.stat(paths[0]).st_ino, born, stat.S_IFDIR))
        self.assertEqual(call("GetKept", USER, id=job, after=2001), {"names": []})
        self.assertEqual([k["path"] for k in call("GetKept", USER, id=job, after=1, limit=2)["names"]],
                         [paths[2], paths[4]])
        # More than are in one answer: the next begins behind a number, not behind a count.
        r = varlinkctl("call", "-j", "--more", SOCKET, f"{INTERFACE}.GetKept", json.dumps({"id": job}), user=USER)
        answers = [json.loads(line)["names"] for line in r.stdout.split("\x1e") if line.strip()]
        self.assertGreater(len(answers), 1)
        self.assertEqual([k["path"] for a in answers for k in a], paths[::2])

    def policies(self):
        path = f"{self.top}/kept"
        os.mkdir(path)
        for i in range(3):
            with open(f"{path}/{i}.gz", "w", encoding="utf-8"):
                os.utime(f"{path}/{i}.gz", (0, 86400 * i))
        configure(f"policies: {{p: {{path: {path}, match: '*.gz', keep: {{last: 1}}, schedule: yearly, max-delete: 100%}}}}\n")
        self.addCleanup(full_speed)
        call("Reload")
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "reclaimd-policy@p.timer")
        self.addCleanup(command, "systemctl", "stop", "reclaimd-policy@p.timer")
        (told,) = call("ListPolicies")["policies"]
        self.assertEqual((told["name"], told["path"], told["schedule"], told["running"]), ("p", path, "yearly", False))
        self.assertGreater(told["nextElapseUSec"], time.time() * 1e6)
        plan = call("PlanPolicy", name="p")["plan"]
        self.assertEqual({e["name"]: e["fate"] for e in plan["entries"]},
                         {"0.gz": "delete", "1.gz": "delete", "2.gz": "keep"})
        self.assertTrue(plan["open_complete"])
        self.refused("NotAuthorized", "PlanPolicy", USER, name="p")
        self.refused("InvalidArgument", "RunPolicy", name="q")
        self.wait(call("RunPolicy", name="p")["id"], "done")
        self.assertEqual(os.listdir(path), ["2.gz"])
        (told,) = call("ListPolicies")["policies"]
        self.assertGreater(told["lastRunUSec"], 0)

    def views(self):
        spool = f"{self.top}/spool"
        os.mkdir(spool)
        configure(f"spools: {{{spool}: {{undo: 1h}}}}\n" + SLOW)
        self.addCleanup(full_speed)
        call("Reload")
        told = call("ListSpools")["spools"]
        self.assertEqual([(s["path"], s["undoUSec"]) for s in told], [(spool, HOUR_USEC)])
        configure("spools: 7\n")
        self.refused("InvalidArgument", "Reload", words="stays as it was")
        self.assertIn("spools", call("GetStatus")["configurationError"])
        with running_job(f"{self.top}/tree", files=16) as job:
            self.assertEqual(len(call("ListDevices")["devices"]), 1)
            call("Cancel", ids=[job])

    def test_names_that_are_not_utf8(self):
        """JSON cannot carry them: they come and go as Base64, and are shown escaped."""
        path = os.fsencode(self.top) + b"/\xff\x1b\xe2\x80\xae"
        with open(path, "wb"):
            pass
        encoded = base64.b64encode(path).decode()
        job = call("Submit", pathsBase64=[encoded], undoUSec=HOUR_USEC)["id"]
        self.assertFalse(os.path.exists(path))
        for told in (call("GetJob", id=job)["job"], call("GetEntries", id=job)["entries"][0]):
            self.assertEqual(told["pathBase64"], encoded)
            self.assertEqual(told["path"], self.top + r"/\xff\x1b\xe2\x80\xae")
        call("Cancel", ids=[job])
        self.assertTrue(os.path.exists(path))

    def test_attack_03_names_that_are_not_safe_to_show(self):
        """They come as they are, whatever they would do to a terminal, and are shown escaped."""
        path = self.file("\\x\x1b[31m\u202e\n")
        job = call("Submit", paths=[path], undoUSec=HOUR_USEC)["id"]
        for told in (call("GetJob", id=job)["job"], call("GetEntries", id=job)["entries"][0]):
            self.assertEqual(base64.b64decode(told["pathBase64"]), os.fsencode(path))
            self.assertEqual(told["path"], self.top + r"/\\x\x1b[31m\xe2\x80\xae\n")
        call("Cancel", ids=[job])
        self.assertTrue(os.path.exists(path))
        self.refused("NoSuchPath", "Submit", paths=[path + "\n"], words=r"\\x1b[31m\\xe2\\x80\\xae\\n\\n")
        # A backslash does no harm.
        job = call("Submit", paths=[self.file("\\x")], undoUSec=HOUR_USEC)["id"]
        self.assertEqual(call("GetJob", id=job)["job"]["path"], self.top + "/\\x")
        call("Cancel", ids=[job])


class Users(Case):
    def test_own_files(self):
        job, path = self.held(user=USER)
        self.assertEqual([j["id"] for j in call("ListJobs", USER)["jobs"]], [job])
        self.assertEqual(call("GetJob", USER, id=job)["job"]["uid"], USER)
        call("Cancel", USER, ids=[job])
        self.assertTrue(os.path.exists(path))
        self.wait(call("Submit", USER, paths=[path])["id"], "done", USER)

    def test_32_anothers_job(self):
        """It is not there, whatever is asked of it."""
        job, _ = self.held()
        for method in ("Cancel", "Pause", "Resume"):
            self.refused("NoSuchJob", method, USER, ids=[job])
        for method in ("GetJob", "Restore", "GetProblems", "GetEntries", "GetKept"):
            self.refused("NoSuchJob", method, USER, id=job)
        self.refused("NoSuchJob", "ListJobs", USER, ids=[job])
        self.assertEqual(call("ListJobs", USER, finished=True, uid=0), {"jobs": []})
        call("Cancel", ids=[job])

    def test_01_anothers_file(self):
        path = self.file()
        os.chmod(self.top, 0o700)
        for victim in (path, self.top + "/absent"):
            self.refused("NotAuthorized", "Submit", USER, paths=[victim])
        self.assertTrue(os.path.exists(path))

    def test_what_is_roots(self):
        for method in ("PauseAll", "ResumeAll", "Reload"):
            self.refused("NotAuthorized", method, USER)
        self.refused("NotAuthorized", "RunPolicy", USER, name="p")

    def test_errors(self):
        self.refused("Protected", "Submit", paths=["/etc/passwd"])
        self.refused("CrossesMount", "Submit", paths=["/backups"])
        self.refused("NoSuchPath", "Submit", paths=[self.top + "/absent"])
        self.refused("InvalidPath", "Submit", paths=[self.top + "/.."])
        self.refused("NoSuchJob", "GetJob", id=1 << 40)
        job, _ = self.held()
        call("Cancel", ids=[job])
        self.refused("NoSuchJob", "Cancel", ids=[job])


class Monitor(Case):
    def test_more(self):
        """By varlinkctl, from ready on."""
        def happening():
            # As json-seq has it, RFC 7464.
            return json.loads(told.stdout.readline().lstrip("\x1e"))

        with subprocess.Popen(["timeout", str(TIMEOUT_SECONDS), "varlinkctl", "call", "-j", "--more", SOCKET,
                               f"{INTERFACE}.Monitor", "{}"], stdout=subprocess.PIPE, text=True) as told, \
                contextlib.ExitStack() as stack:
            stack.callback(told.terminate)
            self.assertEqual(happening(), {"happening": "ready"})
            job, path = self.held()
            said = [happening()]
            call("Cancel", ids=[job])
            while said[-1]["happening"] != "finished":
                said.append(happening())
            call("PauseAll")
            while said[-1]["happening"] != "daemon":
                said.append(happening())
            call("ResumeAll")
        for what in said:
            print(json.dumps(what)[:100])
        self.assertEqual([w["happening"] for w in said if w["happening"] != "changed"],
                         ["new", "finished", "daemon"])
        self.assertTrue(all(w["job"]["path"] == path for w in said[:-1]))
        self.assertEqual(said[-1]["property"], "Paused")

    def test_list_as_a_whole(self):
        """All jobs come for one call, in several answers, also to a client that reads slowly; and all names."""
        ids, count = [], 2300
        with Wire() as w:
            for i in range(count):
                answer = w.call("Submit", paths=[self.file(f"f{i}")], undoUSec=HOUR_USEC)
                ids.append(answer["parameters"]["id"])
            self.assertLess(len(w.call("ListJobs", ids=ids)["parameters"]["jobs"]), 1001)  # or 1 MiB
            w.send({"method": f"{INTERFACE}.ListJobs", "more": True, "parameters": {"sinceId": ids[0]}})
            time.sleep(0.5)  # longer than what is sent at once takes to be made
            told, answers = [], 0
            while True:
                answer = w.receive()
                answers += 1
                self.assertLessEqual(len(answer["parameters"]["jobs"]), 1000)
                told += [j["id"] for j in answer["parameters"]["jobs"]]
                if not answer.get("continues"):
                    break
            self.assertEqual(told, ids)
            self.assertGreaterEqual(answers, 3)
            w.send({"method": f"{INTERFACE}.ListJobs", "more": True, "parameters": {"sinceId": ids[0], "limit": 1001}})
            said = [w.receive(), w.receive()]
            self.assertEqual(sum(len(a["parameters"]["jobs"]) for a in said), 1001)
            self.assertEqual([a.get("continues", False) for a in said], [True, False])
            for at in range(0, count, 500):
                w.call("Cancel", ids=ids[at:at + 500])
            # One that goes in the midst of it holds up nothing.
            with Wire() as gone:
                gone.send({"method": f"{INTERFACE}.ListJobs", "more": True, "parameters": {"finished": True}})
                gone.receive()
            names = [self.file(f"f{i}") for i in range(count)]
            job = w.call("Submit", paths=names, undoUSec=HOUR_USEC)["parameters"]["id"]
            r = varlinkctl("call", "-j", "--more", SOCKET, f"{INTERFACE}.GetEntries", json.dumps({"id": job}))
            entries = [e["path"] for line in r.stdout.split("\x1e") if line.strip() for e in json.loads(line)["entries"]]
            self.assertEqual(sorted(entries), sorted(names))
            w.call("Cancel", ids=[job])

    def test_not_of_others(self):
        with Wire(USER) as w:
            w.monitor()
            roots, _ = self.held()
            call("Cancel", ids=[roots])
            job, _ = self.held("users", USER)
            self.assertEqual(w.receive()["parameters"]["job"]["id"], job)
            call("Cancel", ids=[job])

    def test_37_a_client_that_never_reads(self):
        """It is told that it missed something once it reads; until then no other client waits for it."""
        deep = self.top + "/" + "/".join(["d" * 250] * 14)
        os.makedirs(deep)
        job = call("Submit", paths=[deep], undoUSec=HOUR_USEC)["id"]
        with Wire() as slow, Wire() as busy, Wire() as quick:
            slow.monitor()
            quick.monitor()
            for _ in range(300):
                self.assertEqual(busy.call("Pause", ids=[job]), {"parameters": {}})
                quick.happening(lambda what: what["job"]["state"] == "paused")
                self.assertEqual(busy.call("Resume", ids=[job]), {"parameters": {}})
                quick.happening(lambda what: what["job"]["state"] == "held")
            slow.happening(lambda what: what["happening"] == "lost")
            busy.call("Pause", ids=[job])
            self.assertEqual(slow.receive()["parameters"]["job"]["state"], "paused")
            busy.call("Resume", ids=[job])
        call("Cancel", ids=[job])

    def test_37_stops_nevertheless(self):
        deep = self.top + "/" + "/".join(["d" * 250] * 14)
        os.makedirs(deep)
        job = call("Submit", paths=[deep], undoUSec=HOUR_USEC)["id"]
        with Wire() as slow, Wire() as busy:
            slow.monitor()
            for _ in range(300):
                busy.call("Pause", ids=[job])
                busy.call("Resume", ids=[job])
            before = time.monotonic()
            command("systemctl", "restart", "reclaimd")
            self.assertLess(time.monotonic() - before, 15)
        self.assertEqual(unit_property("Result"), "success")
        call("Cancel", ids=[job])


class BadInput(Case):
    def lives(self):
        self.assertEqual(unit_property("NRestarts"), "0")
        self.assertIn("version", call("GetStatus"))

    def test_44_bytes_that_are_no_message(self):
        good = json.dumps({"method": f"{INTERFACE}.GetStatus"}).encode()
        for bad in (b"\0", b"\0\0\0", b"x\0", good[:-1] + b"\0", good + good + b"\0", b"[]\0", b"7\0", b"null\0",
                    b'"' + b"x" * 1000 + b'"\0', b"[" * 60000 + b"\0", b'{"a":' * 10000 + b"\0",
                    b"\xff\xfe\xfd\0", os.urandom(4096) + b"\0", b'{"method":7}\0', b'{"parameters":{}}\0',
                    b'{"method":"x","method":"y"}\0', good[:-1] + b',"shoes":1}\0',
                    good[:-1] + b',"more":true,"oneway":true}\0', good[:-1] + b',"parameters":[]}\0',
                    good[:-1] + b',"parameters":{"a":"\\u0000"}}\0', good[:-1] + b',"parameters":{"a":"\xff"}}\0',
                    b'{"method":"' + b"x" * 50000 + b'"}\0', b"GET / HTTP/1.1\r\n\r\n\0",
                    b"l\1\0\1" + b"\0" * 60):
            with Wire() as w:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.socket.sendall(bad)
                # An error, or the end.
                answer = w.receive()
                self.assertTrue(answer is None or "error" in answer, (bad[:60], answer))
        self.lives()

    def test_44_what_the_fuzzer_says(self):
        """The inputs that are kept of fuzz-varlink, as a user says them: a byte of flags, and the stream."""
        inputs = [os.path.join(CORPUS, name) for name in sorted(os.listdir(CORPUS))]
        self.assertGreater(len(inputs), 30)
        for path in inputs:
            with open(path, "rb") as f:
                said = f.read()[1:]
            with Wire(USER) as w:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.socket.sendall(said)
                    w.socket.shutdown(socket.SHUT_WR)
                # Until the end: what comes is JSON.
                while w.receive() is not None:
                    pass
        self.lives()

    def test_44_half_messages(self):
        """They stay with the clients that send them, and the daemon does not wait for the other half."""
        with contextlib.ExitStack() as stack:
            for size in (1, 1000, 65535, 65536, 200000, 500000):
                w = stack.enter_context(Wire(USER))
                w.socket.settimeout(1)
                # Two of a user's may be on their way that are long; others wait.
                with contextlib.suppress(TimeoutError):
                    w.socket.sendall(b'{"method":"' + b"x" * size)
            self.lives()
            call("GetStatus", USER)

    def test_44_a_message_in_pieces(self):
        message = json.dumps({"method": f"{INTERFACE}.GetStatus"}).encode() + b"\0"
        with Wire() as w:
            for byte in message:
                w.socket.sendall(bytes([byte]))
            self.assertIn("parameters", w.receive())
            w.socket.sendall(message * 100)
            for _ in range(100):
                self.assertIn("parameters", w.receive())

    def test_44_long_messages(self):
        """1 MiB may be, more may not."""
        def message(size):
            start, end = b'{"method":"x.y.Z","parameters":{"a":"', b'"}}\0'
            return start + b"x" * (size - len(start) - len(end)) + end

        for size in (65535, 65536, 65537, 200000, MIB - 1, MIB):
            with Wire(USER) as w:
                w.socket.sendall(message(size))
                self.assertEqual(w.receive()["error"], "org.varlink.service.MethodNotFound")
                self.assertIn("parameters", w.call("GetStatus"))
        for size in (MIB + 1, 3 * MIB):
            with Wire(USER) as w:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.socket.sendall(message(size))
                self.assertIsNone(w.receive())
        self.lives()

    def test_44_many_paths(self):
        paths = [f"{self.top}/absent{i}" for i in range(15000)]
        with Wire() as w:
            self.assertEqual(w.call("Submit", paths=paths)["error"], f"{INTERFACE}.NoSuchPath")
            # More elements than sd-json takes.
            w.send({"method": f"{INTERFACE}.Cancel", "parameters": {"ids": [1] * 100000}})
            answer = w.receive()
            self.assertTrue(answer is None or "error" in answer, answer)
        self.lives()

    def test_44_wrong_values(self):
        for number in (-1, 1.0, 1.5, 1 << 64, 1e30, -(1 << 70), "1", [1], {}, True, None):
            self.refused(INVALID, "GetJob", id=number)
            self.refused(INVALID, "Cancel", ids=[number])
        self.refused("NoSuchJob", "GetJob", id=(1 << 64) - 1)
        self.refused("NoSuchJob", "GetJob", id=0)
        self.refused(INVALID, "GetJob")
        self.refused(INVALID, "GetJob", id=1, shoes=2, words="shoes")
        self.refused(INVALID, "GetStatus", shoes=2)
        self.refused(INVALID, "ListJobs", states=["asleep"])
        self.refused(INVALID, "ListJobs", finished="yes")
        self.refused(INVALID, "Submit", paths="/x")
        self.refused(INVALID, "Submit", paths=["/x"], priority="highest")
        self.refused(INVALID, "Submit", pathsBase64=["!"])
        self.refused(INVALID, "Submit", paths=["/x"], undoUSec=-1)
        self.refused("InvalidArgument", "Submit", paths=["/x"], undoUSec=1 << 60, words="ten years")
        self.refused("InvalidArgument", "Submit", words="No paths")
        self.refused("InvalidArgument", "Submit", paths=["x"], words="relative")
        self.refused("InvalidArgument", "Submit", paths=[""], words="0 bytes")
        self.refused("InvalidArgument", "Submit", paths=["/" + "x/" * 2048], words="4095")
        nul = base64.b64encode(b"/x\0y").decode()
        self.refused("InvalidArgument", "Submit", pathsBase64=[nul], words="NUL")
        self.refused("InvalidArgument", "ListJobs", uid=(1 << 32) - 1)
        for method in ("Cancel", "Pause", "Resume"):
            self.refused("InvalidArgument", method, ids=[], words="No job")
        self.lives()

    def test_calls_without_answers(self):
        """They are done, and what is asked next gets its own answer."""
        known, waits = self.held("waits")
        path = self.file()
        with Wire() as w:
            w.send({"method": f"{INTERFACE}.Submit", "oneway": True,
                    "parameters": {"paths": [path], "undoUSec": HOUR_USEC}})
            w.send({"method": f"{INTERFACE}.GetJob", "oneway": True, "parameters": {"id": 1 << 40}})
            w.send({"method": f"{INTERFACE}.Monitor", "oneway": True})
            for _ in range(20):
                w.send({"method": f"{INTERFACE}.ListJobs", "oneway": True, "parameters": {"finished": True}})
            # The store answers in order, so this comes when all that was asked before is known.
            self.assertEqual(w.call("GetEntries", id=known),
                             {"parameters": {"entries": [{"path": waits, "state": "staged"}]}})
            w.monitor()
            while not (jobs := [j["id"] for j in call("ListJobs")["jobs"] if j["path"] == path]):
                w.receive()
        call("Cancel", ids=[known, *jobs])


class Description:
    """What the interface takes, as its description says."""

    def __init__(self):
        with open(DESCRIPTION, encoding="utf-8") as f:
            text = re.sub("#.*", "", f.read())
        self.words = {name: re.findall(r"\w+", values)
                      for name, values in re.findall(r"^type (\w+)\(([\w\s,]*)\)", text, re.M)}
        # (name, may be missing, is a list, type)
        self.methods = {name: re.findall(r"(\w+): (\??)((?:\[\])?)(\w+)", parameters)
                        for name, parameters in re.findall(r"^method (\w+)\(([^)]*)\) ->", text, re.M)}

    def value(self, chance, is_list, kind):
        """JSON of one that may be."""
        if is_list:
            return "[" + ",".join(self.value(chance, "", kind) for _ in range(chance.randint(0, 3))) + "]"
        if kind in self.words:
            return json.dumps(chance.choice(self.words[kind]))
        return {"int": lambda: str(chance.choice((0, 1, 2, 7, 1 << 31, (1 << 63) - 1))),
                "bool": lambda: chance.choice(("true", "false")),
                "string": lambda: json.dumps(chance.choice(PATHS))}[kind]()

    def wrong(self, optional, is_list, kind):
        """JSON of what is refused wherever a value of this type is to be."""
        wrong = ['{"a":{}}', "[[]]", "1.5", "-1", "[null]", "18446744073709551616",
                 "-9223372036854775809", "[" * 1000 + "]" * 1000, "[" + "{}," * 5000 + "{}]"]
        # sd-json takes what no double can be for null.
        if not optional:
            wrong += ["null", "1e400"]
        if is_list:
            return wrong + ["true", "7", '"x"', "[1.5]" if kind == "int" else "[7]"]
        if kind != "bool":
            wrong += ["true"]
        if kind != "int":
            wrong += ["7"]
        if kind != "string":
            wrong += ['"x"', '""', '"\\u0000"', '"' + "x" * 60000 + '"', '"\\ud800"']
        return wrong + ["[]"]

    def message(self, chance, method, **instead):
        """A call, with these values in place of those that may be."""
        values = {name: self.value(chance, is_list, kind)
                  for name, optional, is_list, kind in self.methods[method]
                  if not optional or chance.random() < 0.3}
        values.update(instead)
        more = method == "Monitor" or chance.random() < 0.1
        return (f'{{"method":"{INTERFACE}.{method}","parameters":{{'
                + ",".join(f'"{name}":{value}' for name, value in values.items())
                + ("},\"more\":true}" if more else "}}")).encode() + b"\0"


# Of these a user may delete none.
PATHS = ("/", "/usr", "/etc/passwd", "/proc/1", "/absent", "relative", "", "/a/../usr", "/\x1b[31m",
         "/" + "x/" * 3000)


class Hostile(Case):
    """What the fuzzers say, and more, to the real daemon, while it serves other clients."""

    def setUp(self):
        super().setUp()
        self.description = Description()
        self.canary = self.file("canary")
        self.pid = unit_property("MainPID")
        self.memory = self.resident()
        self.descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        self.addCleanup(self.look)

    def resident(self):
        with open(f"/proc/{unit_property('MainPID')}/status", encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+) kB", f.read())[1]) * 1024

    def look(self):
        """The daemon is the same, has let go of all, and nothing was deleted."""
        self.assertEqual(unit_property("MainPID"), self.pid)
        self.assertEqual(unit_property("NRestarts"), "0")
        self.assertIn("version", call("GetStatus", USER))
        self.assertTrue(os.path.exists(self.canary))
        self.assertEqual(call("ListJobs", uid=USER)["jobs"], [])
        self.assertLess(self.resident() - self.memory, 48 * MIB)
        while len(os.listdir(f"/proc/{self.pid}/fd")) > self.descriptors:
            call("GetStatus")

    def test_attack_26_wrong_types(self):
        """Each parameter of each method, with all that it is not."""
        chance, said, w = random.Random(26), 0, Wire(USER)
        for method, parameters in self.description.methods.items():
            for name, optional, is_list, kind in [*parameters, ("shoes", "", "", "bool")]:
                for wrong in self.description.wrong(optional, is_list, kind):
                    w.socket.sendall(self.description.message(chance, method, **{name: wrong}))
                    answer = w.receive()
                    said += 1
                    self.assertTrue(answer is None or "error" in answer, (method, name, wrong[:60], answer))
                    if answer is None:
                        w.socket.close()
                        w = Wire(USER)
        w.socket.close()
        print(f"{said} messages")
        self.assertGreater(said, 500)

    def broken(self, chance, message):
        """A call with something that does not belong there."""
        at = chance.randrange(len(message))
        return message[:at] + chance.choice((
            b"\0", b"\\u0000", b"\xff", b"{", b"}", b'"', b"[" * 3000, b'{"a":' * 3000, b"9" * 500, b"e" * 5,
            b"x" * 100000, message, os.urandom(16))) + message[at + chance.choice((0, 0, 1, 10)):]

    def test_attack_26_streams_of_nonsense(self):
        """Calls, half of them broken or half, several on a connection."""
        seed = random.randrange(1 << 30)
        chance, accepted, refused = random.Random(seed), 0, 0
        methods = sorted(set(self.description.methods) - {"Monitor"})
        print(f"seed {seed}")
        for _ in range(400):
            said = b""
            for _ in range(chance.randint(1, 6)):
                message = self.description.message(chance, chance.choice(methods))
                said += message if chance.random() < 0.6 else self.broken(chance, message)
            # What comes behind it waits for its end.
            if chance.random() < 0.2:
                said += self.description.message(chance, "Monitor")
            if chance.random() < 0.2:
                said = said[:chance.randrange(len(said))]
            with Wire(USER) as w:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.socket.sendall(said)
                for _ in range(said.count(b"\0")):
                    answer = w.receive()
                    if answer is None:
                        break
                    refused += "error" in answer
                    accepted += "error" not in answer
        print(f"{accepted} accepted, {refused} refused")
        self.assertGreater(accepted * 5, accepted + refused)

    def test_attack_26_depth_and_length(self):
        """Of values everywhere in a message, up to what may be and beyond."""
        start, end = f'{{"method":"{INTERFACE}.Cancel","parameters":{{"ids":'.encode(), b"}}\0"
        for bad in (b"[" * 500000 + b"]" * 500000, b'{"a":' * 150000 + b"1" + b"}" * 150000,
                    b"[" + b"[]," * 300000 + b"[]]", b'"' + b"\\u0000" * 160000 + b'"', b"9" * 1000000,
                    b"0." + b"3" * 1000000, b'{"' + b"k" * 1000000 + b'":1}', b" " * 1000000 + b"[]",
                    b"{" + b'"a":1,' * 150000 + b'"a":1}', b'["' + b"\xf0\x9f\x97\x91" * 200000 + b'"]',
                    b"x" * 40 * MIB):
            with Wire(USER) as w:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.socket.sendall(start + bad + end)
                answer = w.receive()
                self.assertTrue(answer is None or "error" in answer, (bad[:60], answer))
            self.assertIn("version", call("GetStatus", USER + 1))

    def test_attack_26_many_streams(self):
        """Monitors that are not read, as many as a user may have, and many calls that ask for more."""
        calls = b"".join(f'{{"method":"{INTERFACE}.{method}","more":true}}'.encode() + b"\0"
                         for method in 20 * ["Monitor"] + 1000 * ["ListJobs"])
        job, path = self.held("held", USER)
        with contextlib.ExitStack() as stack, Wire() as busy, Wire(USER + 1) as other:
            self.assertIn("version", other.call("GetStatus")["parameters"])
            for _ in range(80):
                w = stack.enter_context(Wire(USER))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError, BlockingIOError):
                    w.socket.send(calls, socket.MSG_DONTWAIT)
            for _ in range(100):
                self.assertEqual(busy.call("Pause", ids=[job]), {"parameters": {}})
                self.assertEqual(busy.call("Resume", ids=[job]), {"parameters": {}})
                self.assertIn("version", other.call("GetStatus")["parameters"])
        call("Cancel", ids=[job])
        self.assertTrue(os.path.exists(path))


class Closings:
    """Which processes let go of a file last, one after the other (fanotify(7))."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.fanotify_init(0, os.O_RDONLY)
        assert self.fd >= 0, os.strerror(ctypes.get_errno())
        close, at_cwd = 0x08 | 0x10, -100
        r = libc.fanotify_mark(self.fd, 1, ctypes.c_uint64(close), at_cwd, os.fsencode(path))
        assert r == 0, os.strerror(ctypes.get_errno())

    def next(self):
        _, _, _, _, _, fd, pid = struct.unpack("=IBBHQii", os.read(self.fd, 24))
        os.close(fd)
        return pid


class Limits(Case):
    def descriptors(self):
        return len(os.listdir(f"/proc/{unit_property('MainPID')}/fd"))

    def test_15_descriptors_are_not_taken(self):
        """They are closed before they get to the daemon."""
        message = json.dumps({"method": f"{INTERFACE}.GetStatus"}).encode() + b"\0"
        fds = [os.open(self.top, os.O_PATH) for _ in range(200)]
        with Wire(USER) as w:
            self.assertIn("version", w.call("GetStatus")["parameters"])
            before = self.descriptors()
            for _ in range(20):
                socket.send_fds(w.socket, [message], fds)
                self.assertIn("version", w.receive()["parameters"])
                self.assertLessEqual(self.descriptors(), before)
        for fd in fds:
            os.close(fd)

    def test_13_closing_is_not_left_to_the_daemon(self):
        """Another process lets go last of what a client sends."""
        message = json.dumps({"method": f"{INTERFACE}.GetStatus"}).encode() + b"\0"
        path = self.file()
        closings = Closings(path)
        with Wire(USER) as w:
            for _ in range(50):
                fd = os.open(path, os.O_RDONLY)
                socket.send_fds(w.socket, [message], [fd])
                os.close(fd)
                self.assertIn("version", w.receive()["parameters"])
                self.assertNotEqual(closings.next(), int(unit_property("MainPID")))
        os.close(closings.fd)

    def test_connections(self):
        """A user has 64, together with those of the private socket; other users are let in."""
        with contextlib.ExitStack() as stack:
            served = 0
            for _ in range(80):
                w = stack.enter_context(Wire(USER))
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    w.send({"method": f"{INTERFACE}.GetStatus"})
                served += w.receive() is not None
            self.assertEqual(served, 64)
            self.assertIn("version", call("GetStatus"))
            self.assertIn("version", call("GetStatus", USER + 1))
            who = ["setpriv", f"--reuid={USER}", "--clear-groups"]
            self.assertNotEqual(attempt(*who, "busctl", "--address=unix:path=/run/reclaimd/private", "call",
                                        "org.reclaimd1", "/org/reclaimd1", "org.reclaimd1.Manager",
                                        "ListDevices").returncode, 0)


class Activation(Case):
    def test_starts_the_daemon(self):
        command("systemctl", "stop", "reclaimd.service")
        self.assertEqual(unit_property("MainPID"), "0")
        self.assertIn("version", call("GetStatus"))
        self.assertNotEqual(unit_property("MainPID"), "0")
        self.assertEqual(os.stat(SOCKET).st_mode & 0o777, 0o666)

    def test_without_the_socket_unit(self):
        """The daemon listens itself, and lets the unit have the place again."""
        command("systemctl", "mask", "--runtime", "--now", "reclaimd-varlink.socket")
        try:
            command("systemctl", "restart", "reclaimd")
            self.assertIn("version", call("GetStatus", USER))
        finally:
            command("systemctl", "unmask", "--runtime", "reclaimd-varlink.socket")
        command("systemctl", "restart", "reclaimd")
        self.assertIn("version", call("GetStatus", USER))
        self.assertEqual(unit_property("ActiveState", "reclaimd-varlink.socket"), "active")


if __name__ == "__main__":
    unittest.main()
