#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Hosts of a fleet on one cluster filesystem, each with its own mount of it: what each stages is its own."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import fixture
import fleet
from fixture import fill, listing


class Staging(fleet.Case):
    def trees(self, host, n, files=20):
        """Directories of that host, in the test's; their names."""
        names = [os.path.join(self.name, "%s-%d" % (host.name, k)) for k in range(n)]
        for name in names:
            fill(self.fleet.path(name, "sub"), files)
        return names

    def nothing_is_staged(self):
        def empty():
            return [job for host in self.hosts if os.path.isdir(self.fleet.part(host, "0"))
                    for job in os.listdir(self.fleet.part(host, "0"))] == []

        self.until(empty)

    def no_orphans(self):
        for host in self.hosts:
            self.assertNotIn("of no job", host.daemon.said())
            self.assertNotIn("another reclaimd", host.daemon.said())

    def again(self, host):
        self.assertEqual(host.daemon.stop(), 0, host.daemon.said())
        host.daemon.start()

    def staged(self, host, job):
        c = host.client()
        self.assertEqual(c.get(job, "Inplace"), "")
        at = c.get(job, "Staging").decode()
        self.assertEqual(os.path.dirname(at), os.path.join(host.mountpoint, ".reclaim", "@" + host.name, "0"))
        return os.path.basename(at)

    def test_attack_09_hosts_at_once(self):
        """Each stages and deletes its own, while the other is stopped and started."""
        jobs = {host: [] for host in self.hosts}
        trees = {host: self.trees(host, 6) for host in self.hosts}
        for k in range(6):
            for host in self.hosts:
                held = ("--undo=1h",) if k % 2 else ()
                jobs[host].append(host.submit(trees[host][k], options=held))
            self.again(self.hosts[k % len(self.hosts)])
        for host in self.hosts:
            c = host.client()
            for job in jobs[host][::2]:
                self.assertEqual(c.wait(job), "done", host.daemon.said())
            for job in jobs[host][1::2]:
                self.staged(host, job)
            host.ctl("restore", str(jobs[host][1]))
            for job in jobs[host][3::2]:
                c.call("Cancel", "at", [job])
        self.no_orphans()
        back = [os.path.join("%s-%d" % (host.name, k), "sub") for host in self.hosts for k in (1, 3, 5)]
        self.assertEqual(sorted(d for d in listing(self.fleet.path(self.name)) if d.endswith("/sub")
                                and not d.startswith("canary")), sorted(back))
        for name in back:
            self.assertEqual(len(os.listdir(self.fleet.path(self.name, name))), 20)
        self.nothing_is_staged()

    def test_attack_09_a_host_that_crashed(self):
        """The others leave what it had; in its next boot it goes on."""
        first, second = self.hosts[:2]
        (name,) = self.trees(first, 1)
        job = first.submit(name, options=("--undo=1h",))
        staged = self.fleet.part(first, "0", self.staged(first, job))
        first.crash()
        empty = self.fleet.part(first, "0", "0" * 32)
        os.mkdir(empty, 0o700)
        for _ in range(2):
            self.again(second)
        self.assertTrue(os.path.isdir(empty))
        self.assertEqual(os.listdir(staged), ["1"])
        self.assertNotIn("of no job", second.daemon.said())
        first.daemon.start()
        first.ctl("restore", str(job))
        self.assertEqual(len(os.listdir(self.fleet.path(name, "sub"))), 20)
        first.daemon.wait_gone(empty)
        self.nothing_is_staged()

    def test_attack_09_two_of_one_name(self):
        first, second = self.hosts[:2]
        a, b = self.trees(first, 2)
        job = first.submit(a, options=("--undo=1h",))
        self.assertEqual(second.daemon.stop(), 0)
        second.daemon.configure(self.fleet.configuration(first.name))
        second.daemon.start()
        c = second.client()
        other = second.submit(b)
        self.assertEqual(c.wait(other), "done")
        self.assertIn("another reclaimd has it", c.get(other, "Inplace"))
        second.daemon.wait_said("(on %s, process %d) is called %s in the fleet, too"
                                % (first.name, first.daemon.process.pid, first.name))
        first.ctl("restore", str(job))
        self.assertEqual(len(os.listdir(self.fleet.path(a, "sub"))), 20)

    def test_put_back_never_over_another(self):
        """Also where the filesystem cannot rename without replacing."""
        first, second = self.hosts[:2]
        kinds = ("empty directory", "directory", "file")
        for kind, name in zip(kinds, self.trees(first, len(kinds))):
            job = first.submit(name, options=("--undo=1h",))
            self.staged(first, job)
            at = second.path(name)
            if kind == "file":
                os.mknod(at)
            else:
                fill(at, kind == "directory")
            c = first.client()
            with self.assertRaises(RuntimeError):
                first.ctl("restore", str(job))
            self.assertEqual(c.job(job)["state"], "held", kind)
            self.assertEqual(os.path.isdir(at) and os.listdir(at),
                             {"directory": ["f00000"], "empty directory": [], "file": False}[kind])
            fixture.command("rm", "-r", at)
            self.until(lambda at=first.path(name): not os.path.lexists(at))
            first.ctl("restore", str(job))
            self.assertEqual(len(os.listdir(self.fleet.path(name, "sub"))), 20)
            fixture.command("rm", "-r", self.fleet.path(name))


if __name__ == "__main__":
    fixture.main()
