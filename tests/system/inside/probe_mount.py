# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs in the place of the daemon with examples/moosefs-snapshots.conf in force: the mount of this machine
can be spoken to, and nothing else has come within reach."""

import socket

PORT = 9420  # where test_units.py listens

with socket.create_connection(("127.0.0.1", PORT), timeout=10) as peer:
    peer.sendall(b"here")
try:
    socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
except OSError:
    pass
else:
    raise AssertionError("there is a socket of another family")
