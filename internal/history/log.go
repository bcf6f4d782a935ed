package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// A LogPrinter prints the transactions of log files.
type LogPrinter struct {
	Out      io.Writer
	JSON     bool   // a line each; otherwise as Apache's TxnLogToolkit
	Filter   Filter // for what is printed; the count at the end is of all
	MaxEntry int    // length of the longest transaction, 0 for the default
}

// ErrDamaged reports that a file was read to its end, or as far as possible, and is not
// whole. What is wrong was printed.
var ErrDamaged = errors.New("the file is damaged")

// Print prints one file. A transaction with a wrong checksum is printed and marked as such.
// It returns ErrDamaged, wrapped, if there was one.
func (p *LogPrinter) Print(name string) error {
	r, err := storage.OpenEntries(vfs.OS{}, name, p.MaxEntry)
	if err != nil {
		return err
	}
	if !p.JSON {
		if err := printLogHead(p.Out, r); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	count, bad, err := p.entries(r, name)
	if err == io.EOF {
		err = nil
		if !p.JSON {
			_, err = fmt.Fprintf(p.Out, "EOF reached after %d txns.\n", count)
		}
	}
	if err == nil && bad > 0 {
		err = fmt.Errorf("%s: %d of %d transactions have a wrong checksum: %w", name, bad, count, ErrDamaged)
	}
	return errors.Join(err, r.Close())
}

func printLogHead(w io.Writer, r *storage.EntryReader) error {
	_, err := fmt.Fprintf(w, "ZooKeeper Transactional Log File with dbid %d txnlog format version 2\n", r.Dbid())
	return err
}

// entries prints all entries, to io.EOF.
func (p *LogPrinter) entries(r *storage.EntryReader, name string) (count, bad int, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return count, bad, err
		}
		count++
		if !e.Valid {
			bad++
		}
		tx, err := txn.Decode(e.Payload)
		if err != nil && e.Valid {
			return count, bad, fmt.Errorf("%s: at byte %d: %w", name, e.Offset, err)
		}
		if err != nil {
			tx = txn.Txn{Header: txn.Header{Zxid: e.Zxid}}
		} else if !p.Filter.Accepts(&tx) {
			continue
		}
		if err := p.entry(&tx, e, path.Base(name)); err != nil {
			return count, bad, err
		}
	}
}

const badSum = "wrong checksum"

func (p *LogPrinter) entry(tx *txn.Txn, e storage.Entry, file string) error {
	if !p.JSON {
		line := apacheLine(tx) + "\n"
		if !e.Valid {
			line = crcError + line + line // Apache's prints both
		}
		_, err := io.WriteString(p.Out, line)
		return err
	}
	j := jsonTxnOf(tx)
	j.File, j.Offset = file, e.Offset
	if !e.Valid {
		j.Damage = badSum
	}
	return json.NewEncoder(p.Out).Encode(j)
}
