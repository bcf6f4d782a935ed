"""A scripted session of the C client (cli_mt) against a golden transcript."""

import os
import re

from interop import dialogue
from interop.context import HERE
from interop.server import Server

SIZED = False
NOTES = ()

CLIENT = "/usr/lib/zookeeper/bin/cli_mt"
GOLDEN = os.path.join(HERE, "golden", "cli_mt.txt")

# cli_mt's addauth drops the last byte of the credential, so it gets one more.
# Its ls and get set watches, which is where the events come from.
COMMANDS = """\
(connect)
create /a
create /a
set /a hello
get /a
exists /a
ls /
ls2 /
create2 /b
get /b
set /b again
wexists /nope
create /nope
delete /nope
create +e /ephemeral
get /ephemeral
create /ephemeral/child
create +s /seq-
create +s /seq-
create +es /eseq-
create2 +s /seq2-
create2 +e /e2
create +c /container
create /container/child
create2 +c /container2
create +t=600000 /ttl
create2 +t=600000 /ttl2
create +t=600000s /ttlseq-
get /ttl
delete /container
delete /container/child
create /a/b
create /a/b/c
ls /a
delete /a
delete /a/b/c
delete /a/b
ls /a
sync /a
sync /nope
set /nope x
get /nope
ls /nope
ls2 /nope
delete /nope
exists /nope
create relative
create /missing/parent
create /trailing/
get /trailing//double
acreate /async
aget /async
aset /async value
aexists /async
als /
als2 /
async /async
adelete /async
create /zookeeper/mine
delete /zookeeper
delete /zookeeper/quota
ls /zookeeper
get /zookeeper/config
config
reconfig -remove 3
addauth digest user:passwordX
create /after-auth
addauth ip 127.0.0.1X
addauth nosuch schemeX
""".splitlines()


def run(run):
    server = Server(run, run.target, run.directory("server"),
                    flags=["-Dzookeeper.extendedTypesEnabled=true"])
    with server:
        client = dialogue.Client(["/usr/bin/env", "TZ=UTC", CLIENT, "-h", server.address])
        try:
            return dialogue.play(run, GOLDEN, COMMANDS, lambda command, expected: client.ask(
                None if command == "(connect)" else command, normalise, expected))
        finally:
            client.close()


def normalise(text):
    """Removes what differs between two runs: times, session ids, child order.

    Transaction ids stay: the script is one session on an empty server.
    """
    text = re.sub(r"time = -?\d+ msec", "time = N msec", text)
    text = re.sub(r"time ?= ?\w{3} \w{3} +\d+ \d\d:\d\d:\d\d (?!1970)\d{4}",
                  lambda m: m.group(0).partition("=")[0] + "= DATE", text)
    text = re.sub(r"session id: 0x1[0-9a-f]+", "session id: SID", text)
    text = re.sub(r"ephemeralOwner = 1[0-9a-f]{13,}", "ephemeralOwner = SID", text)
    text = re.sub(r"^\d{4}-\d\d-\d\d [\d:,]+:\d+\(0x[0-9a-f]+\):(\w+@\w+)@\d+: ", r"\1: ",
                  text, flags=re.M)
    return re.sub(r"(?:^\t[^ =\n]+\n)+",
                  lambda m: "".join(sorted(m.group(0).splitlines(True))), text, flags=re.M)
