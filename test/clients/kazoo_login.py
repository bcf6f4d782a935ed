"""Logs in with kazoo by DIGEST-MD5: ADDRESSES USER PASSWORD PATH.

Creates PATH with an ACL that names its creator, or, if it is there, reads it. Prints what came of each step, and of
the same once more after each line of the standard input.
"""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL

addresses, user, password, path = sys.argv[1:]


class Client(KazooClient):
    """Remembers that its login was refused: the state of the client says so for a moment only, and is CLOSED then."""
    refused = False

    def _session_callback(self, state):
        self.refused |= state == KeeperState.AUTH_FAILED
        super()._session_callback(state)


zk = Client(addresses, timeout=30, randomize_hosts=False,
            sasl_options={"mechanism": "DIGEST-MD5", "username": user, "password": password})
# It is connected before it has logged in. start would raise a timeout if it was refused in between.
if not zk.start_async().wait(60):
    sys.exit("no connection in a minute")


def step():
    try:
        try:
            zk.retry(lambda: zk.create_async(path, b"x", acl=CREATOR_ALL_ACL).get(timeout=60))
        except NodeExistsError:
            pass
        acl = ["%s:%s %d" % (a.id.scheme, a.id.id, a.perms) for a in zk.retry(zk.get_acls, path)[0]]
        print("as", acl, zk.retry(zk.get, path)[0], flush=True)
    except (ConnectionClosedError, KazooTimeoutError) as e:
        # What a request meets that comes after the refusal, or at the same moment.
        print("AuthFailedError" if zk.refused else type(e).__name__, flush=True)
    except KazooException as e:
        print(type(e).__name__, flush=True)


step()
for _ in sys.stdin:
    step()
zk.stop()
