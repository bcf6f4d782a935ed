package sasl

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Login is a file of Java's login configuration (JAAS): the modules of each
// section, by the section's name.
//
//	Server {
//	    org.apache.zookeeper.server.auth.DigestLoginModule required
//	    user_alice="secret"
//	    user_bob="other";
//	};
type Login map[string][]Module

// A Module is one login module of a section.
type Module struct {
	Class   string
	Flag    string            // required, requisite, sufficient or optional, in lower case
	Options map[string]string // of equal keys the last one
}

// MaxLoginBytes is the maximum length of a file for ParseLogin.
const MaxLoginBytes = 1 << 20

// ParseLogin reads a file as Java does: // and /* */ comments, and a lone / up to the
// end of its line; words of letters, digits and . _ - $ * that begin with a letter, _,
// $ or *; everything else in double quotes, with Java's escapes. A text in quotes ends
// with its line. Invalid UTF-8 is read as U+FFFD.
//
// ${name} in a value is replaced by the result of property, and ${/} by a slash; it is
// an error if there is no such property, or if the value becomes empty. Nothing is
// replaced within double braces, ${{x}}.
//
// The error names the line and what was expected. It shows no value.
func ParseLogin(text []byte, property func(name string) (string, bool)) (Login, error) {
	if len(text) > MaxLoginBytes {
		return nil, fmt.Errorf("sasl: login configuration of %d bytes, more than %d", len(text), MaxLoginBytes)
	}
	p := loginParser{scanner: scanner{rest: string(text), line: 1}, property: property, login: Login{}}
	p.next()
	for p.err == nil && p.tok.kind != end {
		p.section()
	}
	if p.err != nil {
		return nil, fmt.Errorf("sasl: login configuration, line %d: %w", p.line, p.err)
	}
	return p.login, nil
}

// loginParser reads sections. Its first error sticks.
type loginParser struct {
	scanner
	tok      token
	err      error
	property func(string) (string, bool)
	login    Login
}

func (p *loginParser) next() { p.tok = p.scan() }

// fail makes err stick and ends the input.
func (p *loginParser) fail(err error) {
	if p.err == nil {
		p.err = err
		p.rest = ""
		p.tok = token{kind: end}
	}
}

// punct reads one of { } = ;.
func (p *loginParser) punct(want rune) {
	if p.tok.kind != want {
		p.fail(fmt.Errorf("%c expected", want))
		return
	}
	p.next()
}

// text reads a word, in quotes or not.
func (p *loginParser) text(what string) string {
	if p.tok.kind != word {
		p.fail(errors.New(what + " expected"))
		return ""
	}
	s := p.tok.text
	p.next()
	return s
}

func (p *loginParser) section() {
	name := p.text("name of a section")
	p.punct('{')
	var modules []Module
	for p.err == nil && p.tok.kind != '}' {
		modules = append(modules, p.module())
	}
	p.punct('}')
	p.punct(';')
	if _, again := p.login[name]; again {
		p.fail(fmt.Errorf("a second section %q", name))
		return
	}
	p.login[name] = modules
}

func (p *loginParser) module() Module {
	m := Module{Class: p.text("name of a login module"), Options: map[string]string{}}
	m.Flag = strings.ToLower(p.text("required, requisite, sufficient or optional"))
	switch m.Flag {
	case "required", "requisite", "sufficient", "optional":
	default:
		p.fail(errors.New("required, requisite, sufficient or optional expected"))
	}
	for p.err == nil && p.tok.kind != ';' {
		key := p.text("an option or ;")
		p.punct('=')
		value := p.text("a word, or a text in double quotes,")
		if p.err != nil {
			break
		}
		value, err := p.expand(value)
		if err != nil {
			p.fail(fmt.Errorf("option %q: %w", key, err))
		}
		m.Options[key] = value
	}
	p.punct(';')
	return m
}

