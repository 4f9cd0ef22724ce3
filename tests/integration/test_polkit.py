#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is another's takes more than asking: where polkit is absent, or thinks for ever, the answer
is no, at once, and nobody else notices.

  RECLAIMD, RECLAIM_WORKER   the programs under test (required)"""
import os

import test_bus
from dbuswire import Connection

POLKIT = "org.freedesktop.PolicyKit1"
DRIVER = {"path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus",
          "destination": "org.freedesktop.DBus"}


class OthersJobs(test_bus.Case):
    def setUp(self):
        super().setUp()
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        self.canary = self.s.file("roots")
        with self.s.client() as root:
            self.job = self.s.submit(root, self.s.path("data"), "roots", undo_usec=("t", test_bus.HOUR))

    def stranger(self):
        with test_bus.user(test_bus.NOBODY):
            return Connection(self.s.bus_path, bus=True)

    def calls(self):
        return (("Cancel", "at", [self.job]), ("Pause", "at", [self.job]), ("Resume", "at", [self.job]),
                ("Restore", "ta{sv}", self.job, {}), ("GetJob", "t", self.job))

    def check_held(self):
        with self.s.client() as root:
            (job,) = root.call("ListJobs", "a{sv}", {}).body[0]
            self.assertEqual(job[1], "held")
            root.call("Restore", "ta{sv}", self.job, {})
        self.assertTrue(os.path.exists(self.canary))

    def test_30_no_polkit(self):
        with self.stranger() as c:
            for call in self.calls():
                self.refused("NoSuchJob", "", c, *call)
            for call in (("PauseAll", ""), ("Reload", "")):
                self.refused("NotAuthorized", "", c, *call)
        self.check_held()

    def test_29_client_gone_while_polkit_thinks(self):
        """It never answers; who asked is gone; others are served, and nothing was done."""
        with Connection(self.s.bus_path, bus=True) as polkit:
            polkit.call("RequestName", "su", POLKIT, 4, **DRIVER)
            for call in self.calls():
                c = self.stranger()
                c.send(*call)
                c.close()
            with self.stranger() as c:
                self.assertEqual(c.call("ListJobs", "a{sv}", {}).body[0], [])
            self.check_held()


if __name__ == "__main__":
    test_bus.main()
