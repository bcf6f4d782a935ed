"""Logs in with kazoo by DIGEST-MD5: ADDRESSES USER PASSWORD PATH.

Creates PATH with an ACL that names its creator, or, if it is there, reads it. Prints what came of each step, and of
the same once more after each line of the standard input.
"""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.security import CREATOR_ALL_ACL

addresses, user, password, path = sys.argv[1:]
zk = KazooClient(addresses, timeout=30, randomize_hosts=False,
                 sasl_options={"mechanism": "DIGEST-MD5", "username": user, "password": password})
zk.start(60)


def step():
    try:
        try:
            zk.retry(zk.create, path, b"x", acl=CREATOR_ALL_ACL)
        except NodeExistsError:
            pass
        acl = ["%s:%s %d" % (a.id.scheme, a.id.id, a.perms) for a in zk.retry(zk.get_acls, path)[0]]
        print("as", acl, zk.retry(zk.get, path)[0], flush=True)
    except KazooException as e:
        print(type(e).__name__, flush=True)


step()
for _ in sys.stdin:
    step()
zk.stop()
