"""Fills a server with every kind of node, and dumps what a server holds.

Needs kazoo. What kazoo 2.8 cannot ask for (containers, TTLs) is a request
class here.
"""

import hashlib
import logging
import random
import re
from collections import namedtuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.serialization import Create, long_struct, read_string
from kazoo.retry import KazooRetry
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, make_digest_acl

from interop.server import SUPER_AUTH, four_letters

# A client whose server is killed says so at length, on stderr.
logging.getLogger("kazoo").setLevel(logging.CRITICAL)

TTL_FLAG, TTL_SEQUENTIAL_FLAG, CONTAINER_FLAG = 5, 6, 4

BULK_OPERATIONS, SEED = 700, 20260101


class CreateContainer(Create):
    """Create as an opcode of its own; the answer's Stat is left unread."""
    type = 19


class CreateTTL(namedtuple("CreateTTL", "path data acl flags ttl")):
    type = 21

    def serialize(self):
        return Create(*self[:4]).serialize() + long_struct.pack(self.ttl)

    @classmethod
    def deserialize(cls, data, offset):
        return read_string(data, offset)[0]


ANSWER_SECONDS = 20


class _BoundedResult(AsyncResult):
    """A result that nobody waits for in vain: a server that turns a client away
    whenever it comes back would keep it waiting for ever."""

    def get(self, block=True, timeout=ANSWER_SECONDS):
        return super().get(block, timeout)


class _BoundedHandler(SequentialThreadingHandler):
    def async_result(self):
        return _BoundedResult(self)


def connect(server, auth=(), timeout=30.0):
    """Returns a started client that reconnects for as long as it lives.

    A request that has no answer for ANSWER_SECONDS raises kazoo's time-out.
    """
    client = KazooClient(
        server.address, timeout=timeout, auth_data=list(auth), handler=_BoundedHandler(),
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_delay=0.3))
    client.start(timeout=15)
    return client


def close(client):
    """Ends a client, and its session if its server is there."""
    client.stop()
    client.close()


def call(client, request):
    """Sends a request of a class of ours and waits for its answer."""
    result = client.handler.async_result()
    client._call(request, result)
    return result.get()


def load(server, modern=True):
    """Fills an empty server. Returns the clients whose sessions stay open.

    Every write is acknowledged, hence durable, on return. modern is false for a
    release before 3.5: no containers and TTL nodes, no networks in ACLs.
    """
    first = connect(server, auth=[("digest", "alice:secret"), ("digest", "bob:secret")])
    second = connect(server, timeout=20.0)
    _kinds(first)
    if modern:
        _lived(first)
    _sessions(server, first, second)
    _acls(first, modern)
    _quotas(first)
    _multi(first)
    _shapes(first)
    _bulk(first)
    return [first, second]


def _kinds(client):
    client.create("/kinds", b"parent")
    client.create("/kinds/persistent", b"data")
    client.create("/kinds/empty", b"")
    call(client, Create("/kinds/null", None, OPEN_ACL_UNSAFE, 0))
    client.create("/kinds/seq", b"")
    made = [client.create("/kinds/seq/n-", b"s", sequence=True) for _ in range(12)]
    for path in made[3:7]:
        client.delete(path)
    client.create("/kinds/seq/plain", b"counts as well")


def _lived(client):
    """Nodes whose lives the server ends."""
    for name in ("used", "unused", "emptied"):
        call(client, CreateContainer(f"/kinds/container-{name}", b"c", OPEN_ACL_UNSAFE,
                                     CONTAINER_FLAG))
    client.create("/kinds/container-used/child", b"")
    client.create("/kinds/container-emptied/child", b"")
    client.delete("/kinds/container-emptied/child")
    for name, flags, ttl in (("long", TTL_FLAG, 3_600_000), ("max", TTL_FLAG, 0xFFFFFFFFFF),
                             ("short", TTL_FLAG, 1), ("short-parent", TTL_FLAG, 1),
                             ("seq-", TTL_SEQUENTIAL_FLAG, 3_600_000)):
        call(client, CreateTTL(f"/kinds/ttl-{name}", b"t", OPEN_ACL_UNSAFE, flags, ttl))
    client.create("/kinds/ttl-short-parent/child", b"")


# What the sweeper of containers and TTL nodes removes from the loaded tree,
# and what it must not take for that.
SWEPT = {"/kinds/container-emptied", "/kinds/ttl-short"}
KEPT = {"/kinds/container-used", "/kinds/container-unused", "/kinds/ttl-long", "/kinds/ttl-max",
        "/kinds/ttl-short-parent", "/kinds/empty"}

