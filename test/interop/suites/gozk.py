"""The integration tests of github.com/go-zookeeper/zk against the server under test.

The module comes from the Go proxy at a pinned version and sum, is copied to
the scratch directory and tested there with its own `go test`. A stand-in for
zkServer.sh starts our server. Two things of the copy change: the range that its
random ports come from, and the form of the build date in `srvr`, by which it
waits for a server: Apache has printed another one for years, so that against
3.8 not one of these tests would get past its set-up.
"""

import json
import os
import re
import shutil
import subprocess

from interop.context import HERE
from interop.ports import BLOCK
from interop.results import Result
from interop.server import environment

SIZED = True
NOTES = ("ensemble: needs three servers, run with --size 3.",)

MODULE, VERSION = "github.com/go-zookeeper/zk", "v1.0.4"
SUM = "h1:DPzxraQx7OrPyXq2phlGlNSIyWEsAox0RJmjTseMV6I="

# What starts three servers, by its own code.
ENSEMBLE = (
    "TestIntegration_BasicCluster",
    "TestIntegration_ClientClusterFailover",
    "TestIntegration_NoQuorum",
    "TestIntegration_RecurringReAuthHang",
    "TestIntegration_DNSHostProviderReconnect",
    "TestIntegration_IncrementalReconfig",
    "TestIntegration_Reconfig",
)

TEST_LIMIT = "480s"


def run(run):
    source = _source(run)
    names = [n for n in _names(source) if run.wants(n)]
    skipped = [n for n in names if run.size == 1 and n in ENSEMBLE]
    wanted = [n for n in names if n not in skipped]
    out = [Result(n, "ensemble") for n in skipped]
    if wanted:
        out += _test(run, source, wanted)
    return out


def _source(run):
    """Returns a writable copy of the module whose tests keep to our ports."""
    download = run.directory("download")
    with open(os.path.join(download, "go.mod"), "w") as f:
        f.write("module download\n\ngo 1.22\n")
    done = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"],
                          cwd=download, capture_output=True, text=True,
                          env=dict(os.environ, GOFLAGS="-mod=mod", GOWORK="off"))
    if done.returncode:
        raise RuntimeError(f"gozk: go mod download: {done.stderr or done.stdout}")
    got = json.loads(done.stdout)
    if got["Sum"] != SUM:
        raise RuntimeError(f"gozk: {MODULE}@{VERSION} has sum {got['Sum']}, want {SUM}")
    source = os.path.join(run.scratch, "zk")
    shutil.copytree(got["Dir"], source)
    subprocess.run(["chmod", "-R", "u+w", source], check=True)
    # The three ports of the fourth server of IncrementalReconfig: those of the cluster do not reach so far.
    _edit(source, {"rand.Int31n(6000) + 10000": f"rand.Int31n(1) + {run.ports.base + BLOCK - 3}"}, "zk_test.go")
    _edit(source, {
        # A test takes at most nine ports, from this one on.
        "rand.Int31n(6000) + 10000": f"rand.Int31n({BLOCK - 12}) + {run.ports.base}",
        # What `srvr` says of the build, as 3.8 prints it.
        r"([A-Za-z0-9\.\-]+), built on (\d\d/\d\d/\d\d\d\d ":
            r"([^,\n]+), built on (\d\d\d\d-\d\d-\d\d ",
        '"01/02/2006 15:04 MST"': '"2006-01-02 15:04 MST"',
    })
    return source


def _edit(source, changes, only=""):
    """Replaces each old text by its new one, in all files or in one; every one must occur."""
    used = set()
    for name in os.listdir(source):
        if not name.endswith(".go") or only and name != only:
            continue
        path = os.path.join(source, name)
        with open(path) as f:
            before = f.read()
        after = before
        # flw_test.go tests the old form against servers of its own.
        for old, new in changes.items() if name != "flw_test.go" else ():
            if old in after:
                used.add(old)
                after = after.replace(old, new)
        if after != before:
            with open(path, "w") as f:
                f.write(after)
    if unused := set(changes) - used:
        raise RuntimeError(f"gozk: {MODULE}@{VERSION} has no {unused}")


def _names(source):
    """Returns the tests that start a server; the others test the client alone."""
    out = []
    for name in sorted(os.listdir(source)):
        if name.endswith("_test.go"):
            with open(os.path.join(source, name)) as f:
                out += re.findall(r"^func (TestIntegration_\w+)\(", f.read(), re.M)
    return out


def _test(run, source, names):
    logs = run.directory("logs")
    env = environment(run.target, run)
    env.update(ZOOKEEPER_BIN_PATH=os.path.join(HERE, "shim"), ZK_VERSION="3.8.0",
               INTEROP_LOGS=logs, GOWORK="off", GOFLAGS="-mod=mod")
    process = run.child(
        ["go", "test", "-json", "-count=1", f"-timeout={TEST_LIMIT}",
         "-run", "^(" + "|".join(names) + ")$", "."],
        cwd=source, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    stdout, _ = process.communicate()
    status, output, build = {}, {}, []
    for line in stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            build.append(line)
            continue
        name = event.get("Test")
        if not name or "/" in name:
            build.append(event.get("Output", ""))
        elif event["Action"] == "output":
            output.setdefault(name, []).append(event["Output"])
        elif event["Action"] in ("pass", "fail", "skip"):
            status[name] = event["Action"]
    if not status:
        raise RuntimeError("gozk: go test ran nothing:\n" + "".join(build))
    # A test that panicked or ran out of time took the later ones with it.
    return [Result(n, status.get(n, "fail"),
                   "".join(output.get(n, ["did not run: an earlier test ended the process"])[-25:]))
            for n in names]
