# SPDX-License-Identifier: LGPL-2.1-or-later
"""docs/how-to: what each page promises, on files as its reader has them."""

import glob
import json
import os
import re
import shutil
import time
import tomllib
import unittest

from page import Page
from system import Canary, allocate, attempt, command, install, job_property, signals, unit_property

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
DATE = "%Y-%m-%dT%H:%M:%S"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def setUpModule():
    install("deb", 1, "reclaimd", "libreclaim0", "libreclaim-dev")


def make(path, size="4K", age_seconds=0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    allocate(path, size)
    then = time.time() - age_seconds
    os.utime(path, (then, then))


class HowTo(unittest.TestCase):
    def setUp(self):
        attempt("systemctl", "reset-failed", "reclaimd")
        command("systemctl", "reload-or-restart", "reclaimd")
        self.canary = Canary(f"/backups/{self.id()}")
        self.addCleanup(self.canary.check)

    def test_all_pages_are_here(self):
        pages = {os.path.basename(path)[:-3] for path in glob.glob("/docs/how-to/*.md")}
        tests = {name.removeprefix("test_").replace("_", "-") for name in dir(self) if name.startswith("test_")}
        self.assertEqual(pages - {"README"}, tests - {"all-pages-are-here"})

    def test_camera_recordings(self):
        self.addCleanup(shutil.rmtree, "/backups/video")
        for n in range(14):
            make(f"/backups/video/{'ab'[n % 2]}/{n:02}.mp4", "500M", (20 - n) * HOUR_SECONDS)
        Page(self, "how-to/camera-recordings").follow()
        self.until_ended("policy:video")
        left = sorted(glob.glob("*/*", root_dir="/backups/video"), key=os.path.basename)
        self.assertEqual([os.path.basename(path)[:-4] for path in left], [f"{n:02}" for n in range(2, 14)])

    def until_ended(self, origin):
        """Whatever has that origin."""
        for line in command("reclaimctl", "list", "--all", "--no-pager").splitlines():
            if origin in line:
                command("reclaimctl", "wait", line.split()[0])

    def test_ci_workspaces(self):
        self.addCleanup(shutil.rmtree, "/backups/runner")
        for directory in ("gitlab-runner", "buildkite-agent"):
            self.addCleanup(shutil.rmtree, f"/etc/{directory}")
        workspace = "/backups/runner/_work/project/project"
        left = (".hidden", "build/x", "build/with\nnewline", "a b")
        page = Page(self, "how-to/ci-workspaces")
        (step,) = re.findall(r"^post .* sh '(.*)' } }$", page.text, re.M)

        def make_workspace():
            for name in (".git/objects/1", *left):
                make(f"{workspace}/{name}")
            command("chown", "-R", "65534:65534", "/backups/runner")

        make_workspace()
        page.follow()
        with open("/backups/runner/.env", encoding="ascii") as f:
            hooks = dict(line.strip().split("=", 1) for line in f)
        with open("/etc/gitlab-runner/config.toml", "rb") as f:
            (gitlab,) = tomllib.load(f)["runners"]
        completed = ["bash", "-e", hooks["ACTIONS_RUNNER_HOOK_JOB_COMPLETED"]]
        # As each runner calls it, and with what it sets.
        runners = (completed, {"GITHUB_WORKSPACE": workspace, "RUNNER_WORKSPACE": os.path.dirname(workspace)}), \
            (["bash", "-eo", "pipefail", "-c", gitlab["pre_get_sources_script"]], {"CI_PROJECT_DIR": workspace}), \
            (["/etc/buildkite-agent/hooks/pre-exit"], {"BUILDKITE_BUILD_CHECKOUT_PATH": workspace}), \
            (["sh", "-xe", "-c", step], {"WORKSPACE": workspace})
        for words, env in runners:
            with self.subTest(env=env):
                env["PATH"] = os.environ["PATH"]
                make_workspace()
                command(*NOBODY, *words, env=env)
                self.assertEqual(os.listdir(workspace), [".git"])
                self.assertEqual(os.listdir(f"{workspace}/.git/objects"), ["1"])
                # Once more, in one that is empty, and where there is none yet.
                command(*NOBODY, *words, env=env)
                shutil.rmtree(workspace)
                command(*NOBODY, *words, env=env)
        env = runners[0][1]
        make_workspace()
        command(*NOBODY, "bash", "-e", hooks["ACTIONS_RUNNER_HOOK_JOB_STARTED"], env=env)
        # On a machine without the daemon.
        command("systemctl", "mask", "--runtime", "--now", "reclaimd")
        self.addCleanup(command, "systemctl", "unmask", "--runtime", "reclaimd")
        said = command(*NOBODY, *completed, env=env)
        self.assertIn("left to the next checkout", said)
        self.assertEqual(len(os.listdir(workspace)), 1 + 3)

    def test_container_storage(self):
        self.addCleanup(shutil.rmtree, "/backups/layers")
        for layer in ("base-1", "base-2", "base-3"):
            for n in range(200):
                make(f"/backups/layers/{layer}/diff/{n}")
        make("/backups/layers/base-1/blob", "3G")
        Page(self, "how-to/container-storage").follow()
        self.assertEqual(sorted(os.listdir("/backups/layers")), ["base-3", "lock", "trash"])
        self.assertEqual(os.listdir("/backups/layers/trash"), [])
        self.assertEqual(len(os.listdir("/backups/layers/base-3/diff")), 200)

    def as_desktop(self, *words):
        return attempt("setpriv", "--reuid=4711", "--regid=4711", "--clear-groups", "env", "HOME=/backups/desktop",
                       "XDG_RUNTIME_DIR=/run/user/4711", *words, cwd="/")

    def trashed(self, name, days, what="file"):
        """Puts something into the trash, as a desktop does. What is said of its path is of no matter."""
        trash = b"/backups/desktop/.local/share/Trash"
        file, info = trash + b"/files/" + name, trash + b"/info/" + name + b".trashinfo"
        if what == "tree":
            make(file.decode() + "/d/e/f")
        elif what == "link":
            os.symlink(f"{self.canary.top}/canary", file)
        elif what == "file":
            with open(file, "wb") as f:
                f.write(b"x" * 5000)
        date = days if isinstance(days, str) else time.strftime(DATE, time.localtime(time.time() - days * DAY_SECONDS))
        with open(info, "w", encoding="ascii") as f:
            f.write(f"[Trash Info]\nPath=/etc/passwd%00/../..{self.canary.top}%0ADeletionDate=x\nDeletionDate={date}\n")
        return os.fsdecode(name)

    def test_desktop_trash(self):
        command("groupadd", "--gid=4711", "desktop")
        command("useradd", "--uid=4711", "--gid=4711", "--create-home", "--home-dir=/backups/desktop", "desktop")
        self.addCleanup(shutil.rmtree, "/backups/desktop")
        self.addCleanup(command, "userdel", "--force", "desktop")
        trash = "/backups/desktop/.local/share/Trash"
        for directory in ("files", "info"):
            os.makedirs(f"{trash}/{directory}")
        for name in (b"old", b"new\nline", b"\xff\x1b[31m", b".hidden", b"-rf", b"a%2F..%2Fb", b"a.trashinfo"):
            self.trashed(name, 31)
        self.trashed(b"tree", 40, "tree")
        self.trashed(b"link", 99, "link")
        stays = [self.trashed(name, days) for name, days in (
            (b"young", 29), (b"future", -5), (b"undated", ""), (b"no-day", "2020-02-31T00:00:00"),
            (b"text", "long ago"), (b"zone", "2020-01-01T00:00:00Z"))]
        self.trashed(b"gone", 50, "nothing")
        # All of files/, all of the trash, and all names; and dates that are not in a file.
        for name in (b".", b"..", b""):
            self.trashed(name, 50, "nothing")
        for name in ("symbolic", "fifo"):
            make(f"{trash}/files/{name}")
        os.symlink("gone.trashinfo", f"{trash}/info/symbolic.trashinfo")
        os.mkfifo(f"{trash}/info/fifo.trashinfo")
        stays += ["symbolic", "fifo"]
        command("chown", "-hR", "4711:4711", "/backups/desktop")
        Page(self, "how-to/desktop-trash").follow()
        self.addCleanup(command, "systemctl", "--global", "disable", "--quiet", "reclaim-trash.timer")
        command("systemctl", "start", "user@4711.service")
        self.addCleanup(command, "systemctl", "stop", "user@4711.service")
        self.assertEqual(self.as_desktop("systemctl", "--user", "is-active", "reclaim-trash.timer").stdout, "active\n")
        said = self.as_desktop("systemctl", "--user", "start", "reclaim-trash.service")
        self.assertEqual(said.returncode, 0, said.stdout + command("journalctl", "-n", "50"))
        self.assertEqual(sorted(os.listdir(f"{trash}/files")), sorted(stays))
        self.assertEqual(sorted(os.listdir(f"{trash}/info")),
                         sorted(f"{name}.trashinfo" for name in (*stays, "gone", ".", "..", "")))
        # What is refused holds up nothing else, and makes it fail.
        for name in (b"mounted", b"other"):
            self.trashed(name, 50, "tree")
        command("chown", "-hR", "4711:4711", trash)
        command("mount", "-t", "tmpfs", "tmpfs", f"{trash}/files/mounted")
        self.addCleanup(command, "umount", f"{trash}/files/mounted")
        said = self.as_desktop("/usr/local/bin/reclaim-trash")
        self.assertNotEqual(said.returncode, 0, said.stdout)
        self.assertIn("mounted", said.stdout)
        self.assertEqual(sorted(os.listdir(f"{trash}/files")), sorted([*stays, "mounted"]))

    def test_file_deleter(self):
        self.addCleanup(shutil.rmtree, "/backups/db")
        for name in ("000017.sst", "000018.sst", "000019.sst"):
            make(f"/backups/db/{name}", "64M")
        Page(self, "how-to/file-deleter").follow()
        self.assertEqual(glob.glob("*.sst", root_dir="/backups/db"), ["000019.sst"])

    def test_mariadb(self):
        if not shutil.which("mariadbd"):
            self.skipTest("there is no MariaDB here")
        data = "/backups/mysql"
        command("useradd", "--system", "mysql")
        self.addCleanup(command, "userdel", "mysql")
        command("install", "-d", "-m", "700", "-o", "mysql", data)
        self.addCleanup(shutil.rmtree, data)
        self.addCleanup(shutil.rmtree, "/backups/mariadb-dumps")
        command("mariadb-install-db", "--user=mysql", f"--datadir={data}", "--skip-test-db")
        command("systemd-run", "--quiet", "--unit=mariadb", "-p", "Type=notify", "-p", "RuntimeDirectory=mysqld",
                "-p", "User=mysql", "mariadbd", f"--datadir={data}", "--socket=/run/mysqld/mysqld.sock")
        self.addCleanup(command, "systemctl", "stop", "mariadb")
        command("mariadb", "-e", "create database billing; use billing; create table log (x longblob) as "
                "select repeat('x', 1000000) as x from seq_1_to_100; create table invoice (n int primary key);"
                " create table item (n int, foreign key (n) references invoice (n)); insert into invoice values (7);")
        Page(self, "how-to/mariadb").follow()
        self.addCleanup(command, "systemctl", "disable", "--now", "--quiet", "dump-mariadb.timer")
        (job,) = (j["id"] for j in json.loads(command("reclaimctl", "list", "--all", "--json=short"))
                  if j["path"] == f"{data}/billing/log.ibd.dropped")
        command("reclaimctl", "wait", str(job))
        self.assertEqual(job_property(job, "State"), "done")
        self.assertGreaterEqual(job_property(job, "ProgressBytes"), 100_000_000)
        # A file that the server still had open would be unlinked whole.
        server = unit_property("MainPID", "mariadb")
        self.assertNotIn("log.ibd", command("ls", "-l", f"/proc/{server}/fd"))
        # What cannot be dropped is as it was.
        said = attempt("drop-table", "billing", "invoice")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("foreign key", said.stdout)
        self.assertEqual(sorted(os.listdir(f"{data}/billing")),
                         ["db.opt", "invoice.frm", "invoice.ibd", "item.frm", "item.ibd"])
        self.assertEqual(command("mariadb", "-NBe", "select n from billing.invoice"), "7\n")
        made = sorted(os.listdir("/backups/mariadb-dumps"))
        self.assertRegex(" ".join(made), r"^billing-\d{8}-\d{6}\.sql\.gz mysql-\d{8}-\d{6}\.sql\.gz$")
        for table in ("log", "invoice", "item"):
            command("sh", "-c", f"gunzip <{made[0]} | grep -q 'CREATE TABLE `{table}`'", cwd="/backups/mariadb-dumps")

    def test_old_tmp(self):
        Page(self, "how-to/old-tmp").follow()
        self.addCleanup(attempt, "systemctl", "disable", "old-tmp.service")
        # nspawn mounts a tmpfs there.
        while os.path.ismount("/tmp"):
            command("umount", "--lazy", "/tmp")
        make("/tmp/old/session", "1M")
        with signals("JobFinished") as finished:
            command("systemctl", "start", "old-tmp.service")
            self.assertEqual(unit_property("ConditionResult", "old-tmp.service"), "yes")
            self.assertEqual((os.listdir("/tmp"), os.stat("/tmp").st_mode & 0o7777), ([], 0o1777))
            finished()
        self.assertEqual(os.listdir("/old-tmp"), [])
        # And what it says of a tmpfs.
        command("mount", "-t", "tmpfs", "tmpfs", "/tmp")
        self.addCleanup(command, "umount", "/tmp")
        make("/tmp/new")
        command("systemctl", "start", "old-tmp.service")
        self.assertEqual(unit_property("ConditionResult", "old-tmp.service"), "no")
        self.assertEqual(os.listdir("/tmp"), ["new"])

    def test_postgresql_drop_table(self):
        programs = glob.glob("/usr/lib/postgresql/*/bin")
        if not programs or not os.path.exists("/sys/fs/btrfs/features"):
            self.skipTest("there is no PostgreSQL here, or no btrfs")

        def sql(text, database="billing"):
            return command("runuser", "-u", "postgres", "--", "psql", "-AtXqd", database, "-v", "ON_ERROR_STOP=1", "-c",
                           text, cwd="/")

        command("install", "-d", "-o", "postgres", "/btrfs/pg")
        self.addCleanup(shutil.rmtree, "/btrfs/pg")
        command("runuser", "-u", "postgres", "--", f"{programs[0]}/initdb", "-D", "/btrfs/pg/data", cwd="/")
        command("systemd-run", "--quiet", "--unit=pg", "-p", "Type=notify", "-p", "User=postgres",
                f"{programs[0]}/postgres", "-D", "/btrfs/pg/data", "-c", "unix_socket_directories=/run/postgresql")
        self.addCleanup(attempt, "systemctl", "stop", "pg")
        sql("create database billing", "postgres")
        for table in ("log", "linked"):
            sql(f"create table {table} (n int primary key, x text); alter table {table} alter x set storage external;"
                f" insert into {table} select n, repeat('x', 1000000) from generate_series(1, 100) n")
        sql("create table invoice (n int primary key); create table item (n int references invoice);"
            " insert into invoice values (7)")
        # A second name: PostgreSQL empties the file.
        path = sql("select pg_relation_filepath(reltoastrelid) from pg_class where relname = 'linked'").strip()
        os.link(f"/btrfs/pg/data/{path}", "/btrfs/pg/linked")
        self.assertGreater(os.path.getsize("/btrfs/pg/linked"), 100_000_000)
        sql("drop table linked")
        self.assertEqual(os.path.getsize("/btrfs/pg/linked"), 0)
        Page(self, "how-to/postgresql-drop-table").follow()
        (job,) = (j["id"] for j in json.loads(command("reclaimctl", "list", "--all", "--json=short"))
                  if j["path"].startswith("/btrfs/pg/data.dropped."))
        command("reclaimctl", "wait", str(job))
        self.assertEqual(job_property(job, "State"), "done")
        self.assertGreaterEqual(job_property(job, "ProgressBytes"), 100_000_000)
        # What cannot be dropped is as it was.
        drop = ("runuser", "-u", "postgres", "--", "pg-drop-table", "billing")
        for table, why in (("invoice", "other objects depend on it"), ("none", "does not exist")):
            said = attempt(*drop, table, cwd="/")
            self.assertNotEqual(said.returncode, 0)
            self.assertIn(why, said.stdout)
        self.assertEqual(sql("select relname from pg_class where relname in ('log', 'invoice', 'item') order by 1"),
                         "invoice\nitem\n")
        self.assertEqual(sql("select n from invoice"), "7\n")
        self.assertEqual(sorted(os.listdir("/btrfs/pg")), ["data", "linked"])
        # Where there are no clones.
        command("systemctl", "stop", "pg")
        command("systemctl", "start", "postgresql")
        self.addCleanup(command, "systemctl", "stop", "postgresql")
        sql("create table log (n int)", "postgres")
        said = attempt(*drop[:-1], "postgres", "log", cwd="/")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn("failed to clone", said.stdout)
        self.assertEqual(sql("drop table log", "postgres"), "")
        self.assertEqual(glob.glob("/var/lib/postgresql/*/*.dropped.*"), [])

    def test_postgresql_dumps(self):
        if not shutil.which("pg_dump") and not glob.glob("/usr/lib/postgresql/*/bin/pg_dump"):
            self.skipTest("there is no PostgreSQL here")
        self.addCleanup(shutil.rmtree, "/backups/dumps")
        command("systemctl", "start", "postgresql")
        self.addCleanup(command, "systemctl", "stop", "postgresql")
        for words in (["createdb", "billing"], ["psql", "-d", "billing", "-c", "create table t as select 1"]):
            command("runuser", "-u", "postgres", "--", *words, cwd="/")
        page = Page(self, "how-to/postgresql-dumps")
        # What is there before the policy has ever run: real dumps, one of each of 60 nights.
        policy_blocks = page.blocks[-1:]
        page.blocks = page.blocks[:-1]
        page.follow()
        made = sorted(os.listdir("/backups/dumps"))
        self.assertRegex(" ".join(made), r"^billing-\d{8}-\d{6}\.dump postgres-\d{8}-\d{6}\.dump( \S+)*$")
        for name in made:
            command("pg_restore", "--list", f"/backups/dumps/{name}")
            database = name.split("-")[0]
            for night in range(1, 60):
                day = time.strftime("%Y%m%d", time.localtime(time.time() - night * DAY_SECONDS))
                shutil.copy(f"/backups/dumps/{name}", f"/backups/dumps/{database}-{day}-030000.dump")
        make("/backups/dumps/billing-20200101-030000.dump.part")
        page.blocks = policy_blocks
        page.follow()
        self.until_ended("policy:dumps")
        for database in ("billing", "postgres"):
            left = sorted(glob.glob(f"{database}-*.dump", root_dir="/backups/dumps"), reverse=True)
            # The last 7 days are some of 2 weeks and 1 or 2 months.
            self.assertIn(len(left), range(9, 14), left)
            week = [time.strftime("%Y%m%d", time.localtime(time.time() - n * DAY_SECONDS)) for n in range(7)]
            self.assertEqual([name.split("-")[1] for name in left[:7]], week)
            command("pg_restore", "--list", f"/backups/dumps/{left[0]}")
        self.assertTrue(os.path.exists("/backups/dumps/billing-20200101-030000.dump.part"))
        command("systemctl", "disable", "--now", "dump-databases.timer")

    def snapshots(self):
        """The numbers of those that are there for snapper, and of their subvolumes."""
        listed = command("snapper", "--no-dbus", "-c", "data", "--csvout", "list", "--disable-used-space", "--columns",
                         "number")
        real = command("btrfs", "subvolume", "list", "-o", "/btrfs/.snapshots")
        return [int(n) for n in listed.split()[2:]], [int(n) for n in re.findall(r"\.snapshots/(\d+)/snapshot", real)]

    def test_snapper_snapshots(self):
        if not shutil.which("snapper") or not os.path.exists("/sys/fs/btrfs/features"):
            self.skipTest("there is no snapper here, or no btrfs")
        os.mkdir("/data")
        command("mount", "--bind", "/btrfs", "/data")
        self.addCleanup(os.rmdir, "/data")
        self.addCleanup(command, "umount", "--lazy", "/data")
        snapper = ("snapper", "-c", "data")
        command(*snapper, "create-config", "/data")
        self.addCleanup(command, *snapper, "delete-config")
        command(*snapper, "set-config", "TIMELINE_CREATE=no")
        for n in range(14):
            make(f"/data/tree/{n}", "1M")
            command(*snapper, "create", "--description", str(n), *(() if n == 3 else ("--cleanup-algorithm=number",)))
        # Without the capability.
        said = attempt("reclaimctl", "submit", "--wait", "/data/.snapshots/1/snapshot")
        self.assertEqual(said.returncode, 1, said.stdout)
        self.assertEqual(self.snapshots(), ([*range(1, 15)], [*range(1, 15)]))
        self.assertEqual(os.listdir("/data/.snapshots/1/snapshot/tree"), ["0"])
        self.addCleanup(command, "systemctl", "restart", "reclaimd")
        self.addCleanup(command, "systemctl", "daemon-reload")
        for unit in ("reclaimd", "snapper-cleanup"):
            self.addCleanup(shutil.rmtree, f"/etc/systemd/system/{unit}.service.d")
        Page(self, "how-to/snapper-snapshots").follow()
        # Ten that may be cleaned up, and the fourth, which may not.
        self.assertEqual(self.snapshots(), ([*range(4, 15)], [*range(4, 15)]))
        self.assertEqual(sorted(map(int, os.listdir("/data/tree"))), [*range(14)])
        self.assertEqual(sorted(map(int, os.listdir("/data/.snapshots/14/snapshot/tree"))), [*range(14)])


if __name__ == "__main__":
    unittest.main()
