package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

func txnCommand() command {
	return command{
		name: "txn", synopsis: "[file]", short: "Carry out operations whole or not at all",
		long: `Reads operations from a file, or from the input if there is none or it is "-", one a
line in the words of the other commands, and carries them out in one transaction: all
or none. Empty lines and those that begin with # say nothing.

  create [-s] [-e] [-c] [-t millis] path [data] [acl]
  set [-v version] path data
  delete [-v version] path
  check [-v version] path`,
		examples: `txn changes.txt
txn                      # (in a script)  printf 'check -v 3 /app\nset /app/x 1\n' | pinfold cli txn`,
		max: 1, complete: []argKind{argFile},
		run: func(ctx context.Context, s *shell, args []string) error {
			from := s.in
			if len(args) == 1 && args[0] != "-" {
				file, err := os.Open(args[0])
				if err != nil {
					return err
				}
				defer file.Close()
				from = file
			}
			return s.runTxn(ctx, from)
		},
	}
}

// A txnLine is an operation that has been read.
type txnLine struct {
	number int // from 1
	op     string
	path   string

	created *client.Created
	stat    *zk.Stat
}

// doneLine is what became of one, in JSON.
type doneLine struct {
	Op      string `json:"op"`
	Path    string `json:"path"`
	Version *int32 `json:"version,omitempty"`
}

func (s *shell) runTxn(ctx context.Context, from io.Reader) error {
	c, err := s.client(ctx)
	if err != nil {
		return err
	}
	txn := c.Txn()
	list, err := readTxn(from, txn)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return usageError{"txn: no operations"}
	}
	if err := txn.Commit(ctx); err != nil {
		var at *client.TxnError
		if errors.As(err, &at) && at.Index < len(list) {
			fmt.Fprintf(s.errs, "Nothing was changed, because of line %d:\n", list[at.Index].number)
		}
		return err
	}
	r := s.rows("op", "path", "version")
	defer r.end()
	for _, l := range list {
		if err := r.add(l.row()); err != nil {
			return err
		}
	}
	return nil
}

func (l *txnLine) row() row {
	done, version := doneLine{Op: l.op, Path: l.path}, ""
	text := map[string]string{"create": "Created ", "set": "Set ", "delete": "Deleted ", "check": "Checked "}[l.op]
	switch {
	case l.created != nil:
		done.Path = l.created.Path
	case l.stat != nil:
		done.Version, version = &l.stat.Version, strconv.Itoa(int(l.stat.Version))
	}
	text += done.Path
	if version != "" {
		text += ", version " + version
	}
	return row{plain: text, cells: []string{l.op, done.Path, version}, value: done}
}

// readTxn adds the operations to a transaction. Its errors are usage errors, but
// those of the input.
func readTxn(from io.Reader, txn *client.Txn) ([]*txnLine, error) {
	var list []*txnLine
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	for number := 1; lines.Scan(); number++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		words, err := splitLine(text)
		if err != nil {
			return nil, usageError{fmt.Sprintf("line %d: %v", number, err)}
		}
		l := &txnLine{number: number, op: words[0]}
		if err := l.add(txn, words[1:]); err != nil {
			return nil, usageError{fmt.Sprintf("line %d: %v", number, err)}
		}
		list = append(list, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read operations: %w", err)
	}
	return list, nil
}

// add reads an operation's options and arguments, and adds it.
func (l *txnLine) add(txn *client.Txn, words []string) error {
	f := newFlagSet(l.op)
	var create createOptions
	version := int32(-1)
	least, most := 1, 1
	switch l.op {
	case "create":
		f.BoolVarP(&create.sequential, "sequential", "s", false, "")
		f.BoolVarP(&create.ephemeral, "ephemeral", "e", false, "")
		f.BoolVarP(&create.container, "container", "c", false, "")
		f.Int64VarP(&create.ttl, "ttl", "t", 0, "")
		most = 3
	case "set":
		least, most = 2, 2
		f.Int32VarP(&version, "version", "v", -1, "")
	case "delete", "check":
		f.Int32VarP(&version, "version", "v", -1, "")
	default:
		return fmt.Errorf("%q is no operation of a transaction: create, set, delete, check", l.op)
	}
	args, err := parse(f, words, true)
	if err != nil {
		return err
	}
	if len(args) < least || len(args) > most {
		return fmt.Errorf("%s has %s; see help txn", l.op, count(len(args), "argument"))
	}
	l.path = args[0]
	if err := client.CheckPath(l.path); err != nil && !(l.op == "create" && create.sequential) {
		return err
	}
	switch l.op {
	case "create":
		mode, err := create.mode(f.Changed("ttl"))
		if err != nil {
			return err
		}
		return l.create(txn, mode, create.ttl, args)
	case "set":
		l.stat = txn.Set(l.path, []byte(args[1]), version)
	case "delete":
		txn.Delete(l.path, version)
	case "check":
		txn.Check(l.path, version)
	}
	return nil
}

func (l *txnLine) create(txn *client.Txn, mode zk.CreateMode, ttl int64, args []string) (err error) {
	var data []byte
	if len(args) > 1 {
		data = []byte(args[1])
	}
	var acl []zk.ACL
	if len(args) > 2 {
		if acl, err = parseACL(args[2]); err != nil {
			return err
		}
	}
	if mode.IsTTL() {
		l.created = txn.CreateTTL(l.path, data, mode, acl, time.Duration(ttl)*time.Millisecond)
		return nil
	}
	l.created = txn.Create(l.path, data, mode, acl)
	return nil
}
