package main

import (
	"strings"
	"testing"
)

func TestEnsembleArguments(t *testing.T) {
	for _, args := range [][]string{{"zoo.cfg"}, {"zoo.cfg", "--", "-Da=b"}} {
		cmd := ensembleCommand()
		cmd.SetArgs(args)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), `unknown argument "zoo.cfg"`) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
