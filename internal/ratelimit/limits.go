package ratelimit

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// MaxFileBytes is the maximum length of a file of limits.
const MaxFileBytes = 1 << 20

// Limits are what a session, or all connections of an identity, may use. 0 means no limit.
type Limits struct {
	Requests int64 // a second
	Bytes    int64 // a second, of requests with the lengths of their frames

	Watches     int
	Ephemerals  int
	Connections int // of an identity
}

// A File is the content of a file of limits: lines of the form
//
//	session                  requests=1000 bytes=1000000 watches=10000 ephemerals=1000
//	identity                 requests=5000 connections=100
//	identity ip:10.1.2.3     requests=none connections=200
//	session  sasl:batch      requests=50
//
// A line without an identity is the default of all of them. A line for an identity
// replaces the values that it has. "session" is about each session of an identity,
// "identity" about all connections of it together. Empty lines, and those that begin with
// #, are comments. A File is not changed after Parse.
type File struct {
	session, all     Limits            // the defaults
	sessionOf, allOf map[string]Limits // by identity

	// While the file is read: the lines for identities, and what has had its line.
	lines []line
	seen  map[string]bool
}

// line is a line for an identity.
type line struct {
	session bool
	name    string
	change  func(*Limits)
}

// Parse reads a file of limits. The error names every line that is wrong.
func Parse(text []byte) (*File, error) {
	f := &File{sessionOf: map[string]Limits{}, allOf: map[string]Limits{}, seen: map[string]bool{}}
	var errs []error
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("ratelimit: the file has more than %d bytes", MaxFileBytes)
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		n++
		words := strings.Fields(l)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := f.read(words); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %w", n, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, l := range f.lines { // the defaults are known now
		of, limits := f.allOf, f.all
		if l.session {
			of, limits = f.sessionOf, f.session
		}
		if l.name == super {
			limits = Limits{}
		}
		l.change(&limits)
		of[l.name] = limits
	}
	f.lines, f.seen = nil, nil
	return f, nil
}

// read reads the words of a line.
func (f *File) read(words []string) error {
	session := words[0] == "session"
	if !session && words[0] != "identity" {
		return fmt.Errorf("%q is neither session nor identity", words[0])
	}
	name, values := "", words[1:]
	if len(values) > 0 && isName(values[0]) {
		var err error
		if name, err = parseName(values[0]); err != nil {
			return err
		}
		values = values[1:]
	}
	key := words[0] + " " + name
	if f.seen[key] {
		return errors.New("there are two lines for " + strings.TrimSpace(key))
	}
	f.seen[key] = true
	change, err := parseValues(values, session)
	switch {
	case err != nil:
		return err
	case name != "":
		f.lines = append(f.lines, line{session, name, change})
	case session:
		change(&f.session)
	default:
		change(&f.all)
	}
	return nil
}

// isName reports whether a word is an identity, and not a value.
func isName(word string) bool {
	before, _, _ := strings.Cut(word, "=")
	return strings.Contains(before, ":")
}

// parseName checks an identity, and returns the form in which the maps have it.
func parseName(word string) (string, error) {
	scheme, id, _ := strings.Cut(word, ":")
	switch scheme {
	case "ip":
		if _, err := netip.ParseAddr(id); err != nil {
			return "", fmt.Errorf("%q is not an address", id)
		}
	case "digest":
		if user, hash, _ := strings.Cut(id, ":"); user == "" || hash == "" {
			return "", fmt.Errorf("%q: a digest is digest:user:hash, as in an ACL", word)
		}
	case "sasl":
		if id == "" {
			return "", fmt.Errorf("%q has no user", word)
		}
	case "super":
		if id != "" {
			return "", errors.New("the superuser is super: without a name")
		}
	default:
		return "", fmt.Errorf("%q: an identity begins with ip, digest, sasl or super, and a colon", word)
	}
	return nameOf(scheme, id), nil
}

// super is the name of the superuser, to which the defaults do not apply.
const super = "super:"

// nameOf returns the name of an identity in the maps. Addresses have several forms.
func nameOf(scheme, id string) string {
	if addr, err := netip.ParseAddr(id); scheme == "ip" && err == nil {
		id = addr.Unmap().String()
	}
	return scheme + ":" + id
}

// parseValues reads the values of a line, and returns the function that stores them.
func parseValues(words []string, session bool) (change func(*Limits), err error) {
	if len(words) == 0 {
		return nil, errors.New("the line has no limits")
	}
	values := map[string]int64{}
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		switch key {
		case "requests", "bytes", "watches", "ephemerals", "connections":
		default:
			ok = false
		}
		_, twice := values[key]
		switch {
		case !ok:
			return nil, fmt.Errorf("%q is not requests=N, bytes=N, watches=N, ephemerals=N or connections=N", word)
		case twice:
			return nil, errors.New(key + " is given twice")
		case key == "connections" && session:
			return nil, errors.New("connections are limited for an identity, not for a session")
		}
		n := int64(0)
		if text != "none" {
			if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 1 || n > math.MaxInt32 {
				return nil, fmt.Errorf("%q: the limit is none, or a number from 1 to %d", word, math.MaxInt32)
			}
		}
		values[key] = n
	}
	return func(l *Limits) { store(l, values) }, nil
}

// store sets the limits that values has.
func store(l *Limits, values map[string]int64) {
	for key, n := range values {
		switch key {
		case "requests":
			l.Requests = n
		case "bytes":
			l.Bytes = n
		case "watches":
			l.Watches = int(n)
		case "ephemerals":
			l.Ephemerals = int(n)
		case "connections":
			l.Connections = int(n)
		}
	}
}

// Names reports whether a line is for the identity.
func (f *File) Names(scheme, id string) bool {
	name := nameOf(scheme, id)
	_, session := f.sessionOf[name]
	_, all := f.allOf[name]
	return session || all
}

// Of returns the limits of each session of an identity, and those of all its connections
// together. The superuser has no limits but those of lines of its own.
func (f *File) Of(scheme, id string) (session, all Limits) {
	name := nameOf(scheme, id)
	if name != super {
		session, all = f.session, f.all
	}
	if l, ok := f.sessionOf[name]; ok {
		session = l
	}
	if l, ok := f.allOf[name]; ok {
		all = l
	}
	return session, all
}
