package node

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
)

// Check reports why Open would refuse the configuration, as far as that can be found
// without opening a port or a data directory: it reads the files that the configuration
// names, so a server that runs with the same configuration is not disturbed. Warnings go
// to log. The error joins everything that was found.
func Check(cfg *config.Config, log *slog.Logger) error {
	n := &Node{o: Options{Config: cfg}, log: log}
	p := newPasswords(cfg, log)
	_, authority := authority(cfg, p)
	_, users := logins(cfg, p, log)
	_, peers := peerLogins(cfg, p, log)
	_, passwords := sessionPasswords(cfg)
	_, limits := n.openLimits()
	_, quorum := options.Replica(cfg)
	return errors.Join(authority, users, peers, passwords, limits, quorum, n.openStores(),
		checkDirectory("dataDir", cfg.Data.Dir, cfg.Data.AutoCreate),
		checkDirectory("dataLogDir", cfg.Data.LogDir, cfg.Data.AutoCreate))
}

// versionDir is the directory of the files within a data directory.
const versionDir = "version-2"

// checkDirectory reports a directory that Open could not read, or would have to create
// although the configuration forbids that.
func checkDirectory(key, name string, create bool) error {
	if name == "" {
		return nil
	}
	_, err := os.ReadDir(filepath.Join(name, versionDir))
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("server: %s: %w", key, err)
	case !create:
		return fmt.Errorf("server: %s: %s does not exist, and datadir.autocreate is false", key, filepath.Join(name, versionDir))
	}
	return nil
}

// Contents describes a data directory in a few words: how many logs and snapshots it has.
func Contents(dir string) string {
	entries, err := os.ReadDir(filepath.Join(dir, versionDir))
	if err != nil {
		return "new"
	}
	logs, snapshots := 0, 0
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "log."):
			logs++
		case strings.HasPrefix(name, "snapshot."):
			snapshots++
		}
	}
	return fmt.Sprintf("%d snapshots, %d logs", snapshots, logs)
}
