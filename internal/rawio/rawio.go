// Package rawio makes system calls that are known to return soon, without informing the
// scheduler of goroutines. When an ordinary call blocks, and at the first call of a
// process that was idle, the runtime wakes threads that look for other work. In a
// server with one request at a time they find none, and cost more than the request.
//
// The price: the processor (P) of Go that makes the call does nothing else until it
// returns. So Read and Write are for non-blocking sockets only. They return error numbers,
// not errors: two of them are compared after each call, and to compare errors costs more.
// On systems without such calls they are ordinary calls.
//
// A disk may stall, so Commit informs the scheduler. Doze makes that cheap while the disk is
// used often, CommitAside while it is not. Poll waits for input without a read that finds nothing.
package rawio
