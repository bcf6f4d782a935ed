package main

import (
	"bytes"
	"strings"
	"testing"
)

// What config explain says of a setting is what Apache ZooKeeper has: it does not know settings of Pinfold.
func TestExplain(t *testing.T) {
	for key, want := range map[string]string{
		"purgeMaxBytes":            "effect    honoured; Apache ZooKeeper does not know it\n",
		"autopurge.purgeInterval":  "effect    honoured, as in Apache ZooKeeper\n",
		"-Dzookeeper.snapCount=10": "            -Dzookeeper.snapCount=... on the command line or in SERVER_JVMFLAGS\n",
	} {
		var out bytes.Buffer
		if err := explainKey(&out, key); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", key, err, &out)
		}
	}
	if err := explainKey(&bytes.Buffer{}, "purgeMaxByte"); err == nil || !strings.Contains(err.Error(), "did you mean purgeMaxBytes?") {
		t.Errorf("a key with a wrong letter: %v", err)
	}
}
