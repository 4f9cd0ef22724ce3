# SPDX-License-Identifier: LGPL-2.1-or-later
"""What tests of the API have in common: a daemon, with a bus of its own where that is wanted."""
import contextlib
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import unittest

from dbuswire import Connection, Error

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INTERFACE = os.path.join(TOP, "conf/org.reclaimd1.xml")
POLICY = os.path.join(TOP, "conf/org.reclaimd1.conf")
NOBODY = 65534  # dbus-daemon lets no user in who has no account
GROUP = 64997
HOUR = 3600 * 1000 * 1000
SUBMIT = "aha(uay)a{sv}"
JOB = "org.reclaimd1.Job"

BUS_CONFIGURATION = """
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=%s</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <deny own="*"/>
    <deny send_type="method_call"/>
    <allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/>
    <allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/>
    <allow receive_type="method_return"/>
    <allow receive_type="error"/>
    <allow receive_type="signal"/>
    <allow send_destination="org.freedesktop.DBus"/>
  </policy>
  <policy user="root">
    <allow own="org.freedesktop.PolicyKit1"/>
    <allow send_destination="org.freedesktop.PolicyKit1"/>
  </policy>
  <include>%s</include>
</busconfig>
"""


def content(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def ended(process):
    """Waits for the end of a process that was told to."""
    try:
        return process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


class Scratch:
    """A directory with everything of one daemon, its bus, and what it deletes."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="reclaim-bus-")
        # Staging is at the root of a mount: this one's, not the machine's.
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", self.dir], check=True)
        for name, mode in (("state", 0o700), ("run", 0o755), ("conf", 0o755), ("data", 0o755)):
            os.mkdir(self.path(name))
            os.chmod(self.path(name), mode)
        self.bus_path = self.path("bus")
        self.private = self.path("run/private")
        self.daemon = self.broker = None

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self, bus=False):
        """Starts the daemon and waits until it says that it is ready."""
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.settimeout(60)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path("notify"))
        notify.bind(self.path("notify"))
        env = dict(os.environ, NOTIFY_SOCKET=self.path("notify"),
                   DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + self.bus_path)
        with open(self.path("log"), "ab") as log:
            self.daemon = subprocess.Popen(
                [os.environ["RECLAIMD"], "--state-directory=" + self.path("state"),
                 "--runtime-directory=" + self.path("run"),
                 "--configuration-directory=" + self.path("conf"),
                 "--worker=" + os.environ["RECLAIM_WORKER"]] + ([] if bus else ["--no-bus"]),
                env=env, stderr=log)
        with notify:
            while b"READY=1" not in notify.recv(4096):
                pass

    def start_bus(self):
        with open(self.path("bus.conf"), "w", encoding="utf-8") as f:
            f.write(BUS_CONFIGURATION % (self.bus_path, POLICY))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.bus_path)
        self.broker = subprocess.Popen(
            ["dbus-daemon", "--nofork", "--print-address", "--config-file=" + self.path("bus.conf")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.broker.stdout.readline()

    def stop_bus(self):
        if self.broker:
            self.broker.terminate()
            ended(self.broker)
            self.broker.stdout.close()
        self.broker = None

    def stop(self):
        """Ends the daemon as systemd does; a sanitizer's complaint is a failure."""
        status = None
        if self.daemon:
            self.daemon.terminate()
            status = ended(self.daemon)
        self.stop_bus()
        log = content(self.path("log"))
        subprocess.run(["umount", "--lazy", self.dir], check=True)
        os.rmdir(self.dir)
        return status, log

    def client(self):
        return Connection(self.private)

    def file(self, name, owner=0, directory=""):
        at = self.path("data", directory, name)
        with open(at, "w", encoding="utf-8") as f:
            f.write("canary")
        os.chown(at, owner, owner)
        return at

    def submit(self, client, directory, name, **options):
        fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            return client.call("SubmitFiles", SUBMIT, [0], [(0, name.encode())],
                               {k.replace("_", "-"): v for k, v in options.items()},
                               fds=[fd]).body[0]
        finally:
            os.close(fd)

    def wait_for_name(self):
        """A connection to the bus, once the daemon is there."""
        c = Connection(self.bus_path, bus=True)
        driver = {"path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus",
                  "destination": "org.freedesktop.DBus"}
        c.call("AddMatch", "s", "type='signal',member='NameOwnerChanged',arg0='org.reclaimd1'",
               **driver)
        if not c.call("NameHasOwner", "s", "org.reclaimd1", **driver).body[0]:
            c.signal("NameOwnerChanged")
        return c


class Case(unittest.TestCase):
    def setUp(self):
        self.s = Scratch()
        self.addCleanup(self.finish)

    def finish(self):
        status, log = self.s.stop()
        self.assertEqual(status, 0, log)
        self.assertNotIn("Sanitizer", log)

    def refused(self, name, words, client, *args, **kw):
        with self.assertRaises(Error) as caught:
            client.call(*args, **kw)
        self.assertEqual(caught.exception.name, name, caught.exception.text)
        self.assertIn(words, caught.exception.text)

    def lives(self, client=None):
        with contextlib.nullcontext(client) if client else self.s.client() as c:
            c.call("ListJobs", "a{sv}", {})


def main():
    for variable in ("RECLAIMD", "RECLAIM_WORKER"):
        if not os.environ.get(variable):
            sys.exit(variable + " is not set: it names a program to be tested")
    if os.geteuid() != 0:
        print("skipped: only root can be another user", file=sys.stderr)
        sys.exit(77)
    if ctypes.CDLL(None).unshare(0x00020000) != 0:  # CLONE_NEWNS
        sys.exit("no mount namespace can be had")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    unittest.main(verbosity=2)
