#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pacing windows: spans of the week in which jobs go slower, or do not run. When a window begins and ends
is tested by unit-pacing-windows; here, that jobs go by it. The daemon gets a time zone of its own, in which
the clock shows what the test wants."""
import json
import os
import time

import daemon_fixture
import fixture
from fixture import Proc, command, fill, scratch, write

SPAN = "12:00..13:00"
NOON = 12 * 3600


def zone(shows, seconds=0):
    """In so many seconds the clock shows this second of the day there."""
    east = (shows - int(time.time()) - seconds) % 86400
    return "TST-%02d:%02d:%02d" % (east // 3600, east // 60 % 60, east % 60)


def windows(rate, span=SPAN, further=""):
    return 'pacing: {windows: {"%s": {rate: %s}}}\n%s' % (span, rate, further)


class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.begin(NOON + 1800)

    def begin(self, shows, seconds=0):
        """The daemon again, and its client."""
        self.daemon.stop()
        self.zone = zone(shows, seconds)
        self.daemon.start(env={"TZ": self.zone})
        self.client = self.daemon.client()

    def reload(self, config):
        self.daemon.configure(config)
        self.client.call("Reload")

    def told(self, name):
        return self.client.call("Get", "ss", "org.reclaimd1.Manager", name,
                                interface="org.freedesktop.DBus.Properties").body[0]

    def ctl(self, *args):
        env = {"RECLAIMD_RUNTIME_DIRECTORY": os.path.dirname(self.daemon.socket), "TZ": self.zone}
        p = Proc([scratch.binary, *args], self.data, env=env)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, 0, r)
        return r.out

    def begun(self, entries):
        """A job that has deleted something, and will take a while."""
        fill(self.path("t"), entries)
        number = self.client.submit(self.path("t"))
        self.until(lambda: self.client.job(number)["done"] > 0)
        return number

    def check_rate(self, number, entries):
        """It goes on, and deletes no more than so many in a second. What was granted before is done first."""
        began = time.monotonic()
        self.until(lambda: time.monotonic() > began + 1)
        before = self.client.job(number)
        self.until(lambda: time.monotonic() > began + 3)
        now = self.client.job(number)
        self.assertEqual((before["state"], now["state"]), ("running", "running"))
        self.assertLess(now["done"] - before["done"], entries * (time.monotonic() - began))

    def done(self, number):
        self.assertEqual(self.client.wait(number), "done")


class Paused(Case):
    config = windows("paused")

    def test_jobs_wait_and_go_on(self):
        write(self.path("f"))
        number = self.client.submit(self.path("f"))
        self.assertFalse(os.path.exists(self.path("f")))
        self.assertEqual((self.told("PacingWindow"), self.told("PacingWindowRate")), (SPAN, 0))
        said = "12:00..13:00: no job runs, but where free space is short, until "
        self.assertIn("Pacing window: " + said, self.ctl("status"))
        self.assertIn("Window: " + said, self.ctl("show", str(number)))
        self.assertEqual(json.loads(self.ctl("status", "--json"))["pacing_window"], SPAN)
        metrics = self.ctl("metrics")
        self.assertIn("\nreclaimd_pacing_window 1\nreclaimd_pacing_window_rate_bytes 0\n",
                      "\n".join(l for l in ("", *metrics.splitlines(), "") if not l.startswith("#")))
        self.assertEqual(self.client.job(number)["state"], "queued")
        self.reload("")
        self.done(number)
        self.assertEqual((self.told("PacingWindow"), self.told("PacingWindowUntilUSec")), ("", 0))
        self.assertNotIn("Pacing window", self.ctl("status"))

    def test_it_outlives_a_restart(self):
        write(self.path("f"))
        number = self.client.submit(self.path("f"))
        self.begin(NOON + 1800)
        self.assertEqual(self.client.job(number)["state"], "queued")
        self.begin(NOON - 1800)
        self.done(number)

    def test_it_goes_before_a_deadline(self):
        write(self.path("f"))
        deadline = time.time() + 1
        number = self.client.submit(self.path("f"), deadline_usec=int(deadline * 1000000))
        self.until(lambda: time.time() > deadline + 1)
        self.assertEqual(self.client.job(number)["state"], "queued")
        self.reload("")
        self.done(number)

    def test_it_ends_by_itself(self):
        for seconds in (3, 10, 30):
            self.begin(13 * 3600, seconds)
            write(self.path("f"))
            number = self.client.submit(self.path("f"))
            until, state = self.told("PacingWindowUntilUSec"), self.client.job(number)["state"]
            self.done(number)
            # Where all is slow, it had ended before.
            if state == "queued" and until < time.time() * 1000000:
                return
        self.fail("no job was seen to wait")


class Running(Case):
    """Jobs that run already: without a window, so slowly that they would take minutes."""

    slowly = "pacing: {max-rate: 256KiB/s, min-rate: 64KiB/s, windows: {%s}}\n"
    config = slowly % ""

    def test_they_stop_and_go_on(self):
        number = self.begun(20000)
        self.reload(windows("paused"))
        self.client.wait_state(number, "queued")
        done = self.client.job(number)["done"]
        self.assertGreater(done, 0)
        self.assertLess(done, 20001)
        self.reload("")
        self.done(number)
        self.assertEqual(self.client.job(number)["done"], 20001)

    def test_a_window_begins_by_itself(self):
        for seconds in (5, 15, 45):
            self.daemon.configure(self.slowly % ('"%s": {rate: paused}' % SPAN))
            self.begin(NOON, seconds)
            number = self.begun(20000)
            ran = self.told("PacingWindow") == ""
            self.client.wait_state(number, "queued")
            self.client.call("Cancel", "at", [number])
            self.client.wait(number)
            if ran:
                self.assertEqual(self.told("PacingWindow"), SPAN)
                return
        self.fail("no job was seen to run before")


class Rate(Case):
    config = windows("64KiB/s")

    def test_jobs_go_slower_until_it_ends(self):
        # An entry counts as 4 KiB: in the window it would take 20 minutes.
        number = self.begun(20000)
        self.assertIn(SPAN + ": at most 64.0 KiB/s until ", self.ctl("status"))
        self.check_rate(number, 16)
        self.reload("")
        self.done(number)

    def test_a_running_job_gets_it_at_once(self):
        self.reload("pacing: {max-rate: 256KiB/s, min-rate: 64KiB/s}\n")
        number = self.begun(20000)
        self.reload(windows("8KiB/s"))
        self.check_rate(number, 2)
        self.reload("")
        self.done(number)

    def check_from_full_speed(self, latency):
        """A job that nothing holds up; if it has nearly ended before the window begins, a longer one."""
        pacing = "pacing: {latency: %s, windows: {%%s}}\n" % latency
        for entries in (20000, 80000, 320000):
            self.reload(pacing % '"00:00..00:01": {rate: 64KiB/s}')
            number = self.begun(entries)
            self.reload(pacing % ('"%s": {rate: 64KiB/s}' % SPAN))
            if self.client.job(number)["done"] < entries // 2:
                self.check_rate(number, 16)
                self.reload(pacing % "")
                self.done(number)
                return
        self.fail("no job was seen to run")

    def test_from_full_speed(self):
        self.check_from_full_speed("auto")

    def test_where_nothing_else_is_paced(self):
        self.check_from_full_speed("off")


class Short(Case):
    urgent = "urgent: {below: 20%, until: 30%}\n"
    config = windows("paused", further=urgent)

    def setUp(self):
        super().setUp()
        self.mount_disk(size=64 << 20)

    def leave_free(self, percent):
        free = os.statvfs(self.data)
        with open(self.path("filler"), "ab") as f:
            size = f.tell() + (free.f_bavail - free.f_blocks * percent // 100) * free.f_frsize
            f.truncate(min(size, f.tell()))
            os.posix_fallocate(f.fileno(), 0, size)

    def test_space_goes_before_a_pause(self):
        # What is known of a filesystem lasts as long as there are jobs there.
        write(self.path("paused"))
        self.client.call("Pause", "at", [self.client.submit(self.path("paused"))])
        fill(self.path("t"), 100)
        number = self.client.submit(self.path("t"))
        self.assertEqual(self.client.job(number)["state"], "queued")
        self.leave_free(10)
        self.done(number)
        # Still less than `until`: a job that comes now is not what it was short for.
        self.leave_free(25)
        self.until(self.next_one_waits)

    def test_13_a_way_to_a_mount_that_hangs(self):
        """A user moves a directory above the mount, and puts a symbolic link in its place: nothing tells the daemon, and
        asking for free space by the old path would not end."""
        hangs = self.mount_hanging()
        above, disk = os.path.join(self.daemon.dir, "above"), self.data
        self.data = os.path.join(above, "disk")
        os.makedirs(self.data)
        command("mount", "--bind", disk, self.data)
        self.addCleanup(command, "umount", "-l", self.data)
        write(self.path("f"))
        number = self.client.submit(self.path("f"))
        self.addCleanup(os.rename, above + "-was", above)
        self.addCleanup(os.unlink, above)
        os.rename(above, above + "-was")
        os.symlink(hangs, above)
        # It looks each second.
        time.sleep(2.5)
        self.assertEqual(self.client.job(number)["state"], "queued")

    def next_one_waits(self):
        """Whether a job that is submitted now does; one that comes before the daemon has seen that there is enough
        space again does not."""
        write(self.path("one"))
        number = self.client.submit(self.path("one"))
        time.sleep(1.5)
        return self.client.job(number)["state"] == "queued"

    def test_what_was_short_in_a_window_is_not_in_the_next(self):
        self.leave_free(10)
        fill(self.path("t"), 100)
        self.done(self.client.submit(self.path("t")))
        # Before the daemon looks again.
        self.reload(self.urgent)
        self.leave_free(25)
        self.client.call("PauseAll")
        write(self.path("one"))
        number = self.client.submit(self.path("one"))
        self.reload(self.config)
        self.client.call("ResumeAll")
        time.sleep(1.5)
        self.assertEqual(self.client.job(number)["state"], "queued")


if __name__ == "__main__":
    fixture.main()
