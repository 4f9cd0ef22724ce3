#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""A week with three policies (week.yaml), inside the emulated machine, under systemd: week.py until|from STEP.

Three filesystems are filled to the last byte. Then an administrator takes up the policies, as docs/guide.md says,
and the machine is left to itself and to its accidents: an immutable file, a job that ends partial, a bad reload,
a restart, a kill, and a power cut, with which the first part (until) ends. Time goes in steps of three hours: the
clock is set, and what programs write in that time they write at once, which is worse than what a real week does.

  never full       no writer waits for a minute, by a clock that is not set
  seen             what fails is in systemctl --failed and in reclaimctl status until it goes well again
  GFS              at the end there are the dumps that restic would have kept of all there ever were, and no other
  nothing else     the oldest builds and recordings are gone, no more than it takes, and the canaries are whole
"""
import collections
import contextlib
import errno
import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "integration"))

# pylint: disable=wrong-import-position
from contents import fingerprint
from fixture import Canary

MIB = 1 << 20
START = 1898812800  # Monday, 2030-03-04, in UTC; later than systemd was made, which takes no earlier time
HOUR = 3600
STEP = 3 * HOUR
STEPS = 7 * 24 * HOUR // STEP
DUMP, BUILD, CLIP = 5 * MIB, 2 * MIB, 2 * MIB
MAX_SIZE = 200 * MIB
# Of one filesystem, longer than a minute; and what takes no machine so long.
FULL_SECONDS, FOREVER = 60, 300
KEEP = {"last": 4, "daily": 7, "weekly": 4, "monthly": 6}
SERIES = ("blog", "shop")
CONFIG = "/etc/reclaimd/reclaimd.d"
DISKS = {"/state": "/dev/vda", "/srv/dumps": "/dev/vdb", "/srv/ci": "/dev/vdc", "/srv/cam": "/dev/vdd"}
FILLED = ("/srv/dumps", "/srv/ci", "/srv/cam")


def say(text):
    print("%7.1f %s  %s" % (time.monotonic(), time.strftime("%m-%d %H:%M"), text), flush=True)


def attempt(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False)


def command(*words):
    p = attempt(*words)
    assert p.returncode == 0, "%s: exit status %d: %s" % (" ".join(words), p.returncode, p.stdout)
    return p.stdout


def until(condition, what):
    end = time.monotonic() + FOREVER
    while not (found := condition()):
        assert time.monotonic() < end, "it never happened: " + what
        time.sleep(0.2)
    return found


def set_clock(to):
    with open("/proc/cmdline", encoding="ascii") as f:
        assert "/tests/vm/inside" in f.read(), "only in the emulated machine"
    time.clock_settime(time.CLOCK_REALTIME, to)


# ---- what is written ---------------------------------------------------------------------------

class Ledger:
    """Everything that was ever made, by kind, in its order, on a disk that outlives a power cut."""

    PATH = "/state/ledger"

    def __init__(self):
        self.made = collections.defaultdict(list)
        with contextlib.suppress(FileNotFoundError), open(self.PATH, encoding="ascii") as f:
            for line in f:
                kind, path = line.split()
                self.made[kind].append(path)
        self.file = open(self.PATH, "a", encoding="ascii")  # pylint: disable=consider-using-with
        self.waiting = []

    def add(self, kind, path):
        self.made[kind].append(path)
        self.waiting.append("%s %s\n" % (kind, path))

    def flush(self):
        """What is written here is on disk."""
        os.sync()
        self.file.writelines(self.waiting)
        self.waiting.clear()
        self.file.flush()
        os.fsync(self.file.fileno())


@contextlib.contextmanager
def while_room():
    """Ends early, and quietly, where there is none."""
    try:
        yield
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise


def fill_file(path, size):
    """Returns whether there was room."""
    with while_room():
        with open(path, "xb") as f:
            with while_room():
                os.posix_fallocate(f.fileno(), 0, size)
                return True
        os.unlink(path)
    return False


def patient(write, *words):
    """As a program that tries again while there is no room, but not for longer than a minute."""
    began = time.monotonic()
    while not write(*words):
        assert time.monotonic() - began < FULL_SECONDS, "%s: full for longer than a minute" % (words,)
        time.sleep(0.2)


def date(path, then):
    if then is not None:
        os.utime(path, (then, then))


def dump_name(series, then):
    return "/srv/dumps/%s-%s.dump" % (series, time.strftime("%Y-%m-%dT%H%M", time.localtime(then)))


def write_dump(path, size):
    if not fill_file(path + ".part", size):
        return False
    os.rename(path + ".part", path)
    return True


def write_build(path, then=None):
    with while_room():
        os.makedirs(path, exist_ok=True)
    if not os.path.exists(path):
        return False
    for name in "abcd":
        file = os.path.join(path, name)
        if not os.path.exists(file) and not fill_file(file, BUILD // 4):
            return False
        date(file, then)
    date(path, then)
    return True


def write_clip(path, then=None):
    if not fill_file(path, CLIP):
        return False
    date(path, then)
    return True


class Writers:
    """What programs make in three hours."""

    def __init__(self, ledger):
        self.ledger = ledger
        self.numbers = collections.Counter({kind: len(made) for kind, made in ledger.made.items()})

    def next(self, kind, form, *of):
        n = self.numbers[kind]
        self.numbers[kind] += 1
        path = form % (of[n % len(of)], n)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def build_path(self):
        return self.next("ci", "/srv/ci/%s/build-%05d", "kernel", "site", "app")

    def clip_path(self):
        return self.next("cam", "/srv/cam/%s/%05d.mp4", "door", "yard")

    def dumps(self, then):
        for series in SERIES:
            path = dump_name(series, then)
            patient(write_dump, path, DUMP)
            self.ledger.add("dumps", path)

    def builds(self):
        for _ in range(3):
            path = self.build_path()
            patient(write_build, path)
            self.ledger.add("ci", path)

    def clips(self, n=3):
        for _ in range(n):
            path = self.clip_path()
            patient(write_clip, path)
            self.ledger.add("cam", path)

    def fill(self):
        """All three, with what is older than now."""
        for i in range(200):
            then = START - (i * 6 * HOUR if i < 8 else (i - 6) * 24 * HOUR)
            paths = [dump_name(series, then) for series in SERIES]
            for path in paths:
                if not write_dump(path, DUMP):
                    break
                self.ledger.add("dumps", path)
            else:
                continue
            break
        for kind, path_of, write in (("ci", self.build_path, write_build), ("cam", self.clip_path, write_clip)):
            for i in range(10000):
                path = path_of()
                # The oldest first.
                if not write(path, START - HOUR - (200 - i) * 600):
                    break
                self.ledger.add(kind, path)
            self.numbers[kind] -= 1
        for top in FILLED:
            for size in (MIB // 4, 4096):
                n = 0
                while fill_file("%s/ballast-%d-%d" % (top, size, n), size):
                    n += 1
        for kind in ("dumps", "ci", "cam"):
            assert len(self.ledger.made[kind]) > 40, self.ledger.made[kind]


class Watch(threading.Thread):
    """How long each filesystem has been without room for the smallest thing that is written."""

    def __init__(self):
        super().__init__(daemon=True)
        self.tops = FILLED
        self.since, self.longest = {}, collections.Counter()

    def run(self):
        while True:
            for top in self.tops:
                st = os.statvfs(top)
                now = time.monotonic()
                if st.f_bavail * st.f_frsize < MIB // 2:
                    self.longest[top] = max(self.longest[top], now - self.since.setdefault(top, now))
                else:
                    self.since.pop(top, None)
            time.sleep(0.5)

    def check(self):
        say("full at most: %s" % {top: round(seconds, 1) for top, seconds in self.longest.items()})
        assert all(seconds < FULL_SECONDS for seconds in self.longest.values()), self.longest


# ---- what is seen ------------------------------------------------------------------------------

def unit(name):
    return "reclaimd-policy@%s.service" % name


def shown(name, what):
    return command("systemctl", "show", "--value", "-p", what, name).strip()


def has_failed(policy):
    return shown(unit(policy), "ActiveState") == "failed"


def see_failed(policy, *reasons):
    """Where an administrator looks."""
    until(lambda: has_failed(policy), policy + " fails")
    failed = command("systemctl", "--failed", "--plain", "--no-legend", "--no-pager")
    assert unit(policy) in failed, failed
    status = attempt("reclaimctl", "status").stdout
    assert re.search(r"\b%s: (partial|failed)\b" % policy, status), status
    for reason in reasons:
        assert re.search(reason, status), (reason, status)
    say("%s has failed, and is seen to" % policy)


def jobs(*words):
    return json.loads(command("reclaimctl", "list", "--json=short", *words))


def is_running(policy):
    return shown(unit(policy), "ActiveState") in ("activating", "reloading")


def immutable(path, on=True):
    command("chattr", "+i" if on else "-i", path)


def gfs(made):
    """The dumps that restic keeps of these, told in its own words: for each period the newest of it, for so many
    periods that have any; and the last ones."""
    kept = set()
    for series in SERIES:
        times = sorted(((time.strptime(os.path.basename(p), series + "-%Y-%m-%dT%H%M.dump"), p) for p in made
                        if os.path.basename(p).startswith(series + "-")), reverse=True)
        kept.update(p for _, p in times[:KEEP["last"]])
        for rule, form in (("daily", "%Y-%m-%d"), ("weekly", "%G-%V"), ("monthly", "%Y-%m")):
            newest = {}
            for at, p in times:
                newest.setdefault(time.strftime(form, at), p)
            kept.update(list(newest.values())[:KEEP[rule]])
    return kept


# ---- the week ----------------------------------------------------------------------------------

class Week:
    stuck = None  # the immutable recording

    def __init__(self):
        for at, disk in DISKS.items():
            os.makedirs(at, exist_ok=True)
            command("mount", disk, at)
        os.makedirs("/state/reclaimd", 0o700, exist_ok=True)
        os.makedirs("/var/lib/reclaimd", exist_ok=True)
        command("mount", "--bind", "/state/reclaimd", "/var/lib/reclaimd")
        os.makedirs("/etc/reclaimd", exist_ok=True)
        command("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/etc/reclaimd")
        os.makedirs(CONFIG)
        self.ledger = Ledger()
        self.writers = Writers(self.ledger)
        self.watch = Watch()
        self.dumped = ""

    def configure(self):
        with open(os.path.join(HERE, "week.yaml"), encoding="ascii") as f, \
                open(CONFIG + "/week.yaml", "w", encoding="ascii") as to:
            to.write(f.read())

    def begin(self):
        """As the guide says: check, plan, the first run by force, the timer."""
        for top in FILLED:
            with open("/state/canary%s" % top.replace("/", "-"), "w", encoding="utf-8") as f:
                json.dump(sorted(map(repr, Canary(top + "/.aside").before.items())), f)
        self.writers.fill()
        self.ledger.flush()
        for top in FILLED:
            assert os.statvfs(top).f_bavail < 16, top
        self.configure()
        say("full; " + command("reclaimctl", "check-config").strip().replace("\n", "; "))
        self.watch.tops = FILLED[1:]
        self.watch.start()
        command("systemctl", "start", "reclaimd")
        plan = command("reclaimctl", "policy", "plan")
        assert "In excess of max-delete" in plan, plan
        attempt("systemctl", "start", unit("dumps"))
        see_failed("dumps", "max-delete")
        command("reclaimctl", "policy", "run", "--force", "--wait", "dumps")
        self.watch.tops = FILLED
        self.timers()

    def timers(self):
        command("systemctl", "daemon-reload")
        command("systemctl", "start", "timers.target")
        self.dumped = self.last_begun()

    def go_on(self):
        self.configure()
        self.watch.start()
        command("systemctl", "start", "reclaimd")
        self.timers()

    @staticmethod
    def last_begun():
        return shown(unit("dumps"), "InactiveExitTimestampMonotonic")

    def dumps_are_pruned(self):
        """Once the timer of the last dumps has started the policy, that has ended."""
        until(lambda: self.last_begun() != self.dumped, "the timer starts the policy of the dumps")
        until(lambda: not is_running("dumps"), "the policy of the dumps ends")
        self.dumped = self.last_begun()

    def step(self, number):
        now = START + number * STEP
        set_clock(now)
        if number % 2 == 0:
            self.writers.dumps(now)
        self.writers.builds()
        self.writers.clips()
        if number in ACCIDENTS:
            ACCIDENTS[number](self)
        if number % 2 == 1:
            self.dumps_are_pruned()
        self.ledger.flush()

    def record_until(self, condition):
        end = time.monotonic() + FOREVER
        while not condition():
            assert time.monotonic() < end, "the policy of the recordings does not run"
            self.writers.clips(1)
            time.sleep(2)

    # ---- accidents ----

    def immutable_clip(self):
        path = next(p for p in self.ledger.made["cam"] if os.path.exists(p))
        immutable(path)
        say(path + " is immutable")
        reason = path + ": not deleted: is immutable"
        # A run that has looked at it before finds out when it tries; the next one sees it.
        self.record_until(lambda: has_failed("recordings") and reason in attempt("reclaimctl", "status").stdout)
        see_failed("recordings", re.escape(reason))
        self.stuck = path

    def mutable_clip(self):
        immutable(self.stuck, False)
        self.record_until(lambda: not has_failed("recordings") and not os.path.exists(self.stuck))
        say(self.stuck + " is gone")

    def partial_job(self):
        """One of the names that are in staging cannot be deleted any more."""
        path = dump_name("shop", time.time() - 50 * HOUR - 60)
        patient(write_dump, path, DUMP)
        self.ledger.add("dumps", path)
        command("reclaimctl", "pause", "--all")
        command("systemctl", "start", "--no-block", unit("dumps"))
        staged = until(lambda: glob.glob("/srv/dumps/.reclaim/0/*/*"), "a dump is staged")
        immutable(staged[0])
        command("reclaimctl", "resume", "--all")
        see_failed("dumps", "could not be deleted|Operation not permitted")
        for file in command("find", "/srv/dumps", "-path", "*/.aside", "-prune", "-o", "-type", "f", "-print").split():
            immutable(file, False)
        command("systemctl", "start", unit("dumps"))
        assert not has_failed("dumps")
        self.dumped = self.last_begun()

    def bad_reload(self):
        bad = CONFIG + "/90-bad.yaml"
        with open(bad, "w", encoding="ascii") as f:
            f.write("policies: {dumps: {max-age: 3}}\n")
        assert attempt("systemctl", "reload", "reclaimd").returncode != 0, "a bad reload is not told"
        attempt("systemctl", "start", unit("dumps"))
        see_failed("dumps", "has errors", "its service has failed")
        os.unlink(bad)
        command("systemctl", "reload", "reclaimd")
        see_failed("dumps", "its service has failed")
        command("systemctl", "start", unit("dumps"))
        assert not has_failed("dumps")
        self.dumped = self.last_begun()

    def restart(self):
        command("systemctl", "restart", "reclaimd")
        say("restarted")

    def kill(self):
        pid = shown("reclaimd.service", "MainPID")
        os.kill(int(pid), signal.SIGKILL)
        until(lambda: shown("reclaimd.service", "MainPID") not in (pid, "0"), "systemd starts it again")
        until(lambda: shown("reclaimd.service", "ActiveState") == "active", "it is up again")
        say("killed, and up again")

    def power_cut(self):
        self.ledger.flush()
        self.watch.check()
        say("power cut")
        with open("/proc/sysrq-trigger", "w", encoding="ascii") as f:
            f.write("b")
        time.sleep(FOREVER)

    # ---- the end ----

    def end(self, number):
        set_clock(START + number * STEP + HOUR)
        self.dumps_are_pruned()
        for policy in ("dumps", "ci", "recordings"):
            until(lambda policy=policy: not is_running(policy), policy + " ends")
        until(lambda: not jobs(), "all jobs end")
        until(lambda: self.recorded() <= MAX_SIZE + 4 * CLIP, "max-size is kept")
        self.watch.check()
        failed = command("systemctl", "--failed", "--plain", "--no-legend", "--no-pager")
        assert "reclaimd" not in failed, failed
        self.check_dumps()
        self.check_oldest("ci")
        self.check_oldest("cam")
        self.check_canaries()
        for job in jobs("--all"):
            assert (job["origin"] or "").startswith("policy:"), job
        say("%d jobs" % len(jobs("--all")))

    def recorded(self):
        return CLIP * sum(os.path.lexists(path) for path in self.ledger.made["cam"])

    def check_dumps(self):
        left = {"/srv/dumps/" + name for name in os.listdir("/srv/dumps") if name.endswith(".dump")}
        kept = gfs(self.ledger.made["dumps"])
        say("%d of %d dumps are left" % (len(left), len(self.ledger.made["dumps"])))
        assert left == kept, (sorted(left - kept), sorted(kept - left))

    def check_oldest(self, kind):
        """What is left is what was made last, and there is no less of it than there has to be."""
        made = self.ledger.made[kind]
        left = [path for path in made if os.path.lexists(path)]
        say("%d of %d of %s are left" % (len(left), len(made), kind))
        assert left == made[-len(left):], (kind, sorted(set(made[-len(left):]) - set(left)))
        assert len(left) < len(made)
        if kind == "cam":
            # In many pieces a recording takes a block more, and is counted with it.
            assert self.recorded() > MAX_SIZE - 2 * CLIP, len(left)
        else:
            st = os.statvfs("/srv/ci")
            assert st.f_bavail < 0.2 * st.f_blocks + 2 * BUILD / st.f_frsize, st

    @staticmethod
    def check_canaries():
        for top in FILLED:
            with open("/state/canary%s" % top.replace("/", "-"), encoding="utf-8") as f:
                before = json.load(f)
            assert sorted(map(repr, fingerprint(os.fsencode(top + "/.aside")).items())) == before, top


# By the step of a week, in the middle of its day.
ACCIDENTS = {12: Week.immutable_clip, 14: Week.mutable_clip, 20: Week.partial_job, 28: Week.bad_reload,
             36: Week.restart, 44: Week.kill, 52: Week.power_cut}


def main():
    part, step = sys.argv[1], int(sys.argv[2])
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/etc/localtime")
    try:
        week = Week()
        if part == "until":
            week.begin()
            steps = range(1, step + 1)
        else:
            week.go_on()
            steps = range(step + 1, STEPS + 1)
        for number in steps:
            week.step(number)
        week.end(steps[-1])
    except BaseException:
        print(attempt("journalctl", "--no-hostname", "-o", "short-monotonic", "-n", "300").stdout, flush=True)
        raise


if __name__ == "__main__":
    main()
