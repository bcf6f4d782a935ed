"""A data directory, handed from one kind of server to the other and back.

Each case fills a fresh server, dumps the tree that it serves, and ends it with
kill -9. A server of the other kind opens the directory and must serve the same
dump, to the same client sessions. It is written to and
killed, the first kind opens the directory again, and then the other kind once
more, to sweep containers and TTL nodes. With --target apache both kinds are
Apache, which is what the baseline records.
"""

import difflib
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

from interop import tree
from interop.context import APACHE, APACHE_34, APACHE_39
from interop.results import Result
from interop.server import SUPER_FLAG, Server, four_letters

SIZED = False
NOTES = ()

FLAGS = [SUPER_FLAG, "-Dzookeeper.extendedTypesEnabled=true"]
# Nothing is swept while trees are compared, everything at once in the sweep.
PATIENT = ["-Dznode.container.checkIntervalMs=3600000"]
EAGER = ["-Dznode.container.checkIntervalMs=200"]

OFTEN = {"snapCount": "100"}

# name: (settings of every server, settings of the second server alone,
#        what a snapshot file must end in, or None for no snapshot but the first)
CASES = {
    "log only": ({}, {}, None),
    "snapshots": (OFTEN, {}, ""),
    "gzip": (OFTEN | {"snapshot.compression.method": "gz"}, {}, ".gz"),
    "snappy": (OFTEN | {"snapshot.compression.method": "snappy"}, {}, ".snappy"),
    "no digest, own log directory":
        (OFTEN | {"digest.enabled": "false", "dataLogDir": "{directory}/log"}, {}, ""),
    "digest off in the second": (OFTEN, {"digest.enabled": "false"}, ""),
}


def run(run):
    trips = []
    for case, (settings, second, suffix) in CASES.items():
        for origin, other, way in ((APACHE, run.target, "apache to target"),
                                   (run.target, APACHE, "target to apache")):
            trips.append(_Trip(run, f"{case}: {way}", origin, other, settings, second, suffix))
    for origin, other, way in RELEASES:
        trips.append(_Trip(run, f"releases: {way}", origin or run.target, other or run.target, OFTEN, {}, ""))
    trips = [t for t in trips if any(run.wants(n) for n in t.names)]
    pool = ThreadPoolExecutor(max_workers=2)
    try:
        found = [r for results in pool.map(_Trip.results, trips) for r in results]
    finally:
        pool.shutdown(cancel_futures=True)
    return [r for r in found if run.wants(r.name)]


LEGS = ("", ", sessions go on", ", sequence goes on", ", and back", ", and sweep")

# Between other releases and the target, which is None: writer, reader. What 3.4 has
# written goes no way back: it knows neither containers nor TTLs (docs/formats.md).
RELEASES = (
    (APACHE_39, None, "3.9 to target"),
    (None, APACHE_39, "target to 3.9"),
    (APACHE_34, None, "3.4 to target"),
)


