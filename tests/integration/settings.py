# SPDX-License-Identifier: LGPL-2.1-or-later
"""Settings of the whole machine, for as short a time as possible."""
import contextlib
import os
import subprocess
import unittest

from fixture import machine, scratch


@contextlib.contextmanager
def setting(path, value):
    """A process of its own puts the old value back, so that even a SIGKILL of the test leaves
    nothing behind; until then no other test that shares the machine goes on."""
    if not os.path.exists(path):
        raise unittest.SkipTest("this kernel has no " + path)
    with machine.alone() as held:
        with open(path, encoding="ascii") as f:
            before = f.read().strip()
        guard = subprocess.Popen(["sh", "-c", "trap '' INT TERM HUP; cat >/dev/null; echo %s >%s" % (before, path)],
                                 stdin=subprocess.PIPE, preexec_fn=os.setpgrp, pass_fds=(held,))
        scratch.spared.add(guard.pid)
        try:
            with open(path, "w", encoding="ascii") as f:
                f.write(value)
            yield
        finally:
            guard.stdin.close()
            guard.wait()
        with open(path, encoding="ascii") as f:
            assert f.read().strip() == before
