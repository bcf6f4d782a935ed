package storage

// Duplicates returns how many entries were skipped: copies of earlier entries, and
// errors without a zxid of their own.
func (r *LogReader) Duplicates() int { return r.dups }

// FileBytes returns the length of the current file up to its last written entry; 0 if
// no file is open.
func (l *Log) FileBytes() int64 {
	if l.file == nil {
		return 0
	}
	return l.pos
}
