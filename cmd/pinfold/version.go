package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinfold-zk/pinfold/internal/server"
)

func versionCommand() *cobra.Command {
	var binary string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Version prints the version of this program and the ZooKeeper release that it is
compatible with. With --sbom it prints what another binary of Pinfold was built of,
as CycloneDX JSON.`,
		Example: `  pinfold version
  pinfold version --sbom /usr/bin/pinfold`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if binary == "" {
				fmt.Fprintf(c.OutOrStdout(), "pinfold %s, compatible with ZooKeeper %s\n", buildVersion(), server.Version)
				return nil
			}
			info, err := buildinfo.ReadFile(binary)
			if err != nil {
				return fmt.Errorf("version: %w", err)
			}
			return writeSBOM(c.OutOrStdout(), info)
		},
	}
	c.Flags().StringVar(&binary, "sbom", "", "print what this `binary` was built of")
	return c
}

// buildVersion returns the commit of the build, or the module's version: a release that
// `go install` has fetched has no commit.
func buildVersion() string {
	if revision, _ := server.Commit(); len(revision) >= 12 {
		return revision[:12]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

// versionOf returns the version of the module of which a binary was built, or its commit.
func versionOf(info *debug.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	if revision := setting(info, "vcs.revision"); len(revision) >= 12 {
		return revision[:12]
	}
	return "devel"
}

// setting returns a setting of a build, "" if it has none.
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// component is a part of a binary in CycloneDX.
type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// writeSBOM writes the modules of a binary, with Go's own library, as CycloneDX 1.5. Equal
// binaries make equal texts.
func writeSBOM(out io.Writer, info *debug.BuildInfo) error {
	main := moduleOf("application", &info.Main)
	if main.Version = versionOf(info); main.Version == "devel" {
		main.Version = buildVersion() // of the same sources, as far as anything tells
	}
	main.PURL = "pkg:golang/" + info.Main.Path + "@" + main.Version
	release := strings.TrimPrefix(info.GoVersion, "go")
	parts := []component{{Type: "library", Name: "std", Version: release, PURL: "pkg:golang/std@" + release}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, moduleOf("library", m))
	}
	bom := struct {
		Format   string `json:"bomFormat"`
		Spec     string `json:"specVersion"`
		Version  int    `json:"version"`
		Metadata struct {
			Timestamp string    `json:"timestamp,omitempty"` // of the commit
			Component component `json:"component"`
		} `json:"metadata"`
		Components []component `json:"components"`
	}{Format: "CycloneDX", Spec: "1.5", Version: 1, Components: parts}
	bom.Metadata.Timestamp, bom.Metadata.Component = setting(info, "vcs.time"), main
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(bom)
}

// moduleOf describes a module. Go's checksum of a module (h1) is a SHA-256 of its files'
// hashes.
func moduleOf(kind string, m *debug.Module) component {
	c := component{Type: kind, Name: m.Path, Version: m.Version, PURL: "pkg:golang/" + m.Path + "@" + m.Version}
	if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
		if b, err := base64.StdEncoding.DecodeString(sum); err == nil {
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(b)}}
		}
	}
	return c
}
