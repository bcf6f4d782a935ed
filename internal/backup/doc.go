// Package backup copies the history of a running server to a store, and makes a data
// directory of it again, as it was at a zxid or at a time (pinfold backup, pinfold restore).
//
// A store has generations; each is the version-2 of a data directory: a snapshot, log
// files without a gap after it, and later snapshots. A backup adds to the newest generation
// what the server has logged since the last one. It begins a new generation if the server's
// log does not go on where that ends. What is in a store is never changed.
//
// ADR 24 has the reasons.
package backup
