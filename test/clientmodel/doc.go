// Package clientmodel is a test of what docs/client.md promises of the client's core:
// several Clients do random things on an in-process server in virtual time, while
// connections break, members refuse and sessions end. What they were told is compared
// with the server's log of transactions afterwards.
//
//	go test ./test/clientmodel -run TestModel -seeds 1000 -from 1
package clientmodel
