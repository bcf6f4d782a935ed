package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/config"
)

// configCommand is `pinfold config`: what settings mean.
func configCommand() *cobra.Command {
	explain := &cobra.Command{
		Use:   "explain KEY ...",
		Short: "Say what a setting does here, and how it is given",
		Long: `Explain says what a key of zoo.cfg or a Java property does in this server, where it
may be given, and its default. It knows every setting of Apache ZooKeeper 3.8 to
3.10. Docs/ops/configuration.md has them all.`,
		Example: `  pinfold config explain autopurge.purgeInterval
  pinfold config explain -- -Dzookeeper.snapCount=1000
  pinfold config explain jute.maxbuffer forceSync`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, keys []string) error {
			for i, key := range keys {
				if i > 0 {
					fmt.Fprintln(c.OutOrStdout())
				}
				if err := explainKey(c.OutOrStdout(), key); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c := &cobra.Command{Use: "config", Short: "Explain settings"}
	c.AddCommand(explain)
	return c
}

// effects says what the effects of settings mean.
var effects = map[string]string{
	"honoured": "honoured, as in Apache ZooKeeper",
	"accepted": "accepted without effect: it tunes a part that this server does not have",
	"missing":  "missing: it has no effect yet, and the server warns",
	"refused":  "refused: the server does not start with it",
}

func explainKey(out io.Writer, key string) error {
	all, near := config.Explain(key)
	if len(all) == 0 {
		if near != "" {
			return fmt.Errorf("config: no setting is named %s; did you mean %s?", key, near)
		}
		return fmt.Errorf("config: no setting is named %s", key)
	}
	for _, e := range all {
		var places []string
		if e.File {
			places = append(places, e.Name+"=... in zoo.cfg")
		}
		if e.Flag != "" {
			places = append(places, e.Flag+"=... on the command line or in SERVER_JVMFLAGS")
		}
		fmt.Fprintf(out, "%s (%s)\n  given     %s\n", e.Name, e.Section, strings.Join(places, ", or\n            "))
		if e.Default != "" {
			fmt.Fprintf(out, "  default   %s\n", e.Default)
		}
		effect := effects[e.Effect]
		if e.Effect == "honoured" && strings.HasPrefix(e.Note, "only in Pinfold") {
			effect = "honoured; Apache ZooKeeper does not know it"
		}
		fmt.Fprintf(out, "  effect    %s\n", effect)
		if e.Note != "" {
			fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(e.Note, "`", ""))
		}
	}
	return nil
}
