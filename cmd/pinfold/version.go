package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/server"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(*cobra.Command, []string) {
			fmt.Printf("pinfold %s, compatible with ZooKeeper %s\n", buildVersion(), server.Version)
		},
	}
}

// buildVersion returns the commit of the build, or the module's version.
func buildVersion() string {
	if revision, _ := server.Commit(); len(revision) >= 12 {
		return revision[:12]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}
