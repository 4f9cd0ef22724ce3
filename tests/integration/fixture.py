# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the integration tests stand on: real filesystems, a program to run, a canary.

Everything is made inside one scratch directory, in a mount namespace of this process's own, on a
tmpfs mounted there: whatever way the process ends, the kernel takes mounts, loop devices and
images away with it.

  RECLAIMCTL        the program under test (required)
  RECLAIM_FS        comma list that restricts the filesystems, RECLAIM_BACKENDS the backends
  RECLAIM_FULL      1: the sizes that the requirements name, instead of small ones
  RECLAIM_TIMES     print how long each combination took
  RECLAIM_SANITIZED the program is a sanitizer build: its memory is not measured
"""
import atexit
import contextlib
import ctypes
import fcntl
import functools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import contents
from contents import fingerprint

HERE = os.path.dirname(os.path.abspath(__file__))
FULL = os.environ.get("RECLAIM_FULL") == "1"
TIMEOUT = 1800 if FULL else 90
USER = 64998  # an id that no account has
MIB = 1 << 20

DISKS = ("ext4", "xfs", "btrfs")
CLUSTERS = ("moosefs", "cephfs")  # whose servers take a while to start: only where RECLAIM_FS names them
FILESYSTEMS = DISKS + ("tmpfs", "overlay") + tuple(
    c for c in CLUSTERS if c in os.environ.get("RECLAIM_FS", "").split(","))
BACKENDS = ("threads", "uring")

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS = 0x00020000


def restricted(choices, variable):
    words = [w for w in os.environ.get(variable, "").split(",") if w]
    return [c for c in choices if not words or c in words]


def command(*words, **kw):
    """Runs a tool of the system; its output is the error message."""
    words = [str(w) if isinstance(w, int) else os.fspath(w) for w in words]
    p = subprocess.run(words, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, **kw)
    if p.returncode != 0:
        raise RuntimeError("%s: %s" % (" ".join(map(str, words)), p.stdout.decode(errors="replace")))
    return p.stdout.decode(errors="replace")


def sync(path):
    """Writes back the filesystem of path, and no other: another test may count commits on its own."""
    command("sync", "-f", path)


def is_keeper(pid):
    """A process that holds descriptors for a daemon of this mount namespace."""
    with contextlib.suppress(OSError), open("/proc/%d/cmdline" % pid, "rb") as f:
        return f.read() == b"reclaim-keeper\0" and (os.readlink("/proc/%d/ns/mnt" % pid)
                                                    == os.readlink("/proc/self/ns/mnt"))
    return False


def keepers():
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_keeper(int(pid))]


def end_keepers():
    found = keepers()
    while found:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        until(lambda: not any(map(is_keeper, found)))  # pylint: disable=cell-var-from-loop
        found = keepers()


class Scratch:
    """The scratch directory, and everything that is made once per process."""

    def __init__(self):
        self.dir = None
        self.mounted = {}
        self.helpers = {}
        self.owner = None
        self.binary = None
        self.sanitized = self.gates = False
        self.clusters = []
        self.spared = set()  # helpers that put things right after our own end

    def open(self):
        if self.dir:
            return
        program = os.environ.get("RECLAIMCTL")
        if not program:
            sys.exit("RECLAIMCTL is not set: it names the reclaimctl to be tested")
        if os.geteuid() != 0:
            print("skipped: filesystems can be mounted by root only", file=sys.stderr)
            sys.exit(77)
        if libc.unshare(CLONE_NEWNS) != 0:
            print("skipped: no mount namespace of our own:", os.strerror(ctypes.get_errno()),
                  file=sys.stderr)
            sys.exit(77)
        command("mount", "--make-rprivate", "/")
        self.hide_staging()
        self.owner = os.getpid()
        self.dir = tempfile.mkdtemp(prefix="reclaim-it.")
        atexit.register(self.close)
        for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(sig, self.killed)
        # Images in memory where there is room for them, else where the scratch directory is.
        if available() > 3 << 30:
            command("mount", "-t", "tmpfs", "-o", "size=8g,nr_inodes=0,mode=0755", "scratch", self.dir)
        os.chmod(self.dir, 0o755)
        with open(program, "rb") as f:
            data = f.read()
        self.sanitized = (b"__asan_init" in data or b"__tsan_init" in data
                          or bool(os.environ.get("RECLAIM_SANITIZED")))
        self.sanitized_threads = b"__tsan_init" in data
        self.gates = b"RECLAIM_GATE" in data
        # A copy, so that other users may execute it wherever the build is.
        self.binary = os.path.join(self.dir, "reclaimctl")
        shutil.copy(program, self.binary)
        os.chmod(self.binary, 0o755)
        # It looks for what it starts beside itself; so does a worker, which is copied here, too.
        for name in ("reclaim-moosefs", "reclaim-discards", "reclaim-fleet"):
            beside = os.path.join(os.path.dirname(program), name)
            if os.path.exists(beside):
                shutil.copy(beside, self.dir)

    @staticmethod
    def hide_staging():
        """A reclaimd looks at what is staged on every mount: those of this machine are not ours."""
        for mount in mounts():
            staging = os.path.join(mount, ".reclaim")
            with contextlib.suppress(OSError):  # what hangs, or is not for root
                if os.path.isdir(staging):
                    command("mount", "-t", "tmpfs", "-o", "mode=0755,size=4k", "hidden", staging)

    def killed(self, sig, frame):
        """unittest would take an exception here for a failure and go on."""
        for task in os.listdir("/proc/self/task"):
            # A thread may have ended meanwhile.
            with contextlib.suppress(FileNotFoundError), open("/proc/self/task/%s/children" % task) as f:
                for pid in set(map(int, f.read().split())) - self.spared:
                    os.kill(pid, signal.SIGKILL)
        if os.getpid() == self.owner:
            self.close()
        os._exit(128 + sig)

    def close(self):
        if not self.dir or os.getpid() != self.owner:
            return
        for cluster in self.clusters:
            cluster.stop()
        end_keepers()
        unmount_beneath(self.dir + "/")
        unmount(self.dir)
        subprocess.run(["rm", "-rf", "--one-file-system", self.dir])
        self.dir = None

    def helper(self, name, flags=()):
        """A small C program of this directory, compiled."""
        if name not in self.helpers:
            out = os.path.join(self.dir, name)
            command("cc", "-O2", "-Wall", "-D_GNU_SOURCE", "-o", out,
                    os.path.join(HERE, name + ".c"), *flags)
            os.chmod(out, 0o755)
            self.helpers[name] = out
        return self.helpers[name]

    def filesystem(self, name):
        """The mount point of a filesystem, made at its first use."""
        if name in self.mounted:
            return self.mounted[name]
        at = os.path.join(self.dir, "m-" + name)
        os.mkdir(at)
        if name in CLUSTERS:
            self.mounted[name] = self.cluster(name, at).mountpoint
            return self.mounted[name]
        kind = name.split("-")[0]
        if kind == "tmpfs":
            command("mount", "-t", "tmpfs", "-o", "size=6g,nr_inodes=0", "tmpfs", at)
        elif kind == "overlay":
            command("mount", "-t", "tmpfs", "-o", "size=4g,nr_inodes=0", "tmpfs", at)
        else:
            self.mount_image(name, kind, at)
        self.mounted[name] = at
        return at

    def cluster(self, name, directory, **options):
        """Real servers, with something mounted from them; they end with this process."""
        sys.path.insert(0, os.path.join(os.path.dirname(HERE), "cluster"))
        import servers  # pylint: disable=import-outside-toplevel
        try:
            made = servers.kind(name)(directory, contents=True, **options)
        except servers.Missing as e:
            raise unittest.SkipTest(str(e)) from e
        self.clusters.append(made)
        contents.stale_directories = True
        return made

    def mount_image(self, name, kind, at):
        mkfs = {
            "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1", "-N", "400000"],
            "ext4-nofiletype": ["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^filetype"],
            "xfs": ["mkfs.xfs", "-q", "-f"],
            "btrfs": ["mkfs.btrfs", "-q", "-f", "-m", "single"],
        }
        image = os.path.join(self.dir, name + ".img")
        words = mkfs.get(name, mkfs[kind])
        if not shutil.which(words[0]):
            raise unittest.SkipTest("%s is not installed" % words[0])
        with open(image, "wb") as f:
            f.truncate(4 << 30)
        command(*words, image)
        options = "loop," + {"discard": "discard", "async": "discard=async"}.get(name.rpartition("-")[2], "nodiscard")
        try:
            # "loop" frees the device by itself with the mount.
            command("mount", "-t", kind, "-o", options, image, at)
        except RuntimeError as e:
            raise unittest.SkipTest(str(e))


scratch = Scratch()


class Machine:
    """Settings of the whole machine: what may depend on one shares it with all tests, also of other runs;
    what changes one waits until it is alone."""

    PATH = "/run/reclaimd-tests"

    def __init__(self):
        self.use = None

    @contextlib.contextmanager
    def turn(self):
        """Which what waits to be alone keeps, so that nothing else begins."""
        with open(self.PATH + ".turn", "w", encoding="ascii") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)
            yield

    @contextlib.contextmanager
    def shared(self):
        self.use = self.use or open(self.PATH + ".use", "w", encoding="ascii")
        with self.turn():
            fcntl.flock(self.use, fcntl.LOCK_SH)
        try:
            yield
        finally:
            fcntl.flock(self.use, fcntl.LOCK_UN)

    def is_free(self):
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self.use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    @contextlib.contextmanager
    def alone(self):
        """Of what shares it so far. A process that is given the descriptor keeps it for as long as it lives."""
        fcntl.flock(self.use, fcntl.LOCK_UN)
        with self.turn():
            until(self.is_free, lambda: "tests beside this one do not end: see who has %s.use open" % self.PATH)
            yield self.use.fileno()
            fcntl.flock(self.use, fcntl.LOCK_SH)


machine = Machine()


def available():
    with open("/proc/meminfo") as f:
        for line in f:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def mounts():
    with open("/proc/self/mountinfo") as f:
        return [line.split()[4].encode().decode("unicode_escape") for line in f]


def attach(kind, at, options):
    """Mounts without a program, which takes longer than many a test."""
    if libc.mount(os.fsencode(kind), os.fsencode(at), os.fsencode(kind), 0, os.fsencode(options)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), at)


def detach(at):
    """As umount -l."""
    if libc.umount2(os.fsencode(at), 2) != 0:  # MNT_DETACH
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), at)


def unmount(path):
    if path in mounts() and subprocess.run(["umount", path], stderr=subprocess.DEVNULL).returncode:
        subprocess.run(["umount", "-l", path], stderr=subprocess.DEVNULL)


def until(condition, why=lambda: "this never happened"):
    """Polls what no event tells of. Fails only after a time that no busy machine takes."""
    began = time.monotonic()
    while not (found := condition()):
        waited = time.monotonic() - began
        if waited > TIMEOUT:
            raise AssertionError(why())
        # The longer it takes, the less a moment matters; others need the processors.
        time.sleep(min(0.01 + waited / 50, 0.05))
    return found


def unmount_when_free(path):
    """A worker may end a moment after its daemon, and what is paused is released after a few seconds."""
    until(lambda: subprocess.run(["umount", path], stderr=subprocess.DEVNULL, check=False).returncode == 0,
          lambda: path + " stays in use")


def unmount_beneath(prefix):
    for m in reversed([m for m in mounts() if m.startswith(prefix)]):
        unmount(m)


# ---- trees ------------------------------------------------------------------------------------

def fsbytes(base, name):
    return os.path.join(os.fsencode(base), os.fsencode(name))


def workers_of(pid):
    """The daemon's children that delete or look: not those that stand between it and its clients, nor
    canaries.
    (The kernel's own list of children may leave some out while others end.)"""
    found = []
    for child in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/stat" % child, encoding="ascii",
                                                errors="replace") as f:
            name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            if int(rest.split()[1]) == pid and name not in ("reclaim-proxy", "reclaim-canary"):
                found.append(int(child))
    return found


