# SPDX-License-Identifier: LGPL-2.1-or-later
"""A PostgreSQL server of the tests' own: its data in a directory of theirs, a Unix socket, no port, and
gone with the test. It runs as the user that the package has made for it."""
import contextlib
import glob
import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import unittest

USER = "postgres"
# What a test waits for is no disk.
SETTINGS = ("listen_addresses=", "fsync=off", "full_page_writes=off", "autovacuum=off", "shared_buffers=16MB",
            "max_connections=50", "log_line_prefix=%d %n ", "unix_socket_permissions=0777")


def find_programs():
    """The directory of the newest server's."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb") + glob.glob("/usr/bin/initdb"),
                   key=lambda path: int((re.findall(r"/(\d+)/", path) or [0])[0]))
    if not found or not shutil.which("setpriv"):
        raise unittest.SkipTest("PostgreSQL is not installed (package postgresql)")
    return os.path.dirname(found[-1])


def lives(pid):
    """It has not ended, though its parent may not have waited for it."""
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii", errors="replace") as f:
            return f.read().rpartition(") ")[2][:1] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill_whole(process, data):
    """Ends a server as if the machine was gone. While one of its processes, which have a group of their own each, has not
    ended, the next server does not start: it has the same memory."""
    import fixture  # pylint: disable=import-outside-toplevel
    # Stopped, it begins no more of them.
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True,
                              text=True, check=False).stdout.split()
    for pid in [process.pid, *map(int, children)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    fixture.until(lambda: not any(lives(pid) for pid in children))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(data, "postmaster.pid"))


class Server:
    def __init__(self, directory):
        self.programs = find_programs()
        try:
            self.account = pwd.getpwnam(USER)
        except KeyError as e:
            raise unittest.SkipTest("there is no user %s" % USER) from e
        self.dir = os.path.join(directory, "postgres")
        self.data = os.path.join(self.dir, "data")
        self.log = os.path.join(self.dir, "log")
        self.process = None
        os.mkdir(self.dir)
        os.chown(self.dir, self.account.pw_uid, self.account.pw_gid)
        self.run("initdb", "-D", self.data, "-A", "trust", "-N", "-E", "UTF8", "--locale=C")

    def words(self, program, *words):
        return ["setpriv", "--reuid=%d" % self.account.pw_uid, "--regid=%d" % self.account.pw_gid, "--clear-groups",
                "--pdeathsig=KILL", os.path.join(self.programs, program), *words]

    def run(self, program, *words):
        p = subprocess.run(self.words(program, *words), capture_output=True, text=True, check=False, cwd="/",
                           env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"})
        if p.returncode != 0:
            raise RuntimeError("%s: %s" % (program, p.stderr))
        return p.stdout

    def start(self):
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(  # pylint: disable=consider-using-with
                self.words("postgres", "-D", self.data, "-k", self.dir, *settings), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, cwd="/", env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, start_new_session=True)
        import fixture  # pylint: disable=import-outside-toplevel
        fixture.until(self.is_ready, self.said)
        return self

    def is_ready(self):
        if self.process.poll() is not None:
            raise RuntimeError("the server has ended: " + self.said())
        return subprocess.run([os.path.join(self.programs, "pg_isready"), "-q", "-h", self.dir],
                              check=False).returncode == 0

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()[-2000:]

    def end(self, sig):
        process, self.process = self.process, None
        if process:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(sig)
            process.wait()

    def kill(self):
        """As if the machine was gone. The next start recovers."""
        process, self.process = self.process, None
        if process:
            kill_whole(process, self.data)

    def stop(self):
        self.end(signal.SIGQUIT)

    def string(self, database="postgres", user=USER):
        return "host=%s dbname=%s user=%s" % (self.dir, database, user)

    def psql(self, statements, database="postgres", user=USER):
        """What one or more statements say, without titles."""
        p = subprocess.run([os.path.join(self.programs, "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.dir, "-U",
                            user, "-d", database], input=statements, capture_output=True, text=True, check=False)
        if p.returncode != 0:
            raise RuntimeError(p.stderr)
        return p.stdout.strip()

    def rows(self, query, database="postgres"):
        """Of a query: a list of dictionaries."""
        return json.loads(self.psql("SELECT coalesce(json_agg(x), '[]') FROM (%s) x" % query, database))
