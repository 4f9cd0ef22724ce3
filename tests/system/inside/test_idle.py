# SPDX-License-Identifier: LGPL-2.1-or-later
"""A daemon that has nothing to do: what it keeps, and that it sleeps."""

import errno
import os
import pathlib
import select
import time
import unittest

from system import command, configure, install, submit, unit_property

RESIDENT_KIB = 8 << 10
# Longer than what the daemon does by the second; its watchdog is served every 90.
WINDOW_SECONDS = 20
# Workers that have nothing to do end after 30 s, on a busy machine somewhat later.
WORKER_SECONDS = 120


def memory(pid):
    """VmRSS, and the kinds of memory it consists of, in KiB."""
    said = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    found = {line.split()[0].rstrip(":"): int(line.split()[1]) for line in said[1:]}
    return {key: found[key] for key in ("Rss", "Pss", "Anonymous")}


def switches(pid):
    """How often each of its threads has gone to sleep or was made to: the same later, if none was awake."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text(encoding="utf-8")
        found[task.name] = sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)
    return found


class Idle(unittest.TestCase):
    def wait_for_workers(self, daemon):
        """Until they have ended."""
        group = f"/sys/fs/cgroup{unit_property('ControlGroup')}/cgroup.procs"
        for pid in map(int, pathlib.Path(group).read_text(encoding="ascii").split()):
            if pid == daemon:
                continue
            try:
                fd = os.pidfd_open(pid)
            except OSError as e:
                # Ended; in the middle of that its number is valid, but of no process.
                if e.errno not in (errno.ESRCH, errno.EINVAL):
                    raise
                continue
            self.assertTrue(select.select([fd], [], [], WORKER_SECONDS)[0], f"worker {pid} did not end")
            os.close(fd)

    def test_sleeps(self):
        os.mkdir("/backups/.trash", 0o700)
        configure("spools: {/backups/.trash: {settle: 1s}}\n")
        install("deb", 1)
        pid = int(unit_property("MainPID"))
        print("\nafter its start:", memory(pid))
        self.assertLessEqual(memory(pid)["Rss"], RESIDENT_KIB)
        for n in range(100):
            path = f"/backups/{n}"
            pathlib.Path(path).write_bytes(b"x" * 10_000)
            job = submit(path)
        command("reclaimctl", "wait", str(job))
        self.wait_for_workers(pid)
        before = switches(pid)
        # This is what is measured: nothing ends it.
        time.sleep(WINDOW_SECONDS)
        after = switches(pid)
        # In any such time the watchdog may be served once: awake, asleep again.
        woken = sum(after.values()) - sum(before.values())
        print(f"after 100 jobs: {memory(pid)}, {len(after)} threads, woken {woken} times in {WINDOW_SECONDS} s")
        self.assertEqual(set(after), set(before))
        self.assertLessEqual(woken, 2)
        self.assertLessEqual(memory(pid)["Rss"], RESIDENT_KIB)
        self.assertEqual(unit_property("NRestarts"), "0")


if __name__ == "__main__":
    unittest.main()
