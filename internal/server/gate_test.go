package server

import (
	"sync"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// gateFS is a file system whose syncs a test can hold up, or let fail.
type gateFS struct {
	vfs.FS
	mu     sync.Mutex
	cond   sync.Cond
	shut   bool
	err    error
	waited int // syncs that have met the gate shut
}

func newGateFS(inner vfs.FS) *gateFS {
	g := &gateFS{FS: inner}
	g.cond.L = &g.mu
	return g
}

// set shuts or opens the gate; err is what syncs return from now on.
func (g *gateFS) set(shut bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut, g.err = shut, err
	g.cond.Broadcast()
}

func (g *gateFS) pass() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		g.waited++
		g.cond.Broadcast()
	}
	for g.shut {
		g.cond.Wait()
	}
	return g.err
}

type gateFile struct {
	vfs.File
	g *gateFS
}

func (f gateFile) Sync() error {
	if err := f.g.pass(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (g *gateFS) wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return gateFile{f, g}, nil
}

func (g *gateFS) Create(name string) (vfs.File, error) { return g.wrap(g.FS.Create(name)) }

func (g *gateFS) CreateDirect(name string) (vfs.File, error) { return g.wrap(g.FS.CreateDirect(name)) }

func (g *gateFS) OpenReadWrite(name string) (vfs.File, error) {
	return g.wrap(g.FS.OpenReadWrite(name))
}
