package config

import "strings"

// Explanation is what the catalogue of settings says about one of them.
type Explanation struct {
	Name    string // a name that ends with * matches all names with that beginning
	Section string
	File    bool   // it may be given in zoo.cfg, as Name
	Flag    string // how it is given as a property, "-Dzookeeper.snapCount"; "" if it cannot be
	Default string // "" if there is none, or if it depends on other settings
	Effect  string // "honoured", "accepted", "missing" or "refused", as in docs/ops/configuration.md
	Note    string
}

// Explain returns the settings that key may mean, as a key of zoo.cfg or as a property,
// with or without -D and zookeeper. If there is none, near is the most similar name, or
// "".
func Explain(key string) (all []Explanation, near string) {
	key, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(key), "-D"), "=")
	name := strings.TrimPrefix(key, "zookeeper.")
	known := catalogue{sections()}
	for _, in := range []scope{inFile, property, bare} {
		if s := known.find(in, name); s != nil && s.name != "*" {
			all = append(all, s.explain(known.sectionOf(s)))
		}
	}
	if len(all) == 0 {
		near = known.nearest(key, func(s *setting) (string, bool) { return s.name, true })
	}
	return all, near
}

func (s *setting) explain(section string) Explanation {
	e := Explanation{Name: s.name, Section: section, File: s.scope != bare, Default: s.def, Effect: s.effect.String(), Note: s.note}
	if s.scope != inFile {
		e.Flag = "-D" + s.fullName()
	}
	return e
}

// sectionOf returns the title of the section that has the setting.
func (k *catalogue) sectionOf(s *setting) string {
	for i := range k.sections {
		for j := range k.sections[i].settings {
			if &k.sections[i].settings[j] == s {
				return k.sections[i].title
			}
		}
	}
	return ""
}

// String returns the word that docs/ops/configuration.md has for the effect.
func (e effect) String() string {
	return [...]string{honoured: "honoured", accepted: "accepted", missing: "missing", refused: "refused"}[e]
}
