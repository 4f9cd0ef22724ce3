# SPDX-License-Identifier: LGPL-2.1-or-later
"""Postgres: a foreground program that is a real database, under half of the load that it can bear.

pgbench has a mode in which transactions come due at a fixed rate, and then counts latencies from
when they were due. The database is small and in memory: what waits for the disk is its log.
"""

import contextlib
import glob
import os
import pwd
import re
import shutil
import signal
import subprocess
import time

from benchlib.foreground import Request
from benchlib.scratch import Unavailable

USER = "postgres"
SCALE = 10
CLIENTS = 8
CALIBRATE_SECONDS = 8
LOAD_SHARE = 0.5
WAL_BYTES_PER_TRANSACTION = 4096
# Pages are not written whole after a checkpoint, and there is none: it is the log that is watched,
# and it should grow at an even pace.
SETTINGS = ["shared_buffers=256MB", "autovacuum=off", "checkpoint_timeout=1h",
            "full_page_writes=off", "listen_addresses=", "fsync=on", "max_wal_size=4GB"]


def find_programs():
    """Directory of the newest server's programs."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"),
                   key=lambda path: int(re.search(r"/(\d+)/bin", path)[1]))
    if not found or not shutil.which("setpriv"):
        raise Unavailable("PostgreSQL is not installed (package postgresql)")
    return found[-1]


class Postgres:
    """A server whose data, log and all, lie on the stage, and pgbench."""

    name = "postgres"
    kinds = ("transaction",)

    def __init__(self, work):
        self._work = work
        self._programs = find_programs()
        self._account = pwd.getpwnam(USER)
        self._sockets = work.dir("postgres")
        self._rate = None
        self._server = self._client = None
        # The server, which is not root, has to reach its data.
        os.chmod(work.path, 0o711)
        os.chown(self._sockets, self._account.pw_uid, self._account.pw_gid)
        work.undo(self.kill)

    @property
    def appended_per_second(self):
        """Space it takes while a deletion gives some back."""
        return (self._rate or 0) * WAL_BYTES_PER_TRANSACTION

    def _command(self, program, *arguments):
        return [os.path.join(self._programs, program), *arguments]

    def _as_user(self, program, *arguments):
        return ["setpriv", f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}",
                "--clear-groups", "--pdeathsig=QUIT", *self._command(program, *arguments)]

    def _connected(self, program, *arguments):
        return self._command(program, "-h", self._sockets, "-U", USER, *arguments)

    @staticmethod
    def _run(command):
        """One that has to work, from a directory that its user may enter."""
        result = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
        if result.returncode != 0:
            raise Unavailable(f"{os.path.basename(command[0])}: {result.stderr.strip()[-300:]}")
        return result.stdout

    def prepare(self, mountpoint, _disk):
        """A database with pgbench's tables."""
        data = os.path.join(mountpoint, "postgres")
        os.mkdir(data, 0o700)
        os.chown(data, self._account.pw_uid, self._account.pw_gid)
        self._run(self._as_user("initdb", "-D", data, "-A", "trust", "-N"))
        self._serve(mountpoint)
        self._run(self._connected("pgbench", "-i", "-q", "-s", str(SCALE), USER))
        self._run(self._connected("psql", "-qc", "create extension pg_prewarm", USER))
        self._stop_server(signal.SIGINT)

    def calibrate(self, stage):
        """Find out what it can bear on this disk."""
        stage.reset()
        self._serve(stage.mountpoint)
        with stage.disk.slow():
            said = self._run(self._connected("pgbench", "-n", "-c", str(CLIENTS),
                                             "-T", str(CALIBRATE_SECONDS), USER))
        self._stop_server(signal.SIGQUIT)
        self._rate = max(1.0, float(re.search(r"tps = ([0-9.]+)", said)[1]) * LOAD_SHARE)

    def _serve(self, mountpoint):
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        with open(os.path.join(self._work.path, "postgres.log"), "ab") as log:
            self._server = subprocess.Popen(  # pylint: disable=consider-using-with
                self._as_user("postgres", "-D", os.path.join(mountpoint, "postgres"), "-k",
                              self._sockets, *settings),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        for _ in range(300):
            ready = subprocess.run(self._connected("pg_isready", "-q"), check=False)
            if ready.returncode == 0:
                return
            time.sleep(0.1)
        raise Unavailable("PostgreSQL does not start")

    def start(self, mountpoint):
        """The server, with its tables in memory."""
        self._serve(mountpoint)
        tables = "select pg_prewarm(oid) from pg_class where relname like 'pgbench%'"
        self._run(self._connected("psql", "-qAtc", tables, USER))

    def go(self):
        """Transactions from now on."""
        for path in glob.glob(os.path.join(self._work.path, "transactions.*")):
            os.unlink(path)
        self._client = subprocess.Popen(  # pylint: disable=consider-using-with
            self._connected("pgbench", "-n", "-c", str(CLIENTS), "-R", f"{self._rate:.2f}", "-T",
                            "100000", "-l", "--log-prefix",
                            os.path.join(self._work.path, "transactions"), USER),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        """Its log is complete only when what it has begun is done, which may need a fast disk."""
        self._client.send_signal(signal.SIGALRM)

    def reap(self):
        """All transactions that came due, and were done when the disk was fast at the latest."""
        try:
            self._client.wait(30)
        except subprocess.TimeoutExpired:
            self._client.kill()
        self.kill()
        shift = time.time() - time.monotonic()
        requests = []
        for path in glob.glob(os.path.join(self._work.path, "transactions.*")):
            with open(path, encoding="ascii") as lines:
                requests += [_request(line.split(), shift) for line in lines]
        return requests

    def _stop_server(self, number):
        server, self._server = self._server, None
        if server:
            server.send_signal(number)
            server.wait()

    def kill(self):
        """Harmless when they are gone."""
        client, self._client = self._client, None
        if client:
            client.kill()
            client.wait()
        with contextlib.suppress(ProcessLookupError):
            self._stop_server(signal.SIGQUIT)


def _request(fields, shift):
    """Client, number, latency (us), script, seconds and microseconds of its end, lag."""
    latency = int(fields[2]) / 1e6
    end = int(fields[4]) + int(fields[5]) / 1e6 - shift
    return Request("transaction", end - latency, latency, False, 0)
