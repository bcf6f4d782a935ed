package node

import (
	"os"
	"os/user"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/audit"
)

// openAudit opens the audit log, if there is to be one.
func (n *Node) openAudit() (*audit.Log, error) {
	cfg := &n.o.Config.Audit
	if !cfg.Enabled {
		return nil, nil
	}
	output, err := n.auditOutput()
	if err != nil {
		return nil, err
	}
	return audit.New(audit.Options{
		Output: output, JSON: cfg.JSON, Details: cfg.Details, Class: cfg.ShortClass(), User: ownUser(), Limit: cfg.QueueBytes, Logger: n.log,
	}), nil
}

func (n *Node) auditOutput() (audit.Output, error) {
	cfg := &n.o.Config.Audit
	if cfg.File == "" {
		return stdout{}, nil
	}
	return audit.OpenFile(n.o.FS, cfg.File, int64(cfg.MaxFileBytes), cfg.MaxFiles, n.log)
}

// stdout is the standard output, which stays open.
type stdout struct{}

func (stdout) Write(p []byte) (int, error) { return os.Stdout.Write(p) }
func (stdout) Close() error                { return nil }

// ownUser returns the name of the user that the process runs as.
func ownUser() string {
	u, err := user.Current()
	if err != nil {
		return strconv.Itoa(os.Getuid())
	}
	return u.Username
}

// note writes a line about this server itself, if there is an audit log.
func (n *Node) note(op audit.Operation, result audit.Result) {
	if n.audit != nil {
		n.audit.Write(&audit.Entry{Users: n.audit.User(), Operation: op, Result: result})
	}
}
