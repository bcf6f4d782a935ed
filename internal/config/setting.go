package config

import "strings"

// A scope says where a setting may be given.
type scope int

const (
	inFile   scope = iota // zoo.cfg only, under its own name
	property              // zoo.cfg as K, or -Dzookeeper.K
	bare                  // -D only, without a prefix
)

// An effect says what this server does with a setting.
type effect int

const (
	honoured effect = iota
	accepted        // tunes a part that this server does not have
	missing         // a missing feature: warns unless the value is harmless
	refused         // like missing, but the server does not start
)

// A setting is one key that Apache knows. A name that ends with * matches all names
// that begin with the part before it.
type setting struct {
	name     string
	scope    scope
	def      string // the value if it is not set; "" leaves the zero value
	setter   setter
	effect   effect
	harmless string // values, separated by commas, that do not need the feature; for missing and refused
	note     string // one line for the operator
}

// without returns settings that have no effect; all of them have the same note. Each line of
// the table has the scope, the effect, the kind of value and names, each with "=" and the
// default if there is one. A default is harmless.
func without(note, table string) (list []setting) {
	scopes := map[string]scope{"file": inFile, "property": property, "bare": bare}
	effects := map[string]effect{"accepted": accepted, "missing": missing, "refused": refused}
	kinds := map[string]setter{"words": anyWords(), "whole": anyWhole(), "number": anyNumber(), "boolean": anyBoolean()}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		for _, name := range f[3:] {
			s := setting{scope: scopes[f[0]], effect: effects[f[1]], setter: kinds[f[2]], note: note}
			if s.name, s.def, _ = strings.Cut(name, "="); s.effect != accepted {
				s.harmless = s.def
			}
			list = append(list, s)
		}
	}
	return list
}

// fullName returns the name of the Java property, or the key of zoo.cfg.
func (s *setting) fullName() string {
	if s.scope == property {
		return "zookeeper." + s.name
	}
	return s.name
}

// matches reports whether name, without the prefix zookeeper., is that of the setting.
func (s *setting) matches(name string) bool {
	if prefix, ok := strings.CutSuffix(s.name, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == s.name
}

// A section is a group of settings in the documentation.
type section struct {
	title    string
	intro    string // a sentence below the title, or ""
	settings []setting
}

// sections returns every setting that Apache ZooKeeper 3.8 to 3.10 knows.
func sections() []section {
	return []section{
		{title: "Client port", settings: clientSettings()},
		{title: "Directories", settings: dataSettings()},
		{title: "Transaction log", settings: logSettings()},
		{title: "Snapshots and purging", settings: snapshotSettings()},
		{title: "Sessions", settings: sessionSettings()},
		{title: "Znodes", settings: treeSettings()},
		{title: "Access control", settings: authSettings()},
		{title: "Requests in flight", settings: requestSettings()},
		{title: "Connection throttle", settings: throttleSettings()},
		{title: "Four-letter words, HTTP, metrics", settings: adminSettings()},
		{title: "Audit log", settings: auditSettings()},
		{title: "TLS", settings: tlsSettings()},
		{title: "SASL and Kerberos", settings: saslSettings()},
		{title: "Ensemble", intro: ensembleIntro, settings: quorumSettings()},
		{title: "Tuning of the Java server", settings: javaSettings()},
	}
}

const ensembleIntro = "A standalone server uses only `standaloneEnabled`, `reconfigEnabled`, " +
	"`readonlymode.enabled` and the client address in its server line; the others are validated and then ignored."

// A catalogue finds settings by name.
type catalogue struct {
	sections []section
}

// find returns the setting with that scope and name, nil if there is none. An exact
// name has priority over a pattern, and a longer pattern over a shorter one.
func (k *catalogue) find(in scope, name string) *setting {
	var pattern *setting
	for i := range k.sections {
		for j := range k.sections[i].settings {
			s := &k.sections[i].settings[j]
			if s.scope != in || !s.matches(name) {
				continue
			}
			if s.name == name {
				return s
			}
			if pattern == nil || len(s.name) > len(pattern.name) {
				pattern = s
			}
		}
	}
	return pattern
}

// nearest returns the known name with the smallest difference from name; "" if none is
// near: more than a third of its letters would have to change. Case is ignored. write
// returns the form of a name for the place where name was found.
func (k *catalogue) nearest(name string, write func(*setting) (string, bool)) string {
	best, least := "", len(name)/3+1
	for i := range k.sections {
		for j := range k.sections[i].settings {
			known, ok := write(&k.sections[i].settings[j])
			if !ok {
				continue
			}
			known = strings.TrimSuffix(known, "*")
			if d := distance(strings.ToLower(name), strings.ToLower(known), least); d < least {
				best, least = known, d
			}
		}
	}
	return best
}

// distance returns how many bytes to insert, delete, change or swap with the next one
// to turn a into b. If that is at least limit, it returns some number >= limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	older, prev := make([]int, len(b)+1), make([]int, len(b)+1)
	cur := make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			change := prev[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			cur[j] = min(change, prev[j]+1, cur[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], older[j-2]+1)
			}
		}
		older, prev, cur = prev, cur, older
	}
	return prev[len(b)]
}
