# SPDX-License-Identifier: LGPL-2.1-or-later
"""A page of the documentation, as a reader follows it: its files are written and its commands run, in order.

Blocks between ``` are a file if the first line (or the second, after #!) is a comment with its path; and
commands if the first line begins with $. What follows a command there is what it prints: numbers, times and
white space may differ, … in a line stands for any text, and as a line for any lines. A command must fail
if its output ends with an error of reclaimctl, and succeed otherwise. /srv is /backups here, where there is room.
"""

import os
import re

from system import attempt

PATH = re.compile(r"^(?:#!.*\n)?# (/\S+)\n")
ERROR = re.compile(r"reclaimctl: |/\S+:\d+:\d+: ")
TIME = re.compile(r"(?:\d+(?:\.\d+)?(?:us|ms|s|min|h|d)\b ?)+")
NUMBER = re.compile(r"\d(?:[\d.,:]*\d)?")


def shape(text):
    """What has to be the same of two lines."""
    return " ".join(NUMBER.sub("1", TIME.sub("1s ", text)).split())


def line_pattern(line):
    return ".*".join(re.escape(shape(part)) if part.strip() else "" for part in line.split("…")).replace(r"\ ", " ?")


def matches(expected, said):
    pattern = "".join(r"(?:.*\n)*?" if line == "…" else line_pattern(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(shape(line) + "\n" for line in said)) is not None


def there(text):
    return re.sub(r"/srv\b", "/backups", text)


def commands(block):
    """(how it stands there, the command, lines of its output)"""
    for part in re.split(r"^(?=\$ )", block, flags=re.M)[1:]:
        command, *output = re.sub(r"\\\n", "", part).splitlines()
        yield part, command.removeprefix("$ "), output


class Page:
    def __init__(self, test, name, cwd="/"):
        """A test that takes the page's mistakes, and where it is followed."""
        self.test = test
        self.name = name
        self.cwd = cwd
        self.wrong = []
        self.at = 0  # how far it has been followed
        with open(f"/docs/{name}.md", encoding="utf-8") as f:
            self.text = f.read()
        self.blocks = re.findall(r"^```\w*\n(.*?)^```$", self.text, re.S | re.M)

    def follow(self):
        for block in self.blocks:
            path = PATH.match(block)
            if path:
                self.write(path[1], block)
                continue
            for part, command, expected in commands(block):
                self.run(part, command, expected)
        if self.wrong:
            with open(f"/results/{os.path.basename(self.name)}.md", "w", encoding="utf-8") as f:
                f.write(self.text)
            self.test.fail("\n".join(self.wrong))

    def write(self, path, content):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(there(content))
        self.test.addCleanup(lambda: os.path.exists(path) and os.unlink(path))

    def run(self, part, command, expected):
        r = attempt("bash", "-c", there(command), cwd=self.cwd)
        said = re.sub(r"/backups\b", "/srv", r.stdout).splitlines()
        fails = bool(said) and ERROR.match(said[-1]) is not None
        at = self.text.index(part, self.at)
        self.at = at + len(part)
        if (r.returncode != 0) == fails and matches(expected, said):
            return
        self.wrong.append(f"$ {command}\n{r.stdout}exit status {r.returncode}, instead of\n" + "\n".join(expected))
        head = re.match(r"(?:.*\\\n)*.*\n", part)[0]
        renewed = head + "".join(line + "\n" for line in said)
        self.text = self.text[:at] + renewed + self.text[self.at:]
        self.at = at + len(renewed)
