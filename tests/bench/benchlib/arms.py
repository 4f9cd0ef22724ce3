# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arms: the programs that delete. Peers are found, or installed where that is allowed."""

import dataclasses
import os
import shutil
import subprocess

from benchlib.scratch import SOURCE_DIR

REPOSITORY_DIR = os.path.dirname(os.path.dirname(SOURCE_DIR))
BACKENDS = ("auto", "threads", "uring")

PERL_TREE = ('opendir D, $ARGV[0] or die; chdir $ARGV[0] or die;'
             ' while (defined($n = readdir D)) { unlink $n } rmdir $ARGV[0] or die')
PERL_LIST = 'open L, "<", $ARGV[0] or die; while (<L>) { chomp; unlink $_ or die }'

# Debian's names; what a program is called there when its name differs.
PACKAGES = {"rsync": "rsync", "perl": "perl", "find": "findutils", "strace": "strace",
            "mkfs.xfs": "xfsprogs", "mkfs.btrfs": "btrfs-progs", "mkfs.ext4": "e2fsprogs"}


@dataclasses.dataclass(frozen=True)
class Arm:
    """A way of deleting. `tree` and `list` make its command from a Trees; None: cannot do it."""

    name: str
    program: str
    tree: object = None
    list: object = None
    cells: tuple = None
    own: bool = False

    def applies(self, cell):
        """Whether the arm can do this cell at all."""
        if self.cells is not None and cell.name not in self.cells:
            return False
        return (self.list if cell.listed else self.tree) is not None

    def command(self, cell, trees, path):
        """The command line, path being where the program was found."""
        return (self.list if cell.listed else self.tree)(path, trees)


def _xargs(*command):
    return lambda path, trees: ["xargs", "-0", "-a", trees.list0, path, *command]


def _reclaimctl(backend):
    options = ["run", "--latency=off", f"--backend={backend}"]
    return Arm(backend, "reclaimctl",
               tree=lambda path, trees: [path, *options, trees.root],
               list=lambda path, trees: [path, *options, f"--files-from={trees.list}"], own=True)


ARMS = {arm.name: arm for arm in (
    Arm("rm", "rm", tree=lambda path, trees: [path, "-rf", trees.root],
        list=_xargs("-f")),
    Arm("find", "find", tree=lambda path, trees: [path, trees.root, "-delete"],
        list=lambda path, trees: [path, "-files0-from", trees.list0, "-maxdepth", "0", "-delete"]),
    Arm("rsync", "rsync",
        tree=lambda path, trees: [path, "-a", "--delete", trees.empty + "/", trees.root + "/"]),
    Arm("rmz", "rmz", tree=lambda path, trees: [path, trees.root], list=_xargs("-f")),
    Arm("go", "goremove", tree=lambda path, trees: [path, trees.root],
        list=lambda path, trees: [path, f"-list={trees.list}"]),
    Arm("perl", "perl", tree=lambda path, trees: [path, "-e", PERL_TREE, trees.root],
        list=lambda path, trees: [path, "-e", PERL_LIST, trees.list],
        cells=("flat", "list-flat", "list-tree")),
    *(_reclaimctl(backend) for backend in BACKENDS),
)}


class Programs:
    """Where the programs are. Installs what is missing, if it may, into the system or the cache."""

    def __init__(self, scratch, cache, may_install, reclaimctl=None):
        self._scratch = scratch
        self._cache = cache
        self._may_install = may_install
        self._reclaimctl = reclaimctl
        self._paths = {}
        self.missing = {}

    def find(self, program):
        """Path of a program, or None; the reason is then in `missing`."""
        if program not in self._paths:
            special = {"rmz": self._find_rmz, "goremove": self._build_goremove,
                       "reclaimctl": self._find_reclaimctl}
            self._paths[program] = special.get(program, lambda: self._find_packaged(program))()
        return self._paths[program]

    def version(self, program):
        """First line of what the program says about itself."""
        if program == "goremove":
            command = [self._go(), "version"]
        else:
            command = [self.find(program), "-v" if program == "perl" else "--version"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        return lines[0].strip() if lines else ""

    def _lack(self, program, reason):
        self.missing[program] = reason

    def _find_packaged(self, program):
        path = shutil.which(program)
        package = PACKAGES.get(program)
        if not path and package and self._may_install and shutil.which("apt-get"):
            subprocess.run(["apt-get", "install", "-y", "-q", package],
                           stdin=subprocess.DEVNULL, capture_output=True, check=False)
            path = shutil.which(program)
        if not path:
            self._lack(program, f"not installed (package {package})" if package
                       else "not installed")
        return path

    def _find_rmz(self):
        found = shutil.which("rmz", path=os.pathsep.join(
            [os.path.join(self._cache, "bin"), os.environ.get("PATH", ""),
             os.path.expanduser("~/.cargo/bin")]))
        if found:
            return found
        cargo = shutil.which("cargo") or shutil.which("cargo", path=os.path.expanduser(
            "~/.cargo/bin"))
        if not (cargo and self._may_install):
            self._lack("rmz", "not installed" if cargo else "not installed, nor is cargo")
            return None
        result = subprocess.run([cargo, "install", "--quiet", "rmz", "--root", self._cache],
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            self._lack("rmz", "cargo install failed: " + (result.stderr.splitlines() or ["?"])[-1])
            return None
        return os.path.join(self._cache, "bin", "rmz")

    @staticmethod
    def _go():
        return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")

    def _build_goremove(self):
        go = self._go()
        if not go:
            self._lack("goremove", "no Go compiler")
            return None
        output = os.path.join(self._scratch.dir("bin"), "goremove")
        source = os.path.join(SOURCE_DIR, "goremove", "main.go")
        environment = os.environ | {"GOFLAGS": "", "GOTOOLCHAIN": "local"}
        environment.setdefault("GOCACHE", os.path.join(self._cache, "go-build"))
        result = subprocess.run([go, "build", "-o", output, source], env=environment,
                                capture_output=True, text=True, check=False)
        if result.returncode != 0:
            self._lack("goremove", "go build failed: " + (result.stderr.splitlines() or ["?"])[-1])
            return None
        return output

    def _find_reclaimctl(self):
        if self._reclaimctl:
            return self._reclaimctl
        built = os.path.join(REPOSITORY_DIR, "build", "release", "bin", "reclaimctl")
        path = built if os.access(built, os.X_OK) else shutil.which("reclaimctl")
        if not path:
            self._lack("reclaimctl", "not built (--reclaimctl=PATH)")
        return path
