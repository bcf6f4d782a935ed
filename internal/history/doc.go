// Package history inspects and repairs the files of a data directory that no server
// serves: it prints logs and snapshots, as JSON and as Apache ZooKeeper's tools print them,
// summarises and compares snapshots, cuts and mends logs, and verifies a whole directory
// (the commands of pinfold data). It reads with internal/storage and internal/replica, as a
// server does, and never changes a file that it reads.
package history
