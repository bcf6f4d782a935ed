package znode

// PieceUnits is how much work a caller does at most under one hold of the tree's lock
// before it releases the lock for others. Work is counted in units. One unit is a look at
// one znode, one child or one entry of an ACL: at most about 0.4 µs.
const PieceUnits = 4096

// BytesUnits returns the work of copying n bytes into memory that is new: the system
// gives that page by page, which takes longer than the copy.
func BytesUnits(n int) int { return n >> 9 }
