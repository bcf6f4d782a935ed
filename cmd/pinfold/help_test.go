package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// No help has an example with a secret on the command line, where every user of the machine sees it.
func TestHelpHasNoSecrets(t *testing.T) {
	secret := regexp.MustCompile(`pinfold \S.*(addauth|--auth |[pP]assword=|superDigest=)`)
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if secret.MatchString(line) {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRoot())
	look(cliCommand())
}