// expand replaces the properties in a value. Its errors show only the names of
// properties, no other part of the value.
func (p *loginParser) expand(value string) (string, error) {
	var b strings.Builder
	rest := value
	for {
		before, after, found := strings.Cut(rest, "${")
		closing := strings.IndexByte(after, '}')
		if !found || closing < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(before)
		if after[0] == '{' {
			stop := len(after)
			if i := strings.Index(after, "}}"); i >= 0 {
				stop = i + 2
			}
			b.WriteString("${" + after[:stop])
			rest = after[stop:]
			continue
		}
		name := after[:closing]
		replacement, ok := "/", true
		if name != "/" {
			replacement, ok = p.property(name)
		}
		if !ok {
			return "", fmt.Errorf("there is no property %q", name)
		}
		if b.Len()+len(replacement) > MaxLoginBytes {
			return "", errors.New("too long")
		}
		b.WriteString(replacement)
		rest = after[closing+1:]
	}
	if value != "" && b.Len() == 0 {
		return "", errors.New("nothing is left when its properties are replaced")
	}
	return b.String(), nil
}

// The kinds of tokens other than single characters.
const (
	end  rune = -1
	word rune = -2
)

type token struct {
	kind rune
	text string // of a word
}

// scanner splits a file into tokens.
type scanner struct {
	rest string
	line int
}

// peek returns the next character and its length in bytes; end and 0 if there
// is none.
func (s *scanner) peek() (rune, int) {
	if s.rest == "" {
		return end, 0
	}
	return utf8.DecodeRuneInString(s.rest)
}

// skip moves on by n bytes.
func (s *scanner) skip(n int) {
	s.line += strings.Count(s.rest[:n], "\n")
	s.rest = s.rest[n:]
}

func (s *scanner) scan() token {
	for {
		r, n := s.peek()
		switch {
		case r == end:
			return token{kind: end}
		case r <= ' ':
			s.skip(n)
		case strings.HasPrefix(s.rest, "/*"):
			if i := strings.Index(s.rest[2:], "*/"); i >= 0 {
				s.skip(2 + i + 2)
			} else {
				s.skip(len(s.rest))
			}
		case r == '/':
			if i := strings.IndexByte(s.rest, '\n'); i >= 0 {
				s.skip(i)
			} else {
				s.skip(len(s.rest))
			}
		case r == '"':
			s.skip(n)
			return token{word, s.quoted()}
		case beginsWord(r):
			i := strings.IndexFunc(s.rest, func(r rune) bool { return !inWord(r) })
			if i < 0 {
				i = len(s.rest)
			}
			text := s.rest[:i]
			s.skip(i)
			return token{word, strings.ToValidUTF8(text, "\uFFFD")}
		default:
			s.skip(n)
			return token{kind: r}
		}
	}
}

func beginsWord(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r >= 0xA0 || strings.ContainsRune("_$*", r)
}

func inWord(r rune) bool { return beginsWord(r) || '0' <= r && r <= '9' || r == '.' || r == '-' }

// quoted reads up to the closing quote, or the end of the line.
func (s *scanner) quoted() string {
	var b strings.Builder
	for {
		r, n := s.peek()
		switch r {
		case end, '\n', '\r':
			return b.String()
		case '"':
			s.skip(n)
			return b.String()
		case '\\':
			s.skip(n)
			if r = s.escaped(); r == end {
				return b.String()
			}
		default:
			s.skip(n)
		}
		b.WriteRune(r)
	}
}

// escaped reads the rest of an escape after its backslash: up to three octal digits,
// one of Java's letters, or a character that means itself.
func (s *scanner) escaped() rune {
	r, n := s.peek()
	s.skip(n)
	if '0' <= r && r <= '7' {
		most := 2
		if r <= '3' {
			most = 3
		}
		value := r - '0'
		for i := 1; i < most && s.rest != "" && '0' <= s.rest[0] && s.rest[0] <= '7'; i++ {
			value = value*8 + rune(s.rest[0]-'0')
			s.skip(1)
		}
		return value
	}
	switch r {
	case 'a':
		return 7
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'v':
		return '\v'
	}
	return r
}
