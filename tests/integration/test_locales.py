#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""reclaimctl in locales that cannot show every name: it ends, prints what the locale has, and JSON that is
the same in all of them."""
import json
import os
import subprocess

import daemon_fixture
import fixture
from fixture import scratch, write

HOUR = 3600 * 1000000
NAMES = ("ä".encode(), "日本".encode(), "e\u0301".encode(), "\u0378\U0010fffd".encode(), "\U0001f600".encode(),
         b"\xff\xfe", "ä".encode() + b"\xff",
         b"\xc3", "x\u200by".encode(), b"\x9b31m", b"plain")
LOCALES = {"C": {"LC_ALL": "C"}, "POSIX": {"LC_ALL": "POSIX"}, "unknown": {"LC_ALL": "xx_XX"}, "none": {},
           "charset": {"LANG": "C", "LC_CTYPE": "xx_XX.ISO-8859-1"}, "UTF-8": {"LC_ALL": "C.UTF-8"}}


class Locales(daemon_fixture.Case):
    def setUp(self):
        super().setUp()
        self.spool = self.path("spül")
        os.mkdir(self.spool)
        self.daemon.stop()
        self.daemon.configure("spools: {'%s': }\npolicies: {p: {path: '%s', match: 'ä*', max-age: 1s}}\n" % (
            self.spool, self.path("pölicy")))
        os.mkdir(self.path("pölicy"))
        write(self.path("pölicy/ä1"))
        os.utime(self.path("pölicy/ä1"), (0, 0))
        self.daemon.start()
        c = self.daemon.client()
        for name in NAMES:
            write(os.path.join(os.fsencode(self.data), name))
            c.submit(os.path.join(os.fsencode(self.data), name), undo_usec=HOUR)
            write(os.path.join(os.fsencode(self.data), name))

    def ctl(self, locale, *words):
        """(status, output, errors). It may take a while under sanitizers, but it ends."""
        env = dict(LOCALES[locale], ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", ""), PATH=os.environ["PATH"])
        env = {k: v for k, v in env.items() if v}
        p = subprocess.run([scratch.binary, *words], cwd=self.data, env=env, stdin=subprocess.DEVNULL, timeout=60,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertGreaterEqual(p.returncode, 0, (locale, words, p))
        self.assertNotIn(b"Sanitizer", p.stderr)
        return p.returncode, p.stdout, p.stderr

    def verbs(self):
        """(words, exit status)"""
        there = ["--runtime-directory=" + os.path.dirname(self.daemon.socket)]
        conf = ["--configuration-directory=" + os.path.join(self.daemon.dir, "conf")]
        yield ["list", *there], 0
        yield ["list", "--all", *there], 0
        yield ["show", *(str(n + 1) for n in range(len(NAMES))), *there], 0
        yield ["spools", *there], 0
        yield ["status", *there], 0
        yield ["devices", "--interval=0", *there], 0
        yield ["policy", "list", *conf, *there, "--state-directory=" + self.daemon.state], 0
        yield ["policy", "plan", "p", *conf], 0
        for name in NAMES:
            yield ["plan", os.fsdecode(name), *conf], 0
            yield ["run", "--dry-run", os.fsdecode(name), *conf], 0
            yield ["pin", "--list", os.fsdecode(name)], 0
            yield ["run", "missing-" + os.fsdecode(name), *conf], 1
            yield ["trim", "--dry-run", "missing-" + os.fsdecode(name)], 1
            yield ["submit", "missing-" + os.fsdecode(name), *there], 1
            yield ["check-config", "missing-" + os.fsdecode(name)], 1
            yield [os.fsdecode(name)], 2
            yield ["list", "--state=" + os.fsdecode(name), *there], 2
        yield ["metrics", *there], 0
        yield ["fleet", "hosts", *there], None
        yield ["help"], 0

    def test_attack_63_every_verb_ends(self):
        for words, status in self.verbs():
            for locale in LOCALES:
                r, out, err = self.ctl(locale, *words)
                if status is not None:
                    self.assertEqual(r, status, (locale, words, out, err))
                # Counters are for programs, in UTF-8 everywhere.
                for text in (out, err) if words[0] != "metrics" else (err,):
                    text.decode("utf-8" if locale == "UTF-8" else "ascii")
                    self.assertNotIn(b"\x1b", text)

    def test_attack_63_names_are_shown(self):
        there = "--runtime-directory=" + os.path.dirname(self.daemon.socket)
        _, utf8, _ = self.ctl("UTF-8", "list", there)
        for shown in ("ä", "日本", "e\u0301", "\U0001f600", "\\xff\\xfe", "\\xc3", "x\\xe2\\x80\\x8by", "\\x9b31m"):
            self.assertIn(("/" + shown + "\n").encode(), utf8)
        for locale in LOCALES:
            if locale == "UTF-8":
                continue
            _, out, _ = self.ctl(locale, "list", there)
            for shown in (b"\\xc3\\xa4", b"\\xe6\\x97\\xa5\\xe6\\x9c\\xac", b"e\\xcc\\x81", b"\\xf0\\x9f\\x98\\x80", b"\\xff\\xfe"):
                self.assertIn(b"/" + shown + b"\n", out, locale)

    def test_attack_64_programs_get_the_same_everywhere(self):
        there = ["--runtime-directory=" + os.path.dirname(self.daemon.socket)]
        conf = ["--configuration-directory=" + os.path.join(self.daemon.dir, "conf")]
        for words in (["list", "--all", *there], ["show", *(str(n + 1) for n in range(len(NAMES))), *there], ["spools", *there],
                      ["policy", "plan", "p", *conf], ["plan", *(os.fsdecode(n) for n in NAMES), *conf]):
            seen = {}
            for locale in LOCALES:
                _, out, _ = self.ctl(locale, *words, "--json")
                v = json.loads(out.decode("utf-8"))
                seen[locale] = [self.names(v)]
            self.assertEqual(len({repr(v) for v in seen.values()}), 1, (words, seen))
            self.assertRegex(repr(seen["C"]), "[äüö]")

    def names(self, v):
        """All texts in it, without those that count time."""
        if isinstance(v, dict):
            return sorted(t for member in v.values() for t in self.names(member))
        if isinstance(v, list):
            return sorted(t for member in v for t in self.names(member))
        return [v] if isinstance(v, str) else []


if __name__ == "__main__":
    fixture.main()
