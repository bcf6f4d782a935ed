package kerberos

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

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
		seen  fs.FileInfo // of the file that was last read, well or badly; nil: there was none
	}
}

// openKeys reads the file. name may begin with FILE:, as in krb5.conf.
func openKeys(name string, log *slog.Logger) (*keyFile, error) {
	f := &keyFile{name: strings.TrimPrefix(strings.TrimPrefix(name, "FILE:"), "file:"), log: log}
	info, err := os.Stat(f.name)
	if err != nil {
		return nil, fmt.Errorf("kerberos: keytab: %w; kadmin's ktadd -k makes it", err)
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
	for i := range t.Entries {
		// Where no version is asked for, as for a client, gokrb5 takes the latest key: that is the
		// one with the highest version, whatever clock has written the times.
		t.Entries[i].Timestamp = time.Unix(int64(t.Entries[i].KVNO), 0)
	}
	return t, nil
}

// table returns the keys. If the file has changed it is read again; if that fails, the
// keys remain as they were until it changes once more.
func (f *keyFile) table() *keytab.Keytab {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	if seen := f.mu.seen; err != nil && seen == nil || err == nil && seen != nil &&
		os.SameFile(info, seen) && info.ModTime().Equal(seen.ModTime()) && info.Size() == seen.Size() {
		return f.mu.table
	}
	f.mu.seen = info
	var t *keytab.Keytab
	if err == nil {
		t, err = readKeys(f.name)
	}
	if err != nil {
		f.log.Warn("the changed keytab cannot be read: the keys remain as they were", "err", err)
		return f.mu.table
	}
	f.mu.table = t
	f.log.Info("the keytab has changed and was read again", "file", f.name, "keys", len(t.Entries))
	return t
}

// holds reports whether the table has a key of the principal.
func holds(t *keytab.Keytab, principal string) bool { return len(versions(t, principal, 0)) > 0 }

// versions returns the versions of the principal's keys of an encryption type, or of any
// with 0.
func versions(t *keytab.Keytab, principal string, etype int32) (list []int) {
	for i := range t.Entries {
		e := &t.Entries[i]
		if strings.Join(e.Principal.Components, "/")+"@"+e.Principal.Realm == principal && (etype == 0 || e.Key.KeyType == etype) {
			list = append(list, int(e.KVNO))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// closed says why the keys do not open a ticket for the principal, and what to do.
func (f *keyFile) closed(principal string, version int, etype int32) error {
	t := f.table()
	have, all := versions(t, principal, etype), versions(t, principal, 0)
	ticket := fmt.Sprintf("a ticket for key version %d of %.100s", version, principal)
	switch {
	case len(all) == 0:
		return refused("%s, of which %s has no key: add it with kadmin's ktadd", ticket, f.name)
	case !slices.Contains(all, version) && version > all[len(all)-1]:
		return refused("%s, and %s has only %v: bring the new key with kadmin's ktadd", ticket, f.name, all)
	case !slices.Contains(all, version):
		return refused("%s, and %s has only %v: the client needs a new ticket, see kinit", ticket, f.name, all)
	case !slices.Contains(have, version):
		return refused("%s and encryption type %d, for which %s has none: run kadmin's ktadd", ticket, etype, f.name)
	}
	return refused("%s that the key in %s does not open: was the principal made anew? run kadmin's ktadd", ticket, f.name)
}
