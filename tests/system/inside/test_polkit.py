# SPDX-License-Identifier: LGPL-2.1-or-later
"""The real polkit says who may act on others' jobs: by a rule, by a rule that looks at whose job it is, by
an administrator's password, and not at all."""

import contextlib
import os
import pty
import select
import subprocess
import termios
import time
import unittest

from system import BUS, TIMEOUT_SECONDS, attempt, command, install, job_property, journal, manager_property, submit

RULES = "/etc/polkit-1/rules.d/10-test.rules"
RULE = """
polkit.addRule(function(action, subject) {
        if (!/^org.reclaimd1.(manage-others|restore-others|pause-all|reload)$/.test(action.id))
                return polkit.Result.NOT_HANDLED;
        if (subject.user == "keeper" ||
            subject.user == "helper" && action.lookup("owner") == "%d" && action.lookup("path") == "%s")
                return polkit.Result.YES;
        return polkit.Result.NOT_HANDLED;
});
"""
PASSWORD = "correct horse"
WORKERS = "/backups/worker/a\nb"
ESCAPED = r"/backups/worker/a\\nb"  # as it is shown, with one backslash, and as JavaScript writes that


def run(user, *words, **kw):
    return attempt("reclaimctl", *words, user=user, group=user, extra_groups=[], **kw)


