"""Creates a znode with kazoo over TLS, whose ACL names its creator: ADDRESS CA STORE PATH."""
import sys

from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL

address, ca, store, path = sys.argv[1:]
zk = KazooClient(address, use_ssl=True, ca=ca, certfile=store, keyfile=store, verify_certs=True, timeout=30)
zk.start(60)
zk.create(path, b"x", acl=CREATOR_ALL_ACL)
zk.stop()