def is_stopped(pid):
    """At a gate, or by a signal."""
    with contextlib.suppress(OSError), open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"
    return False


def is_blocked_by_lease(pid):
    """In the open of a file whose lease is not given up yet."""
    with open("/proc/%d/wchan" % pid, encoding="ascii") as f:
        return "lease" in f.read()


def build(base, text):
    """Makes a tree from its description, one entry a line:

         a/            directory         a/l -> target   symbolic link
         a/f           file              a/h => a/f      hard link
         a/f = text    with this content a/p |           FIFO
    """
    for line in text.split("\n"):
        line = line.strip()
        if not line:
            continue
        name, _, rest = line.partition(" ")
        path = fsbytes(base, name)
        os.makedirs(os.path.dirname(path.rstrip(b"/")), exist_ok=True)
        if name.endswith("/"):
            os.makedirs(path, exist_ok=True)
        elif rest.startswith("->"):
            os.symlink(rest[2:].strip(), path)
        elif rest.startswith("=>"):
            os.link(fsbytes(base, rest[2:].strip()), path)
        elif rest.startswith("|"):
            os.mkfifo(path)
        else:
            write(path, rest[1:].strip() if rest else name)


def write(path, content="x"):
    with open(path, "wb") as f:
        f.write(os.fsencode(content))


