#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a purge of the package removes of staging, and what it leaves: the script of the .deb itself, which sees only the
mounts of this test, and an empty /var/lib."""
import os
import shutil
import subprocess

import contents
import fixture
import test_fleet_staging
from fixture import command, write

PACKAGING = os.path.join(fixture.HERE, "..", "..", "contrib", "packaging")
POSTRM = os.path.join(PACKAGING, "debian", "reclaimd.postrm")

FINDMNT = """#!/bin/sh
case "$*" in
*ceph*) echo "$SHARED" ;;
*) exec %s "$@" | grep -xF -- "$LOCAL" ;;
esac
"""
PURGE = """set -e
mount -t tmpfs tmpfs /var/lib
[ ! -d /etc/reclaimd ] || mount -t tmpfs tmpfs /etc/reclaimd
mkdir /var/lib/reclaimd
: >/var/lib/reclaimd/nothing-left
exec sh %s purge
"""


class Purge(test_fleet_staging.Case):
    """This machine is host a, and b is another one."""

    def purge(self, local="", shared="/nowhere"):
        """What it says."""
        programs, said = os.path.join(self.daemon.dir, "programs"), os.path.join(self.daemon.dir, "said")
        os.makedirs(programs, exist_ok=True)
        write(os.path.join(programs, "findmnt"), FINDMNT % shutil.which("findmnt"))
        os.chmod(os.path.join(programs, "findmnt"), 0o755)
        with open(said, "w", encoding="utf-8") as f:
            # Nothing waits for a process that hangs and has this open.
            subprocess.run(["unshare", "-m", "sh", "-c", PURGE % POSTRM], stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                           check=True, env=dict(os.environ, PATH=programs + ":" + os.environ["PATH"], LOCAL=local, SHARED=shared))
        with open(said, encoding="utf-8") as f:
            return f.read()

    def deletes(self, daemon, name):
        """After which its part is there, and nothing in it."""
        write(self.path(name))
        c = daemon.client()
        self.assertEqual(c.wait(c.submit(self.path(name))), "done", daemon.said())
        daemon.stop()

    def of_a_fleet(self):
        """Hosts that have joined have made it."""
        if not os.path.isdir(os.path.join(self.top, "id")):
            os.makedirs(os.path.join(self.top, "id", "1" * 32), 0o700)

    def on_another_machine(self, host):
        locks = os.path.join(self.part(host), "lock")
        (lock,) = os.listdir(locks)
        words = lock.split(".")
        words[2] = "f" * 32
        os.rename(os.path.join(locks, lock), os.path.join(locks, ".".join(words)))

    def id_is_kept(self):
        return "reclaimd: %s/id is kept: other hosts of the fleet know the filesystem by it.\n" % self.top

    def test_of_the_last_host(self):
        """Whether looking there can hang, or not."""
        for where in ({"local": self.root}, {"shared": self.root}):
            self.deletes(self.daemon, "file")
            self.of_a_fleet()
            os.makedirs(os.path.join(self.part("a"), "marks"), 0o700, exist_ok=True)
            self.assertEqual(self.purge(**where), "")
            self.assertFalse(os.path.exists(self.top))
            self.daemon.start()

    def test_of_another_host_stays(self):
        self.called("b", self.second)
        self.deletes(self.second, "second")
        self.on_another_machine("b")
        self.deletes(self.daemon, "first")
        self.of_a_fleet()
        # One that is being made, and has no lock yet.
        os.mkdir(self.part("c"))
        before = contents.fingerprint(os.fsencode(self.part("b")))
        self.assertEqual(self.purge(self.root), self.id_is_kept())
        self.assertEqual(sorted(os.listdir(self.top)), ["@b", "@c", "id"])
        self.assertEqual(contents.fingerprint(os.fsencode(self.part("b"))), before)

    def test_of_a_host_that_has_no_part(self):
        """Others may have joined that have none, either."""
        self.daemon.stop()
        if os.path.isdir(self.top):
            fixture.remove(self.top)
        os.mkdir(self.top, 0o711)
        self.of_a_fleet()
        self.assertEqual(self.purge(self.root), self.id_is_kept())
        self.assertEqual(os.listdir(self.top), ["id"])

    def test_what_is_not_empty_stays(self):
        self.held("mine")
        self.daemon.stop()
        self.of_a_fleet()
        before = contents.fingerprint(os.fsencode(self.top))
        self.assertEqual(self.purge(self.root), "reclaimd: %s is kept: it is not empty. Look through it, and delete it by hand.\n"
                         % self.part("a") + self.id_is_kept())
        self.assertEqual(contents.fingerprint(os.fsencode(self.top)), before)

    def test_in_no_fleet(self):
        """At a mount point whose name has a blank."""
        self.called(None)
        self.data = os.path.join(self.daemon.dir, "a blank")
        os.mkdir(self.data)
        command("mount", "-t", "tmpfs", "tmpfs", self.data)
        self.addCleanup(fixture.unmount, self.data)
        self.deletes(self.daemon, "file")
        top = os.path.join(self.data, ".reclaim")
        self.assertEqual(sorted(os.listdir(top)), ["0", "lock"])
        self.assertEqual(self.purge(self.data), "")
        self.assertFalse(os.path.exists(top))

    def test_what_does_not_answer_is_not_waited_for(self):
        self.daemon.stop()
        trigger = os.path.join(self.daemon.dir, "trigger")
        at = self.mount_hangfs(os.path.join(self.daemon.dir, "hangs"), "look", trigger)
        write(trigger)
        self.assertEqual(self.purge(shared=at), "reclaimd: %s/.reclaim is kept: its filesystem does not answer.\n" % at)

    def test_the_rpm_does_the_same(self):
        first, last = "# Staging directories that are empty go.", "\n}\n\n"
        functions = []
        for path in (POSTRM, os.path.join(PACKAGING, "reclaimd.spec")):
            with open(path, encoding="utf-8") as f:
                text = f.read()
            text = text[text.index(first):]
            text = text[:text.index(last, text.index("remove_staging() {"))]
            functions.append([line.strip().replace("%%", "%") for line in text.splitlines()])
        self.assertEqual(*functions)


if __name__ == "__main__":
    fixture.main()
