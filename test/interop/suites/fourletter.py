"""The four-letter words, their text compared with Apache's as golden files.

The answers of an idle server, of the same with two sessions that own
ephemerals and watches, and of one with the default whitelist. mntr and
envi are judged key by key, the other commands as a whole.

With three servers: the answers of the leader, a follower and an observer, and
of those that are left without a quorum.
"""

import os
import re
import time

from interop import dialogue, tree
from interop.context import HERE
from interop.ensemble import Ensemble
from interop.results import Result
from interop.server import Server, four_letters

SIZED = True
NOTES = ()

GOLDEN = {1: os.path.join(HERE, "golden", "fourletter.txt"),
          3: os.path.join(HERE, "golden", "fourletter-3.txt")}

WORDS = ("ruok", "srvr", "stat", "cons", "crst", "srst", "conf", "dirs", "dump", "isro",
         "hash", "wchs", "wchc", "wchp", "gtmk", "stmk", "envi", "mntr")
IDLE = ("ruok", "srvr", "stat", "cons", "dump", "wchs", "wchc", "wchp", "hash", "dirs")
BUSY = ("srvr", "stat", "cons", "conf", "dirs", "dump", "isro", "hash", "wchs", "wchc", "wchp",
        "gtmk", "stmk", "gtmk", "ruok with a newline", "nosuch", "telnet interrupt",
        "crst", "srst", "envi", "mntr")

# What is sent where the name of the step is not what is sent.
BYTES = {
    "stmk": b"stmk" + (0x1234).to_bytes(8, "big"),
    "ruok with a newline": b"ruok\r\n",
    "nosuch": b"zzzz",
    "telnet interrupt": b"\xff\xf4\xff\xfd\x06",
}

# mntr values that the script determines.
EXACT = {"zk_server_state", "zk_num_alive_connections", "zk_outstanding_requests",
         "zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_approximate_data_size",
         "zk_global_sessions", "zk_local_sessions"}
MEMBER_EXACT = EXACT | {
    "zk_peer_state", "zk_quorum_size", "zk_learners", "zk_synced_followers", "zk_synced_observers",
    "zk_synced_non_voting_followers", "zk_pending_syncs", "zk_last_proposal_size",
    "zk_min_proposal_size", "zk_max_proposal_size", "zk_proposal_count", "zk_commit_count",
    "zk_learner_proposal_received_count", "zk_learner_commit_received_count",
    "zk_cnt_follower_sync_time", "zk_cnt_observer_sync_time", "zk_cnt_propagation_latency",
    "zk_cnt_proposal_latency", "zk_cnt_quorum_ack_latency", "zk_cnt_commit_propagation_latency"}

NODES = 300


def run(run):
    return _judge(run, _alone(run) if run.size == 1 else _ensemble(run))


def _alone(run):
    answers = []
    with Server(run, run.target, run.directory("server")) as server:
        answers += [("idle " + w, ask(server, w)) for w in IDLE]
        clients = _occupy(server)
        try:
            for word in BUSY:
                answer = ask(server, word)
                if word in ("mntr", "envi"):
                    answers += [(f"busy {word} {k}", v) for k, v in _pairs(answer, word)]
                else:
                    answers.append((f"busy {word}", answer))
        finally:
            for client in clients:
                tree.close(client)
        _wait_for_one_connection(server)
        answers += [("after " + w, ask(server, w)) for w in ("srvr", "dump", "wchs")]
    default = Server(run, run.target, run.directory("default"))
    del default.settings["4lw.commands.whitelist"]
    with default:
        answers += [("not listed " + w, ask(default, w)) for w in WORDS]
    return answers


# What is asked of the members.
MEMBER = ("ruok", "srvr", "stat", "cons", "conf", "dirs", "dump", "isro", "hash", "wchs", "wchc",
          "wchp", "gtmk", "mntr")


