#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a reclaimd is asked for in the emulated machine while its disks' writes are logged: load.py PLAN.

Disks are in pairs: the filesystem's own, and that of its log. With every step a mark is set in each of
the logs, before something is asked for and after it was answered; so everything that a log has before a
mark was on the disk by then, and nothing else must have been. Says what was asked and answered, a line
each, with the number of the mark."""
import fcntl
import json
import os
import struct
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
from daemon_fixture import Daemon
from fixture import command, scratch

HOUR = 3600 * 1000000
DM_TARGET_MSG = 0xC138FD0E
DM_HEADER = struct.Struct("=3I2IIiIIIQ128s129s7x")  # struct dm_ioctl
TICK_SECONDS = 0.02


class Logged:
    """A disk whose writes are logged, mounted where the plan says."""

    def __init__(self, number, plan):
        disk, log = ("/dev/vd" + "abcdefgh"[2 * number + i] for i in (0, 1))
        self.name, self.at = "logged%d" % number, plan["at"]
        sectors = command("blockdev", "--getsz", disk).strip()
        command("dmsetup", "create", self.name, "--table", "0 %s log-writes %s %s" % (sectors, disk, log))
        command("mount", "-t", plan["fs"], "/dev/mapper/" + self.name, self.at)
        self.control = os.open("/dev/mapper/control", os.O_RDWR)

    def mark(self, number):
        text = struct.pack("=Q", 0) + b"mark %d\0" % number
        size = DM_HEADER.size + len(text)
        fcntl.ioctl(self.control, DM_TARGET_MSG, bytearray(
            DM_HEADER.pack(4, 0, 0, size, DM_HEADER.size, 0, 0, 0, 0, 0, 0, self.name.encode(), b"") + text))

    def close(self):
        command("umount", self.at)
        command("dmsetup", "remove", self.name)


class Marks:
    """The same mark in all logs, twice: what has not changed in the first from the one to the other was
    so when those of the others were set."""

    def __init__(self, disks):
        self.disks, self.number = disks, 0
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()

    def set(self):
        with self.lock:
            self.number += 1
            for disk in self.disks * 2:
                disk.mark(self.number)
            return self.number

    def go_on(self):
        while not self.over.wait(TICK_SECONDS):
            self.set()

    def close(self):
        self.over.set()
        self.thread.join()


class Load:
    def __init__(self, plan, marks, daemon):
        self.plan, self.marks, self.daemon = plan, marks, daemon
        self.clients = {}

    def client(self, uid):
        if uid not in self.clients:
            self.clients[uid] = self.daemon.client(uid)
        return self.clients[uid]

    def say(self, what, victim, job=0):
        print(json.dumps({"mark": self.marks.set(), "what": what, "victim": victim, "job": job}), flush=True)

    def ask(self, number, victim):
        c = self.client(victim["uid"])
        self.say("sent", number)
        job = c.submit(*victim["paths"], undo_usec=0 if victim["kind"] == "plain" else HOUR)
        self.say("taken", number, job)
        if victim["kind"] == "back":
            c.call("Restore", "ta{sv}", job, {})
        elif victim["kind"] == "cancel":
            c.call("Cancel", "at", [job])
        else:
            return
        self.say("back", number, job)

    def run(self):
        for number, victim in enumerate(self.plan["victims"]):
            self.ask(number, victim)
        c = self.client(0)
        for job in c.jobs(states=["accepted", "queued", "running"]):
            c.wait(job["id"])
        self.say("over", 0)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        plan = json.load(f)
    for module in ("dm-log-writes", "ext4", "xfs", "btrfs"):
        command("modprobe", "-d", os.environ["RECLAIM_KERNEL"], module)
    scratch.open()
    os.environ["DM_DISABLE_UDEV"] = "1"
    disks = [Logged(i, disk) for i, disk in enumerate(plan["disks"])]
    # What measures flushes the disks, and so hides what else does not.
    daemon = Daemon(state=plan["state"], config="pacing: {latency: off}\n").start()
    marks = Marks(disks)
    try:
        Load(plan, marks, daemon).run()
    finally:
        marks.close()
        daemon.kill()
        sys.stderr.write(daemon.said())
    for disk in disks:
        disk.close()


if __name__ == "__main__":
    main()
