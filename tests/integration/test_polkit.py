#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""What is another's takes polkit's leave: it is asked in the right words, its yes is for what it was
asked about and once, and everything else is no, at once, of which no other client notices.

polkit here is a connection that has its name on the test's bus, and answers what the test says. (On a
real one only polkitd may have that name: the bus's policy says so.)

  RECLAIMCTL, RECLAIMD, RECLAIM_WORKER   the programs under test (required)"""
import json
import os
import pty
import signal
import subprocess
from xml.etree import ElementTree

import bus_fixture
import fixture
from daemon_fixture import user
from dbuswire import Connection, Error
from fixture import USER

POLKIT = "org.freedesktop.PolicyKit1"
ACTION = "org.reclaimd1.manage-others"
ACTIONS = {"cancel": "manage-others", "pause": "manage-others", "resume": "manage-others",
           "set-priority": "manage-others", "set-deadline": "manage-others", "restore": "restore-others",
           "pause-all": "pause-all", "resume-all": "pause-all", "reload": "reload",
           "plan-policy": "plan-policy", "run-policy": "run-policy"}
DRIVER = {"path": "/org/freedesktop/DBus", "interface": "org.freedesktop.DBus",
          "destination": "org.freedesktop.DBus"}
POLICY_P = {"path": "/org/reclaimd1/policy/p", "interface": "org.reclaimd1.Policy"}
DAEMON = 1  # another user whom dbus-daemon lets in
INTERACTIVE = 4  # the flag of a message
YES, CHALLENGE, NO = (True, False, {}), (False, True, {}), (False, False, {})


class Question:
    def __init__(self, message):
        self.message = message
        (kind, subject), self.action, self.details, self.flags, self.id = message.body
        assert kind == "system-bus-name" and list(subject) == ["name"], (kind, subject)
        self.subject = subject["name"]


class Polkit(Connection):
    def __init__(self, path):
        super().__init__(path, bus=True)
        self.call("RequestName", "su", POLKIT, 4, **DRIVER)

    def question(self):
        return Question(self.called("CheckAuthorization"))

    def says(self, verdict):
        """Answers the next question, which it returns."""
        q = self.question()
        self.reply(q.message, "(bba{ss})", verdict)
        return q

    def unasked(self):
        """Whether the daemon, which has answered the caller, has not asked."""
        self.call("GetId", **DRIVER)
        return not any(m.member == "CheckAuthorization" for m in self.signals)


class Case(bus_fixture.Case):
    def setUp(self):
        super().setUp()
        with open(self.s.path("conf/reclaimd.yaml"), "w", encoding="utf-8") as f:
            f.write("policies: {p: {path: /no/such/directory, match: '*', max-age: 1d}}\n")
        self.s.start_bus()
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        self.canary = self.s.file("roots")
        with self.s.client() as root:
            self.job = self.s.submit(root, self.s.path("data"), "roots", undo_usec=("t", bus_fixture.HOUR))

    def stranger(self, uid=bus_fixture.NOBODY):
        with user(uid):
            return Connection(self.s.bus_path, bus=True)

    def polkit(self):
        polkit = Polkit(self.s.bus_path)
        self.addCleanup(polkit.close)
        return polkit

    def calls(self, job=None):
        job = job or self.job
        path = {"path": "/org/reclaimd1/job/%d" % job, "interface": bus_fixture.JOB}
        return ((("Cancel", "at", [job]), {}), (("Pause", "at", [job]), {}), (("Resume", "at", [job]), {}),
                (("Restore", "ta{sv}", job, {}), {}), (("Cancel",), path), (("Pause",), path),
                (("Resume",), path), (("Restore", "a{sv}", {}), path),
                (("SetPriority", "ats", [job], "high"), {}), (("SetDeadline", "t", 1), path))

    def state(self, job=None):
        with self.s.client() as root:
            (found,) = root.call("ListJobs", "a{sv}", {"ids": ("at", [job or self.job])}).body[0]
            return found[1]

    def check_held(self):
        self.assertEqual(self.state(), "held")
        with self.s.client() as root:
            root.call("Restore", "ta{sv}", self.job, {})
        self.assertTrue(os.path.exists(self.canary))

    def answer(self, client, serial, error=None):
        """Waits for the answer of a call that was sent, which is that error or none."""
        if not error:
            return client.answer(serial)
        with self.assertRaises(Error) as caught:
            client.answer(serial)
        self.assertEqual(caught.exception.name, error, caught.exception.text)
        return caught.exception.text


class OthersJobs(Case):
    def test_30_no_polkit(self):
        with self.stranger() as c:
            for flags in (0, INTERACTIVE):
                for call, where in self.calls() + self.calls(self.job + 1000):
                    self.refused("NoSuchJob", "", c, *call, flags=flags, **where)
                self.refused("NoSuchJob", "", c, "GetJob", "t", self.job, flags=flags)
                for call in ("PauseAll", "ResumeAll", "Reload"):
                    self.refused("NotAuthorized", "", c, call, flags=flags)
        self.check_held()

    def test_29_client_gone_while_polkit_thinks(self):
        """polkit is told; what it says then is too late; other clients are served, and nothing was done."""
        polkit = self.polkit()
        for thinks_about_a_password in (False, True):
            for call, where in self.calls() + ((("PauseAll",), {}),):
                c = self.stranger()
                c.send(*call, flags=INTERACTIVE, **where)
                if thinks_about_a_password:
                    polkit.says(CHALLENGE)
                question = polkit.question()
                c.close()
                self.assertEqual(polkit.called("CancelCheckAuthorization").body, [question.id])
                polkit.reply(question.message, "(bba{ss})", YES)
        with self.stranger() as c:
            self.assertEqual(c.call("ListJobs", "a{sv}", {}).body[0], [])
        with self.s.client() as root:
            told = root.call("Get", "ss", "org.reclaimd1.Manager", "Paused",
                             interface="org.freedesktop.DBus.Properties")
            self.assertFalse(told.body[0])
        self.check_held()

    def test_29_client_gone_at_once(self):
        polkit = self.polkit()
        for call, where in self.calls()[:4]:
            c = self.stranger()
            c.send(*call, **where)
            c.close()
        with self.stranger() as c:
            sent = c.send("Pause", "at", [self.job])
            while (question := polkit.question()).subject != c.name:
                pass  # it had been there, but is not any more
            polkit.reply(question.message, "(bba{ss})", NO)
            self.answer(c, sent, "NoSuchJob")
        self.check_held()

    def test_authorization_is_for_one_call(self):
        polkit = self.polkit()
        with self.stranger() as c:
            for call, where, state in (("Pause", {}, "paused"), ("Resume", {}, "held")):
                sent = c.send(call, "at", [self.job])
                question = polkit.says(YES)
                self.answer(c, sent)
                self.assertEqual(self.state(), state)
                self.assertEqual((question.action, question.flags), (ACTION, 0))
                self.assertEqual(question.subject, c.name)
                self.assertEqual(question.details,
                                 {"verb": call.lower(), "jobs": str(self.job), "owner": "0",
                                  "path": self.canary})
                sent = c.send(call, "at", [self.job])
                polkit.says(NO)
                self.answer(c, sent, "NoSuchJob")
            sent = c.send("Restore", "a{sv}", {}, path="/org/reclaimd1/job/%d" % self.job,
                          interface=bus_fixture.JOB)
            polkit.says(YES)
            self.answer(c, sent)
            self.assertTrue(os.path.exists(self.canary))
            self.assertEqual(self.state(), "restored")

    def test_authorization_for_a_change(self):
        polkit = self.polkit()
        with self.stranger() as c, self.s.client() as root:
            for call, verb, property_, value in ((("SetPriority", "ats", [self.job], "high"), "set-priority", "Priority", "high"),
                                                 (("SetDeadline", "att", [self.job], 5), "set-deadline", "DeadlineUSec", 5)):
                for verdict, error in ((NO, "NoSuchJob"), (YES, None)):
                    sent = c.send(*call)
                    question = polkit.says(verdict)
                    self.assertEqual((question.action, question.details["verb"]), (ACTION, verb))
                    self.answer(c, sent, error)
                    told = root.call("Get", "ss", bus_fixture.JOB, property_, path="/org/reclaimd1/job/%d" % self.job,
                                     interface="org.freedesktop.DBus.Properties").body[0]
                    self.assertEqual(told == value, verdict == YES)
        self.check_held()

    def test_authorized_cancel(self):
        polkit = self.polkit()
        with self.stranger() as c:
            sent = c.send("Cancel", "at", [self.job])
            polkit.says(YES)
            self.answer(c, sent)
            self.assertTrue(os.path.exists(self.canary))
            self.assertEqual(self.state(), "cancelled")
            self.refused("NoSuchJob", "", c, "GetJob", "t", self.job)

    def test_authorization_for_pause_all_and_reload(self):
        polkit = self.polkit()
        with self.stranger() as c:
            for call, verb in (("PauseAll", "pause-all"), ("ResumeAll", "resume-all"), ("Reload", "reload")):
                for verdict, error in ((NO, "NotAuthorized"), (YES, None)):
                    sent = c.send(call)
                    self.assertEqual(polkit.says(verdict).details, {"verb": verb})
                    self.answer(c, sent, error)
                    told = c.call("Get", "ss", "org.reclaimd1.Manager", "Paused",
                                  interface="org.freedesktop.DBus.Properties")
                    self.assertEqual(told.body[0], verdict == YES if call == "PauseAll" else
                                     call == "ResumeAll" and verdict == NO)

    def test_each_kind_of_act_has_its_action(self):
        """Which is in the file that is installed, as its verb is in the manual."""
        polkit, seen = self.polkit(), set()
        with self.stranger() as c:
            for call, where in self.calls() + ((("PauseAll",), {}), (("ResumeAll",), {}), (("Reload",), {}),
                                               (("Plan",), POLICY_P), (("Run",), POLICY_P)):
                serial = c.send(*call, **where)
                question = polkit.says(NO)
                with self.assertRaises(Error):
                    c.answer(serial)
                self.assertEqual(question.action, "org.reclaimd1." + ACTIONS[question.details["verb"]])
                seen.add(question.details["verb"])
        self.assertEqual(seen, set(ACTIONS))
        actions = ElementTree.parse(os.path.join(bus_fixture.TOP, "conf/org.reclaimd1.policy")).getroot()
        self.assertEqual({a.get("id") for a in actions.iter("action")}, {"org.reclaimd1." + a for a in ACTIONS.values()})
        page = bus_fixture.content(os.path.join(bus_fixture.TOP, "man/reclaimd.8.scd"))
        for word in [*ACTIONS, *("org.reclaimd1." + a for a in ACTIONS.values())]:
            self.assertIn("_%s_" % word, page)
        self.check_held()

    def test_own_jobs_take_no_leave(self):
        polkit = self.polkit()
        os.chmod(self.s.path("data"), 0o777)
        self.s.file("own", owner=bus_fixture.NOBODY)
        with self.stranger() as c:
            job = c.call("Submit", "aaya{sv}", [self.s.path("data/own").encode()],
                         {"undo-usec": ("t", bus_fixture.HOUR)}).body[0]
            for call in (("Pause", "at", [job]), ("SetPriority", "ats", [job], "low"), ("SetDeadline", "att", [job], 7),
                         ("Resume", "at", [job]), ("Restore", "ta{sv}", job, {})):
                c.call(*call)
        self.assertTrue(polkit.unasked())

    def test_invalid_answer_is_refusal(self):
        polkit = self.polkit()
        for call, where in self.calls():
            for signature, value in (("(bba{ss})", NO), ("(bba{ss})", CHALLENGE), ("b", True), ("(bb)", (True, False)),
                                     ("(uua{ss})", (1, 1, {})), ("s", "yes"), ("", None)):
                with self.stranger() as c:
                    sent = c.send(*call, **where)
                    polkit.reply(polkit.question().message, signature, *[value][:len(signature)])
                    self.answer(c, sent, "NoSuchJob")
            with self.stranger() as c:
                sent = c.send(*call, **where)
                polkit.reply(polkit.question().message, "s", "yes", error=POLKIT + ".Error.Failed")
                self.answer(c, sent, "NoSuchJob")
        self.check_held()

    def test_polkit_never_answers(self):
        polkit = self.polkit()
        with self.stranger() as c:
            sent = c.send("Cancel", "at", [self.job])
            question = polkit.question()
            self.answer(c, sent, "NoSuchJob")
            self.assertEqual(polkit.called("CancelCheckAuthorization").body, [question.id])
            polkit.reply(question.message, "(bba{ss})", YES)
        self.check_held()

    def test_fault_18_polkit_restarts(self):
        first = Polkit(self.s.bus_path)
        with self.stranger() as c:
            sent = c.send("Pause", "at", [self.job])
            first.question()
            first.close()
            self.answer(c, sent, "NoSuchJob")
            self.refused("NoSuchJob", "", c, "Pause", "at", [self.job])
            self.assertEqual(self.state(), "held")
            polkit = self.polkit()
            sent = c.send("Pause", "at", [self.job])
            polkit.says(YES)
            self.answer(c, sent)
            self.assertEqual(self.state(), "paused")

    def test_fault_18_bus_restarts_while_polkit_thinks(self):
        polkit = self.polkit()
        with self.stranger() as c:
            c.send("Pause", "at", [self.job])
            polkit.question()
            self.s.stop_bus()
        self.assertEqual(self.state(), "held")
        self.s.start_bus()
        self.s.wait_for_name().close()
        polkit = self.polkit()
        with self.stranger() as c:
            sent = c.send("Pause", "at", [self.job])
            polkit.says(YES)
            self.answer(c, sent)


class Asking(Case):
    def test_32_who_is_refused_learns_nothing(self):
        """The same answer, and where a person is asked for a password the same question, but for the
        number, which the caller has said."""
        polkit = self.polkit()
        seen = []
        with self.stranger() as c:
            for job in (self.job, self.job + 1000):
                sent = c.send("Cancel", "at", [job], flags=INTERACTIVE)
                self.assertEqual(polkit.says(CHALLENGE).flags, 0)
                question = polkit.says(NO)
                self.assertEqual(question.flags, 1)
                text = self.answer(c, sent, "NoSuchJob")
                self.assertIn("cancel deletion job %d" % job, question.details["polkit.message"])
                seen.append((repr(question.details) + text).replace(str(job), "N"))
            self.assertEqual(seen[0], seen[1])
            self.assertNotIn("roots", seen[0])
            # Where no person may be asked, the answer is there as soon as polkit's.
            for job in (self.job, self.job + 1000):
                sent = c.send("Cancel", "at", [job])
                polkit.says(CHALLENGE)
                self.answer(c, sent, "NoSuchJob")
            self.assertTrue(polkit.unasked())
        self.check_held()

    def test_password(self):
        polkit = self.polkit()
        with self.stranger() as c:
            sent = c.send("Pause", "at", [self.job], flags=INTERACTIVE)
            polkit.says(CHALLENGE)
            polkit.says(YES)
            self.answer(c, sent)
            self.assertEqual(self.state(), "paused")

    def test_authorization_is_for_listed_jobs(self):
        """Not for a job that comes, nor one that ends, while polkit thinks."""
        polkit = self.polkit()
        with self.stranger() as c, self.s.client() as root:
            sent = c.send("Cancel", "at", [self.job + 1])
            question = polkit.question()
            self.assertEqual(question.details, {"verb": "cancel", "jobs": str(self.job + 1)})
            self.s.file("later")
            later = self.s.submit(root, self.s.path("data"), "later", undo_usec=("t", bus_fixture.HOUR))
            self.assertEqual(later, self.job + 1)
            polkit.reply(question.message, "(bba{ss})", YES)
            self.answer(c, sent, "NoSuchJob")
            self.assertEqual(self.state(later), "held")

            sent = c.send("Pause", "at", [self.job])
            question = polkit.question()
            root.call("Restore", "ta{sv}", self.job, {})
            self.assertEqual(root.signal("JobFinished").body[0], self.job)
            polkit.reply(question.message, "(bba{ss})", YES)
            self.answer(c, sent, "NoSuchJob")
            self.assertEqual(self.state(), "restored")

    def test_31_path_is_escaped(self):
        name = "a\033[31m\n\u202eb $(verb)"
        self.s.file(name)
        polkit = self.polkit()
        with self.s.client() as root, self.stranger() as c:
            job = self.s.submit(root, self.s.path("data"), name, undo_usec=("t", bus_fixture.HOUR))
            sent = c.send("Pause", "at", [job])
            path = polkit.says(NO).details["path"]
            self.answer(c, sent, "NoSuchJob")
        self.assertTrue(path.startswith(self.s.path("data") + "/a"), path)
        self.assertIn("b $(verb)", path)
        for bad in "\033\n\u202e":
            self.assertNotIn(bad, path)

    def test_authorization_for_several_jobs(self):
        """All or none; of several, no path; of several users, no owner."""
        polkit = self.polkit()
        os.mkdir(self.s.path("data/users"))
        os.chown(self.s.path("data/users"), USER, USER)
        self.s.file("theirs", USER, "users")
        self.s.file("other")
        with user(), self.s.client() as c:
            theirs = self.s.submit(c, self.s.path("data/users"), "theirs", undo_usec=("t", bus_fixture.HOUR))
        with self.s.client() as root:
            other = self.s.submit(root, self.s.path("data"), "other", undo_usec=("t", bus_fixture.HOUR))
        with self.stranger() as c:
            for jobs, owner in (([self.job, other], "0"), ([self.job, theirs], None),
                                ([self.job, self.job + 1000], None)):
                sent = c.send("Pause", "at", jobs)
                details = polkit.says(NO).details
                self.answer(c, sent, "NoSuchJob")
                self.assertEqual(details["jobs"], " ".join(map(str, jobs)))
                self.assertEqual(details.get("owner"), owner)
                self.assertNotIn("path", details)
            sent = c.send("Pause", "at", [self.job, self.job + 1000])
            polkit.says(YES)
            self.answer(c, sent, "NoSuchJob")
            self.assertEqual(self.state(), "held")
            sent = c.send("Pause", "at", [self.job, theirs])
            polkit.says(YES)
            self.answer(c, sent)
            self.assertEqual((self.state(), self.state(theirs)), ("paused", "paused"))
            self.refused("NoSuchJob", "", c, "Pause", "at", [self.job] * 65)
            self.assertTrue(polkit.unasked())

    def test_restore_has_authority_of_owner(self):
        """The owner's: what the owner may not do any more is not done by root's hand either."""
        polkit = self.polkit()
        directory = self.s.path("data/users")
        os.mkdir(directory)
        os.chown(directory, USER, USER)
        self.s.file("theirs", USER, "users")
        with user(), self.s.client() as c:
            job = self.s.submit(c, directory, "theirs", undo_usec=("t", bus_fixture.HOUR))
        os.chown(directory, 0, 0)
        with self.stranger() as c:
            sent = c.send("Restore", "ta{sv}", job, {})
            self.assertEqual(polkit.says(YES).details["owner"], str(USER))
            self.answer(c, sent, "NotAuthorized")
            self.assertEqual((self.state(job), os.listdir(directory)), ("held", []))
            os.chown(directory, USER, USER)
            sent = c.send("Restore", "ta{sv}", job, {})
            polkit.says(YES)
            self.answer(c, sent)
            self.assertEqual(os.stat(directory + "/theirs").st_uid, USER)

    def test_owner_and_root_need_no_authorization(self):
        """Another place, which would be chosen by the owner's authority; one's own that has finished;
        and a client of the private socket, which cannot be named to polkit."""
        polkit = self.polkit()
        os.mkdir(self.s.path("data/nobodys"))
        os.chown(self.s.path("data/nobodys"), bus_fixture.NOBODY, bus_fixture.NOBODY)
        self.s.file("own", bus_fixture.NOBODY, "nobodys")
        with self.stranger() as c, self.s.client() as root:
            own = c.call("Submit", "aaya{sv}", [self.s.path("data/nobodys/own").encode()],
                         {"undo-usec": ("t", bus_fixture.HOUR)}).body[0]
            c.call("Cancel", "at", [own])
            self.assertEqual(root.signal("JobFinished").body[0], own)
            self.refused("NoSuchJob", "", c, "Cancel", "at", [own])
            self.refused("NoSuchJob", "", c, "Cancel", "at", [own, own])
        with user(), self.s.client() as c:
            fd = os.open(self.s.path("data/nobodys"), os.O_PATH)
            self.refused("NoSuchJob", "", c, "Restore", "ta{sv}", self.job, {"directory": ("h", 0)}, fds=[fd])
            os.close(fd)
            self.refused("NoSuchJob", "", c, "Cancel", "at", [self.job], flags=INTERACTIVE)
            self.refused("NotAuthorized", "", c, "Reload", flags=INTERACTIVE)
        self.assertTrue(polkit.unasked())
        self.check_held()

    def test_33_many_questions(self):
        polkit = self.polkit()
        with self.stranger() as c, self.stranger(DAEMON) as other:
            sent = [c.send("Pause", "at", [self.job]) for _ in range(8)]
            questions = [polkit.question() for _ in sent]
            for job in (self.job, self.job + 1000):
                self.refused("LimitExceeded", "polkit", c, "Pause", "at", [job])
            others = other.send("Pause", "at", [self.job])
            polkit.says(NO)
            self.answer(other, others, "NoSuchJob")
            for question in questions:
                polkit.reply(question.message, "(bba{ss})", NO)
            for serial in sent:
                self.answer(c, serial, "NoSuchJob")
            again = c.send("Pause", "at", [self.job])
            polkit.says(YES)
            self.answer(c, again)


class Restored(Case):
    """Another's job, by who owns a directory above the one that names go back to."""

    def setUp(self):
        super().setUp()
        self.mine, self.roots, self.target = (self.s.path("data", n) for n in ("mine", "mine/roots", "target"))
        for path, uid in ((self.mine, bus_fixture.NOBODY), (self.roots, 0), (self.target, 0)):
            os.mkdir(path)
            os.chown(path, uid, uid)
        self.file = self.s.file("file", directory="mine/roots")
        with self.s.client() as root:
            self.theirs = self.s.submit(root, self.roots, "file", undo_usec=("t", bus_fixture.HOUR))

    def swap(self, link):
        """As the asker, who may rename what is in a directory of their own."""
        with user(bus_fixture.NOBODY):
            os.rename(self.roots, self.mine + "/away")
            if link:
                os.symlink(self.target, self.roots)
            else:
                os.mkdir(self.roots)

    def restore(self, c, polkit, error=None, **options):
        sent = c.send("Restore", "ta{sv}", self.theirs, options)
        polkit.says(YES)
        self.answer(c, sent, error)

    def test_attack_25_to_a_place_of_the_askers_choice(self):
        """polkit is not even asked: the bus passes no directory, and a name alone is refused."""
        polkit = self.polkit()
        with self.stranger() as c:
            for options in ({"directory": ("h", 0)}, {"directory": ("h", 0), "name": ("ay", b"other")}):
                fd = os.open(self.mine, os.O_PATH)
                self.refused("org.freedesktop.DBus.Error.NotSupported", "", c, "Restore", "ta{sv}", self.theirs,
                             options, fds=[fd], flags=INTERACTIVE)
                os.close(fd)
            self.refused("InvalidArgument", "", c, "Restore", "ta{sv}", self.theirs, {"name": ("ay", b"other")})
        self.assertTrue(polkit.unasked())
        self.assertEqual((self.state(self.theirs), os.listdir(self.mine)), ("held", ["roots"]))

    def test_attack_25_directory_swapped_before(self):
        """For a link to a place of root's, or for one of the asker's: it goes to neither."""
        polkit = self.polkit()
        for link in (True, False):
            self.swap(link)
            with self.stranger() as c:
                self.restore(c, polkit, "IdentityChanged")
            self.assertEqual((os.listdir(self.target), os.listdir(self.roots), os.listdir(self.mine + "/away")),
                             ([], [], []))
            self.assertEqual(self.state(self.theirs), "held")
            (os.unlink if link else os.rmdir)(self.roots)
            os.rename(self.mine + "/away", self.roots)
        with self.stranger() as c:
            self.restore(c, polkit)
        self.assertEqual(bus_fixture.content(self.file), "canary")

    def at_gate(self, asker, polkit):
        """Until the owner's worker has opened the directory, and is about to rename."""
        sent = asker.send("Restore", "ta{sv}", self.theirs, {})
        polkit.says(YES)
        return sent, self.stopped()

    def stopped(self):
        return fixture.until(lambda: next(filter(fixture.is_stopped, fixture.workers_of(self.s.daemon.pid)), None),
                             lambda: "no worker came to its gate")

    def with_gate(self):
        self.s.daemon.terminate()
        bus_fixture.ended(self.s.daemon)
        os.environ["RECLAIM_GATE"] = "restore:file"
        self.addCleanup(os.environ.pop, "RECLAIM_GATE")
        self.s.start(bus=True)
        self.s.wait_for_name().close()
        return self.polkit()

    def test_attack_25_directory_swapped_meanwhile(self):
        """It goes to the directory that was looked at, wherever that is called by now."""
        polkit = self.with_gate()
        with self.stranger() as c:
            sent, worker = self.at_gate(c, polkit)
            self.swap(link=True)
            os.kill(worker, signal.SIGCONT)
            self.answer(c, sent)
        self.assertEqual((os.listdir(self.target), os.listdir(self.mine + "/away")), ([], ["file"]))
        self.assertEqual(os.stat(self.mine + "/away/file").st_uid, 0)

    def test_attack_25_asker_leaves_meanwhile(self):
        """What was begun is ended."""
        polkit = self.with_gate()
        c = self.stranger()
        _, worker = self.at_gate(c, polkit)
        c.close()
        os.kill(worker, signal.SIGCONT)
        with self.s.client() as root:
            while self.state(self.theirs) != "restored":
                pass
            root.call("ListJobs", "a{sv}", {})
        self.assertEqual(bus_fixture.content(self.file), "canary")

    def test_attack_25_something_is_in_its_place(self):
        """It is not replaced, nor followed if it is a link."""
        polkit = self.polkit()
        os.chown(self.roots, bus_fixture.NOBODY, bus_fixture.NOBODY)
        with user(bus_fixture.NOBODY):
            os.symlink(self.target, self.file)
        with self.stranger() as c:
            self.restore(c, polkit, "WrongState")
        self.assertTrue(os.path.islink(self.file))
        self.assertEqual((os.listdir(self.target), self.state(self.theirs)), ([], "held"))

    def test_attack_25_read_only(self):
        """It cannot go back, and stays where it is; when it can, it does."""
        polkit = self.polkit()
        at = self.s.path("data/disk")
        os.mkdir(at)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", at], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", at], check=True)
        file = self.s.file("file", directory="disk")
        with self.s.client() as root:
            job = self.s.submit(root, at, "file", undo_usec=("t", bus_fixture.HOUR))
        subprocess.run(["mount", "-o", "remount,ro", at], check=True)
        with self.stranger() as c:
            sent = c.send("Restore", "ta{sv}", job, {})
            polkit.says(YES)
            with self.assertRaises(Error):
                c.answer(sent)
            self.assertEqual((self.state(job), os.path.exists(file)), ("held", False))
            subprocess.run(["mount", "-o", "remount,rw", at], check=True)
            sent = c.send("Restore", "ta{sv}", job, {})
            polkit.says(YES)
            self.answer(c, sent)
        self.assertEqual(bus_fixture.content(file), "canary")


