# SPDX-License-Identifier: LGPL-2.1-or-later
"""Blockdev: what the kernel says about a block device, a whole one or a partition."""

import os

SECTOR_BYTES = 512
# Fields of its stat.
DISCARDED_SECTORS = 13


def sysfs(device):
    """Its directory; names in /dev say nothing about that."""
    number = os.stat(device).st_rdev
    return os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")


def queue(device):
    """The directory of its queue, which partitions share with their disk."""
    own = os.path.join(sysfs(device), "queue")
    return own if os.path.isdir(own) else os.path.join(os.path.dirname(sysfs(device)), "queue")


def read(directory, name):
    """One attribute, as text; empty if there is none."""
    try:
        with open(os.path.join(directory, name), encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def in_flight(device):
    """Requests that it has not answered."""
    return sum(map(int, read(sysfs(device), "inflight").split()))


def discarded_bytes(device):
    """What has been trimmed since it is there."""
    return int(read(sysfs(device), "stat").split()[DISCARDED_SECTORS]) * SECTOR_BYTES


def size_bytes(device):
    """How large it is."""
    return int(read(sysfs(device), "size") or 0) * SECTOR_BYTES


def discards(device):
    """Whether it does."""
    return read(queue(device), "discard_max_bytes") not in ("", "0")


def discards_undivided(device):
    """Whether the kernel divides none that the driver takes as one, as far as a limit can be taken off."""
    return _limit(device, "discard_max_bytes") >= _most_settable(device)


def stop_dividing_discards(device):
    """A limit that was set on a loop device once stays there for the files that are attached to it later."""
    if not discards_undivided(device):
        with open(os.path.join(queue(device), "discard_max_bytes"), "w", encoding="ascii") as file:
            file.write(str(_most_settable(device)))


def _limit(device, name):
    return int(read(queue(device), name) or 0)


def _most_settable(device):
    """The kernel takes 32 bits, and multiples of the granularity: less than what a driver may begin with."""
    granularity = _limit(device, "discard_granularity") or SECTOR_BYTES
    return min(_limit(device, "discard_max_hw_bytes"), (1 << 32) - 1) // granularity * granularity


def rotates(device):
    """Whether it is a hard disk."""
    return read(queue(device), "rotational") == "1"
