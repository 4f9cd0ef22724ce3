# SPDX-License-Identifier: LGPL-2.1-or-later
"""CephFS on this machine: one server of each kind, all data in memory, one mount."""
import json
import os

from servers import ADDRESS, Cluster, run

FSID = "2c5a3f04-77f2-4d6e-9a51-0d2b8d1f6a01"
OSD = "2c5a3f04-77f2-4d6e-9a51-0d2b8d1f6a02"

# Nothing is written outside of the directory, no client has to authenticate, and a pool of one group on
# one OSD is what is wanted, not a warning. A metadata server that is gone is replaced at once.
CONF = """
[global]
fsid = %s
mon initial members = a
mon host = v2:{address}:3300
public network = {address}/32
auth cluster required = none
auth service required = none
auth client required = none
run dir = {dir}
crash dir = {dir}
pid file =
log file =
log to stderr = true
mon cluster log to file = false
setuser match path =
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data = {dir}/mon
mon data avail crit = 1
osd data = {dir}/osd
osd objectstore = memstore
memstore device bytes = 1073741824
mgr data = {dir}/mgr
mds data = {dir}/mds
mds beacon interval = 1
mds beacon grace = 5
[mds]
admin socket = {dir}/mds.asok
[client.mount]
admin socket = {dir}/client.asok
""" % FSID


class CephFS(Cluster):
    """A monitor, a manager, an OSD in memory, a metadata server and ceph-fuse."""

    programs = ("ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse")
    metadata = "mds"

    def __init__(self, directory, latency_usec=0, contents=False, options=()):
        del contents  # there are no files without them
        self.options = options
        super().__init__(directory, latency_usec)

    def ceph(self, *words):
        """What an administrator types."""
        return self.run("ceph", "-c", self.path("ceph.conf"), "--connect-timeout", "60", *words)

    def start_server(self, name, *words):
        """One that stays in the foreground."""
        self.spawn(name, "ceph-" + name, "-f", "-c", self.path("ceph.conf"), *words)

    def start_metadata_server(self):
        """A new one of the same name takes the place of the old at once, reads its journal, and waits
        for its clients to come back."""
        self.start_server("mds", "-i", "a")

    def start(self):
        for name in ("mon", "osd", "mgr", "mds"):
            os.makedirs(self.path(name))
        self.write("ceph.conf", CONF)
        conf = ("-c", self.path("ceph.conf"))
        self.run("ceph-mon", *conf, "-i", "a", "--mkfs")
        self.start_server("mon", "-i", "a")
        self.ceph("osd", "new", OSD, "0")
        self.start_server("mgr", "-i", "a")
        self.run("ceph-osd", *conf, "-i", "0", "--mkfs", "--osd-uuid", OSD)
        self.start_server("osd", "-i", "0")
        for pool in ("metadata", "data"):
            self.ceph("osd", "pool", "create", pool, "1")
        self.ceph("fs", "new", "fs", "metadata", "data")
        self.start_metadata_server()
        self.await_("mds", "active", lambda: "up:active" in self.ceph("mds", "stat"))
        self.mount(*self.client(self.mountpoint, ADDRESS))

    def client(self, mountpoint, address, name="mount"):
        own = () if name == "mount" else ("--admin-socket", self.path(name + ".asok"))
        return ("ceph-fuse", "-f", "-n", "client.mount", "-c", self.path("ceph.conf"), *own, *self.delays(),
                *self.options, mountpoint)

    def delays(self):
        """Each answer of the metadata server comes late: evenly spread, up to twice the mean."""
        if not self.latency_usec:
            return ()
        return ("--ms_inject_delay_type", "mds", "--ms_inject_delay_probability", "1",
                "--ms_inject_delay_max", "%f" % (2 * self.latency_usec / 1e6))

    def counters(self, who):
        """What a daemon or the client has counted."""
        return json.loads(run("ceph", "--admin-daemon", self.path(who + ".asok"), "perf", "dump"))

    def operations(self):
        """What the metadata server was asked for."""
        return {k.removeprefix("req_").removesuffix("_latency"): v["avgcount"]
                for k, v in self.counters("mds")["mds_server"].items() if k.endswith("_latency")}

    def forget(self, seconds=60):
        """Has clients give back what they hold, which is asked of them name by name otherwise when
        another one deletes: 34 entries a second in place of 400. Those that do not answer have so long."""
        self.ceph("tell", "mds.*", "cache", "drop", str(seconds))

    def syncs(self):
        """How often the client was asked for a file or directory to be safe."""
        return self.counters("client")["client"]["fsync"]["avgcount"]
