package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Warning is a setting that has not the effect that one would expect, or a dangerous
// one.
type Warning struct {
	Where string // "zoo.cfg:12", "command line" or "SERVER_JVMFLAGS"
	Key   string // as it was given, without -D
	Text  string
}

// String prints where, key and text on one line.
func (w Warning) String() string { return w.Where + ": " + w.Key + ": " + w.Text }

// Error is a setting that prevents the server from starting.
type Error struct {
	Where  string // as in Warning; the file alone if a setting is missing
	Key    string
	Value  string // "" if no value was given, or if it is secret
	Reason string
}

// Error prints where, key=value and the reason on one line.
func (e *Error) Error() string {
	if e.Value == "" {
		return e.Where + ": " + e.Key + ": " + e.Reason
	}
	return e.Where + ": " + e.Key + "=" + printable(e.Value) + ": " + e.Reason
}

// printable cuts a long text, and quotes a text with unprintable characters.
func printable(s string) string {
	const most = 120
	if len(s) > most {
		s = s[:most] + "..."
	}
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

// Default returns the configuration of a server without any settings: it serves
// 127.0.0.1:2181 and keeps its data in ./pinfold-data.
func Default() *Config {
	c, _, err := Load("", nil, "")
	if err != nil {
		panic("config: the defaults are refused: " + err.Error())
	}
	return c
}

// Load reads the configuration file, if file is not "", and the properties -Dname=value
// from jvmFlags (the command line) and from environ (the variable SERVER_JVMFLAGS,
// split as by a shell). Other words are ignored. It is Source.Load of these three.
func Load(file string, jvmFlags []string, environ string) (*Config, []Warning, error) {
	return (&Source{File: file, Flags: jvmFlags, Environ: Environment{Server: environ}}).Load()
}

// Source has all places that a configuration comes from.
type Source struct {
	File    string   // name of a zoo.cfg; "": none
	Flags   []string // of the command line; only -Dname=value counts
	Environ Environment

	// Settings are keys of zoo.cfg, and Java properties by their full names. They
	// override File, Flags and Environ, without a warning.
	Settings map[string]string
	// ID is the server's number in its ensemble; nil: it is read from the file
	// myid.
	ID *int64
}

// settingsPlace is the Where of Source.Settings in warnings and errors.
const settingsPlace = "settings"

// Load reads the configuration from its places.
//
// The error joins one *Error for every refused setting, in the order of the places; or
// it is the error of reading a file. The warnings are also returned with an error.
func (s *Source) Load() (*Config, []Warning, error) {
	var text []byte
	if s.File != "" {
		var err error
		if text, err = readFile(s.File); err != nil {
			return nil, nil, fmt.Errorf("config: %w", err)
		}
	}
	return s.load(text)
}

// load is Load after the file was read.
func (s *Source) load(text []byte) (*Config, []Warning, error) {
	lines, err := parseProperties(text)
	if err != nil {
		return nil, nil, syntaxError(s.File, err)
	}
	for i := range lines {
		lines[i].key, lines[i].value = strings.TrimSpace(lines[i].key), strings.TrimSpace(lines[i].value)
	}
	flags := append(s.Environ.definitions(), parseFlags(s.Flags, "command line")...)
	l := loader{
		config: &Config{File: s.File, Text: string(text), Properties: make(map[string]string)},
		known:  catalogue{sections()},
		places: make(map[string]string),
		given:  make(map[string]int),
		id:     s.ID,
		name:   s.File,
	}
	if l.name == "" {
		l.name = settingsPlace
	}
	l.config.places = l.places
	l.defaults()
	lines, flags = l.override(lines, flags, s.Settings)
	l.file(lines)
	l.flags(flags)
	if s.File == "" && !l.isSet("dataDir") {
		l.config.Data.Dir = "./pinfold-data"
	}
	l.members()
	l.finish()
	l.warnUnread(&s.Environ)
	return l.result()
}

// override adds Source.Settings to the lines of the file and to the properties, and
// removes the lines and properties that they replace.
func (l *loader) override(lines []entry, flags []definition, settings map[string]string) ([]entry, []definition) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := strings.TrimSpace(settings[key])
		inFileKey := key
		if name, ok := strings.CutPrefix(key, "zookeeper."); ok && l.known.find(property, name) != nil {
			inFileKey = name
		}
		flags = slices.DeleteFunc(flags, func(d definition) bool { return d.name == key || d.name == "zookeeper."+key })
		if l.known.find(bare, key) != nil {
			flags = append(flags, definition{key, value, settingsPlace})
			continue
		}
		lines = slices.DeleteFunc(lines, func(e entry) bool { return e.key == inFileKey })
		lines = append(lines, entry{key: inFileKey, value: value})
	}
	return lines, flags
}

