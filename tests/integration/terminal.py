# SPDX-License-Identifier: LGPL-2.1-or-later
"""A terminal to run a program in: keys go in, and what a person would see is read."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

from fixture import TIMEOUT

# Where the distribution has it.
sys.path.append("/usr/lib/python3/dist-packages")
try:
    import pyte
except ImportError:
    pyte = None


class Terminal:
    def __init__(self, words, env, columns=100, lines=24, term="xterm-256color"):
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.last = b""  # of what came, the end
        self.master, slave = pty.openpty()
        self.size(columns, lines)
        self.process = subprocess.Popen(
            words, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=dict(os.environ, TERM=term, LC_ALL="C.UTF-8") | env,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)

    def size(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.screen.resize(lines, columns)
        self.size(columns, lines)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def read(self, seconds):
        """Takes what comes first. False at the end."""
        if not select.select([self.master], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.last = (self.last + data)[-4096:]
        self.stream.feed(data)
        return bool(data)

    def wait(self, condition):
        """Until the screen is such that condition(text) is true; or a string is on it."""
        wanted = condition if callable(condition) else lambda text: condition in text
        end = time.monotonic() + TIMEOUT
        while not wanted(self.text()):
            if time.monotonic() > end or not self.read(1):
                raise AssertionError("%r never came; this did:\n%s" % (condition, self.text()))
        return self.text()

    def finish(self):
        """Until the program has ended; its exit status."""
        while self.read(TIMEOUT):
            pass
        return self.process.wait(TIMEOUT)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