class _Trip:
    """One directory's way through four servers, and what was found on it."""

    def __init__(self, run, name, origin, other, settings, second, suffix):
        self._old = origin == APACHE_34
        self._legs = LEGS[:3] if self._old else LEGS
        self.names = [name + leg for leg in self._legs]
        directory = run.directory("".join(c if c.isalnum() else "-" for c in name))
        settings = {k: v.format(directory=directory) for k, v in settings.items()}
        self._servers = [
            Server(run, origin, directory, settings, FLAGS + PATIENT),
            Server(run, other, directory, settings | second, FLAGS + PATIENT),
            Server(run, origin, directory, settings, FLAGS + PATIENT),
            Server(run, other, directory, settings, FLAGS + EAGER),
        ]
        self._suffix = suffix
        self._clients, self._found = [], {}

    def results(self):
        """Makes the trip; a leg that could not be reached has failed."""
        trouble = "did not come so far"
        try:
            self._go()
        except Exception as e:  # kazoo has many kinds, and each one fails the leg
            trouble = f"{type(e).__name__}: {e}"
        finally:
            self._end()
        found = {leg: self._found.get(leg, ("fail", trouble)) for leg in LEGS}
        return [Result(n, *found[leg]) for n, leg in zip(self.names, self._legs)]

    def _end(self):
        for server in self._servers:
            server.kill()
        for client in self._clients:
            tree.close(client)

    def _go(self):
        first, second, third, fourth = self._servers
        first.start()
        self._clients = tree.load(first, modern=not self._old)
        sessions = [c.client_id for c in self._clients]
        written = _state(first)
        first.kill()
        self._check_files()

        second.start()
        opened_at = _zxid(second)
        opened = opened_at + tree.dump(second)
        if self._old:
            written, opened = _without_config(written), _without_config(opened)
        self._found[LEGS[0]] = _equal(written, opened)
        self._found[LEGS[1]] = self._sessions_go_on(sessions)
        self._found[LEGS[2]] = self._sequence_goes_on()
        if self._old:
            return
        tree.change(self._clients[0], self._clients[1])
        written = _state(second)
        second.kill()

        third.start()
        opened_at = _zxid(third)
        self._found[LEGS[3]] = _equal(written, opened_at + tree.dump(third))
        third.kill()

        fourth.start()
        self._found[LEGS[4]] = self._sweeps(fourth)

    def _check_files(self):
        """Raises AssertionError unless the writer left the snapshots of this case."""
        names = os.listdir(os.path.join(self._servers[0].data_dir, "version-2"))
        snapshots = [n for n in names if n.startswith("snapshot.") and
                     n.removesuffix(self._suffix or "") != "snapshot.0"]
        if self._suffix is None:
            ok = not snapshots
        else:
            dots = 1 + bool(self._suffix)
            ok = any(n.endswith(self._suffix) and n.count(".") == dots for n in snapshots)
        if not ok:
            raise AssertionError(f"the writer left {sorted(names)}")

    def _sessions_go_on(self, sessions):
        """The clients that lived through the kill keep their sessions and can write.

        Each server has a port of its own: Apache may leave a client that
        connects while it starts without an answer.
        """
        for client in self._clients:
            client.set_hosts(self._servers[1].address)
        deadline = time.monotonic() + 15
        while not all(c.connected for c in self._clients):
            if time.monotonic() > deadline:
                return "fail", "the clients did not get back in"
            time.sleep(0.05)
        now = [c.client_id for c in self._clients]
        if now != sessions:
            return "fail", f"the clients had sessions {sessions}, now {now}"
        self._clients[0].set("/sessions/first", b"after the kill")
        owner = self._clients[0].exists("/sessions/first").ephemeralOwner
        if owner != sessions[0][0]:
            return "fail", f"owner {owner:#x}, want {sessions[0][0]:#x}"
        return "pass", ""

    def _sequence_goes_on(self):
        got = self._clients[0].create("/kinds/seq/n-", b"", sequence=True)
        if got != tree.NEXT_SEQUENTIAL:
            return "fail", f"next sequential node {got}, want {tree.NEXT_SEQUENTIAL}"
        return "pass", ""

    def _sweeps(self, server):
        """The emptied container and the expired TTL node go, their likes stay."""
        client = tree.connect(server)
        try:
            before = set(tree.SWEPT | tree.KEPT)
            deadline = time.monotonic() + 10
            while time.monotonic() < deadline:
                there = {p for p in before if client.exists(p)}
                if not there & tree.SWEPT:
                    break
                time.sleep(0.1)
            if there != tree.KEPT:
                return "fail", f"left {sorted(there)}, want {sorted(tree.KEPT)}"
            return "pass", ""
        finally:
            tree.close(client)


def _state(server):
    """Returns the dump under the zxid at which it holds."""
    text = tree.dump(server)
    return _zxid(server) + text


def _without_config(text):
    """Leaves out /zookeeper/config, which 3.4 does not have, and its parent."""
    return re.sub(r"^/zookeeper(/config)? .*\n", "", text, flags=re.M)


def _zxid(server):
    return re.search(r"^Zxid: .*\n", four_letters(server.port, "srvr"), re.M).group(0)


def _equal(written, opened):
    if written == opened:
        return "pass", ""
    lines = list(difflib.unified_diff(written.splitlines(), opened.splitlines(),
                                      "written", "opened", lineterm="", n=0))
    return "fail", "\n".join(line[:200] for line in lines[:12])
