package cluster

import (
	"fmt"
	"strings"
)

// A Kind is the program that a member runs.
type Kind string

// The kinds of members.
const (
	Apache  Kind = "apache"
	Pinfold Kind = "pinfold"
)

// Other is the kind that a member of kind k can be replaced by.
func (k Kind) Other() Kind {
	if k == Apache {
		return Pinfold
	}
	return Apache
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
		if s.Kind != Apache && s.Kind != Pinfold {
			return nil, fmt.Errorf("cluster: members %q: %q is neither %s nor %s", list, kind, Apache, Pinfold)
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
