// Package recipes is tests of our locks beside those of other libraries, on one path
// of one server. They need the libraries: a Python that has kazoo,
//
//	go test ./test/recipes -count=1 -python /usr/bin/python3
//
// and, since it needs a Java compiler too, by hand only, Curator (on Debian
// libcurator-recipes-java), with CLASSPATH naming its jars, those of ZooKeeper, and
// where CuratorPeer.java was compiled to:
//
//	go test ./test/recipes -count=1 -curator "java CuratorPeer"
//
// The server runs inside of the test; with -server it is another, Apache's for
// instance, on which the znode /recipes is used. docs/recipes.md has what the tests
// show: which locks of which library may share a path.
package recipes
