package cluster

import (
	"errors"
	"strings"
	"testing"
)

func TestParseStatus(t *testing.T) {
	const answer = "Zookeeper version: 3.9.4-pinfold, built on 2026-11-20 13:11 UTC\nLatency min/avg/max: 0/0.0/0\n" +
		"Zxid: 0x100000002\nMode: follower\nNode count: 5\n"
	got, err := parseStatus(answer)
	if want := (Status{"3.9.4-pinfold", "follower", 0x100000002}); got != want || err != nil {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, text := range []string{"", "This ZooKeeper instance is not currently serving requests\n"} {
		if _, err := parseStatus(text); !errors.Is(err, ErrNotServing) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"srvr is not executed because it is not in the whitelist.\n", "Zxid: 0xg\nMode: leader\n"} {
		if _, err := parseStatus(text); err == nil || errors.Is(err, ErrNotServing) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

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