// readFile reads a complete file of at most maxFileBytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	return text, nil
}

// syntaxError adds the file to an error, and the line if there is one.
func syntaxError(file string, err error) error {
	if at, ok := errors.AsType[*lineError](err); ok {
		return fmt.Errorf("%s:%d: %w", file, at.line, at.err)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// A loader collects settings, warnings and errors.
type loader struct {
	config     *Config
	known      catalogue
	places     map[string]string // key or property that was set -> where
	given      map[string]int    // those of them that are small numbers
	ensemble   []entry           // server, group and weight lines of zoo.cfg
	badMembers bool              // some such line could not be read
	id         *int64            // the server's number; nil: it is in the file myid
	name       string            // of the file, or settingsPlace: the Where of missing settings
	warnings   []Warning
	errs       []error
}

func (l *loader) warn(where, key, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{where, key, fmt.Sprintf(format, args...)})
}

func (l *loader) fail(where, key, value, reason string) {
	if IsSecret(key) {
		value = ""
	}
	l.errs = append(l.errs, &Error{where, key, value, reason})
}

// Hidden is what is shown in place of a secret value.
const Hidden = "***"

// WithoutSecrets returns the text of a zoo.cfg with Hidden in place of values that must not
// be printed.
func WithoutSecrets(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	entries, err := parseProperties([]byte(text))
	if err != nil {
		return "" // it was read before, so this cannot happen
	}
	lines := strings.SplitAfter(text, "\n")
	for _, e := range entries {
		if !IsSecret(strings.TrimSpace(e.key)) {
			continue
		}
		at := e.line - 1
		for continues([]byte(strings.TrimSuffix(lines[at], "\n"))) && at+1 < len(lines) {
			lines[at] = ""
			at++
		}
		lines[at] = strings.TrimSpace(e.key) + "=" + Hidden + "\n"
	}
	return strings.Join(lines, "")
}

// IsSecret reports whether values of the key must not be printed.
func IsSecret(key string) bool {
	k := strings.ToLower(key)
	return (strings.Contains(k, "password") || strings.Contains(k, "superdigest")) && !strings.HasSuffix(k, "path")
}

func (l *loader) result() (*Config, []Warning, error) {
	if len(l.errs) > 0 {
		return nil, l.warnings, errors.Join(l.errs...)
	}
	return l.config, l.warnings, nil
}

// defaults sets every setting to its default.
func (l *loader) defaults() {
	for _, sec := range l.known.sections {
		for _, s := range sec.settings {
			if s.def == "" {
				continue
			}
			if err := s.setter.set(l.config, s.def); err != nil {
				panic("config: default of " + s.name + ": " + err.Error())
			}
		}
	}
}

// file reads the keys of zoo.cfg; the last of each name counts.
func (l *loader) file(lines []entry) {
	last := make(map[string]int)
	for i := range lines {
		last[lines[i].key] = i
	}
	for i, p := range lines {
		where := settingsPlace
		if p.line > 0 {
			where = fmt.Sprintf("%s:%d", l.config.File, p.line)
		}
		if at := last[p.key]; at != i {
			l.warn(where, p.key, "is set again in line %d, which counts", lines[at].line)
			continue
		}
		l.places[p.key] = where
		if isMemberKey(p.key) {
			l.ensemble = append(l.ensemble, p) // members reads it, when multiAddress.enabled is known
			continue
		}
		if s := l.known.find(inFile, p.key); s != nil {
			l.apply(s, where, p.key, p.value)
			continue
		}
		l.config.Properties["zookeeper."+p.key] = p.value
		l.places["zookeeper."+p.key] = where
		if s := l.known.find(property, p.key); s != nil {
			l.apply(s, where, p.key, p.value)
			continue
		}
		l.unknownKey(where, p.key)
	}
}

// unknownKey warns about a key of zoo.cfg that has no effect there.
func (l *loader) unknownKey(where, key string) {
	if l.known.find(bare, key) != nil {
		l.warn(where, key, "has no effect in a file; set it as -D%s=...", key)
		return
	}
	if name, ok := strings.CutPrefix(key, "zookeeper."); ok && l.known.find(property, name) != nil {
		l.warn(where, key, "has no effect; in a file, write it without zookeeper., as %s", name)
		return
	}
	near := l.known.nearest(key, func(s *setting) (string, bool) { return s.name, s.scope != bare })
	l.unknown(where, key, near)
}

func (l *loader) unknown(where, key, near string) {
	if near == "" {
		l.warn(where, key, "is unknown and has no effect")
		return
	}
	l.warn(where, key, "is unknown and has no effect; did you mean %s?", near)
}

// flags reads the properties that the file does not set; the last of each name counts.
func (l *loader) flags(flags []definition) {
	last := make(map[string]int)
	for i := range flags {
		last[flags[i].name] = i
	}
	for i, f := range flags {
		if last[f.name] != i {
			continue
		}
		if value, ok := l.config.Properties[f.name]; ok {
			if value != f.value {
				l.warn(f.where, f.name, "is overridden by %s", l.places[f.name])
			}
			continue
		}
		l.config.Properties[f.name] = f.value
		l.places[f.name] = f.where
		l.flag(f)
	}
}

// flag reads one -D.
func (l *loader) flag(f definition) {
	name, prefixed := strings.CutPrefix(f.name, "zookeeper.")
	if prefixed {
		if s := l.known.find(property, name); s != nil {
			l.apply(s, f.where, f.name, f.value)
			return
		}
		if l.known.find(inFile, name) != nil || l.known.find(bare, name) != nil {
			l.misplaced(f, name)
			return
		}
		l.unknown(f.where, f.name, l.known.nearest(f.name, func(s *setting) (string, bool) {
			return s.fullName(), s.scope == property
		}))
		return
	}
	if s := l.known.find(bare, f.name); s != nil {
		l.apply(s, f.where, f.name, f.value)
		return
	}
	if s := l.known.find(property, f.name); s != nil && s.name == f.name {
		l.warn(f.where, f.name, "has no effect without its prefix: -Dzookeeper.%s=...", f.name)
		return
	}
	if s := l.known.find(inFile, f.name); s != nil && s.name == f.name {
		l.misplaced(f, f.name)
		return
	}
	// The others are for the JVM and its libraries, unless the name is nearly that
	// of a setting.
	near := l.known.nearest(f.name, func(s *setting) (string, bool) { return s.fullName(), s.scope != inFile })
	if near != "" && distance(f.name, near, 4) < 4 {
		l.unknown(f.where, f.name, near)
	}
}

// misplaced warns about a -D that would have an effect elsewhere.
func (l *loader) misplaced(f definition, name string) {
	if l.known.find(bare, name) != nil {
		l.warn(f.where, f.name, "has no effect; write it without zookeeper., as -D%s=...", name)
		return
	}
	l.warn(f.where, f.name, "has no effect as a property; %s is a key of zoo.cfg", name)
}

// apply sets one value of a known setting.
func (l *loader) apply(s *setting, where, key, value string) {
	text := value
	var err error
	if s.setter.number && s.scope != inFile {
		text, err = decimal(value)
	}
	if err == nil {
		err = s.setter.set(l.config, text)
	}
	if err != nil {
		l.fail(where, key, value, err.Error())
		return
	}
	if n, err := strconv.Atoi(text); err == nil && s.setter.number {
		l.given[s.fullName()] = n
	}
	switch s.effect {
	case missing:
		if !s.isHarmless(value) {
			l.warn(where, key, "has no effect here: %s", s.note)
		}
	case refused:
		if !s.isHarmless(value) {
			l.fail(where, key, value, s.note)
		}
	}
}

// isHarmless reports whether the value needs no support for the setting.
func (s *setting) isHarmless(value string) bool {
	for _, h := range strings.Split(s.harmless, ",") {
		if h != "" && strings.EqualFold(h, value) {
			return true
		}
	}
	return false
}

// raised warns if the value in use differs from the given one.
func (l *loader) raised(key string, used int) {
	where := l.places[key]
	if where == "" {
		return
	}
	given, ok := l.given[key]
	if ok && given != used {
		l.warn(where, strings.TrimPrefix(key, "zookeeper."), "%d is too small; %d is used", given, used)
	}
}
