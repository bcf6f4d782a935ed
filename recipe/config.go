package recipe

import (
	"context"

	"github.com/pinfold-zk/pinfold/zk"
)

// Config is a configuration in the data of one znode (the paper, 2.4,
// "Configuration Management"). Many znodes that must be read as a whole are for
// ReadyConfig.
type Config struct {
	c    Client
	path string
	opts ConfigOptions
}

// ConfigOptions are what NewConfig may be told.
type ConfigOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// NewConfig returns the configuration in the znode at path. It touches nothing.
func NewConfig(c Client, path string, opts ConfigOptions) *Config { return &Config{c, path, opts} }

// Get returns the configuration as it is when Get is called, or newer. It asks the
// leader, by a sync, so that it sees what others have said elsewhere that they
// have set (the paper, 2.3).
func (g *Config) Get(ctx context.Context) (Value, error) { return readNow(ctx, g.c, g.path) }

// Set makes data the configuration, whatever it was. It takes effect once, though
// answers be lost and others set it too: no older value comes back. With an error
// for which errors.Is(err, zk.ErrConnectionLoss) it is not known whether it took
// effect: its answer was lost, and the configuration has been changed twice since,
// or created and changed.
func (g *Config) Set(ctx context.Context, data []byte) (zk.Stat, error) {
	return put(ctx, g.c, g.path, data, g.opts.ACL)
}

// Update makes data the configuration if its version is that of stat, as Get or
// Watch has told. Otherwise the error is zk.ErrBadVersion, or zk.ErrNoNode. A lost
// connection is the error only if it is not known what has happened: the answer
// was lost, and the configuration has been changed twice since, or deleted. A
// client that has set the same data at the same moment cannot be distinguished:
// both have done it.
func (g *Config) Update(ctx context.Context, data []byte, stat zk.Stat) (zk.Stat, error) {
	return setVersion(ctx, g.c, g.path, data, stat.Version)
}

// Watch calls f with the configuration, and again whenever it has changed, until
// the context or the session ends; its error says which. Of changes that follow
// each other while f runs only the last is told. The first value may be a little
// old; the newest follows.
func (g *Config) Watch(ctx context.Context, f func(v Value)) error {
	return watchData(ctx, g.c, g.path, f)
}
