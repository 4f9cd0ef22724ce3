# SPDX-License-Identifier: LGPL-2.1-or-later
"""A fleet on this machine: hosts that mount one cluster filesystem, each with a daemon of its own, and a
PostgreSQL.

A host is a network, a mount and a UTS namespace: it has a link and an address, its own mount of the
filesystem (at the same path on all), a host name, a machine ID and a boot ID. The servers are in the
namespace of the cluster (servers.py), which has a bridge to the hosts' links:

  10.77.0.1   the filesystem's servers, behind the delay if there is one
  10.77.0.2   PostgreSQL
  10.77.1.N   host N, 10.77.1.254 the bridge

Everything is a child of this process and ends with it. The test itself sees the filesystem by the cluster's
own mount, which no host has.
"""
import contextlib
import ctypes
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import unittest
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
import contents
import daemon_fixture
import fixture
import postgres
import servers
from fixture import scratch

DATABASE = "10.77.0.2"
PR_SET_PDEATHSIG = 1
PATIENCE = 120

# What makes a namespace a host: $1 its directory, $2 its name, and then what it must not see.
HOST = """
set -e
mount --bind "$1/machine-id" /etc/machine-id
mount --bind "$1/boot-id" /proc/sys/kernel/random/boot_id
hostname "$2"
ip link set lo up
shift 2
for path; do umount -l "$path"; done
echo ready
exec sleep infinity
"""


def ends_with_its_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def run(*words, **kw):
    """Its output, which is the error message."""
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                       check=False, **kw)
    if p.returncode:
        raise RuntimeError("%s: %s" % (" ".join(words), p.stdout))
    return p.stdout


class HostDaemon(daemon_fixture.Daemon):
    def __init__(self, host, config=""):
        self.host = host
        super().__init__(config=config)

    def words(self):
        return [*self.host.enter, *super().words()]


class Host:
    """Up and mounted when it is made; its daemon is started by start()."""

    SCRIPT = HOST
    NAMESPACES = ("net", "mount", "uts")

    def __init__(self, fleet, number):
        self.fleet = fleet
        self.number = number
        self.name = "h%d" % number
        self.address = "10.77.1.%d" % number
        self.dir = os.path.join(fleet.dir, self.name)
        self.mountpoint = fleet.mountpoint
        self.client_process = None
        os.mkdir(self.dir)
        self.write("machine-id", uuid.uuid4().hex + "\n")
        self.boot()
        self.holder = subprocess.Popen(
            ["unshare", *("--" + name for name in self.NAMESPACES), "--propagation", "private", "sh", "-c",
             self.SCRIPT, "host", self.dir, self.name, fleet.cluster.mountpoint],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=ends_with_its_parent)
        said = self.holder.stdout.readline()
        if said != "ready\n":
            raise servers.Missing("no host: " + said + self.holder.stdout.read())
        self.enter = ["nsenter", "-t", str(self.holder.pid), *("--" + name for name in self.NAMESPACES), "--"]
        self.link_make()
        self.mount()
        self.daemon = HostDaemon(self)

    def write(self, name, text):
        # In place: it is what is mounted.
        with open(os.path.join(self.dir, name), "w", encoding="ascii") as f:
            f.write(text)

    def boot(self):
        """The host's boot is another from now on."""
        self.write("boot-id", str(uuid.uuid4()) + "\n")

    def run(self, *words, **kw):
        return run(*self.enter, *words, **kw)

    def link_make(self):
        inside = self.fleet.cluster
        inside.run("ip", "link", "add", "name", self.name, "type", "veth",
                   "peer", "name", "eth0", "netns", str(self.holder.pid))
        inside.run("ip", "link", "set", self.name, "master", "br0", "up")
        self.run("ip", "address", "add", self.address + "/16", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    # ---- what is cut off, and back again

    def cut(self, *addresses):
        """What is sent there is lost from now on; nothing given: the link is down."""
        for address in addresses:
            self.run("ip", "route", "add", "blackhole", address)
        if not addresses:
            self.run("ip", "link", "set", "eth0", "down")

    def cut_database(self):
        self.cut(DATABASE)

    def cut_filesystem(self):
        self.cut(servers.ADDRESS)

    def join(self):
        """All can be reached again."""
        for address in (DATABASE, servers.ADDRESS):
            subprocess.run([*self.enter, "ip", "route", "del", "blackhole", address],
                           stderr=subprocess.DEVNULL, check=False)
        self.run("ip", "link", "set", "eth0", "up")

    # ---- its mount

    def is_mounted(self):
        with open("/proc/%d/mountinfo" % self.holder.pid, encoding="utf-8", errors="replace") as f:
            return any(line.split()[4] == self.mountpoint for line in f)

    def mount(self):
        log = os.path.join(self.dir, "mount.log")
        words = [*self.enter, *self.fleet.cluster.client(self.mountpoint, self.address, self.name)]

        def mounted():
            if not self.client_process or self.client_process.poll() is not None:
                with open(log, "w", encoding="utf-8") as f:
                    self.client_process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=f,
                                                           stderr=subprocess.STDOUT,
                                                           preexec_fn=ends_with_its_parent)
            return self.is_mounted()

        servers.wait_until("%s: %s" % (self.name, log), mounted, PATIENCE)

    def client_has_ended(self):
        return self.client_process is not None and self.client_process.poll() is not None

    def mount_again(self):
        """As an administrator does when the client has ended. Returns what it has said."""
        with open(os.path.join(self.dir, "mount.log"), encoding="utf-8", errors="replace") as f:
            said = "status %d: %s" % (self.client_process.returncode, f.read()[-1000:])
        self.run("umount", "-l", self.mountpoint)
        self.mount()
        return said

    def path(self, *names):
        """As this process sees what is there on the host."""
        return os.path.join("/proc/%d/root" % self.holder.pid + self.mountpoint, *names)

    # ---- its daemon

    def start(self, config="", **env):
        self.daemon.configure(self.fleet.configuration(self.name) + config)
        self.daemon.start(env)
        return self.daemon.client()

    def client(self):
        return self.daemon.client()

    def ctl(self, *words):
        return run(*self.enter, scratch.binary, *words,
                   env=dict(os.environ, LC_ALL="C",
                            RECLAIMD_RUNTIME_DIRECTORY=os.path.dirname(self.daemon.socket)))

    def submit(self, *names, options=()):
        """Names on the filesystem; the number of their job."""
        said = self.ctl("submit", "--json", *options, *(os.path.join(self.mountpoint, n) for n in names))
        (job,) = json.loads(said)["jobs"]
        return job

    def crash(self):
        """The host goes down at once, and is up again, in another boot, without its daemon."""
        if self.daemon.process:
            # reclaim-fleet among them, which would take leave of the database if it saw the daemon end.
            children = self.daemon.workers()
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
            self.daemon.kill()
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        for c in self.daemon.clients:
            c.close()
        self.daemon.clients = []
        self.boot()

    def stop(self):
        if self.daemon.process and self.daemon.process.poll() is None:
            self.daemon.kill()
        for process in (self.client_process, self.holder):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        self.holder.stdout.close()


