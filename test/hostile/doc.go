// Package hostile attacks servers: real processes of Pinfold and of Apache ZooKeeper,
// one alone or an ensemble, through the client port, the quorum port, the election port
// and the disk. It has tests only.
//
// Each attack of the table in attacks_test.go runs against servers of its own, while
// innocent clients, in processes of their own, read every 10 ms and write every 50 ms.
// What they notice, what memory the servers take, and what becomes of processes, roles
// and sessions is held against the limits that docs/ops/limits.md promises, and entered
// there:
//
//	go test ./test/hostile -hostile -binary build/pinfold
//	go test ./test/hostile -hostile -binary build/pinfold -apache -before old/pinfold -update
//	scripts/attack-table
//	go test ./test/hostile -hostile -binary build/pinfold -only row-7 -members 1 -v
//	go test ./test/hostile -hostile -binary build/pinfold -random 5m -seed 7
//
// Without -hostile no server is started; the tests check the harness itself and the table.
package hostile
