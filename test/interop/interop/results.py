"""Results and their comparison with what Apache did.

A result file, and a baseline, has one line per test, sorted: `STATUS NAME`,
where STATUS is pass, fail, skip or, in a baseline, flaky (the recording runs
did not agree) or ensemble (cannot run on one server). `#` opens a comment line.
"""

import os
from dataclasses import dataclass

STATUSES = ("pass", "fail", "skip", "flaky", "ensemble")


@dataclass
class Result:
    """One test's outcome. detail is for the reader of the log alone."""
    name: str
    status: str
    detail: str = ""


def read(path):
    """Returns {name: status}; empty if there is no such file."""
    out = {}
    if not os.path.exists(path):
        return out
    with open(path) as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            status, _, name = line.partition(" ")
            if status not in STATUSES or not name:
                raise ValueError(f"results: {path}:{number}: not a result: {line!r}")
            out[name] = status
    return out


def write(path, statuses, heading=()):
    with open(path, "w") as f:
        f.writelines(f"# {line}\n" for line in heading)
        f.writelines(f"{status} {name}\n" for name, status in sorted(statuses.items()))


def read_pending(path):
    """Returns {name: reason} from lines `NAME # REASON`.

    A pending test is one that passes on Apache and is not yet expected to pass
    here. The reason is mandatory.
    """
    out = {}
    if not os.path.exists(path):
        return out
    with open(path) as f:
        for number, line in enumerate(f, 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, reason = line.strip().partition(" # ")
            if not reason:
                raise ValueError(f"results: {path}:{number}: a pending test needs ` # reason`")
            out[name.strip()] = reason
    return out


@dataclass
class Verdict:
    """How a run compares: lists of test names."""
    broken: list    # pass on Apache, not here, not pending: the failure
    missing: list   # pass on Apache, not run here: a failure as well
    pending: list   # pass on Apache, not here, and it is known
    arrived: list   # pending, yet passes: the pending line must go, a failure
    gained: list    # passes here, not on Apache
    new: list       # no baseline line: record again, a failure

    @property
    def ok(self):
        return not (self.broken or self.missing or self.arrived or self.new)


def compare(baseline, actual, pending, partial):
    """Compares {name: status} maps. partial says that tests were left out on purpose."""
    v = Verdict([], [], [], [], [], [])
    for name, status in sorted(baseline.items()):
        if status != "pass":
            continue
        if name not in actual:
            if not partial and name not in pending:
                v.missing.append(name)
        elif actual[name] != "pass":
            (v.pending if name in pending else v.broken).append(name)
    for name, status in sorted(actual.items()):
        if status == "pass" and name in pending:
            v.arrived.append(name)
        if name not in baseline:
            v.new.append(name)
        elif status == "pass" and baseline[name] == "fail":
            v.gained.append(name)
    return v


def merge(runs):
    """Merges the {name: status} maps of several runs; what differs is flaky."""
    out = {}
    for run in runs:
        for name, status in run.items():
            out[name] = status if out.get(name, status) == status else "flaky"
    return out