class Database:
    """PostgreSQL, which takes any user from the hosts."""

    def __init__(self, fleet):
        found = sorted(shutil.which("initdb", path=os.path.join("/usr/lib/postgresql", v, "bin")) or ""
                       for v in (os.listdir("/usr/lib/postgresql") if os.path.isdir("/usr/lib/postgresql") else ()))
        if not found or not found[-1]:
            raise servers.Missing("PostgreSQL is not installed")
        self.fleet = fleet
        self.programs = os.path.dirname(found[-1])
        self.dir = os.path.join(fleet.dir, "database")
        self.process = None
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError as e:
            raise servers.Missing("there is no user postgres") from e
        self.as_owner = ["setpriv", "--reuid", str(owner.pw_uid), "--regid", str(owner.pw_gid), "--clear-groups",
                         "--pdeathsig", "KILL"]
        os.mkdir(self.dir, 0o700)
        os.chown(self.dir, owner.pw_uid, owner.pw_gid)
        run(*self.as_owner, os.path.join(self.programs, "initdb"), "-D", self.dir, "-A", "trust", "-U", "postgres",
            "--no-sync", "--no-locale", "-E", "UTF8", cwd="/")
        with open(os.path.join(self.dir, "pg_hba.conf"), "a", encoding="ascii") as f:
            f.write("host all all 10.77.0.0/16 trust\n")
        self.start()
        self.sql("CREATE DATABASE reclaimd")
        self.init()

    def start(self):
        log = os.path.join(self.fleet.dir, "database.log")
        with open(log, "ab") as f:
            self.process = subprocess.Popen(
                [*self.as_owner, os.path.join(self.programs, "postgres"), "-D", self.dir, "-k", self.dir,
                 "-c", "listen_addresses=" + DATABASE],
                cwd="/", stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                preexec_fn=self.fleet.cluster.network.enter)

        def ready():
            if self.process.poll() is not None:
                with open(log, encoding="utf-8", errors="replace") as said:
                    raise RuntimeError("postgres ended: " + said.read())
            return subprocess.run([os.path.join(self.programs, "pg_isready"), "-q", "-h", self.dir],
                                  check=False, cwd="/").returncode == 0

        servers.wait_until("postgres", ready, PATIENCE)

    def init(self):
        """The tables, and a role that all hosts join as."""
        program = os.path.join(os.path.dirname(os.environ["RECLAIMD"]), "reclaim-fleet")
        if not os.path.exists(program):
            raise servers.Missing("built without reclaim-fleet")
        run(program, "init", env=dict(os.environ, RECLAIM_FLEET_DATABASE="host=%s user=postgres dbname=reclaimd" % self.dir))
        self.sql("CREATE ROLE reclaimd LOGIN IN ROLE reclaimd_host", "reclaimd")

    def sql(self, text, database="postgres"):
        """What an administrator types; the rows as text."""
        return run(os.path.join(self.programs, "psql"), "-h", self.dir, "-U", "postgres", "-d", database,
                   "-v", "ON_ERROR_STOP=1", "-Atqc", text, cwd="/")

    def kill(self):
        """As a machine that is gone: its processes have no time for anything."""
        postgres.kill_whole(self.process, self.dir)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


