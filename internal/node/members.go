package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// members is what a node does when the membership of its ensemble changes: it writes the
// files of the configuration, and listens at the addresses of its own line.
type members struct {
	cfg  *config.Config
	log  *slog.Logger
	file string // the absolute name of zoo.cfg; "": there is none

	files   sync.Mutex // held by the goroutine that writes the files; locked before mu
	written zk.Zxid    // the version that the files have, guarded by files

	mu      sync.Mutex
	latest  zab.Memberships
	changed chan struct{} // has room for one; latest has changed
}

func newMembers(cfg *config.Config, log *slog.Logger) (*members, error) {
	m := &members{cfg: cfg, log: log, written: zk.Zxid(cfg.Quorum.Members.Version), changed: make(chan struct{}, 1)}
	if cfg.File == "" {
		return m, nil
	}
	var err error
	if m.file, err = filepath.Abs(cfg.File); err != nil {
		return nil, fmt.Errorf("server: zoo.cfg: %w", err)
	}
	return m, nil
}

// saved is replica.Options.MembersSaved, which Log calls. Members that are proposed are in the files when
// it returns: an Apache server that is started on them counts by what this server has acknowledged. Those
// that are committed are written by the address follower, so that Log does not wait for it: with the
// files from before the commit, a server has the proposal and learns of the commit from its leader.
func (m *members) saved(now zab.Memberships) {
	m.mu.Lock()
	m.latest = now
	m.mu.Unlock()
	if now.Seen != now.Committed {
		m.writeFiles()
	}
	select {
	case m.changed <- struct{}{}:
	default: // is to be looked at already
	}
}

// writeFiles has the files show the latest membership. A failure is logged: the directory of the
// data has what they lack, and after a restart that counts.
func (m *members) writeFiles() {
	if m.file == "" {
		return
	}
	m.files.Lock()
	defer m.files.Unlock()
	m.mu.Lock()
	now := m.latest
	m.mu.Unlock()
	if err := m.write(now); err != nil {
		m.log.Error("the files of the configuration do not have the new members, the data directory has: is the directory of zoo.cfg writable?", "file", m.file, "err", err)
	}
}

