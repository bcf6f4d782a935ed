package cluster

import (
	"strings"
	"testing"
)

func TestParseSpecs(t *testing.T) {
	specs, err := ParseSpecs("apache, pinfold:participant,apache:observer")
	if err != nil || FormatSpecs(specs) != "apache,pinfold,apache:observer" {
		t.Errorf("%v, %v", specs, err)
	}
	for list, want := range map[string]string{"": "none of", "zoo": "none of pinfold, apache", "apache:leader": "neither observer"} {
		if _, err := ParseSpecs(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", list, err)
		}
	}
}
