"""Apache's own zkCli.sh: every command in one session, and a few one-shot calls.

The transcript is compared with a golden one. The client is Apache's on both
sides; what differs is the server.
"""

import os
import re
import subprocess

from interop import dialogue
from interop.context import HERE
from interop.results import Result
from interop.server import SUPER_FLAG, Server

SIZED = False
NOTES = ()

CLIENT = "/usr/share/zookeeper/bin/zkCli.sh"
GOLDEN = os.path.join(HERE, "golden", "zkcli.txt")
GOLDEN_ONE_SHOT = os.path.join(HERE, "golden", "zkcli_oneshot.txt")

COMMANDS = """\
(connect)
help
version
whoami
ls /
ls -s /
ls -R /
create /a
create /a data
create /b data-of-b
create -s /s/missing-parent data
create -s /s- data
create -e /e data
create -e -s /es- data
create -c /c data
create /c/child data
create -t 600000 /t data
create -t 600000 -s /ts- data
create -t 0 /t0 data
create -t 1099511627776 /t1 data
create -c -e /ce data
create /e/child data
create /a/b data
create /a/b/c data world:anyone:r
create /acl data world:anyone:cdrwa
create /badacl data nosuch:anyone:r
create relative data
get /a
get /b
get -s /b
get -s /e
get /nope
set /b changed
set -s /b changed-again
set -v 2 /b right-version
set -v 2 /b wrong-version
set /nope data
stat /b
stat /nope
ls /a
ls -R /a
ls -s /a
ls /nope
get -w /b
set /b fires
stat -w /b
delete /b
stat -w /b
create /b fires
ls -w /a
create /a/watched data
delete /a/watched
addWatch /p
addWatch -m PERSISTENT /q
addWatch -m NOSUCH /r
create /p data
create /p/q data
set /p/q data
delete /p/q
delete /p
create /q data
create /q/child data
set /q data
delete /q/child
delete /q
removewatches /q
removewatches /p
removewatches /nowatch
removewatches /p -l
getAcl /acl
getAcl -s /acl
getAcl /nope
setAcl /acl world:anyone:cdrwa,ip:127.0.0.1:r
getAcl /acl
setAcl /acl auth:ignored:cdrwa
addauth digest user:password
whoami
setAcl /acl auth:ignored:cdrwa
getAcl /acl
setAcl -v 9 /acl world:anyone:r
setAcl -s /acl digest:other:abcdefghijklmnopqrstuvwxyz0=:r
get /acl
set /acl denied
getAcl /acl
setAcl -R /a world:anyone:cdrwa
getAcl /a/b/c
setAcl /a/b/c ip:10.0.0.0/8:r
get /a/b/c
addauth digest super:test
get /a/b/c
whoami
ls /
getEphemerals
create -e /e2 data
create -e /a/e3 data
getEphemerals
getEphemerals /a
getEphemerals /none
getAllChildrenNumber /
getAllChildrenNumber /a
getAllChildrenNumber /nope
create /quota data
setquota -n 3 /quota
listquota /quota
setquota -b 100 /quota
setquota -N 4 /quota
setquota -B 60 /quota
listquota /quota
setquota -n 3 /quota/below
create /quota/1 data
create /quota/2 data
create /quota/3 data
create /quota/4 data
create /quota/5 data
set /quota/1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
listquota /quota
get /zookeeper/quota/quota/zookeeper_stats
get /zookeeper/quota/quota/zookeeper_limits
delquota -n /quota
listquota /quota
delquota -b /quota
delquota -N /quota
delquota -B /quota
delquota /quota
listquota /quota
listquota /nope
delquota /nope
ls -R /zookeeper
sync /a
sync /nope
config
config -s
config -c
reconfig -remove 2
reconfig -add server.2=127.0.0.1:24001:24002;24003
delete -v 7 /quota/1
delete /quota
delete /nope
delete /zookeeper
deleteall /quota
deleteall /nope
delete /a
deleteall /a -b 2
ls /
history
redo 4
printwatches
printwatches off
get -w /c
set /c unseen
printwatches on
get -w /c
set /c seen
nosuchcommand
create
addauth nosuch credential
ls /
close
ls /
""".splitlines()

ONE_SHOT = (
    "ls /",
    "ls -R /",
    "get /nope",
    "nosuchcommand",
    "-waitforconnection -timeout 10000 get -s /c",
    "-r get /c",
    "deleteall /c",
    "ls /",
)


def run(run):
    server = Server(run, run.target, run.directory("server"),
                    settings={"enforceQuota": "true"},
                    flags=["-Dzookeeper.extendedTypesEnabled=true", SUPER_FLAG])
    with server:
        return _session(run, server) + _one_shots(run, server)


def _environment():
    env = dict(os.environ, TZ="UTC", LC_ALL="C.UTF-8")
    env["CLIENT_JVMFLAGS"] = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    return env


def _session(run, server):
    client = dialogue.Client([CLIENT, "-server", server.address], env=_environment(),
                             cwd=run.directory("client"))
    try:
        return dialogue.play(run, GOLDEN, COMMANDS, lambda command, expected: client.ask(
            None if command.startswith("(") else command,
            lambda text: normalise(text, server), expected))
    finally:
        client.close()


def _one_shots(run, server):
    def ask(command, expected):
        done = subprocess.run([CLIENT, "-server", server.address, *command.split()],
                              env=_environment(), cwd=run.directory("client"), timeout=60,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        # A short command may be over before the client tells of its connection.
        answer = normalise(done.stdout, server).replace(CONNECTED, "")
        return answer + f"(exit {done.returncode})\n"

    return [Result("oneshot " + r.name, r.status, r.detail)
            for r in dialogue.play(run, GOLDEN_ONE_SHOT, ONE_SHOT, ask)]


EVENT = re.compile(r"^WatchedEvent .*\n", re.M)
CONNECTED = "WatchedEvent state:SyncConnected type:None path:null\n"


def normalise(text, server):
    """Removes what differs between two runs: times, session ids, our port.

    Events come from another thread of the client than answers and may land
    among them, each in two pieces: they go behind the answer, in their own
    order. whoami and getEphemerals list a hash set: sort it.
    """
    text = re.sub(r"^SLF4J: .*\n", "", text, flags=re.M)
    text = re.sub(r"^\[\S+\] (?:ERROR|WARN|INFO) .*\n", "", text, flags=re.M)
    text = re.sub(r"^(?:WATCHER::)?\n", "", text, flags=re.M)
    text = EVENT.sub("", text) + "".join(EVENT.findall(text))
    text = re.sub(r"(?<=Auth scheme: User\n)(?:\w+: .*\n)+",
                  lambda m: "".join(sorted(m.group(0).splitlines(True))), text)
    text = re.sub(r"time = \w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC (?!1970)\d{4}",
                  "time = DATE", text)
    text = re.sub(r"0x1[0-9a-f]{13,}", "SID", text)
    text = re.sub(r"^\[(/[^,\]]*(?:, /[^,\]]*)*)\]$",
                  lambda m: "[" + ", ".join(sorted(m.group(1).split(", "))) + "]", text, flags=re.M)
    return text.replace(server.address, "SERVER")
