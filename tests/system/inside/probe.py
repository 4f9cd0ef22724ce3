# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs in the place of the daemon, in its sandbox: each thing that it must be able to do, done once with
the system call itself, and some that it must not."""

import ctypes
import fcntl
import os
import pathlib
import socket

libc = ctypes.CDLL(None, use_errno=True)
UID = 65534
RESOLVE_BENEATH_NO_SYMLINKS_NO_XDEV_NO_MAGICLINKS = 0x08 | 0x04 | 0x01 | 0x02
SYS_OPENAT2, SYS_IO_URING_SETUP, SYS_LANDLOCK_CREATE_RULESET = 437, 425, 444
LANDLOCK_CREATE_RULESET_VERSION = 1


def system_call(number, *arguments):
    r = libc.syscall(ctypes.c_long(number), *arguments)
    if r < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return r


def openat2(directory, name):
    how = (ctypes.c_uint64 * 3)(os.O_DIRECTORY | os.O_NOFOLLOW, 0,
                                RESOLVE_BENEATH_NO_SYMLINKS_NO_XDEV_NO_MAGICLINKS)
    return system_call(SYS_OPENAT2, directory, name.encode(), how, ctypes.sizeof(how))


def staging_in(mount):
    """A rename into the filesystem's staging directory, a lease, a step, the last unlink."""
    top = os.open(mount, os.O_DIRECTORY)
    os.mkdir(".reclaim-probe", 0o700, dir_fd=top)
    staging = openat2(top, ".reclaim-probe")
    pathlib.Path(mount, "victim").write_bytes(b"x" * 65536)
    os.rename("victim", "1", src_dir_fd=top, dst_dir_fd=staging)
    victim = os.open("1", os.O_WRONLY, dir_fd=staging)
    fcntl.fcntl(victim, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    os.ftruncate(victim, 4096)
    os.close(victim)
    os.unlink("1", dir_fd=staging)
    os.rmdir(".reclaim-probe", dir_fd=top)


def rings_and_fences():
    ring = (ctypes.c_uint32 * 30)()
    os.close(system_call(SYS_IO_URING_SETUP, 8, ring))
    assert system_call(SYS_LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_CREATE_RULESET_VERSION) >= 1


def reading():
    for path in ("/proc/self/mountinfo", "/proc/pressure/io", "/proc/swaps", "/etc/passwd"):
        assert pathlib.Path(path).read_text(encoding="utf-8")
    assert os.path.isdir("/sys/block") and os.path.isdir("/proc/1")
    # Devices are named, though never opened.
    assert os.path.exists("/dev/loop-control")


def becoming_a_user():
    """A worker drops root for good; what it then does, it does as that user."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            try:
                os.listdir("/root")
            except PermissionError:
                os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return
    raise AssertionError(f"{what} was allowed")


def what_it_may_not():
    refused(os.unlink, "/usr/bin/reclaimctl")
    refused(os.open, "/etc/probe", os.O_WRONLY | os.O_CREAT)
    refused(socket.socket, socket.AF_INET, socket.SOCK_STREAM)
    refused(os.open, "/dev/loop-control", os.O_RDWR)
    refused(os.unshare, os.CLONE_NEWNS)


def main():
    assert os.environ["STATE_DIRECTORY"] == "/var/lib/reclaimd"
    assert os.environ["RUNTIME_DIRECTORY"] == "/run/reclaimd"
    assert os.environ["CONFIGURATION_DIRECTORY"] == "/etc/reclaimd"
    assert os.stat("/var/lib/reclaimd").st_mode & 0o777 == 0o700
    assert os.stat("/run/reclaimd").st_mode & 0o777 == 0o755
    for mount in ("/backups", "/tmp", "/home", "/srv", "/root"):
        staging_in(mount)
    rings_and_fences()
    reading()
    becoming_a_user()
    what_it_may_not()


main()
