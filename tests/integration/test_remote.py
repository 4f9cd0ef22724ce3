#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl -H: on another machine over ssh. A real sshd on this machine's loopback is the other one."""
import json
import os
import shutil
import socket
import subprocess
import unittest

import daemon_fixture
import fixture
import terminal
from fixture import Canary, Proc, command, scratch, write
from terminal import Terminal

SSHD = "/usr/sbin/sshd"

SERVER = """
ListenAddress 127.0.0.1:%(port)d
HostKey %(dir)s/host-key
AuthorizedKeysFile %(dir)s/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
SetEnv PATH=%(path)s RECLAIMD_RUNTIME_DIRECTORY=%(runtime)s LC_ALL=C.UTF-8
"""
CLIENT = """
IdentityFile %(dir)s/key
UserKnownHostsFile %(dir)s/known
StrictHostKeyChecking accept-new
BatchMode yes
LogLevel ERROR
ConnectTimeout 60
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@unittest.skipUnless(os.path.exists(SSHD) and shutil.which("ssh"), "there is no sshd, or no ssh")
class Case(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.dir = os.path.join(self.daemon.dir, "ssh")
        os.mkdir(self.dir, 0o755)
        for name in ("host-key", "key"):
            command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(self.dir, name))
        # sshd insists on a directory there; this process has a mount namespace of its own.
        command("mount", "-t", "tmpfs", "tmpfs", "/run")
        self.addCleanup(command, "umount", "-l", "/run")
        os.mkdir("/run/sshd", 0o755)
        self.port = free_port()
        known = {"dir": self.dir, "port": self.port, "runtime": os.path.dirname(self.daemon.socket),
                 "path": os.path.dirname(scratch.binary) + ":" + os.environ["PATH"]}
        write(os.path.join(self.dir, "server"), SERVER % known)
        write(os.path.join(self.dir, "client"), CLIENT % known)
        # The ssh that is found first is the real one with our settings.
        write(os.path.join(self.dir, "ssh"), '#!/bin/sh\nexec %s -F %s/client "$@"\n'
              % (shutil.which("ssh"), self.dir))
        os.chmod(os.path.join(self.dir, "ssh"), 0o755)
        self.serve()

    def serve(self):
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", os.path.join(self.dir, "server")],
                                  stderr=subprocess.PIPE)
        self.addCleanup(server.stderr.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        said = b""
        while b"Server listening" not in said:
            said = server.stderr.readline()
            self.assertTrue(said, "sshd has ended")

    def env(self):
        return {"PATH": self.dir + ":" + os.environ["PATH"]}

    @property
    def host(self):
        return "root@127.0.0.1:%d" % self.port

    def ctl(self, *args, status=0, **kw):
        p = Proc([scratch.binary, *args], "/", env=self.env(), **kw)
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual(r.status, status, r)
        return r


class Remote(Case):
    def test_remote_output_equals_local(self):
        write(self.path("a"))
        self.assertEqual(self.ctl("submit", "-H", self.host, "--undo=1h", "-q", self.path("a")).out, "")
        for words in (["list", "--json", "-H", self.host], ["-H", self.host, "list", "--json"],
                      ["--host=" + self.host, "list", "--json"], ["list", "-H" + self.host, "--json"]):
            (job,) = json.loads(self.ctl(*words).out)
            self.assertEqual((job["id"], job["state"], job["path"]), (1, "held", self.path("a")))
        self.ctl("-H", self.host, "restore", "1")
        self.assertEqual(os.listdir(self.data), ["a"])

    def test_remote_failure_is_local_failure(self):
        r = self.ctl("cancel", "7", "-H", self.host, status=1)
        self.assertIn("there is no unfinished job 7", r.err)
        self.daemon.stop()
        self.assertIn("no daemon to talk to", self.ctl("status", "-H", self.host, status=5).err)
        # What is wrong with the words is known before the other host is asked.
        self.assertIn("takes no arguments", self.ctl("status", "-H", "nobody.invalid", "x", status=2).err)

    def test_words_arrive_as_they_are(self):
        canary = Canary(self.path("canary"))
        names = ["it's", 'a "b"', "$(touch pwned)", "; touch pwned", "new\nline", "-rf", "*", "back\\slash",
                 "esc\x1b[31m", os.fsdecode(b"\xff")]
        for name in names:
            write(os.path.join(os.fsencode(self.data), os.fsencode(name)))
        self.ctl("submit", "--wait", "-q", "-H", self.host, "--",
                 *(os.path.join(self.data, name) for name in names))
        self.assertEqual(os.listdir(self.data), ["canary"])
        canary.check()

    def test_a_list_on_standard_input(self):
        for name in ("a", "b", "c"):
            write(self.path(name))
        listed = os.path.join(self.dir, "list")
        write(listed, "%s\n%s\n" % (self.path("a"), self.path("c")))
        with open(listed) as f:
            r = self.ctl("run", "--json", "--files-from=-", "-H", self.host, stdin=f)
        self.assertEqual(json.loads(r.out)["entries"], 2)
        self.assertEqual(os.listdir(self.data), ["b"])

    def test_remote_rejects_invalid_hosts(self):
        trap = os.path.join(self.dir, "trap")
        for host in ("-oProxyCommand=touch " + trap, "", "host:ssh", "host:"):
            r = self.ctl("list", "-H", host, status=2)
            self.assertIn("[USER@]HOST[:PORT]", r.err)
        self.assertFalse(os.path.exists(trap))
        self.ctl("list", "-H", "a", "-H", "b", status=2)
        self.ctl("list", "-qHa", status=2)
        self.ctl("list", "-H", status=2)
        self.assertTrue(self.ctl("list", "-H", "127.0.0.1:%d" % free_port(), status=255).err)

    def test_no_ssh(self):
        p = Proc([scratch.binary, "list", "-H", "host"], "/", env={"PATH": self.data})
        self.addCleanup(p.close)
        r = p.finish()
        self.assertEqual((r.status, r.err), (1, "reclaimctl: ssh: cannot be run: No such file or directory\n"))


@unittest.skipUnless(terminal.pyte, "there is no pyte, which is a terminal")
class Screen(Case):
    def test_top_has_a_terminal_there(self):
        shutil.copy(os.path.join(os.path.dirname(os.environ["RECLAIMCTL"]), "reclaim-top"), scratch.dir)
        write(self.path("a"))
        self.daemon.client().submit(self.path("a"), undo_usec=3600 * 1000000)
        t = Terminal([scratch.binary, "top", "-H", self.host, "--interval=100ms"], self.env())
        self.addCleanup(t.close)
        t.wait("1 held")
        t.press("p")
        t.wait("Job 1 paused")
        t.press("q")
        self.assertEqual(t.finish(), 0)


if __name__ == "__main__":
    fixture.main()
