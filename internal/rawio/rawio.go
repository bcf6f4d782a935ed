// Package rawio makes system calls that are known to return soon without telling
// the scheduler of goroutines. An ordinary call that blocks, and the first call of
// a process that was idle, has the runtime wake threads that look for other work:
// on a server with one request at a time they find none, and cost more than the
// request.
//
// The price is that the processor of Go that makes the call does nothing else
// until it returns. So Read and Write are for sockets that do not block. Where the
// system has no such calls they are ordinary ones. They are those of package syscall,
// and return its errors.
//
// A disk may stall, so it has a Thread, which holds no processor.
package rawio
