# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the tests in the booted system have in common."""

import contextlib
import glob
import json
import os
import subprocess
import time

BUS = ("org.reclaimd1", "/org/reclaimd1", "org.reclaimd1.Manager")
CONFIGURATION = "/etc/reclaimd/reclaimd.d/50-test.yaml"
# Nothing here takes nearly as long.
TIMEOUT_SECONDS = 40
FILE = 512 << 20
# A pace at which a job is still there when a test looks.
SLOW = "pacing: {latency: off, min-rate: 4MiB/s, max-rate: 8MiB/s}\n"


def attempt(*arguments, **kwargs):
    """Runs a command; what it says on either output is text."""
    return subprocess.run(arguments, check=False, text=True, errors="replace", stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_SECONDS, **kwargs)


def command(*arguments, **kwargs):
    """Runs a command that must succeed, and returns what it said."""
    r = attempt(*arguments, **kwargs)
    if r.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: exit status {r.returncode}: {r.stdout}")
    return r.stdout


def package(kind, release, name="reclaimd"):
    """The file of the package."""
    found = glob.glob(f"/packages/{name}_*-{release}_*.deb" if kind == "deb" else
                      f"/packages/{name}-[0-9]*-1.fc{release}.*[!c].rpm")
    assert len(found) == 1, f"{kind} {release}: {found}"
    return found[0]


def install(kind, release, *names):
    # autopkgtest has installed the packages that it tests.
    if "AUTOPKGTEST_TMP" in os.environ:
        return ""
    files = [package(kind, release, name) for name in names or ("reclaimd",)]
    return command(*(("dpkg", "--install") if kind == "deb" else ("rpm", "--install", "--nodeps")), *files)


def remove():
    command("dpkg", "--purge", "reclaimd")


def configure(text):
    """Puts a drop-in in place; the daemon is not told."""
    os.makedirs(os.path.dirname(CONFIGURATION), exist_ok=True)
    with open(CONFIGURATION, "w", encoding="utf-8") as f:
        f.write(text)


def manager_property(name):
    return json.loads(command("busctl", "get-property", "--json=short", *BUS, name))["data"]


def unit_property(name, unit="reclaimd.service"):
    return command("systemctl", "show", "--value", "-p", name, unit).strip()


def submit(*arguments, **kwargs):
    """Submits, and returns the job's number. (What is waited for is told in further lines.)"""
    said = command("reclaimctl", "submit", "--json=short", *arguments, **kwargs)
    jobs = json.loads(said.splitlines()[0])["jobs"]
    assert len(jobs) == 1, jobs
    return jobs[0]


def job_property(job, name):
    return json.loads(command("busctl", "get-property", "--json=short", BUS[0],
                              f"/org/reclaimd1/job/{job}", "org.reclaimd1.Job", name))["data"]


def journal(*match):
    """The records of the journal that match."""
    command("journalctl", "--sync")
    return [json.loads(line) for line in command("journalctl", "-o", "json", "--all", *match).splitlines()]


@contextlib.contextmanager
def signals(member):
    """Yields a function that waits for the next signal of that name, from when this began."""
    def next_signal():
        line = "nothing yet"
        while "Type=signal" not in line:
            line = monitor.stdout.readline()
            assert line, f"no {member} came"

    # It says that it listens (with --json it would not).
    with subprocess.Popen(["timeout", str(TIMEOUT_SECONDS), "busctl", "monitor",
                           f"--match=type='signal',sender='org.reclaimd1',member='{member}'"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as monitor:
        monitor.stderr.readline()
        try:
            yield next_signal
        finally:
            monitor.terminate()


@contextlib.contextmanager
def running_job(path, files=128):
    """A job on a tree that goes on slowly, for a minute, and has freed something already."""
    configure(SLOW)
    command("systemctl", "reload-or-restart", "reclaimd")
    os.mkdir(path)
    for n in range(files):
        allocate(f"{path}/{n}", "4M")
    with signals("PropertiesChanged") as changed:
        job = submit(path)
        while job_property(job, "ProgressBytes") == 0:
            changed()
        yield job


def allocate(path, size):
    """A file of 4K, 500M or 3G, without a program for each."""
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]])


def free():
    """Bytes of the disk."""
    s = os.statvfs("/backups")
    return s.f_bfree * s.f_frsize


def until(condition):
    """Most conditions start a program: the longer it takes, the more seldom."""
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < 60
        time.sleep(min(0.1 + waited / 20, 0.3))


@contextlib.contextmanager
def running_file(path):
    """The same with one file of FILE bytes, which has no name any more."""
    configure(SLOW)
    command("systemctl", "reload-or-restart", "reclaimd")
    command("fallocate", "-l", str(FILE), path)
    with signals("PropertiesChanged") as changed:
        job = submit(path)
        while job_property(job, "ProgressBytes") == 0:
            changed()
        yield job


def upgrade_in_mid_file(upgrade):
    """What is left of a large file is not freed at once, and all of it counts."""
    with running_file("/backups/large") as job:
        pid, before = unit_property("MainPID"), free()
        upgrade()
        assert unit_property("MainPID") != pid
        assert free() - before < FILE // 2, "the kernel has freed it"
        full_speed()
        command("reclaimctl", "wait", str(job))
    assert (job_property(job, "State"), job_property(job, "ProgressBytes") >= FILE) == ("done", True)


def full_speed():
    configure("")
    command("systemctl", "reload", "reclaimd")


class Canary:
    """A tree beside what is deleted, which must come out as it was."""

    def __init__(self, top):
        self.top = top
        os.makedirs(f"{top}/canary/deep/er")
        for name in ("canary/a", "canary/deep/b", "canary/deep/er/c"):
            with open(f"{top}/{name}", "wb") as f:
                f.write(os.urandom(100_000))
        os.symlink("deep", f"{top}/canary/link")
        self.before = self.look()

    def look(self):
        return command("tar", "--sort=name", "--numeric-owner", "-C", self.top, "-cf", "/run/canary.tar",
                       "canary") + command("sha256sum", "/run/canary.tar")

    def check(self):
        after = self.look()
        assert after == self.before, "the canary is not what it was"