// write writes the files: the members that are committed to a file with their version, which zoo.cfg
// then names, and those that are proposed to zoo.cfg.dynamic.next. The former are first: a server must
// know of both changes of two that follow each other. A server that is
// no member keeps its zoo.cfg: with the new one it could not start again.
// REQUIRES: files is held.
func (m *members) write(now zab.Memberships) error {
	// A server may have a weight and no line.
	own, _ := now.Committed.Member(m.cfg.Quorum.MyID)
	if own.Address != "" && now.Committed.Version() > m.written {
		if err := m.writeCommitted(now.Committed); err != nil {
			return err
		}
		m.written = now.Committed.Version()
	}
	if now.Seen != now.Committed {
		return replaceFile(m.file+config.NextSuffix, now.Seen.Text(), fileMode)
	}
	if err := os.Remove(m.file + config.NextSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (m *members) writeCommitted(to *zab.Membership) error {
	list, err := config.ParseMembers(to.Text())
	if err != nil {
		return err
	}
	name, content := list.DynamicFile(m.file)
	if err := replaceFile(name, content, fileMode); err != nil {
		return err
	}
	target, err := filepath.EvalSymlinks(m.file)
	if err != nil {
		return err
	}
	text, err := readFile(target, maxConfigBytes)
	if err == nil && len(text) > maxConfigBytes {
		err = fmt.Errorf("%s is longer than %d bytes", target, maxConfigBytes)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(target)
	if err != nil {
		return err
	}
	own := list.Find(m.cfg.Quorum.MyID)
	rewritten, had := config.Rewritten(text, name, own.HasClient)
	if had {
		if err := replaceFile(m.file+".bak", text, info.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := replaceFile(target, rewritten, info.Mode().Perm()); err != nil {
		return err
	}
	m.log.Info("the files of the configuration have the new members", "file", name)
	return nil
}

const (
	fileMode       = 0o644
	maxConfigBytes = 1 << 20
)

// replaceFile writes a file atomically: it is durable when this returns.
func replaceFile(name string, content []byte, mode os.FileMode) error {
	f, err := os.OpenFile(name+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".tmp", name); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(filepath.Dir(name))
}

// followMembers starts to listen at the addresses of the server's own line whenever that
// changes, and writes the files. The returned function ends that, and waits for the end; the files have
// the latest membership then.
func (n *Node) followMembers(ctx context.Context) (stop func()) {
	if n.members == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				n.members.writeFiles()
				return
			case <-n.members.changed:
				n.move()
				n.members.writeFiles()
			}
		}
	})
	return func() {
		cancel()
		wg.Wait()
	}
}

// move tells the server the members that are committed, and listens where the own line
// says. While a change is not committed, peers may use the old and the new addresses.
func (n *Node) move() {
	n.members.mu.Lock()
	now := n.members.latest
	n.members.mu.Unlock()
	if list, err := config.ParseMembers(now.Committed.Text()); err == nil {
		n.server.SetMembers(list)
	}
	var quorum, election []string
	for _, m := range []*zab.Membership{now.Committed, now.Seen} {
		if own := n.ownLine(m); own != nil {
			q, e := n.o.Config.Quorum.Listen(own)
			quorum, election = addOnce(quorum, q), addOnce(election, e)
			if o := n.o.Config.Quorum.ObserverListen(own); o != "" {
				quorum = addOnce(quorum, o)
			}
		}
	}
	if own := n.ownLine(now.Committed); own != nil && own.HasClient {
		n.moveClientPort(own)
	}
	if len(quorum) == 0 {
		return // it is no member any more, and stays where it is
	}
	if err := n.links.Load().Listen(quorum, election); err != nil {
		n.log.Error("this server does not listen for the others at its new address", "quorum", quorum, "election", election, "err", err)
	}
}

// ownLine returns this server's line in a membership, nil if there is none.
func (n *Node) ownLine(m *zab.Membership) *config.Member {
	own, ok := m.Member(n.o.Config.Quorum.MyID)
	if !ok || own.Address == "" {
		return nil
	}
	line, err := config.ParseMember(own.ID, own.Address)
	if err != nil {
		return nil // options.Peers reports it
	}
	return &line
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// moveClientPort has clients connect at the address of the server's own line. Connections
// at the old one go on. If the new one cannot be opened, the old one remains.
func (n *Node) moveClientPort(own *config.Member) {
	l, ok := n.listener.(*movable)
	host := own.ClientHost
	if host == "0.0.0.0" {
		host = ""
	}
	address := net.JoinHostPort(host, strconv.Itoa(own.ClientPort))
	if !ok || address == l.address {
		return
	}
	to, err := server.Listen(context.Background(), address)
	if err != nil {
		n.log.Error("clients cannot connect at the new address of this server, but at the old one", "address", address, "err", err)
		return
	}
	l.move(to, address)
	n.log.Info("clients connect at another address from now on", "address", address)
}

// movable is a listener that can be replaced by another one while it is used.
type movable struct {
	address string // that was asked for; owned by move

	mu     sync.Mutex
	l      net.Listener
	closed bool
}

// move replaces the listener.
func (m *movable) move(to net.Listener, address string) {
	m.mu.Lock()
	from := m.l
	m.l, m.address = to, address
	if m.closed {
		from = to
	}
	m.mu.Unlock()
	from.Close() // an error changes nothing: nothing is accepted there any more
}

func (m *movable) current() net.Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.l
}

// Accept accepts a connection at the present address.
func (m *movable) Accept() (net.Conn, error) {
	for {
		l := m.current()
		c, err := l.Accept()
		if err == nil || m.current() == l {
			return c, err
		}
	}
}

// Addr returns the present address.
func (m *movable) Addr() net.Addr { return m.current().Addr() }

// Close closes the listener, and any that replaces it later.
func (m *movable) Close() error {
	m.mu.Lock()
	m.closed = true
	l := m.l
	m.mu.Unlock()
	return l.Close()
}
