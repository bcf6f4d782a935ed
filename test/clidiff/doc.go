// Package clidiff types the same commands into zkCli.sh and into `pinfold cli`,
// at random, and demands that the same comes of it: the same tree, the same
// commands carried out and refused for the same reasons, and the same printed,
// but for the prompt and for what is in the table of differences (judge), which
// docs/cli.md explains.
//
// A session is some 150 commands of all that zkCli.sh knows, with options in any
// order, quotes, missing and wrong arguments and old spellings, on a small tree,
// so that paths meet. Both programs get it on their standard input, one after the
// other, on the same server, which is emptied in between. A few commands more are
// given as arguments (TestOneShot).
//
//	CGO_ENABLED=0 go build -o build/pinfold ./cmd/pinfold
//	go test ./test/clidiff -count 1 -pinfold build/pinfold -seeds 20
//	go test ./test/clidiff -count 1 -pinfold build/pinfold -seed 7 -v     # that one again
//	go test ./test/clidiff -count 1 -pinfold build/pinfold -release 3.9 -server apache-3.9
//	go test ./test/clidiff -count 1 -pinfold build/pinfold -session FILE  # commands of one's own
//
// The tests have the code. Without -pinfold they skip; zkCli.sh and Apache's server
// are those of the Debian packages zookeeper and default-jre-headless, or of a
// release that scripts/apache-release has fetched.
package clidiff
