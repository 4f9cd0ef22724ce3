# SPDX-License-Identifier: LGPL-2.1-or-later
"""Real cluster filesystems on this machine: started, made slow, killed and taken away.

All servers of one cluster live in a network namespace of its own, on an address of its own, so
several run beside each other and nothing outside can be reached by them. They are children of
this process and end with it, whatever way it ends; their state lies in one directory that the
caller gives and removes. Mounts need a mount namespace of the caller's own for the same reason.
"""
import contextlib
import ctypes
import importlib
import os
import shutil
import signal
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ADDRESS = "10.77.0.1"
PATIENCE = 120  # seconds for anything to come up, on a machine busy with other tests
CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):
    """A package that is not installed, or a kernel that does not have what is needed."""


def run(*words, **kw):
    """Runs a tool; its output, which is the error message if it fails."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          text=True, errors="replace", **kw)
    if done.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(words), done.stdout))
    return done.stdout


def wait_until(what, ready, patience=PATIENCE):
    """Until ready() is true; what is happening can be seen in no other way."""
    end = time.monotonic() + patience
    while not ready():
        if time.monotonic() > end:
            raise RuntimeError("%s: not within %d s" % (what, patience))
        time.sleep(0.01)


def is_mounted(path):
    """Whether something is mounted there, without asking the filesystem itself."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as f:
        return any(line.split()[4] == path for line in f)


