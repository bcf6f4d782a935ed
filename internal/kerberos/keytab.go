package kerberos

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/jcmturner/gokrb5/v8/keytab"
)

// keyFile is a key table (keytab) that is read again when its file changes. Several
// goroutines may use it at once.
type keyFile struct {
	name string
	log  *slog.Logger
	mu   struct {
		sync.Mutex
		table *keytab.Keytab
		seen  fs.FileInfo // of the file that was last read, well or badly
	}
}

// openKeys reads the file. name may begin with FILE:, as in krb5.conf.
func openKeys(name string, log *slog.Logger) (*keyFile, error) {
	f := &keyFile{name: strings.TrimPrefix(strings.TrimPrefix(name, "FILE:"), "file:"), log: log}
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, fmt.Errorf("kerberos: keytab: %w", err)
	}
	if f.mu.table, err = readKeys(f.name); err != nil {
		return nil, err
	}
	f.mu.seen = info
	return f, nil
}

// readKeys reads a key table. The errors of gokrb5 are not shown: one of them contains
// the file.
func readKeys(name string) (*keytab.Keytab, error) {
	b, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("kerberos: keytab: %w", err)
	}
	t := keytab.New()
	if guard("keytab", func() error { return t.Unmarshal(b) }) != nil {
		return nil, fmt.Errorf("kerberos: keytab: %s is no key table, or is damaged", name)
	}
	if len(t.Entries) == 0 {
		return nil, fmt.Errorf("kerberos: keytab: %s has no keys", name)
	}
	return t, nil
}

// table returns the keys. If the file has changed it is read again; if that fails, the
// keys remain as they were until it changes once more.
func (f *keyFile) table() *keytab.Keytab {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	if err != nil || os.SameFile(info, f.mu.seen) && info.ModTime().Equal(f.mu.seen.ModTime()) && info.Size() == f.mu.seen.Size() {
		return f.mu.table
	}
	f.mu.seen = info
	t, err := readKeys(f.name)
	if err != nil {
		f.log.Warn("the changed keytab cannot be read: the keys remain as they were", "err", err)
		return f.mu.table
	}
	f.mu.table = t
	f.log.Info("the keytab has changed and was read again", "file", f.name, "keys", len(t.Entries))
	return t
}

// holds reports whether the table has a key of the principal.
func holds(t *keytab.Keytab, principal string) bool {
	for i := range t.Entries {
		if p := t.Entries[i].Principal; strings.Join(p.Components, "/")+"@"+p.Realm == principal {
			return true
		}
	}
	return false
}