def fill(path, n, prefix="f"):
    """n empty files in a directory that is made if need be."""
    os.makedirs(path, exist_ok=True)
    fd = os.open(path, os.O_RDONLY)
    for i in range(n):
        try:
            os.mknod("%s%05d" % (prefix, i), 0o644 | stat.S_IFREG, dir_fd=fd)
        except FileExistsError:
            pass
    os.close(fd)


def listing(base):
    """Every name beneath a directory, sorted, relative to it."""
    base = os.fsencode(base)
    found = []
    for d, dirs, files in os.walk(base):
        found += [os.path.relpath(os.path.join(d, n), base) for n in dirs + files]
    return sorted(os.fsdecode(n) for n in found)


def names_in(directory):
    """The names in a directory; none if it is not there, or is removed meanwhile."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
FS_IMMUTABLE_FL, FS_APPEND_FL = 0x10, 0x20


def set_flag(path, flag, on=True):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        now = int.from_bytes(fcntl.ioctl(fd, FS_IOC_GETFLAGS, b"\0" * 8), "little")
        now = now | flag if on else now & ~flag
        fcntl.ioctl(fd, FS_IOC_SETFLAGS, now.to_bytes(8, "little"))
    finally:
        os.close(fd)


class Canary:
    """A tree beside each test that must come out exactly as it was."""

    def __init__(self, path):
        self.path = os.fsencode(path)
        build(path, """
            file = precious
            empty =
            sub/inner = also precious
            sub/deeper/leaf = leaf
            sub/void/
            twin => file
            link -> file
            dirlink -> sub
            dangling -> nowhere
            fifo |
            tree/precious = in a directory with a name that tests use
            deep/precious = likewise
        """)
        for name in (b"esc\x1b[31m", b"new\nline", b"\xff\xfe", "bidi\u202e".encode(), b"-rf", b"*"):
            write(os.path.join(self.path, name), name)
        os.chmod(os.path.join(self.path, b"sub"), 0o751)
        os.chown(os.path.join(self.path, b"sub/inner"), USER, USER)
        self.before = fingerprint(self.path)

    def check(self):
        after = fingerprint(self.path)
        changed = [k for k in sorted(set(self.before) | set(after))
                   if self.before.get(k) != after.get(k)]
        if changed:
            raise AssertionError("the canary is harmed: %r" %
                                 [(k, self.before.get(k), after.get(k)) for k in changed])


# ---- the program ------------------------------------------------------------------------------

class Result:
    def __init__(self, status, out, err, maxrss_kib):
        self.status, self.out, self.err, self.maxrss_kib = status, out, err, maxrss_kib

    @property
    def json(self):
        return json.loads(self.out.strip().split("\n")[-1])

    def __repr__(self):
        text = "exit %d\n%s%s" % (self.status, self.out, self.err)
        return text if len(text) < 1200 else text[:600] + " ... " + text[-600:]


class Proc:
    """A started program: may be waited for, or be met at a gate."""

    def __init__(self, words, cwd, gate=None, user=None, env=None, stdin=None, preexec=None):
        self.out, self.err = (tempfile.TemporaryFile(dir=scratch.dir) for _ in range(2))
        e = dict(os.environ, LC_ALL="C.UTF-8",
                 ASAN_OPTIONS="exitcode=99:" + os.environ.get("ASAN_OPTIONS", ""),
                 UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:exitcode=99")
        e.pop("RECLAIM_GATE", None)
        if gate:
            if not scratch.gates:
                raise unittest.SkipTest("this reclaimctl is built without RECLAIM_TEST_GATES")
            e["RECLAIM_GATE"] = gate
        e.update(env or {})
        ids = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.popen = subprocess.Popen(words, cwd=cwd, env=e, stdout=self.out, stderr=self.err,
                                      stdin=stdin or subprocess.DEVNULL, preexec_fn=preexec, **ids)
        self.pid = self.popen.pid
        self.usage = None

    def _wait(self, timeout):
        """Until it stops or ends. True: stopped."""
        began = time.monotonic()
        if self.popen.returncode is not None:
            return False
        while True:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG | os.WUNTRACED)
            if pid:
                if os.WIFSTOPPED(status):
                    return True
                self.popen.returncode = os.waitstatus_to_exitcode(status)
                self.usage = usage
                return False
            waited = time.monotonic() - began
            if waited > timeout:
                self.kill()
                raise AssertionError("did not end within %d s: %r" % (timeout, self.result(-1)))
            time.sleep(min(0.002 + waited / 50, 0.02))

    def kill(self):
        if self.popen.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
            _, status, self.usage = os.wait4(self.pid, 0)
            self.popen.returncode = os.waitstatus_to_exitcode(status)

    def close(self):
        self.out.close()
        self.err.close()

    def meet(self):
        """Waits until it stands at its gate."""
        if not self._wait(TIMEOUT):
            raise AssertionError("never came to its gate: %r" % self.result(self.popen.returncode))
        time.sleep(0.015)  # longer than the engine goes without looking where it is
        return self

    def comes_to_its_gate(self):
        """Or it ends, if it does not come there."""
        return self._wait(TIMEOUT)

    def go_on(self, *signals):
        for s in signals:
            os.kill(self.pid, s)
        os.kill(self.pid, signal.SIGCONT)
        return self

    def result(self, status):
        texts = []
        for f in (self.out, self.err):
            f.seek(0)
            texts.append(f.read().decode(errors="replace"))
        return Result(status, texts[0], texts[1], self.usage.ru_maxrss if self.usage else 0)

    def finish(self, timeout=TIMEOUT):
        while self._wait(timeout):
            raise AssertionError("stopped a second time")
        r = self.result(self.popen.returncode)
        self.close()
        if r.status == 99 or r.status < 0 or "runtime error:" in r.err or "Sanitizer" in r.err:
            raise AssertionError("the program is broken: %r" % r)
        return r


def remove(top):
    """Removes a test's directory, in which nothing is mounted any more, subvolumes and all."""
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(top)
        return
    if subprocess.run(["rm", "-rf", top], stderr=subprocess.DEVNULL).returncode:
        subprocess.run(["chattr", "-R", "-f", "-i", "-a", top], stderr=subprocess.DEVNULL)
        for d, dirs, _ in os.walk(top):  # read-only snapshots
            for n in dirs:
                path = os.path.join(d, n)
                if os.lstat(path).st_ino == 256:
                    subprocess.run(["btrfs", "property", "set", "-f", path, "ro", "false"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["rm", "-rf", top])


class World:
    """A fresh directory on one filesystem, with a canary in it, and one backend."""

    def __init__(self, fs, backend, latency):
        self.fs, self.backend, self.latency = fs, backend, latency
        self.procs = []

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="t", dir=scratch.filesystem(self.fs))
        self.dir = self.top
        os.chmod(self.top, 0o755)
        if self.fs == "overlay":
            for d in ("lower", "upper", "work", "view"):
                os.mkdir(os.path.join(self.top, d))
            self.dir = os.path.join(self.top, "view")
            self._overlay()
        self.canary = Canary(self.path("canary"))
        return self

    def _overlay(self):
        attach("overlay", self.dir, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work" % (self.top, self.top, self.top))

    def _no_overlay(self):
        if libc.umount2(os.fsencode(self.dir), 0) != 0:
            unmount(self.dir)

    def settle(self):
        """On overlay, what exists becomes the lower layer; elsewhere it reaches the disk."""
        if self.fs != "overlay":
            fd = os.open(self.dir, os.O_RDONLY)
            libc.syncfs(fd)
            os.close(fd)
            return
        self._no_overlay()
        os.rmdir(self.top + "/lower")
        os.rename(self.top + "/upper", self.top + "/lower")
        os.mkdir(self.top + "/upper")
        self._overlay()

    def __exit__(self, kind, error, trace):
        try:
            for p in self.procs:
                p.kill()
                p.close()
            if kind is None:
                self.canary.check()
        finally:
            if self.fs == "overlay":
                unmount_beneath(self.dir + "/")
                self._no_overlay()
            unmount_beneath(self.top + "/")
            if not any(m.startswith(self.top + "/") for m in mounts()):
                remove(self.top)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def build(self, text):
        build(self.dir, text)

    def left(self, *below):
        """What there is beside the canary."""
        return [n for n in listing(self.path(*below)) if n != "canary" and not n.startswith("canary/")]

    def exists(self, name):
        return os.path.lexists(self.path(name))

    def words(self, *args):
        words = [scratch.binary, "run"]
        if self.backend:
            words.append("--backend=" + self.backend)
        if self.latency == "off":
            words.append("--latency=off")
        return words + list(args)

    def start(self, *args, wrapper=(), cwd=None, **kw):
        p = Proc(list(wrapper) + self.words(*args), cwd or self.dir, **kw)
        self.procs.append(p)
        return p

    def at_gate(self, gate, *args, **kw):
        return self.start(*args, gate=gate, **kw).meet()

    def run(self, *args, timeout=TIMEOUT, **kw):
        return self.start(*args, **kw).finish(timeout)

    def bind(self, source, target):
        command("mount", "--bind", self.path(source), self.path(target))


def matrix(fs=FILESYSTEMS, backends=BACKENDS, latency=("auto",)):
    """Runs a test for every filesystem and backend, each in a world of its own."""
    def decorate(test):
        @functools.wraps(test)
        def every(self):
            ran, why = 0, "restricted by RECLAIM_FS or RECLAIM_BACKENDS"
            scratch.open()
            for f in restricted(fs, "RECLAIM_FS"):
                for b in restricted(backends, "RECLAIM_BACKENDS") if backends != (None,) else backends:
                    for l in latency:
                        began = time.monotonic()
                        try:
                            with contextlib.ExitStack() as stack:
                                stack.enter_context(self.subTest(fs=f, backend=b, latency=l))
                                stack.enter_context(machine.shared())
                                with World(f, b, l) as w:
                                    test(self, w)
                                ran += 1
                        except unittest.SkipTest as e:
                            why = str(e)
                        took = time.monotonic() - began
                        if "RECLAIM_TIMES" in os.environ:
                            print("%6.2f %s %s %s %s" % (took, test.__name__, f, b, l), file=sys.stderr)
            if ran == 0 and not failed(self):
                self.skipTest(why)
        return every
    return decorate


def failed(case):
    result = getattr(case._outcome, "result", None)
    return bool(result and any(getattr(t, "test_case", t) is case
                               for t, _ in result.errors + result.failures))


class Case(unittest.TestCase):
    maxDiff = None

    def check_refused(self, w, args, *words, name=None, status=1, **kw):
        """Refused with a message that names the path and holds each of the words; nothing changed."""
        before = fingerprint(w.dir)
        r = w.run(*args, **kw)
        self.assertEqual(r.status, status, r)
        for word in words:
            self.assertIn(word, r.err, r)
        shown = args[-1] if name is None else name
        self.assertIn("reclaimctl: %s: " % shown, r.err, r)
        self.assertEqual(before, fingerprint(w.dir), "something changed")
        return r

    def check_gone(self, w, r, *left):
        """Done, and nothing is left but the canary and what is named."""
        self.assertEqual(r.status, 0, r)
        self.assertEqual(w.left(), sorted(left), r)


def main():
    scratch.open()
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    if result.wasSuccessful() and result.testsRun and len(result.skipped) >= result.testsRun:
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
