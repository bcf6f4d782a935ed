// Package recipes is tests of our locks beside those of other libraries, on one path
// of one server. They need the libraries: a Python that has kazoo, and Curator, of
// which scripts/curator knows where it is:
//
//	go test ./test/recipes -count=1 -python /usr/bin/python3 -curator ../../scripts/curator
//
// With CURATOR=5.7 in the environment it is a later one, and with another client.
//
// The server runs inside of the test; with -server it is another, Apache's for
// instance, on which the znode /recipes is used. docs/recipes.md has what the tests
// show: which locks of which library may share a path.
package recipes