def cpu_seconds(pid):
    """What all threads of a process have computed."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with contextlib.suppress(OSError), open("/proc/%d/task/%s/schedstat" % (pid, task),
                                                encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total / 1e9


class Network:
    """A network namespace with one address; lives as long as this or a process in it."""

    def __init__(self):
        outside = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.unshare(CLONE_NEWNET) < 0:
                raise Missing("no network namespace: " + os.strerror(ctypes.get_errno()))
            self.fd = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            run("ip", "link", "set", "lo", "up")
            run("ip", "address", "add", ADDRESS + "/32", "dev", "lo")
        finally:
            libc.setns(outside, CLONE_NEWNET)
            os.close(outside)

    def enter(self):
        """In a child, before its program begins: it is in here, and ends with its parent."""
        libc.setns(self.fd, CLONE_NEWNET)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def close(self):
        """Lets go of it."""
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


class Cluster:
    """What MooseFS and CephFS have in common: processes, a network, a directory, one mount."""

    programs = ()
    metadata = ""  # the name of its metadata server

    def __init__(self, directory, latency_usec=0):
        for program in self.programs:
            if not shutil.which(program):
                raise Missing("%s is not installed" % program)
        self.dir = directory
        self.latency_usec = latency_usec
        self.mountpoint = os.path.join(directory, "mount")
        self.processes = {}
        os.makedirs(self.mountpoint)
        self.network = Network()
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def path(self, *names):
        """Beneath the cluster's own directory."""
        return os.path.join(self.dir, *names)

    def forget(self, seconds=60):
        """Has its clients give back what they hold of what they have made, if they do; each has so long."""

    def log(self, name):
        """What a server has said."""
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def write(self, name, text):
        """A file of settings, in which {dir} and {address} stand for what they are here."""
        with open(self.path(name), "w", encoding="ascii") as f:
            f.write(text.format(dir=self.dir, address=ADDRESS))

    def spawn(self, name, *words, **kw):
        """Starts a server that stays in the foreground."""
        with open(self.path(name + ".log"), "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=self.network.enter, **kw)

    def run(self, *words, **kw):
        """Runs a tool where the servers can be reached."""
        return run(*words, preexec_fn=self.network.enter, **kw)

    def await_(self, name, what, ready):
        """Until ready(), or the server has ended, which is an error with its words in it."""
        def told():
            if self.processes[name].poll() is not None:
                raise RuntimeError("%s ended: %s" % (name, self.log(name)))
            return ready()
        wait_until("%s: %s" % (name, what), told)

    def mount(self, *words):
        """Starts the client, again and again until everything it needs is up."""
        def mounted():
            if self.processes["mount"].poll() is not None:
                self.spawn("mount", *words)
            return is_mounted(self.mountpoint)
        self.spawn("mount", *words)
        wait_until(words[0], mounted)

    def kill(self, name):
        """Ends one server, which has no time to do anything about it."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def lose_metadata_server(self):
        """Kills it."""
        self.kill(self.metadata)

    def metadata_server(self):
        """The process whose time each entry costs."""
        return self.pid(self.metadata)

    def pid(self, name):
        """Of a server that runs."""
        return self.processes[name].pid

    def start(self):
        """Starts everything, in order."""
        raise NotImplementedError

    def start_metadata_server(self):
        """Also after it was killed."""
        raise NotImplementedError

    def client(self, mountpoint, address, name="mount"):
        """The words that mount it there, on a host that has that address; name: which client it is."""
        raise NotImplementedError

    def operations(self):
        """What was asked for since the beginning: names and numbers."""
        raise NotImplementedError

    def stop(self):
        """Ends everything, in whatever state it is. What hangs on a server that is gone is let go
        first: a request that is never answered would otherwise keep its process for ever."""
        if is_mounted(self.mountpoint):
            subprocess.run(["umount", "-l", self.mountpoint], stderr=subprocess.DEVNULL, check=False)
        for name in reversed(list(self.processes)):
            with contextlib.suppress(ProcessLookupError):
                self.kill(name)
        self.network.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()


MFS_EMPTY = "/var/lib/mfs/metadata.mfs.empty"
MFS_PORT, MFS_DELAYED_PORT = "9421", "9521"
MFS_MASTER = """
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {dir}/master
EXPORTS_FILENAME = {dir}/exports.cfg
TOPOLOGY_FILENAME = {dir}/topology.cfg
MATOML_LISTEN_HOST = {address}
MATOCS_LISTEN_HOST = {address}
MATOCL_LISTEN_HOST = {address}
NICE_LEVEL = 0
"""
MFS_CHUNKS = """
WORKING_USER = root
WORKING_GROUP = root
DATA_PATH = {dir}/chunkserver
HDD_CONF_FILENAME = {dir}/hdd.cfg
HDD_LEAVE_SPACE_DEFAULT = 4MiB
BIND_HOST = {address}
MASTER_HOST = {address}
CSSERV_LISTEN_HOST = {address}
NICE_LEVEL = 0
"""


class MooseFS(Cluster):
    """A master, a mount, and, where files are to have contents, a chunkserver."""

    programs = ("mfsmaster", "mfsmount")
    metadata = "master"

    def __init__(self, directory, latency_usec=0, contents=False, options=()):
        self.contents = contents
        self.options = options
        super().__init__(directory, latency_usec)

    def configure(self):
        """Files that all servers read."""
        for name in ("master", "chunkserver", "chunks"):
            os.makedirs(self.path(name), exist_ok=True)
        shutil.copy(MFS_EMPTY, self.path("master", "metadata.mfs"))
        files = {"exports.cfg": "* / rw,alldirs,maproot=0,admin\n", "topology.cfg": "",
                 "hdd.cfg": "{dir}/chunks\n", "master.cfg": MFS_MASTER,
                 "chunkserver.cfg": MFS_CHUNKS}
        for name, text in files.items():
            self.write(name, text)

    def start_metadata_server(self):
        """It knows nothing of its clients when it was killed, and first reads what it had logged."""
        self.spawn("master", "mfsmaster", "-f", "-a", "-c", self.path("master.cfg"), "start")
        self.await_("master", "start", lambda: "initialized properly" in self.log("master"))

    def start(self):
        self.configure()
        self.start_metadata_server()
        if self.latency_usec:
            run("cc", "-O2", "-D_GNU_SOURCE", "-o", self.path("delay"),
                os.path.join(HERE, "delay.c"), "-pthread")
            self.spawn("delay", self.path("delay"), ADDRESS, MFS_DELAYED_PORT, ADDRESS, MFS_PORT,
                       str(self.latency_usec))
        if self.contents:
            self.spawn("chunkserver", "mfschunkserver", "-f", "-c", self.path("chunkserver.cfg"),
                       "start")
        self.mount(*self.client(self.mountpoint, ADDRESS))
        if self.contents:
            self.await_("chunkserver", "space", lambda: os.statvfs(self.mountpoint).f_bavail > 0)

    def client(self, mountpoint, address, name="mount"):
        del name
        return ("mfsmount", "-f", "-H", ADDRESS, "-P",
                MFS_DELAYED_PORT if self.latency_usec else MFS_PORT, mountpoint,
                "-o", ",".join(("mfsproxy=" + address, "allow_other", *self.options)))

    def operations(self):
        """What the client has asked its master for, and what the kernel has asked it for."""
        with open(os.path.join(self.mountpoint, ".stats"), encoding="ascii") as f:
            return {k: int(v) for k, v in (line.split(": ") for line in f if ": " in line)
                    if v.strip().isdigit()}


def kind(name):
    """The class of a cluster's filesystem."""
    return {"moosefs": MooseFS}.get(name) or importlib.import_module(name).CephFS
