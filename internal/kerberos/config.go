package kerberos

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jcmturner/gokrb5/v8/config"
)

// Settings are what krb5.conf says.
type Settings struct {
	file string
	conf *config.Config
}

// ReadSettings reads krb5.conf: the named file or, if name is empty, the first file of the
// environment variable KRB5_CONFIG, or /etc/krb5.conf. It follows include and includedir.
// Without any file the result has no realm and no KDC; a named file must exist.
func ReadSettings(name string) (*Settings, error) {
	named := name != ""
	if !named {
		if name, _, _ = strings.Cut(os.Getenv("KRB5_CONFIG"), ":"); name == "" {
			name = "/etc/krb5.conf"
		}
	}
	s := sections{}
	if err := s.read(name, 0); err != nil && (named || !errors.Is(err, fs.ErrNotExist)) {
		return nil, fmt.Errorf("kerberos: krb5.conf: %w", err)
	}
	r := Settings{file: name}
	err := guard("krb5.conf", func() (err error) {
		r.conf, err = config.NewFromString(s.text())
		if errors.As(err, new(config.UnsupportedDirective)) {
			err = nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kerberos: %s: %w", name, err)
	}
	d := &r.conf.LibDefaults
	modern := config.New().LibDefaults
	for _, list := range []*[]string{&d.DefaultTktEnctypes, &d.DefaultTGSEnctypes, &d.PermittedEnctypes} {
		if slices.Equal(*list, modern.PermittedEnctypes) {
			*list = enctypes
		}
	}
	d.DefaultTktEnctypeIDs, d.DefaultTGSEnctypeIDs, d.PermittedEnctypeIDs = numbers(d.DefaultTktEnctypes), numbers(d.DefaultTGSEnctypes), numbers(d.PermittedEnctypes)
	return &r, nil
}

// Override replaces default_realm, unless realm is "", and its KDCs, unless kdcs is empty: these are
// names of hosts, without ports.
func (s *Settings) Override(realm string, kdcs []string) {
	if realm != "" {
		s.conf.LibDefaults.DefaultRealm = realm
	}
	if len(kdcs) == 0 {
		return
	}
	r := config.Realm{Realm: s.Realm()}
	for _, host := range kdcs {
		r.KDC = append(r.KDC, net.JoinHostPort(host, "88"))
	}
	s.conf.Realms = append(slices.DeleteFunc(s.conf.Realms, func(known config.Realm) bool { return known.Realm == r.Realm }), r)
}

// Realm returns default_realm, or "".
func (s *Settings) Realm() string { return s.conf.LibDefaults.DefaultRealm }

// Skew returns clockskew.
func (s *Settings) Skew() time.Duration { return s.conf.LibDefaults.Clockskew }

// maxIncludes is how deep files may include each other.
const maxIncludes = 8

// sections are the lines of a krb5.conf by the name of their section: of all files together,
// since gokrb5 knows each section once, and no include.
type sections map[string][]string

func (s sections) read(name string, depth int) error {
	if depth > maxIncludes {
		return fmt.Errorf("%s: files include each other more than %d deep", name, maxIncludes)
	}
	b, err := readFile(name)
	if err != nil {
		return err
	}
	section, braces := "", 0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, ";"), word == "module":
		case word == "include" && braces == 0:
			err = s.read(strings.TrimSpace(rest), depth+1)
		case word == "includedir" && braces == 0:
			err = s.readDir(strings.TrimSpace(rest), depth+1)
		case strings.HasPrefix(line, "[") && braces == 0:
			section, _, _ = strings.Cut(strings.ToLower(line[1:]), "]")
		default:
			// Blocks in a realm, such as auth_to_local_names, mean nothing to gokrb5.
			before := braces
			braces = max(0, braces+strings.Count(line, "{")-strings.Count(line, "}"))
			if max(before, braces) <= 1 {
				s[section] = append(s[section], line)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readDir reads the files of a directory whose names MIT's library accepts: letters,
// digits, - and _, or ending in .conf.
func (s sections) readDir(dir string, depth int) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		odd := strings.ContainsFunc(name, func(r rune) bool {
			return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
		})
		if e.IsDir() || strings.HasPrefix(name, ".") || odd && !strings.HasSuffix(name, ".conf") {
			continue
		}
		if err := s.read(filepath.Join(dir, name), depth); err != nil {
			return err
		}
	}
	return nil
}

// text writes the sections that count.
func (s sections) text() string {
	var b strings.Builder
	for _, name := range []string{"libdefaults", "realms", "domain_realm"} {
		fmt.Fprintf(&b, "[%s]\n%s\n", name, strings.Join(s[name], "\n"))
	}
	return b.String()
}
