package node

import (
	"bytes"
	"fmt"
	"log/slog"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/server"
)

// limitsFile is the file of limits of a server that runs. The server uses the last
// content that could be read and is correct.
type limitsFile struct {
	name   string
	log    *slog.Logger
	text   []byte // that was read last, whether it is correct or not
	failed string // the last failure to read the file; "": it was read
}

// openLimits reads the limits that the configuration names. It returns nil if it names
// none.
func (n *Node) openLimits() (*ratelimit.File, error) {
	name := n.o.Config.Client.LimitsFile
	if name == "" {
		return nil, nil
	}
	f := &limitsFile{name: name, log: n.log}
	limits, _, err := f.read()
	if err != nil {
		return nil, fmt.Errorf("server: limitsFile: %w", err)
	}
	n.limits = f
	return limits, nil
}

// read reads the file. changed is false if it has the content of the last call.
func (f *limitsFile) read() (limits *ratelimit.File, changed bool, err error) {
	text, err := readFile(f.name, ratelimit.MaxFileBytes)
	if err != nil {
		return nil, false, err
	}
	if f.text != nil && bytes.Equal(text, f.text) {
		return nil, false, nil
	}
	f.text = append([]byte{}, text...) // never nil
	if limits, err = ratelimit.Parse(text); err != nil {
		return nil, true, fmt.Errorf("%s: %w", f.name, err)
	}
	return limits, true, nil
}

// refresh reads the file, and gives s its limits if they have changed. A file that cannot
// be read, or is wrong, is reported once, and the earlier limits remain.
func (f *limitsFile) refresh(s *server.Server) {
	limits, changed, err := f.read()
	switch {
	case err != nil && (changed || err.Error() != f.failed):
		f.failed = err.Error()
		f.log.Error("the new limits are not used, the earlier ones remain: correct the file", "file", f.name, "err", err)
	case err == nil && changed:
		f.log.Info("the limits of sessions and identities have changed", "file", f.name)
		s.SetLimits(limits)
	}
	if err == nil {
		f.failed = ""
	}
}
