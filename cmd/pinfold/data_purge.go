package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/storage"
)

func dataPurge() *cobra.Command {
	var count int
	c := &cobra.Command{
		Use:   "purge DATALOGDIR [SNAPDIR] -n COUNT",
		Short: "Remove old snapshots, and the logs that no newer one needs",
		Long: fmt.Sprintf(`Purge keeps the COUNT newest valid snapshots and every log that the oldest of them needs, removes all
older ones, and prints what it has removed. It is Apache's zkCleanup.sh (PurgeTxnLog), with the same arguments. DATALOGDIR is
dataLogDir of zoo.cfg, SNAPDIR dataDir, if that is another directory. COUNT is at least %d. A server may use the
directories; it purges by itself if zoo.cfg has autopurge.purgeInterval.`, storage.MinRetainedSnapshots),
		Example: `  pinfold data purge /var/lib/zookeeper -n 5
  pinfold data purge /log/zookeeper /var/lib/zookeeper -n 3`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return history.Purge(c.OutOrStdout(), args[len(args)-1], args[0], count)
		},
	}
	c.Flags().IntVarP(&count, "count", "n", 0, "how many snapshots to keep")
	_ = c.MarkFlagRequired("count") // the flag exists
	return c
}