class Fleet:
    """Hosts on one filesystem of that kind; with a database, once it is wanted."""

    def __init__(self, kind, directory, latency_usec=1000, **options):
        self.dir = directory
        self.hosts = []
        self.database = None
        self.mountpoint = os.path.join(directory, "shared")
        os.mkdir(self.mountpoint)
        where = os.path.join(directory, "cluster")
        os.mkdir(where)
        self.cluster = servers.kind(kind)(where, latency_usec=latency_usec, contents=True, **options)
        try:
            self.bridge()
        except BaseException:
            self.stop()
            raise

    def bridge(self):
        for words in ("link add name br0 type bridge", "address add 10.77.1.254/16 dev br0",
                      "address add %s/32 dev lo" % DATABASE, "link set br0 up"):
            try:
                self.cluster.run("ip", *words.split())
            except RuntimeError as e:
                raise servers.Missing("no bridge between namespaces: %s" % e) from e

    def grow(self, n):
        """Until it has so many hosts; the first n."""
        while len(self.hosts) < n:
            self.hosts.append(Host(self, len(self.hosts) + 1))
        return self.hosts[:n]

    def with_database(self):
        if not self.database:
            try:
                self.database = Database(self)
            except servers.Missing as e:
                raise unittest.SkipTest(str(e)) from e
        return self.database

    def configuration(self, name):
        return ('fleet:\n  database: "host=%s dbname=reclaimd user=reclaimd connect_timeout=5"\n  name: %s\n'
                "  filesystems: {%s: shared}\n" % (DATABASE, name, self.mountpoint))

    def path(self, *names):
        """On the filesystem, as no host sees it."""
        return os.path.join(self.cluster.mountpoint, *names)

    def part(self, host, *names):
        """Of that host's part of staging."""
        return self.path(".reclaim", "@" + host.name, *names)

    def stop(self):
        """Whatever state it is in."""
        for host in self.hosts:
            host.stop()
        if self.database:
            self.database.stop()
        self.cluster.stop()


def fleet(kind, **options):
    """One for all tests of a file."""
    scratch.open()
    if "fleet" not in scratch.mounted:
        at = os.path.join(scratch.dir, "fleet")
        os.mkdir(at)
        try:
            made = Fleet(kind, at, **options)
        except servers.Missing as e:
            raise unittest.SkipTest(str(e)) from e
        scratch.clusters.append(made)
        scratch.mounted["fleet"] = made
        contents.stale_directories = True
    return scratch.mounted["fleet"]


class Case(unittest.TestCase):
    """The hosts' daemons run, each with a state of its own for each test, and a canary is beside all."""

    HOSTS = 2
    DATABASE = False
    ENVIRONMENT = {}  # of the daemons
    FS = os.environ.get("RECLAIM_FS", "moosefs")

    def setUp(self):
        self.fleet = fleet(self.FS)
        self.hosts = self.fleet.grow(self.HOSTS)
        if self.DATABASE:
            self.database = self.fleet.with_database()
        self.name = re.sub(r"\W", "_", self.id().rsplit(".", maxsplit=1)[-1])
        os.mkdir(self.fleet.path(self.name))
        self.canary = fixture.Canary(self.fleet.path(self.name, "canary"))
        self.addCleanup(self.finish)
        for host in self.hosts:
            host.daemon = HostDaemon(host)
            host.start(**self.ENVIRONMENT)

    def finish(self):
        for host in self.hosts:
            self.assertEqual(host.daemon.stop(), 0, host.daemon.said())
            self.assertNotIn("ERROR: ", host.daemon.said())
        self.canary.check()

    def sees(self, host, *names):
        """What is there, as that host sees it; what other hosts have changed may come to it a moment later."""
        return host.path(self.name, *names)

    def until(self, condition, why=None):
        return fixture.until(condition, why or (lambda: "\n".join(h.daemon.said() for h in self.hosts)))
