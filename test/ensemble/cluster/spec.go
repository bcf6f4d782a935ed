package cluster

import (
	"fmt"
	"strings"
)

// A Kind is the program that a member runs.
type Kind string

// The kinds of members. Apache is the release that is installed; the others are
// those that scripts/apache-release has fetched.
const (
	Apache   Kind = "apache"
	Apache34 Kind = "apache-3.4"
	Apache39 Kind = "apache-3.9"
	Pinfold  Kind = "pinfold"
)

// IsApache reports whether the kind is a release of Apache's.
func (k Kind) IsApache() bool { return k == Apache || k.release() != "" }

// release is the release of Apache's that scripts/apache-release fetches; empty for
// the installed one, and for Pinfold.
func (k Kind) release() string {
	switch k {
	case Apache34:
		return "3.4"
	case Apache39:
		return "3.9"
	}
	return ""
}

// A Spec says what one member is.
type Spec struct {
	Kind     Kind
	Observer bool
}

// String prints a Spec as ParseSpecs reads it.
func (s Spec) String() string {
	if s.Observer {
		return string(s.Kind) + ":observer"
	}
	return string(s.Kind)
}

// ParseSpecs reads a list of members: "apache,pinfold,apache:observer".
func ParseSpecs(list string) ([]Spec, error) {
	var specs []Spec
	for word := range strings.SplitSeq(list, ",") {
		kind, role, _ := strings.Cut(strings.TrimSpace(word), ":")
		s := Spec{Kind: Kind(kind), Observer: role == "observer"}
		if !s.Kind.IsApache() && s.Kind != Pinfold {
			return nil, fmt.Errorf("cluster: members %q: %q is none of %s, %s, %s and %s", list, kind, Pinfold, Apache, Apache34, Apache39)
		}
		if role != "" && role != "observer" && role != "participant" {
			return nil, fmt.Errorf("cluster: members %q: %q is neither observer nor participant", list, role)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// FormatSpecs is the list that ParseSpecs reads.
func FormatSpecs(specs []Spec) string {
	words := make([]string, len(specs))
	for i, s := range specs {
		words[i] = s.String()
	}
	return strings.Join(words, ",")
}
