// Package clients runs the client and the recipes on real servers: Pinfold and
// Apache ZooKeeper 3.4.13, 3.8.0 and 3.9.3, standalone and in ensembles of three.
// Each scenario has a chroot of its own, and all of a server's scenarios run side by
// side. Those that want a server to be killed and started again in the middle wait
// for each other, so that it happens once.
//
// What a release does not have is in one table (came). A scenario tries it there
// too, and demands that it fails for that reason alone.
//
//	CGO_ENABLED=0 go build -o build/pinfold ./cmd/pinfold
//	go test ./test/clients -v -count 1 -pinfold build/pinfold
//	go test ./test/clients -v -count 1 -kinds apache                # is the test itself sound?
//	scripts/apache-release 3.4
//	go test ./test/clients -v -count 1 -kinds apache-3.4,apache-3.4,apache-3.4
//	go test ./test/clients -v -count 1 -pinfold build/pinfold -kinds pinfold -run '/.*/watches'
//
// The tests have the code. Without -pinfold and -kinds they skip; Apache is that
// of the Debian packages zookeeper and default-jre-headless.
package clients
