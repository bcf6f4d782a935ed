"""The four-letter words, their text compared with Apache's as golden files.

The answers of an idle server, of the same with two sessions that own
ephemerals and watches, and of one with the default whitelist. mntr and
envi are judged key by key, the other commands as a whole.
"""

import os
import re
import time

from interop import dialogue, tree
from interop.context import HERE
from interop.results import Result
from interop.server import Server, four_letters

SIZED = False
NOTES = ()

GOLDEN = os.path.join(HERE, "golden", "fourletter.txt")

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

NODES = 300


def run(run):
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
    return _judge(run, answers)


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


def _pairs(answer, word):
    """Yields (key, shape of the value) of mntr and envi lines."""
    for line in answer.splitlines():
        key, sep, value = line.partition("\t" if word == "mntr" else "=")
        if not sep:
            yield line, "heading\n"
        elif word == "envi":
            yield key, "V\n"
        elif key in EXACT:
            yield key, value + "\n"
        elif re.fullmatch(r"-?\d+", value):
            yield key, "INTEGER\n"
        elif re.fullmatch(r"-?\d+\.\d+(E-?\d+)?", value):
            yield key, "DECIMAL\n"
        else:
            yield key, value + "\n"


VERSION = re.compile(r"\d+\.\d+\.\d+[^,\n]*, built on \d{4}-\d\d-\d\d \d\d:\d\d \w+")


def normalise(word, text, server):
    """Replaces what differs between two runs, and sorts what has no order."""
    text = VERSION.sub("VERSION", text)
    text = text.replace(server.data_dir, "DIR").replace(str(server.port), "PORT")
    text = re.sub(r"0x1[0-9a-f]{10,}", "SID", text)
    if word in ("srvr", "stat"):
        text = re.sub(r"(?<=Latency min/avg/max: )\d+/\d+\.\d+/\d+", "N/N.N/N", text)
        text = re.sub(r"^(Received|Sent): \d+", r"\1: N", text, flags=re.M)
    if word in ("stat", "cons"):
        text = re.sub(r"(?<=/127\.0\.0\.1:)\d+", "N", text)
        # The word's own connection is one of the lines, and counts nothing yet.
        text = re.sub(r"(recved|sent|est|lresp|llat|minlat|avglat|maxlat)=\d+", r"\1=N", text)
        text = re.sub(r"(lcxid|lzxid)=0x[0-9a-f]+", r"\1=0xN", text)
        text = re.sub(r"lop=(?:PING|SETD|SESS|GETD|GETC|GETC2|EXIS)\b", "lop=OP", text)
        text = _sort(text, lambda line: line.startswith(" /"))
    elif word in ("dirs", "conf"):
        text = re.sub(r"((?:size: )|(?:Size=))\d+", r"\1N", text)
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
    if run.record:
        dialogue.write_golden(GOLDEN, answers)
    golden, out = dict(dialogue.read_golden(GOLDEN)), []
    seen = dict(answers)
    for name, expected in golden.items():
        if name not in seen:
            out.append(Result(name, "fail", "no such line"))
        else:
            out.append(dialogue.judge(name, expected, dialogue.end_line(seen[name])))
    # Further keys of mntr and envi are welcome; further answers cannot be.
    return [r for r in out if run.wants(r.name)]
