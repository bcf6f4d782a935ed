//go:build !linux

package node

// forgetProgram does nothing: on Linux it takes the program's own pages out of the process's memory.
func forgetProgram() (bytes int) { return 0 }
