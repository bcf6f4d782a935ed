package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// A page is a document.
type page struct {
	name    string // of the document, from the root of the repository: docs/ops/install.md
	title   string // its first heading
	source  []byte
	root    ast.Node
	anchors map[string]bool
}

// output is the name of the page's file in the site.
func (p *page) output() string { return outputOf(p.name) }

func outputOf(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}

// A section is a heading with the text below it, for the search.
type section struct {
	Title string `json:"title"`
	URL   string `json:"url"`
	Text  string `json:"text"`
}

// markdown reads tables, and gives headings the anchors that GitHub gives them.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// anchors gives ids to the headings of a page.
type anchors map[string]bool

// Generate returns GitHub's id of a heading: lower case, spaces as hyphens, without punctuation; one
// that is there already gets a number.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(string(value)))
	unique := id
	for n := 1; a[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", id, n)
	}
	a[unique] = true
	return []byte(unique)
}

// Put takes an id that the document states.
func (a anchors) Put(value []byte) { a[string(value)] = true }

// readPage reads and parses a document.
func readPage(root, name string) (*page, error) {
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return nil, err
	}
	p := &page{name: name, title: path.Base(name), source: source, anchors: map[string]bool{}}
	p.root = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(anchors(p.anchors)))))
	if h, ok := p.root.FirstChild().(*ast.Heading); ok {
		p.title = plain(h, source)
	}
	return p, nil
}

// sections returns the texts of a page by heading.
func (p *page) sections() (list []section) {
	for n := p.root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			list = append(list, section{Title: plain(h, p.source), URL: fmt.Sprintf("%s#%s", p.output(), id)})
		} else if len(list) > 0 {
			list[len(list)-1].Text += plain(n, p.source) + " "
		}
	}
	return list
}

// plain is the text of a node without its form.
func plain(node ast.Node, source []byte) string {
	var b bytes.Buffer
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error, so Walk does not
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(source))
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			if entering {
				b.Write(n.Lines().Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