def _ensemble(run):
    """Asks three voters and an observer, by their roles."""
    answers = []
    with Ensemble(run, voters=3, observers=1) as members:
        roles = members.roles()
        leader, follower, observer = (roles[r][0] for r in ("leader", "follower", "observer"))
        for role in sorted(roles):
            for word in ("stat", "dump"):
                answer = ask(roles[role][0], word)
                # A learner shows the epoch at once or with the first transaction.
                answers.append((f"idle {role} {word}", re.sub(r"^Zxid: .*", "Zxid: Z", answer, flags=re.M)))
        clients = _occupy_members(leader, follower, observer)
        try:
            members.settle()
            for role, server in (("leader", leader), ("follower", follower), ("observer", observer)):
                for word in MEMBER:
                    answer = ask(server, word)
                    if word == "mntr":
                        answers += [(f"{role} mntr {k}", v)
                                    for k, v in _pairs(answer, word, MEMBER_EXACT)]
                    else:
                        answers.append((f"{role} {word}", answer))
        finally:
            for client in clients:
                tree.close(client)
        leader.kill()
        roles["follower"][1].kill()
        _wait_for_no_quorum(follower, observer)
        for role, server in (("follower", follower), ("observer", observer)):
            answers += [(f"{role} without a quorum {w}", ask(server, w)) for w in WORDS if w != "envi"]
    return answers


def _occupy_members(*servers):
    """Opens a session on each, with an ephemeral and a watch."""
    clients = []
    for i, server in enumerate(servers):
        client = tree.connect(server, timeout=30.0)
        clients.append(client)
        client.create(f"/n{i}", b"x" * 10)
        client.create(f"/e{i}", ephemeral=True)
        client.get(f"/n{i}", watch=lambda event: None)
    return clients


def _wait_for_no_quorum(*servers):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if not any("Mode: " in ask(s, "srvr") for s in servers):
            return
        time.sleep(0.05)
    raise TimeoutError("a server serves without a quorum")


def _occupy(server):
    """Opens two sessions with ephemerals, watches and a few hundred nodes."""
    def nothing(event):
        pass

    first = tree.connect(server, timeout=30.0)
    first.create("/a", b"0123456789")
    for pending in [first.create_async(f"/a/{i:03d}", b"x" * 10) for i in range(NODES)]:
        pending.get()
    first.create("/a/first", ephemeral=True)
    first.create("/a/first-", ephemeral=True, sequence=True)
    second = tree.connect(server, timeout=20.0)
    second.create("/second", ephemeral=True)
    first.get("/a", watch=nothing)
    first.exists("/missing", watch=nothing)
    first.get_children("/a", watch=nothing)
    second.get("/a", watch=nothing)
    second.set("/second", b"data")
    return first, second


def _wait_for_one_connection(server):
    """Returns when the word's own connection is the only one, or after 5 s."""
    deadline = time.monotonic() + 5
    while "Connections: 1\n" not in ask(server, "srvr") and time.monotonic() < deadline:
        time.sleep(0.05)


def ask(server, word):
    return normalise(word, four_letters(server.port, BYTES.get(word, word)), server)


def _pairs(answer, word, exact=EXACT):
    """Yields (key, shape of the value) of mntr and envi lines."""
    for line in answer.splitlines():
        key, sep, value = line.partition("\t" if word == "mntr" else "=")
        if not sep:
            yield line, "heading\n"
        elif word == "envi":
            yield key, "V\n"
        elif key in exact:
            yield key, value + "\n"
        elif "_learner_handler_" in key:
            yield re.sub(r"\d+_learner", "N_learner", key), "NUMBER\n"
        elif re.fullmatch(r"-?\d+", value):
            yield key, "INTEGER\n"
        elif re.fullmatch(r"-?\d+\.\d+(E-?\d+)?", value):
            yield key, "DECIMAL\n"
        else:
            yield key, value + "\n"


VERSION = re.compile(r"\d+\.\d+\.\d+[^,\n]*, built on \d{4}-\d\d-\d\d \d\d:\d\d \w+|\d+\.\d+\.\d+[^,\n]*, built on unknown")