# Thirteen nodes were created under /kinds/seq, and deletions do not count.
NEXT_SEQUENTIAL = "/kinds/seq/n-0000000013"


def _sessions(server, first, second):
    first.create("/sessions", b"")
    first.create("/sessions/first", b"e", ephemeral=True)
    first.create("/sessions/first-", b"e", ephemeral=True, sequence=True)
    second.create("/sessions/second", b"e", ephemeral=True)
    second.set("/sessions/second", b"changed")
    third = connect(server, timeout=10.0)
    third.create("/sessions/third", b"gone with its session", ephemeral=True)
    close(third)


def _acls(client, modern):
    def network(address, bits):
        return ACL(1, Id("ip", f"{address}/{bits}" if modern else address))

    client.create("/acl", b"")
    lists = {
        "read-only": [ACL(1, Id("world", "anyone"))],
        "digest": [make_digest_acl("alice", "secret", all=True)],
        "auth": [ACL(31, Id("auth", "ignored"))],
        "ip": [ACL(31, Id("ip", "127.0.0.1")), network("10.0.0.0", 8)],
        "several": [ACL(1, Id("world", "anyone")), make_digest_acl("bob", "secret", write=True),
                    make_digest_acl("alice", "secret", all=True),
                    network("192.168.1.0", 24)],
    }
    for name, acl in lists.items():
        client.create(f"/acl/{name}", name.encode(), acl=acl)
    client.create("/acl/changed", b"")
    for acl in (lists["read-only"] + lists["digest"], lists["several"], lists["digest"]):
        client.set_acls("/acl/changed", acl)


def _quotas(client):
    client.create("/quota", b"")
    client.create("/quota/soft", b"1234567")
    client.create("/quota/hard", b"1234567")
    for name, limits in (("soft", b"count=5,bytes=100"),
                         ("hard", b"count=-1,bytes=-1=;byteHardLimit=1000;countHardLimit=9")):
        path = f"/zookeeper/quota/quota/{name}"
        client.ensure_path(path)
        client.create(path + "/zookeeper_limits", limits)
        client.create(path + "/zookeeper_stats", b"count=0,bytes=0")
    for i in range(4):
        client.create(f"/quota/soft/{i}", b"x" * i)
        client.create(f"/quota/hard/{i}", b"x" * i)
    client.set("/quota/soft/1", b"longer than before")
    client.delete("/quota/hard/3")


def _multi(client):
    client.create("/multi", b"")
    client.create("/multi/goes", b"")
    good = client.transaction()
    good.create("/multi/a", b"a")
    good.create("/multi/a/b", b"b")
    good.create("/multi/seq-", b"", sequence=True)
    good.create("/multi/ephemeral", b"e", ephemeral=True)
    good.set_data("/multi/a", b"changed in the same transaction")
    good.check("/multi/goes", 0)
    good.delete("/multi/goes")
    _expect(not any(isinstance(r, Exception) for r in good.commit()), "a multi that succeeds")
    bad = client.transaction()
    bad.create("/multi/never", b"")
    bad.delete("/multi/nope")
    bad.create("/multi/neither", b"")
    _expect(all(isinstance(r, KazooException) for r in bad.commit()), "a multi that fails")
    for _ in range(3):  # error transactions take a zxid and leave no other trace
        try:
            client.create("/multi/a", b"")
        except NodeExistsError:
            pass


def _shapes(client):
    client.create("/shapes", b"")
    client.create("/shapes/große-Straße-日本", "ünïcode ☃".encode())
    client.create("/shapes/binary", bytes(range(256)))
    client.create("/shapes/spaced name", b"")
    client.ensure_path("/shapes/deep/" + "/".join(f"level{i}" for i in range(30)))
    for i in range(3):
        client.create(f"/shapes/big{i}", random.Random(i).randbytes(1_000_000))
    client.set("/shapes/big1", b"z" * 1_000_000)
    client.create("/shapes/wide", b"")
    for pending in [client.create_async(f"/shapes/wide/{i:04d}", b"") for i in range(400)]:
        pending.get()
    client.create("/shapes/again", b"1")
    client.set("/shapes/again", b"2")
    client.delete("/shapes/again")
    client.create("/shapes/again", b"3")


