"""Curator's recipes: the scenarios of curator/*.java, their transcripts compared with Apache's.

By two releases at the same time, each with servers of its own: the one that is
installed, with the installed ZooKeeper's client, and a later one with the client of 3.9
(scripts/curator). Both must say what the golden file says.
"""

import os
import subprocess
import threading

from interop import dialogue
from interop.context import HERE
from interop.ensemble import Ensemble
from interop.results import Result
from interop.server import Server, four_letters

SIZED = True
NOTES = ()

SCENARIOS = os.path.join(HERE, "curator")
GOLDEN = os.path.join(HERE, "golden", "curator.txt")
CURATOR = os.path.join(HERE, "..", "..", "scripts", "curator")
RELEASES = ("5.4", "5.7")
# What the scenarios wait for: TTL znodes, and containers that go soon.
FLAGS = ("-Dzookeeper.extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=200")


def run(run):
    """Plays all scenarios. The golden file is the transcript of the first release."""
    steps, failures = {}, []

    def play(release, servers):
        try:
            steps[release] = _play(run, release, servers)
        except Exception as e:
            failures.append(e)

    threads = [threading.Thread(target=play, args=(r, _servers(run, r))) for r in RELEASES]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    if run.record:
        if failed := [name for name, text in steps[RELEASES[0]] if "failed: " in text]:
            raise RuntimeError(f"curator: not recorded, as these failed: {failed}")
        dialogue.write_golden(GOLDEN, steps[RELEASES[0]])
    golden = dialogue.read_golden(GOLDEN)
    out = []
    for release in RELEASES:
        said = dict(steps[release])
        out += [dialogue.judge(f"{release} {name}", text, said.get(name, "(not played)\n"))
                for name, text in golden]
        out += [Result(f"{release} {name}", "fail", "not in the golden file: record it again")
                for name in said if name not in dict(golden)]
    return [r for r in out if run.wants(r.name)]


def _servers(run, release):
    """Returns what to enter, and the servers that serve then."""
    directory = f"curator-{release}"
    if run.size > 1:
        ensemble = Ensemble(run, run.size, flags=FLAGS, directory=directory)
        return ensemble, ensemble.servers
    server = Server(run, run.target, run.directory(directory), flags=FLAGS)
    return server, [server]


def _play(run, release, servers):
    """Runs the scenarios, restarts a server when they ask for it; returns [(scenario, transcript)]."""
    entered, servers = servers
    log = os.path.join(run.directory(f"curator-{release}"), "curator.log")
    steps = []
    with entered, open(log, "w") as errors:
        process = run.child([CURATOR, SCENARIOS, "Main", ",".join(s.address for s in servers)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                            env=dict(os.environ, CURATOR=release))
        for line in process.stdout:
            if line == "! restart\n":
                _restart(servers)
                process.stdin.write("restarted\n")
                process.stdin.flush()
            elif line.startswith("> "):
                steps.append((line[2:].rstrip("\n"), ""))
            elif steps:
                steps[-1] = (steps[-1][0], steps[-1][1] + line)
        process.wait()
    if not steps or steps.pop()[0] != "end":
        with open(log, errors="replace") as f:
            raise RuntimeError(f"curator: ended with status {process.returncode}:\n" + f.read()[-3000:])
    return steps


def _restart(servers):
    """Kills the lone server, or the leader, and starts it again."""
    leads = [s for s in servers if "Mode: leader" in four_letters(s.port, "srvr")]
    server = (leads or servers)[0]
    server.kill()
    server.start()
