"""What a suite is told about the run it is part of."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
from dataclasses import dataclass

from interop.ports import Ports
from interop.server import end_recorded

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True)
class Target:
    """Which server: kind is apache or pinfold, binary the path of the latter.

    release is another one of Apache's than the installed, which
    scripts/apache-release has fetched.
    """
    kind: str
    binary: str = None
    release: str = ""


APACHE = Target("apache")
APACHE_34 = Target("apache", release="3.4")
APACHE_39 = Target("apache", release="3.9")


def end_group(process):
    """Kills a process that leads a group, and what it started there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Run:
    """One suite's run: its scratch directory, ports and processes.

    pending has the names of tests that are not expected to pass.

    Leave it through `with`, so that its servers end and its scratch goes.
    """

    def __init__(self, target, *, size=1, only=None, record=False, keep=False, pending=()):
        self.target, self.size, self.record = target, size, record
        self.only = re.compile(only) if only else None
        self.pending = frozenset(pending)
        self.ports = Ports()
        self.scratch = tempfile.mkdtemp(prefix="pinfold-interop-")
        self.pids_path = os.path.join(self.scratch, "pids")
        self._keep, self._children = keep, []

    def wants(self, name):
        return self.only is None or self.only.search(name) is not None

    def directory(self, *parts):
        path = os.path.join(self.scratch, *parts)
        os.makedirs(path, exist_ok=True)
        return path

    def child(self, argv, **options):
        """Starts a process in a group of its own, which ends with the run at the latest."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(argv, start_new_session=True, **options)
        self._children.append(process)
        return process

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for process in self._children:
            end_group(process)
        end_recorded(self.pids_path)
        if not self._keep:
            shutil.rmtree(self.scratch, ignore_errors=True)
