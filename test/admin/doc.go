// Package admin has tests that compare the answers of the administration server with
// those of Apache ZooKeeper: status, header, order and types of the keys. The answers of
// Apache 3.9.3 are recorded in testdata. With -release the same is done with real
// servers.
package admin
