#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""machine.py - runs a command in an emulated machine, with a kernel of its own and what that can break.

  machine.py [--disk FILE]... [--new-disk SIZE]... [--timeout SECONDS] COMMAND...

The machine's root directory is the one that is seen here, read-only, with /run to write in; variables
that begin with RECLAIM are passed on. The files are its disks: /dev/vda, /dev/vdb and so on; nothing
else of this machine can be changed from inside. Emulated by software, so it needs no rights but to
read, and is some twenty times as slow.

Ends as the command does, or with 77 if there is no such machine here, 126 if it ended by itself (a
panic, a reset), and 124 when it takes too long; then what the kernel said is shown."""
import argparse
import contextlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED, TOO_LONG, ENDED = 77, 124, 126
MEMORY = "2G"


def script(command, kernel):
    passed = {k: v for k, v in os.environ.items() if k.startswith(("RECLAIM", "PYTHON"))}
    passed["RECLAIM_KERNEL"] = kernel  # whose modules are beneath it
    return "".join("export %s=%s\n" % (k, shlex.quote(v)) for k, v in passed.items()) + \
        "cd %s && exec %s\n" % (shlex.quote(os.getcwd()), shlex.join(command))


def words(kernel, scratch, disks, layer, clock):
    yield from ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,la57=off",
                "-smp", "2", "-m", MEMORY, "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", "-device", "virtio-rng-pci",
                "-serial", "file:%s/console" % scratch, "-serial", "stdio",
                "-device", "isa-debug-exit,iobase=0x501,iosize=1",
                "-kernel", "%s/vmlinuz" % kernel, "-initrd", "%s/initrd" % kernel,
                "-append", "console=ttyS0 loglevel=4 panic=-1 mitigations=off "
                "inside=%s/inside %s %s/command %s" % (HERE, kernel, scratch, "layer" if layer else ""),
                "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap")
    if layer:
        yield from ("-virtfs", "local,path=%s,mount_tag=layer,security_model=none,readonly=on" % layer)
    if clock:
        yield from ("-rtc", "base=" + clock)
    for disk in disks:
        yield from ("-drive", "file=%s,format=raw,if=virtio,discard=unmap" % disk)


def run(command, disks=(), timeout=600, layer=None, clock=None, **kwargs):
    """The exit status; what the command says goes where this process's output goes, or as for subprocess.

    layer: a directory that lies over the machine's root, and systemd runs the command; see inside. clock:
    the time at which its clock begins, 2026-03-02T00:00:00, if not now."""
    made = subprocess.run([HERE / "kernel"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0 or not shutil.which("qemu-system-x86_64"):
        print("skipped: no qemu-system-x86_64, or no kernel for it", file=sys.stderr)
        return subprocess.CompletedProcess(command, SKIPPED)
    kernel = made.stdout.strip()
    with tempfile.TemporaryDirectory(prefix="reclaim-vm.") as scratch:
        pathlib.Path(scratch, "command").write_text(script(command, kernel), encoding="utf-8")
        console = pathlib.Path(scratch, "console")
        try:
            p = subprocess.run(list(words(kernel, scratch, disks, layer, clock)), check=False,
                               stdin=subprocess.DEVNULL, timeout=timeout, **kwargs)
            # Odd: what was written to the port by `inside`.
            p.returncode = p.returncode >> 1 if p.returncode % 2 else ENDED
        except subprocess.TimeoutExpired as e:
            p = subprocess.CompletedProcess(command, TOO_LONG, e.stdout, e.stderr)
        if p.returncode in (TOO_LONG, ENDED) and console.exists():
            sys.stderr.write(console.read_text(encoding="utf-8", errors="replace")[-8000:])
    return p


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--disk", action="append", default=[], metavar="FILE")
    p.add_argument("--new-disk", action="append", default=[], metavar="SIZE")
    p.add_argument("--timeout", type=int, default=600)
    p.add_argument("command", nargs=argparse.REMAINDER)
    o = p.parse_args()
    with contextlib.ExitStack() as stack:
        for size in o.new_disk:
            o.disk.append(stack.enter_context(tempfile.NamedTemporaryFile(prefix="reclaim-vm.")).name)
            subprocess.run(["truncate", "--size", size, o.disk[-1]], check=True)
        return run(o.command, o.disk, o.timeout).returncode


if __name__ == "__main__":
    sys.exit(main())
