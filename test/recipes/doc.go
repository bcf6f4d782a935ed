// Package recipes is tests of the recipes beside those of kazoo, on one path of one
// server. They need a Python that has kazoo:
//
//	go test ./test/recipes -count=1 -python /usr/bin/python3
//
// The server runs inside of the test; with -server it is another, Apache's for
// instance, on which the znode /recipes is used. docs/recipes.md has what the tests
// show: which locks of which library may share a path.
package recipes
