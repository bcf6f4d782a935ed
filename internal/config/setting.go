package config

import "strings"

// A scope says where a setting may stand.
type scope int

const (
	inFile   scope = iota // zoo.cfg only, as it stands
	property              // zoo.cfg as K, or -Dzookeeper.K
	bare                  // -D only, without a prefix
)

// An effect says what a setting does here.
type effect int

const (
	honoured effect = iota
	accepted        // tunes a part that this server does not have
	missing         // a feature that is not there: warns unless the value is harmless
	refused         // as missing, but does not start
)

// A setting is one key that Apache knows. A name that ends with * stands for
// all that begin with what is before it.
type setting struct {
	name     string
	scope    scope
	def      string // the value when it is not set; "" leaves the zero value
	setter   setter
	effect   effect
	harmless string // values, separated by commas, that ask for nothing; of missing and refused
	note     string // one line for the operator
}

// fullName returns the name of the Java property, or the key of zoo.cfg.
func (s *setting) fullName() string {
	if s.scope == property {
		return "zookeeper." + s.name
	}
	return s.name
}

// matches reports whether name, without the prefix zookeeper., is the setting's.
func (s *setting) matches(name string) bool {
	if prefix, ok := strings.CutSuffix(s.name, "*"); ok {
		return strings.HasPrefix(name, prefix)
	}
	return name == s.name
}

// A section is the settings of one owner, as the documentation groups them.
type section struct {
	title    string
	intro    string // a sentence below the title, or ""
	settings []setting
}

// sections returns every setting that Apache ZooKeeper knows, 3.8 to 3.10.
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
		{title: "Four-letter words, HTTP, metrics, audit", settings: adminSettings()},
		{title: "TLS", settings: tlsSettings()},
		{title: "SASL and Kerberos", settings: saslSettings()},
		{title: "Ensemble", intro: ensembleIntro, settings: quorumSettings()},
		{title: "Tuning of the Java server", settings: javaSettings()},
	}
}

const ensembleIntro = "A standalone server lives by `standaloneEnabled`, `reconfigEnabled`, " +
	"`readonlymode.enabled` and the client address in its server line; the others it only checks."

// A catalogue finds settings by name.
type catalogue struct {
	sections []section
}

// find returns the setting of that scope and name, nil if there is none. An
// exact name goes before a pattern.
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
			pattern = s
		}
	}
	return pattern
}

// nearest returns the known name that differs least from name, "" if none is
// near: more than a third of its letters would have to change. Case does not
// count. Names are returned as they would be written in the place that name was
// found in.
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

// distance is the number of bytes to insert, delete, change or swap with the
// next to make b of a; some number >= limit if it is no less than limit.
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
