// Command site makes web pages of the documents: scripts/site runs it. Every page has the navigation
// and a search field; links between documents become links between pages, links to files of the
// source lead to the repository. It fails if a link leads to a document, a heading or a file that
// does not exist.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "site REPOSITORY OUTPUT")
		os.Exit(2)
	}
	s, err := load(os.Args[1])
	if err == nil {
		err = s.write(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d pages, %d internal links: %s/index.html\n", len(s.pages), s.links, os.Args[2])
}
