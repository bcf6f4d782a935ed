"""kazoo's own test suite, unaltered, against the server under test.

kazoo's harness starts `java`; a stand-in first on the PATH starts our server
instead, so the suite's hooks (stop and start a server, expire a session, drop
a connection) act on it. The files are dealt out over two pytest processes,
each with a server of its own: the suite mostly sleeps.
"""

import os
import xml.etree.ElementTree as ElementTree

from interop.context import HERE
from interop.ports import BLOCK
from interop.results import Result
from interop.server import environment

SIZED = True
NOTES = ("ensemble: needs three servers, run with --size 3.",)

TESTS = "/usr/lib/python3/dist-packages/kazoo/tests"

# What needs a quorum, or a second server beside the one that it stops.
ENSEMBLE = {
    "test_client.TestClient.test_update_host_list",
    "test_client.TestReconfig.test_add_remove_observer",
    "test_client.TestReconfig.test_bad_input",
    "test_client.TestReconfig.test_no_super_auth",
    "test_connection.TestReadOnlyMode.test_read_only",
    "test_eventlet_handler.TestEventletClient.test_update_host_list",
    "test_gevent_handler.TestGeventClient.test_update_host_list",
}

SHARDS = 2

# Measured seconds of the files that take more than a few.
SECONDS = {
    "test_partitioner.py": 20, "test_eventlet_handler.py": 18, "test_watchers.py": 16,
    "test_client.py": 14, "test_gevent_handler.py": 9, "test_lock.py": 9,
}



def run(run):
    files = sorted(f for f in os.listdir(TESTS) if f.startswith("test_") and f.endswith(".py"))
    # Longest first, dealt to the shard with the least to do; the rest is even.
    shards = [[0, []] for _ in range(SHARDS)]
    for name in sorted(files, key=lambda f: -SECONDS.get(f, 1)):
        shard = min(shards, key=lambda s: s[0])
        shard[0] += SECONDS.get(name, 1)
        shard[1].append(name)
    started = [_start(run, i, names) for i, (_, names) in enumerate(shards)]
    out = []
    for process, report, log in started:
        process.wait()
        out += _read(report, log)
    return [r for r in out if run.wants(r.name)]


def _start(run, index, names):
    directory = run.directory(f"shard{index}")
    env = environment(run.target, run)
    env.update(
        PATH=os.path.join(HERE, "shim") + ":" + env["PATH"],
        PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1", TMPDIR=directory,
        INTEROP_LOGS=directory,
        ZOOKEEPER_CLASSPATH="unused", ZOOKEEPER_VERSION="3.8.0",
        ZOOKEEPER_PORT_OFFSET=str(run.ports.base + BLOCK // SHARDS * index),
        ZOOKEEPER_CLUSTER_SIZE=str(run.size))
    if run.only:
        env["INTEROP_ONLY"] = run.only.pattern
    env["INTEROP_PENDING"] = ",".join(run.pending)
    if run.size == 1:
        env["INTEROP_ENSEMBLE"] = ",".join(ENSEMBLE)
    report, log = os.path.join(directory, "junit.xml"), os.path.join(directory, "pytest.log")
    with open(log, "w") as f:
        process = run.child(
            ["/usr/bin/python3", "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-p", "interop.pytest_plugin", f"--junit-xml={report}", "--rootdir", TESTS,
             *(os.path.join(TESTS, n) for n in names)],
            stdout=f, stderr=f, env=env, cwd=directory)
    return process, report, log


def _read(report, log):
    if not os.path.exists(report):
        with open(log, errors="replace") as f:
            raise RuntimeError("kazoo: pytest wrote no report:\n" + f.read()[-4000:])
    out = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        status, detail = "pass", ""
        for child in case:
            if child.tag == "skipped":
                status = "ensemble" if child.get("message") == "ensemble" else "skip"
            elif child.tag in ("failure", "error"):
                status = "fail"
                detail = "\n".join((child.text or "").splitlines()[-25:])
        out.append(Result(name, status, detail))
    return out
