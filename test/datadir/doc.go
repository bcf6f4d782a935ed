// Package datadir opens data directories that other releases of Apache ZooKeeper
// than the installed one have written, and compares what is served with what the
// writer served: znodes, Stats, ACLs, sessions. testdata has the directories;
// -record writes them anew.
package datadir