class CommandLine(Case):
    def reclaimctl(self, *words, **kw):
        return subprocess.Popen([os.environ["RECLAIMCTL"], *words], user=bus_fixture.NOBODY, group=bus_fixture.NOBODY,
                                extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, DBUS_SYSTEM_BUS_ADDRESS="unix:path=" + self.s.bus_path,
                                         PATH="/nonexistent"),  # where there is no agent
                                **kw)

    def test_asks_only_at_a_terminal(self):
        polkit = self.polkit()
        ours, theirs = pty.openpty()
        job = str(self.job)
        for words, stdin, asked in ((("pause", job), theirs, True), (("resume", job), theirs, True),
                                    (("pause", job, "--no-ask-password"), theirs, False),
                                    (("pause", job), subprocess.DEVNULL, False)):
            with self.reclaimctl(*words, stdin=stdin) as r:
                self.assertEqual(polkit.says(CHALLENGE).flags, 0)
                if asked:
                    self.assertEqual(polkit.says(CHALLENGE).flags, 0)
                    self.assertEqual(polkit.says(YES).flags, 1)
                said = r.stdout.read()
            self.assertEqual(r.returncode, 0 if asked else 1, said)
            self.assertEqual(said, f"Job {job}: done as asked; no more of it may be seen\n" if asked else
                             f"reclaimctl: there is no unfinished job {job}\n")
        os.close(ours)
        os.close(theirs)
        self.assertTrue(polkit.unasked())

    def test_answer_as_json(self):
        polkit, job = self.polkit(), str(self.job)
        with self.reclaimctl("pause", job, "--json", stdin=subprocess.DEVNULL) as r:
            polkit.says(YES)
            self.assertEqual(json.load(r.stdout), [{"id": self.job, "state": None, "message": "", "priority": None, "by_usec": 0}])


if __name__ == "__main__":
    bus_fixture.main()
