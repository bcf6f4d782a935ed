// Package lint is tests of the source itself: which package may import which,
// what the pure packages keep out, how long files are, what has a doc comment,
// and whether the documents still name what exists. It has no other code.
//
// The rules are data at the top of their file: the import order in
// imports_test.go, purity in purity_test.go, the rest in style_test.go and
// docs_test.go. Every checker is itself tested on a source that breaks its rule.
package lint