def normalise(word, text, server):
    """Replaces what differs between two runs, and sorts what has no order."""
    text = VERSION.sub("VERSION", text)
    text = text.replace(server.data_dir, "DIR").replace(str(server.port), "PORT")
    text = re.sub(r"0x[1-4][0-9a-f]{10,}", "SID", text)
    text = re.sub(r"0x[0-9a-f]+([0-9a-f]{8})\b", r"0xE\1", text)  # the epoch is chance
    if word in ("srvr", "stat"):
        text = re.sub(r"(?<=Latency min/avg/max: )\d+/\d+\.\d+/\d+", "N/N.N/N", text)
        text = re.sub(r"^(Received|Sent): \d+", r"\1: N", text, flags=re.M)
    if word in ("stat", "cons"):
        text = re.sub(r"(?<=/127\.0\.0\.1:)\d+", "N", text)
        # The word's own connection is one of the lines, and counts nothing yet.
        text = re.sub(r"(recved|sent|est|lresp|llat|minlat|avglat|maxlat)=\d+", r"\1=N", text)
        text = re.sub(r"(lcxid|lzxid)=0x[0-9a-f]+", r"\1=0xN", text)
        text = re.sub(r"lop=(?:SYNC|CREA|PING|SETD|SESS|GETD|GETC|GETC2|EXIS)\b", "lop=OP", text)
        text = _sort(text, lambda line: line.startswith(" /"))
    elif word in ("dirs", "conf"):
        text = re.sub(r"((?:size: )|(?:Size=))\d+", r"\1N", text)
        text = re.sub(r"(serverId|electionPort|quorumPort)=[1-9]\d*", r"\1=N", text)
        text = re.sub(r"127\.0\.0\.1:\d+:\d+", "ADDRESS", text)
    elif word == "dump":
        text = _dump(text)
    elif word == "hash":
        text = re.sub(r": -?\d+$", ": N", text, flags=re.M)
    elif word in ("wchc", "wchp"):
        text = _blocks(text)
    return text


def _sort(text, which):
    """Sorts the lines that which() chooses, in their own places."""
    lines = text.splitlines(True)
    chosen = iter(sorted(line for line in lines if which(line)))
    return "".join(next(chosen) if which(line) else line for line in lines)


def _blocks(text):
    """Sorts blocks of a heading and indented lines, and the lines in them."""
    blocks, rest = [], []
    for line in text.splitlines(True):
        if line.startswith("\t") and blocks:
            blocks[-1].append(line)
        elif line.strip():
            blocks.append([line])
        else:
            rest.append(line)
    return "".join(sorted(b[0] + "".join(sorted(b[1:])) for b in blocks)) + "".join(rest)


def _dump(text):
    """Drops which sessions happen to share an expiry bucket."""
    text = re.sub(r"Sets \(\d+\)", "Sets (N)", text)
    text = re.sub(r"^\d+ expire at .*\n", "", text, flags=re.M)
    text = re.sub(r"ip: /127\.0\.0\.1:\d+", "ip: /127.0.0.1:N", text)
    head, sep, tail = text.partition("ephemeral nodes dump:\n")
    middle, sep2, last = tail.partition("Connections dump:\n")
    first = middle.partition("\n")[0] + "\n" if middle else ""
    return (head + sep + first + _blocks(middle[len(first):]) + sep2 +
            _sort(last, lambda line: line.startswith("\t")))


def _judge(run, answers):
    path = GOLDEN[run.size]
    if run.record:
        dialogue.write_golden(path, answers)
    golden, out = dict(dialogue.read_golden(path)), []
    seen = dict(answers)
    for name, expected in golden.items():
        if name not in seen:
            out.append(Result(name, "fail", "no such line"))
        else:
            out.append(dialogue.judge(name, expected, dialogue.end_line(seen[name])))
    # Further keys of mntr and envi are welcome; further answers cannot be.
    return [r for r in out if run.wants(r.name)]
