# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measure: one deletion, with all it costs."""

import dataclasses
import os
import select
import signal
import subprocess
import time

STAT_FAMILY = {"stat", "lstat", "fstat", "newfstatat", "fstatat64", "statx"}
UNLINK_FAMILY = {"unlink", "unlinkat", "rmdir"} | STAT_FAMILY


@dataclasses.dataclass
class Measurement:
    """Seconds, MiB and bytes; `failure` says why it does not count."""

    elapsed: float = 0.0
    settled: float = 0.0
    user: float = 0.0
    system: float = 0.0
    peak_mib: float = 0.0
    discarded_bytes: int = None
    failure: str = None


class Meter:
    """Runs commands on one filesystem under the `timed` program."""

    def __init__(self, scratch, filesystem, timeout):
        self._scratch = scratch
        self._filesystem = filesystem
        self._timeout = timeout
        self._timed = scratch.compile("timed", ["timed.c"])
        self._report = os.path.join(scratch.path, "report")
        self._output = os.path.join(scratch.path, "output")

    def run(self, command):
        """Time one command; its failure is a result, too."""
        prefix = [self._timed] + (["--freeze"] if self._filesystem.freezes else [])
        trims = self._filesystem.kind == "ext4-discard"
        if trims:
            self._filesystem.wait_for_discards()
            discarded = self._filesystem.discarded_bytes()
        failure = self._spawn([*prefix, self._report, self._filesystem.mountpoint, *command])
        ended = time.monotonic()
        if failure:
            return Measurement(failure=failure)
        measurement = self._read_report()
        if trims:
            measurement.settled += max(0, self._filesystem.wait_for_discards() - ended)
            measurement.discarded_bytes = self._filesystem.discarded_bytes() - discarded
        return measurement

    def count_calls(self, strace, command):
        """System calls by name; in a run of its own, as counting multiplies the time."""
        counts = os.path.join(self._scratch.path, "calls")
        failure = self._spawn([strace, "-f", "-c", "-S", "name", "-o", counts, *command])
        if failure:
            return None
        with open(counts, encoding="ascii") as table:
            return parse_strace(table)

    def _spawn(self, command):
        """In a process group of its own, so that a timeout gets the children, too."""
        environment = os.environ | {"LC_ALL": "C"}
        with open(self._output, "w", encoding="utf-8") as output:
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                  env=environment, start_new_session=True) as process:
                try:
                    ended = ends_within(process, self._timeout)
                except BaseException:
                    os.killpg(process.pid, signal.SIGKILL)
                    raise
                if not ended:
                    os.killpg(process.pid, signal.SIGKILL)
                    return f"killed after {self._timeout} s"
                status = process.wait()
        return f"exit status {status}: {self._said()}" if status != 0 else None

    def _said(self):
        with open(self._output, encoding="utf-8", errors="replace") as output:
            return " / ".join(output.read().strip().splitlines()[-3:])[-500:]

    def _read_report(self):
        with open(self._report, encoding="ascii") as report:
            numbers = [int(field) for field in report.read().split()]
        elapsed, settled, user, system, peak, status = numbers
        failure = f"exit status {status}: {self._said()}" if status != 0 else None
        return Measurement(elapsed / 1e9, settled / 1e9, user / 1e6, system / 1e6, peak / 1024,
                           failure=failure)


def ends_within(process, timeout):
    """Whether the process has ended within so many seconds; Popen.wait would poll, 50 ms apart."""
    descriptor = os.pidfd_open(process.pid)
    try:
        return bool(select.select([descriptor], [], [], timeout)[0])
    finally:
        os.close(descriptor)


def parse_strace(table):
    """The counts of `strace -c`: percent, seconds, microseconds per call, calls, [errors], name."""
    calls = {}
    for line in table:
        fields = line.split()
        if len(fields) >= 5 and fields[0][0].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = calls.get(fields[-1], 0) + int(fields[3])
    return calls


def calls_per_entry(calls, entries):
    """What the table shows: calls that remove or look up a name, and entries into the ring."""
    return {
        "unlink_family": sum(calls.get(name, 0) for name in UNLINK_FAMILY) / entries,
        "io_uring_enter": calls.get("io_uring_enter", 0) / entries,
        "all": sum(calls.values()) / entries,
    }
