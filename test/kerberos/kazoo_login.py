"""Logs in with kazoo by GSSAPI and prints the ACL that the creator of a znode gets."""
import sys

from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL

zk = KazooClient(sys.argv[1], sasl_options={"mechanism": "GSSAPI", "service": "zookeeper"}, timeout=30)
zk.start(60)
zk.create("/kazoo", b"x", acl=CREATOR_ALL_ACL)
print(zk.get_acls("/kazoo")[0])
zk.stop()
