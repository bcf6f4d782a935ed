package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// repository is where links to the source lead.
const repository = "https://github.com/pinfold-zk/pinfold/blob/main/"

//go:embed page.html
var layout string

// A site is all documents.
type site struct {
	root   string
	pages  []*page // README.md first, then by name
	byName map[string]*page
	files  map[string]bool // that documents show: pictures, reports
	links  int             // that were resolved
}

// load reads the documents of a repository, and resolves their links.
func load(root string) (*site, error) {
	s := &site{root: root, byName: map[string]*page{}, files: map[string]bool{}}
	names := []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			name, err = filepath.Rel(root, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := readPage(root, name)
		if err != nil {
			return nil, err
		}
		s.pages = append(s.pages, p)
		s.byName[name] = p
	}
	var wrong []error
	for _, p := range s.pages {
		wrong = append(wrong, s.resolve(p)...)
	}
	return s, errors.Join(wrong...)
}

// resolve makes the links of a page those of the site, and returns those that have no target.
func (s *site) resolve(p *page) (wrong []error) {
	_ = ast.Walk(p.root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // it returns no error, so Walk does not
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
		}
		if to == nil || !entering {
			return ast.WalkContinue, nil
		}
		target, err := s.target(p, string(*to))
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", p.name, err))
		}
		*to = []byte(target)
		return ast.WalkContinue, nil
	})
	return wrong
}

// target returns where a link of page p leads in the site.
func (s *site) target(p *page, link string) (string, error) {
	u, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	if u.Scheme != "" {
		return link, nil
	}
	s.links++
	name := p.name
	if u.Path != "" {
		name = path.Join(path.Dir(p.name), u.Path)
	}
	if q := s.byName[name]; q != nil {
		if u.Fragment != "" && !q.anchors[u.Fragment] {
			return "", fmt.Errorf("link %s: %s has no heading #%s", link, name, u.Fragment)
		}
		return s.relative(p, q.output()) + fragment(u), nil
	}
	if _, err := os.Stat(filepath.Join(s.root, name)); err != nil {
		return "", fmt.Errorf("link %s: %w", link, err)
	}
	if strings.HasPrefix(name, "docs/") && path.Ext(name) != "" {
		s.files[name] = true
		return s.relative(p, name) + fragment(u), nil
	}
	return repository + name + fragment(u), nil
}

func fragment(u *url.URL) string {
	if u.Fragment == "" {
		return ""
	}
	return "#" + u.Fragment
}

// relative is the way from a page to a file of the site.
func (s *site) relative(p *page, name string) string {
	return strings.Repeat("../", strings.Count(p.output(), "/")) + name
}

// A group is a part of the navigation.
type group struct {
	Title string
	Items []item
}

type item struct {
	Title, URL string
	Here       bool
}

// navigation returns the groups of the navigation, as page p shows them.
func (s *site) navigation(p *page) []group {
	groups := []group{{Title: "Pinfold"}, {Title: "Operation"}, {Title: "Development"}, {Title: "Decisions"}}
	for _, q := range s.pages {
		n := 2
		switch {
		case path.Dir(q.name) == ".":
			n = 0
		case strings.HasPrefix(q.name, "docs/ops/"):
			n = 1
		case strings.HasPrefix(q.name, "docs/adr/"):
			n = 3
		}
		at := len(groups[n].Items)
		if q.name == "docs/ops/quickstart.md" { // where an operator begins
			at = 0
		}
		groups[n].Items = slices.Insert(groups[n].Items, at, item{q.title, s.relative(p, q.output()), p == q})
	}
	return groups
}

// write writes the site into a directory, which it empties first.
func (s *site) write(out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	sections := []section{}
	for _, p := range s.pages {
		var body, whole bytes.Buffer
		if err := markdown.Renderer().Render(&body, p.source, p.root); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		err := t.Execute(&whole, map[string]any{
			"Title": p.title, "Root": s.relative(p, ""), "Groups": s.navigation(p),
			"Body": template.HTML(body.String()), // our own documents, without HTML of their own
		})
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		if err := writeFile(out, p.output(), whole.Bytes()); err != nil {
			return err
		}
		sections = append(sections, p.sections()...)
	}
	index, err := json.Marshal(sections)
	if err != nil {
		return err
	}
	if err := writeFile(out, "search.js", slices.Concat([]byte("const sections = "), index, []byte(";\n"))); err != nil {
		return err
	}
	for name := range s.files {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return err
		}
		if err := writeFile(out, name, data); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(out, name string, data []byte) error {
	name = filepath.Join(out, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}
