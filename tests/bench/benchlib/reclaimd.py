# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reclaimd: a daemon of a build, with its state and its socket in directories of its own."""

import contextlib
import json
import os
import subprocess
import time

from benchlib.scratch import Unavailable


def status_fields(path):
    """A /proc/*/status, as a dictionary."""
    with open(path, encoding="ascii", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


class Daemon:
    """A reclaimd of the release build, with its state below `base`."""

    def __init__(self, work, base, build, name, config=""):
        self._programs = os.path.join(build, "bin")
        self.runtime = work.dir(name, "run")
        state, etc = os.path.join(base, name, "state"), work.dir(name, "etc")
        os.makedirs(state, 0o700)
        os.chmod(state, 0o700)
        with open(os.path.join(etc, "reclaimd.yaml"), "w", encoding="ascii") as file:
            file.write(config)
        self._command = [
            self.program("reclaimd"), "--no-bus", "--state-directory=" + state,
            "--runtime-directory=" + self.runtime, "--configuration-directory=" + etc,
            "--worker=" + self.program("reclaim-worker")]
        self._log = os.path.join(work.path, "daemon.log")
        self._process = None
        work.undo(self.close)
        self.start()

    def start(self):
        """Until it answers."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(  # pylint: disable=consider-using-with
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        for _ in range(200):
            if self.call("status", "-q", check=False) == 0:
                return
            time.sleep(0.05)
        raise Unavailable("reclaimd does not answer")

    def program(self, name):
        """Of the build that is measured."""
        return os.path.join(self._programs, name)

    def call(self, *words, check=True):
        """reclaimctl; returns its exit status."""
        # Its socket is for the verbs that talk to it, and ignored by run.
        status = subprocess.run(
            [self.program("reclaimctl"), *words],
            env=os.environ | {"RECLAIMD_RUNTIME_DIRECTORY": self.runtime},
            stdout=subprocess.DEVNULL, check=False,
            stderr=None if check else subprocess.DEVNULL).returncode
        if check and status != 0:
            raise RuntimeError(f"reclaimctl {words[0]}: exit status {status}")
        return status

    def jobs(self):
        """Those that are not finished, as `list --json` has them."""
        said = subprocess.run([self.program("reclaimctl"), "list", "--json",
                               "--runtime-directory=" + self.runtime],
                              capture_output=True, text=True, check=True).stdout
        return json.loads(said)

    def tasks(self):
        """The status of each thread."""
        top = f"/proc/{self._process.pid}/task"
        return [status_fields(f"{top}/{task}/status") for task in os.listdir(top)]

    def wakeups(self):
        """So far, of all threads."""
        return sum(int(task["voluntary_ctxt_switches"]) for task in self.tasks())

    def memory(self, which):
        """VmRSS or VmHWM, in MiB."""
        return int(status_fields(f"/proc/{self._process.pid}/status")[which].split()[0]) / 1024

    def stop(self, number):
        """By that signal, and waits for its end."""
        self._process.send_signal(number)
        self._process.wait(30)

    def close(self):
        """Harmless when it has ended."""
        if not self._process:
            return
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            self._process.kill()
        self._process.wait()