def _bulk(client):
    """Creates, sets, deletes and re-permits nodes, pipelined, in a fixed random order."""
    rng = random.Random(SEED)
    client.create("/bulk", b"")
    live, made, pending = [], 0, []
    for _ in range(BULK_OPERATIONS):
        dice = rng.random()
        if dice < 0.5 or not live:
            parent = rng.choice(live) if live and rng.random() < 0.3 else "/bulk"
            path, made = f"{parent}/{made}", made + 1
            live.append(path)
            pending.append(client.create_async(path, rng.randbytes(rng.randrange(60))))
        elif dice < 0.75:
            pending.append(client.set_async(rng.choice(live), rng.randbytes(rng.randrange(60))))
        elif dice < 0.85:
            acl = rng.choice([OPEN_ACL_UNSAFE, [ACL(31, Id("ip", "127.0.0.1"))]])
            pending.append(client.set_acls_async(rng.choice(live), acl))
        else:
            leaves = [p for p in live if not any(q.startswith(p + "/") for q in live)]
            path = rng.choice(leaves)
            live.remove(path)
            pending.append(client.delete_async(path))
    for result in pending:
        result.get()


def change(first, second):
    """Writes to a loaded tree, through clients that came with it, what the next server reads."""
    first.create("/change", b"by the second server")
    first.create("/change/ephemeral", b"e", ephemeral=True)
    second.delete("/sessions/second")
    second.create("/sessions/second-again", b"e", ephemeral=True)
    first.delete("/shapes/deep", recursive=True)
    first.set("/shapes/big0", b"small now")
    first.set_acls("/acl/changed", OPEN_ACL_UNSAFE)
    call(first, CreateTTL("/change/ttl", b"t", OPEN_ACL_UNSAFE, TTL_FLAG, 3_600_000))
    call(first, CreateContainer("/change/container", b"c", OPEN_ACL_UNSAFE, CONTAINER_FLAG))
    first.create("/quota/soft/more", b"12345")
    both = first.transaction()
    both.create("/change/multi", b"m")
    both.set_data("/change", b"in a transaction")
    _expect(not any(isinstance(r, Exception) for r in both.commit()), "a multi that succeeds")
    for pending in [first.create_async(f"/change/{i}", b"") for i in range(150)]:
        pending.get()


def _expect(condition, what):
    if not condition:
        raise AssertionError(f"load: {what} did not")


STAT_FIELDS = ("czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion",
               "ephemeralOwner", "dataLength", "numChildren", "pzxid")


def dump(server):
    """Returns the tree, line by line in path order, and the sessions, as one text.

    The dumper's own session is left out. Super sees every node and every ACL
    in full.
    """
    client = connect(server, auth=[SUPER_AUTH])
    try:
        nodes, level = {}, ["/"]
        while level:
            asked = [(path, client.get_children_async(path), client.get_async(path),
                      client.get_acls_async(path)) for path in level]
            level = []
            for path, children, data, acl in asked:
                level += [_join(path, c) for c in children.get()]
                nodes[path] = _node(path, *data.get(), *acl.get())
        lines = [nodes[path] for path in sorted(nodes)]
        own = f"0x{client.client_id[0]:x}"
        return "\n".join(lines + _live_sessions(server, own)) + "\n"
    finally:
        close(client)


def _join(parent, name):
    return f"/{name}" if parent == "/" else f"{parent}/{name}"


def _node(path, data, stat, acl, acl_stat):
    _expect(stat == acl_stat, f"{path}: two reads of one Stat agree")
    if data is not None and len(data) > 100:
        text = f"{len(data)} bytes {hashlib.sha256(data).hexdigest()}"
    else:
        text = repr(data)
    fields = " ".join(f"{n}={v}" for n, v in zip(STAT_FIELDS, stat))
    acls = ",".join(f"{a.id.scheme}:{a.id.id}:{a.perms}" for a in acl)
    return f"{path} {text} {fields} acl={acls}"


def _live_sessions(server, own):
    """Returns the sessions and their ephemerals, as `dump` tells."""
    text = four_letters(server.port, "dump")
    tracked, _, rest = text.partition("ephemeral nodes dump:\n")
    ephemerals = rest.partition("Connections dump:\n")[0]
    ids = sorted(set(re.findall(r"^\t(0x[0-9a-f]+)$", tracked, re.M)) - {own})
    out, owner = [f"session {i}" for i in ids], None
    owned = []
    for line in ephemerals.splitlines()[1:]:
        if line.startswith("\t"):
            owned.append(f"ephemeral {owner} {line.strip()}")
        else:
            owner = line.rstrip(":")
    return out + sorted(owned)
