// Package steps counts what one request costs the server: the instructions, and the cache lines that they read or write. A
// debugger's single steps count them, so the figures are the same however busy the machine is.
//
// Its test is for Linux on amd64.
package steps
