#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A submit whose caller is gone before it was answered: it has no effect, whatever has ended the caller
and whenever. What has been answered stands."""
import contextlib
import fcntl
import os
import resource
import signal
import subprocess
import termios

import daemon_fixture
import dbuswire
import fixture
from fixture import Proc, build, listing, scratch, write

HOUR = 3600 * 1000 * 1000
NAMES = ["a", "b", "c"]


def names_fd():
    fd = os.memfd_create("names")
    os.write(fd, b"".join(n.encode() + b"\0" for n in NAMES))
    return fd


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        build(self.data, "\n".join(NAMES))

    def env(self):
        return {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "TZ": "UTC"}

    def ctl(self, *args):
        p = Proc([scratch.binary, *args], self.data, env=self.env())
        self.addCleanup(p.close)
        return p

    def submit_until_moving(self, *args, gate="stage:b"):
        """reclaimctl submit, while b is about to be moved, and a has been."""
        c = self.daemon.again_with_gate(gate)
        p = self.ctl("submit", *args, *NAMES)
        self.worker = self.daemon.stopped_worker()
        self.assertEqual(listing(self.data), ["b", "c"])
        return c, p

    def proxies(self):
        found = 0
        for pid in self.daemon.workers():
            with contextlib.suppress(OSError), open("/proc/%d/comm" % pid) as f:
                found += f.read() == "reclaim-proxy\n"
        return found

    def until_gone(self, proxies):
        """Until as few clients are connected."""
        self.until(lambda: self.proxies() <= proxies)

    def go_on(self):
        os.kill(self.worker, signal.SIGCONT)

    def check_withdrawn(self, c, message="withdrawn: its client"):
        (job,) = c.jobs(finished=True)
        self.assertEqual(c.wait(job["id"]), "cancelled", self.daemon.said())
        self.assertEqual(listing(self.data), NAMES)
        self.assertEqual(job["done"], 0)
        self.assertTrue(c.get(job["id"], "Message").startswith(message))
        self.assertEqual(self.staged(), [])


class Clients(Case):
    def ended(self, sig, *args):
        c, p = self.submit_until_moving(*args)
        self.assertEqual([j["state"] for j in c.jobs()], ["accepted"])
        before = self.proxies()
        os.kill(p.pid, sig)
        p._wait(fixture.TIMEOUT)
        self.until_gone(before - 1)
        self.go_on()
        self.check_withdrawn(c)
        return p.result(p.popen.returncode)

    def test_attack_12_ctrl_c_in_submit(self):
        r = self.ended(signal.SIGINT)
        self.assertEqual(r.status, -signal.SIGINT)
        self.assertEqual(r.out, "")
        self.assertIn("reclaimctl: interrupted: reclaimd had not answered yet, and withdraws what it was given", r.err)

    def test_attack_12_killed(self):
        self.ended(signal.SIGKILL, "--undo=1h")

    def test_attack_12_interrupted_before_anything_is_sent(self):
        """While it reads the names, all is certain."""
        p = Proc([scratch.binary, "submit", "--files-from=-"], self.data, env=self.env(), stdin=subprocess.PIPE)
        self.addCleanup(p.close)
        p.popen.stdin.write(b"a\n")
        p.popen.stdin.flush()
        while fcntl.ioctl(p.popen.stdin, termios.FIONREAD, b"\0\0\0\0") != b"\0\0\0\0":
            pass  # until it has read that
        os.kill(p.pid, signal.SIGTERM)
        p._wait(fixture.TIMEOUT)
        p.popen.stdin.close()
        self.assertEqual(p.result(0).err, "reclaimctl: interrupted: nothing was submitted\n")
        self.assertEqual(self.daemon.client().jobs(finished=True), [])
        self.assertEqual(listing(self.data), NAMES)

    def test_attack_12_interrupted_while_it_waits(self):
        """It was answered: it goes on, and how to stop it is said."""
        p = self.ctl("submit", "--undo=1h", "--wait", *NAMES)
        c = self.daemon.client()
        while [j["state"] for j in c.jobs()] != ["held"] or not p.result(0).out:
            pass
        os.kill(p.pid, signal.SIGINT)
        p._wait(fixture.TIMEOUT)
        self.assertEqual(p.result(0).err, "reclaimctl: interrupted: job 1 goes on; reclaimctl cancel 1 stops it\n")
        self.assertEqual(c.job(1)["state"], "held")
        c.call("Cancel", "at", [1])
        self.assertEqual(listing(self.data), NAMES)

    def test_attack_12_cancelled_while_names_are_moved(self):
        """By its number, which is listed: all is back, and the submit fails."""
        c, p = self.submit_until_moving()
        (job,) = c.jobs()
        self.assertEqual((job["state"], c.get(job["id"], "State")), ("accepted", "accepted"))
        serial = c.send("Cancel", "at", [job["id"]])
        with self.assertRaises(dbuswire.Error) as caught:
            c.call("Cancel", "at", [job["id"]])
        self.assertEqual(caught.exception.name, "WrongState")
        self.go_on()
        c.answer(serial)
        self.assertEqual(c.job(job["id"])["state"], "cancelled")
        r = p.finish()
        self.assertEqual(r.status, 1, r)
        self.assertIn("was cancelled while its names were being moved out of the way", r.err)
        self.assertEqual(listing(self.data), NAMES)
        self.assertEqual(self.staged(), [])

    def test_attack_12_cancelled_and_refused(self):
        """One of its names has become another meanwhile: nothing is left that could be cancelled."""
        c, p = self.submit_until_moving()
        serial = c.send("Cancel", "at", [c.jobs()[0]["id"]])
        os.rename(self.path("c"), self.path("d"))
        write(self.path("c"))
        c.jobs()
        self.go_on()
        with self.assertRaises(dbuswire.Error) as caught:
            c.answer(serial)
        self.assertEqual(caught.exception.name, "WrongState")
        self.assertEqual(p.finish().status, 1)
        self.assertEqual(c.jobs(finished=True), [])
        self.assertEqual(listing(self.data), NAMES + ["d"])
        self.assertEqual(self.staged(), [])


class Unrecorded(Case):
    """A submit that is refused when it is on record, and the job store takes nothing any more."""

    def setUp(self):
        super().setUp()
        words = self.daemon.words()
        self.daemon.words = lambda: ["env", "--ignore-signal=XFSZ", *words]
        self.c = self.daemon.again_with_gate("stage:b")
        self.other = self.daemon.client()
        self.serial = self.other.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {},
                                      fds=[os.open(self.data, os.O_PATH), names_fd()])
        self.worker = self.daemon.stopped_worker()
        os.rename(self.path("c"), self.path("d"))
        write(self.path("c"))
        # Each write to a file fails from now on.
        self.limit(0)
        self.addCleanup(self.limit, resource.RLIM_INFINITY)

    def limit(self, size):
        if self.daemon.process.poll() is None:
            resource.prlimit(self.daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def check_refused_for_good(self):
        """Once it can be recorded, it is: a start does not take it for accepted."""
        self.assertEqual(self.c.get(1, "State"), "failed")
        with self.assertRaises(dbuswire.Error):
            self.c.call("Resume", "at", [1])
        self.limit(resource.RLIM_INFINITY)
        self.daemon.wait_said("can be written again")
        self.assertEqual(self.c.wait(1), "failed")
        self.daemon.kill()
        self.daemon.start()
        c = self.daemon.client()
        write(self.path("last"))
        self.assertEqual(c.wait(c.submit(self.path("last"))), "done")
        self.assertEqual([j["state"] for j in c.jobs(finished=True)], ["failed", "done"])
        self.assertEqual(listing(self.data), NAMES + ["d"])
        self.assertEqual(self.staged(), [])

    def test_fault_04_09_refusal_that_cannot_be_recorded(self):
        self.go_on()
        with self.assertRaises(dbuswire.Error) as caught:
            self.other.answer(self.serial)
        self.assertEqual(caught.exception.name, "IdentityChanged")
        self.assertIn("But job 1 is on record", str(caught.exception))
        self.check_refused_for_good()

    def test_attack_12_nor_answered(self):
        """The caller is gone as well, and had asked for a cancel."""
        serial = self.c.send("Cancel", "at", [1])
        before = self.proxies()
        self.other.close()
        self.until_gone(before - 1)
        self.go_on()
        with self.assertRaises(dbuswire.Error) as caught:
            self.c.answer(serial)
        self.assertEqual(caught.exception.name, "WrongState")
        self.check_refused_for_good()


class Connections(Case):
    def closed(self, **options):
        """A client that has sent a submit and closed, as names are being moved."""
        c = self.daemon.again_with_gate("stage:b")
        other = self.daemon.client()
        other.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], daemon_fixture.described(options),
                   fds=[os.open(self.data, os.O_PATH), names_fd()])
        self.worker = self.daemon.stopped_worker()
        before = self.proxies()
        other.close()
        self.until_gone(before - 1)
        return c

    def test_attack_12_connection_closed(self):
        c = self.closed(undo_usec=HOUR)
        self.go_on()
        self.check_withdrawn(c)

    def test_attack_12_before_it_is_recorded(self):
        """There is no trace of it."""
        c, other = self.daemon.client(), self.daemon.client()
        self.assertEqual(c.wait(c.submit(self.path("a"))), "done")
        write(self.path("a"))
        workers = [w for w in self.daemon.workers() if not self.is_proxy(w)]
        for w in workers:
            os.kill(w, signal.SIGSTOP)
        before = self.proxies()
        other.send_submit(self.path("b"))
        c.jobs()
        other.close()
        self.until_gone(before - 1)
        for w in workers:
            os.kill(w, signal.SIGCONT)
        # Behind it, in the same worker.
        self.assertEqual(c.wait(c.submit(self.path("c"))), "done")
        self.assertEqual(listing(self.data), ["a", "b"])
        self.assertEqual([j["path"] for j in c.jobs(finished=True)], [os.fsencode(self.path("a")), os.fsencode(self.path("c"))])
        self.assertEqual(self.staged(), [])

    @staticmethod
    def is_proxy(pid):
        with open("/proc/%d/comm" % pid) as f:
            return f.read() == "reclaim-proxy\n"

    def test_attack_12_in_mid_message(self):
        """Of every length: part of a message is none."""
        c = self.daemon.client()
        sent = dbuswire.message(7, {dbuswire.PATH: "/org/reclaimd1", dbuswire.MEMBER: "Submit",
                                    dbuswire.INTERFACE: "org.reclaimd1.Manager"},
                                "aaya{sv}", [os.fsencode(self.path(n)) for n in NAMES], {})
        before = self.proxies()
        for n in list(range(1, len(sent), 29)) + [len(sent) - 1]:
            other = self.daemon.client()
            other.socket.sendall(sent[:n])
            other.close()
        self.until_gone(before)
        self.assertEqual(c.jobs(finished=True), [])
        self.assertEqual(listing(self.data), NAMES)

    def test_attack_12_what_is_in_the_way_is_kept_and_so_is_the_name(self):
        """In doubt it pauses: also with a time in which it could be had back, after which it would go."""
        c = self.closed(undo_usec=HOUR)
        write(self.path("a"), "another")
        self.go_on()
        (job,) = c.jobs()
        self.assertEqual(c.wait_state(job["id"], "paused", "held"), "paused")
        while "could not be put back" not in c.get(job["id"], "Message"):
            pass
        self.assertEqual(listing(self.data), NAMES)
        with open(self.path("a"), encoding="ascii") as f:
            self.assertEqual(f.read(), "another")
        os.rename(self.path("a"), self.path("other"))
        c.call("Cancel", "at", [job["id"]])
        self.assertEqual(listing(self.data), NAMES + ["other"])

    def test_attack_12_without_an_answer_wanted(self):
        """Who asks for none is not withdrawn for want of one."""
        c = self.daemon.again_with_gate("stage:b")
        other = self.daemon.client()
        other.send("SubmitLists", "a(hh)a{sv}", [(0, 1)], {}, fds=[os.open(self.data, os.O_PATH), names_fd()],
                   flags=1)
        self.worker = self.daemon.stopped_worker()
        before = self.proxies()
        other.close()
        self.until_gone(before - 1)
        self.go_on()
        (job,) = c.jobs()
        self.assertEqual(c.wait(job["id"]), "done")

    def test_attack_12_what_the_library_was_not_answered(self):
        """A program that found the name gone must not see it come back: it has gone on by that."""
        c = self.closed(keep_moved=True)
        self.go_on()
        (job,) = c.jobs()
        self.assertEqual(c.wait(job["id"]), "done")
        self.assertEqual(listing(self.data), [])

    def test_attack_12_nothing_was_moved_for_the_library(self):
        self.daemon.configure("staging: off\n")
        c = self.daemon.again_with_gate("stage:none")
        self.assertEqual(c.wait(c.submit(self.path("c"))), "done")  # there is a worker
        other = self.daemon.client()
        workers = [w for w in self.daemon.workers() if not self.is_proxy(w)]
        for w in workers:
            os.kill(w, signal.SIGSTOP)
        before = self.proxies()
        other.send_submit(self.path("a"), keep_moved=True)
        c.jobs()
        other.close()
        self.until_gone(before - 1)
        for w in workers:
            with contextlib.suppress(ProcessLookupError):  # it had ended by then
                os.kill(w, signal.SIGCONT)
        self.assertEqual(c.wait(c.submit(self.path("b"))), "done")
        self.assertEqual(listing(self.data), ["a"])


class Crashes(Case):
    def test_attack_12_daemon_killed_before_it_answers(self):
        """It is on record, and may have been answered: it goes on, and is listed."""
        _, p = self.submit_until_moving("--undo=1h")
        self.daemon.kill()
        self.assertEqual(p.finish().status, 1)
        self.daemon.start()
        c = self.daemon.client()
        (job,) = c.jobs()
        self.assertEqual(c.wait_state(job["id"], "held"), "held")
        c.call("Cancel", "at", [job["id"]])
        self.assertEqual(listing(self.data), NAMES)

    def test_attack_12_daemon_killed_while_it_puts_back(self):
        """It goes on putting back."""
        _, p = self.submit_until_moving(gate="stage:b,restore:b")
        before = self.proxies()
        os.kill(p.pid, signal.SIGKILL)
        p._wait(fixture.TIMEOUT)
        self.until_gone(before - 1)
        self.go_on()
        while self.daemon.stopped_worker() and listing(self.data) != ["a"]:
            pass
        self.daemon.kill()
        self.daemon.start()
        self.check_withdrawn(self.daemon.client())


class OnTheBus(daemon_fixture.OnTheBus, Case):
    def env(self):
        return {"TZ": "UTC"}

    def submit_until_moving(self, *_):
        """A client of the bus submits paths, while b is about to be moved, and a has been."""
        c = self.daemon.again_with_gate("stage:b")
        self.until_named()
        client = dbuswire.Connection(self.bus_path, bus=True, timeout=fixture.TIMEOUT)
        self.addCleanup(client.close)
        client.send("Submit", "aaya{sv}", [os.path.join(self.data, n).encode() for n in NAMES], {})
        self.worker = self.daemon.stopped_worker()
        self.assertEqual(listing(self.data), ["b", "c"])
        return c, client

    def test_attack_12_killed_on_the_bus(self):
        c, client = self.submit_until_moving()
        client.close()
        # The bus tells the daemon of that one's end before it passes this on.
        listed = self.ctl("list", "--json").finish()
        self.assertIn("accepted", listed.out)
        self.go_on()
        self.check_withdrawn(c)

    def test_attack_12_the_bus_goes(self):
        c, _ = self.submit_until_moving()
        self.bus.terminate()
        self.daemon.wait_said("The connection to the message bus is lost")
        self.go_on()
        self.check_withdrawn(c)


if __name__ == "__main__":
    fixture.main()
