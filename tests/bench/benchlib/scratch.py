# SPDX-License-Identifier: LGPL-2.1-or-later
"""Scratch: where a benchmark works, and the undoing of all it did.

Everything a benchmark makes lies in one new directory, everything it mounts lives in a mount
namespace of its own. So an orderly end undoes step by step what was done, and even after SIGKILL
the kernel takes mounts and loop devices (which detach with their last mount) away with the last
process.
"""

import atexit
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile

SOURCE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

CLONE_NEWNS = 0x00020000
MS_REC = 0x4000
MS_PRIVATE = 0x40000


class Unavailable(Exception):
    """Something the machine does not have; the caller decides whether that matters."""


def enter_mount_namespace():
    """Leave the machine's mounts alone: no other process sees ours, and they die with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) < 0:
        raise Unavailable("no mount namespace: " + os.strerror(ctypes.get_errno()))
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) < 0:
        raise Unavailable("mounts cannot be made private: " + os.strerror(ctypes.get_errno()))


def memory_available():
    """Bytes that can be had without swapping."""
    with open("/proc/meminfo", encoding="ascii") as meminfo:
        for line in meminfo:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def choose_base(needed_bytes):
    """Memory where there is enough of it: the disk of the machine would be measured otherwise."""
    with contextlib.suppress(OSError):
        free = shutil.disk_usage("/dev/shm").free
        if min(free, memory_available() // 2) >= needed_bytes:
            return "/dev/shm"
    return "/var/tmp"


class Scratch:
    """A new directory, and a stack of what is to be undone; leaves nothing behind."""

    def __init__(self, base):
        self._stack = contextlib.ExitStack()
        self.path = tempfile.mkdtemp(prefix="reclaim-bench.", dir=base)
        self._stack.callback(shutil.rmtree, self.path, ignore_errors=True)
        atexit.register(self.close)

    def __enter__(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _stop)
        return self

    def __exit__(self, *exception):
        self.close()

    def close(self):
        """Undo everything, last first; a second signal must not cut this short."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._stack.close()

    def undo(self, function, *arguments):
        """Call function in the end, before everything that was registered earlier is undone."""
        self._stack.callback(function, *arguments)

    def dir(self, *names):
        """A directory below the scratch directory, made if need be."""
        path = os.path.join(self.path, *names)
        os.makedirs(path, exist_ok=True)
        return path

    def compile(self, name, sources, flags=()):
        """Compile one of the benchmark's C programs, the first time; returns its path."""
        compiler = os.environ.get("CC", "cc")
        output = os.path.join(self.dir("bin"), name)
        if os.path.exists(output):
            return output
        paths = [os.path.join(SOURCE_DIR, source) for source in sources]
        command = [compiler, "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-o", output, *paths, *flags]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError as error:
            raise Unavailable(f"{compiler}: no C compiler") from error
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"{name} does not compile:\n{error.stderr}") from error
        return output


def _stop(number, _frame):
    """As an exception the signal unwinds through every finally on its way out."""
    raise SystemExit(128 + number)