def until_a_password_is_read():
    """Until a terminal takes lines and shows nothing: what is typed before that is lost, or a part of it."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        for name in filter(str.isdigit, os.listdir("/dev/pts")):
            with contextlib.suppress(OSError, termios.error), open("/dev/pts/" + name, "rb", buffering=0,
                    opener=lambda path, flags: os.open(path, flags | os.O_NOCTTY | os.O_NONBLOCK)) as f:
                modes = termios.tcgetattr(f)[3]
                if modes & termios.ICANON and not modes & termios.ECHO:
                    return
        time.sleep(0.01)


def at_terminal(user, *words, answer):
    """Runs reclaimctl in a session with a terminal, where a password is typed when it is asked for.
    (Without a session polkit has no use for an agent that is there for want of a better one.)"""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("su", ["su", "--pty", "--login", user, "--command", " ".join(("reclaimctl", *words))])
    said = b""
    with open(terminal, "r+b", buffering=0) as f, contextlib.suppress(OSError):  # its end is an error
        while select.select([f], [], [], TIMEOUT_SECONDS)[0] and (more := f.read(4096)):
            said += more
            if said.endswith(b"Password: "):
                until_a_password_is_read()
                f.write(answer.encode() + b"\n")
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), said.decode(errors="replace")


class Polkit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for user in ("keeper", "helper", "worker", "stranger", "warden"):
            command("useradd", "--no-create-home", user)
        os.mkdir("/backups/worker")
        command("chown", "worker:worker", "/backups/worker")
        owner = int(command("id", "-u", "worker"))
        with open(RULES, "w", encoding="utf-8") as f:
            f.write(RULE % (owner, ESCAPED))
        os.chmod(RULES, 0o644)
        command("systemctl", "restart", "polkit.service")
        install("deb", 1)

    def setUp(self):
        with open("/backups/roots", "w", encoding="utf-8") as f:
            f.write("canary")
        self.roots = submit("--undo=1h", "/backups/roots")

    def tearDown(self):
        if job_property(self.roots, "State") in ("held", "paused"):
            command("reclaimctl", "restore", str(self.roots))
        with open("/backups/roots", encoding="utf-8") as f:
            self.assertEqual(f.read(), "canary")

    def refused(self, user, *words, job=None, **kw):
        r = run(user, *words, str(job or self.roots), **kw)
        self.assertEqual((r.returncode, r.stdout),
                         (1, f"reclaimctl: there is no unfinished job {job or self.roots}\n"))
        self.assertEqual(job_property(self.roots, "State"), "held")

    def test_one_may_another_may_not(self):
        self.refused("stranger", "cancel")
        self.refused("stranger", "cancel", job=self.roots + 1000)
        self.refused("keeper", "cancel", job=self.roots + 1000)
        r = run("keeper", "cancel", str(self.roots))
        self.assertEqual((r.returncode, r.stdout), (0, f"Job {self.roots}: done as asked; no more of it may be seen\n"))
        self.assertEqual(job_property(self.roots, "State"), "cancelled")
        self.assertTrue(any(f"cancel deletion job {self.roots} of another user" in e["MESSAGE"]
                            for e in journal("-u", "reclaimd.service")))

    def test_each_verb(self):
        for verb, state in (("pause", "paused"), ("resume", "held"), ("restore", "restored")):
            r = run("keeper", verb, str(self.roots))
            self.assertEqual(r.returncode, 0, r.stdout)
            self.assertEqual(job_property(self.roots, "State"), state)
        self.assertEqual(run("keeper", "pause", "--all").returncode, 0)
        self.assertTrue(manager_property("Paused"))
        self.assertEqual(run("stranger", "resume", "--all").returncode, 4)
        self.assertEqual(run("keeper", "resume", "--all").returncode, 0)
        self.assertFalse(manager_property("Paused"))

    def test_reload(self):
        for user, status in (("stranger", 4), ("keeper", 0)):
            r = attempt("busctl", "call", *BUS, "Reload", user=user, group=user, extra_groups=[])
            self.assertEqual(r.returncode == 0, status == 0, r.stdout)

    def test_rule_about_the_job(self):
        command("setpriv", "--reuid=worker", "--regid=worker", "--clear-groups", "touch", WORKERS)
        r = run("worker", "submit", "--undo=1h", WORKERS)
        self.assertEqual(r.returncode, 0, r.stdout)
        workers = self.roots + 1
        self.refused("helper", "pause")
        self.refused("stranger", "pause", job=workers)
        r = run("helper", "cancel", str(workers))
        self.assertEqual(r.returncode, 0, r.stdout)
        self.assertTrue(os.path.exists(WORKERS))

    def test_password(self):
        """At a terminal, an administrator is asked, and told of what; another password is no use."""
        command("groupadd", "--force", "sudo")
        command("usermod", "--append", "--groups=sudo", "warden")
        command("chpasswd", input=f"warden:{PASSWORD}\n")
        status, said = at_terminal("stranger", "cancel", str(self.roots), answer="battery staple")
        self.assertEqual((status, job_property(self.roots, "State")), (1, "held"), said)
        status, said = at_terminal("stranger", "cancel", str(self.roots), answer=PASSWORD)
        self.assertEqual((status, job_property(self.roots, "State")), (0, "cancelled"), said)
        self.assertIn(f"Authentication is required to cancel deletion job {self.roots} of another user.", said)
        self.assertNotIn("/backups/roots", said)

    def test_no_agent_can_ask(self):
        """With a terminal for its input, but none for an agent to ask at: no."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(["reclaimctl", "cancel", str(self.roots)], user="stranger", group="stranger",
                              extra_groups=[], stdin=theirs, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as r:
            said, _ = r.communicate(timeout=TIMEOUT_SECONDS)
        os.close(ours)
        os.close(theirs)
        self.assertEqual(r.returncode, 1, said)
        self.assertEqual(job_property(self.roots, "State"), "held")

    def test_30_no_polkit(self):
        command("systemctl", "mask", "--runtime", "--now", "polkit.service")
        self.refused("keeper", "cancel")
        command("systemctl", "unmask", "--runtime", "polkit.service")
        command("systemctl", "start", "polkit.service")
        r = run("keeper", "cancel", str(self.roots))
        self.assertEqual(r.returncode, 0, r.stdout)

    def test_fault_18_polkit_restarts(self):
        command("systemctl", "kill", "--signal=SIGKILL", "polkit.service")
        command("systemctl", "restart", "polkit.service")
        r = run("keeper", "pause", str(self.roots))
        self.assertEqual(r.returncode, 0, r.stdout)


if __name__ == "__main__":
    unittest.main()
