package cli

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// An export is text in JSON, a value a line: a header, then a znode a line,
// parents before their children, then a trailer. A file without a trailer is not
// whole.

// exportFormat names the format and its version.
const exportFormat = "pinfold-export/1"

// checkWhole reads an export to its end and fails if the last line is no trailer.
// What is between the first line and the last is not looked at.
func checkWhole(from io.Reader) error {
	r, err := readExport(from)
	if err != nil {
		return err
	}
	var last []byte
	for {
		line, err := r.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = append(last[:0], line...)
	}
	var end exportTrailer
	if err := json.Unmarshal(last, &end); err != nil || end.Nodes == nil {
		return fmt.Errorf("the export is cut off: its last line is missing. Nothing was created (line %d: %w)", r.number, io.ErrUnexpectedEOF)
	}
	return nil
}

// exportHeader is the first line.
type exportHeader struct {
	Format string `json:"format"`
	Root   string `json:"root"`
	Time   string `json:"time"`
	Zxid   string `json:"zxid"` // newest that the client had seen when the export began
}

// exportTrailer is the last line.
type exportTrailer struct {
	Nodes  *int `json:"nodes"`
	Failed int  `json:"failed,omitempty"` // nodes that could not be read
}

// exported is the line of a znode.
type exported struct {
	Path   string   `json:"path"` // in the ensemble it is from
	Data   *string  `json:"data,omitempty"`
	Base64 *string  `json:"base64,omitempty"` // of data that is no UTF-8; a node without either has null
	ACL    []string `json:"acl,omitempty"`    // scheme:id:perms; without it, world:anyone:cdrwa
	Kind   *kind    `json:"kind,omitempty"`   // without it, persistent
	TTL    int64    `json:"ttl,omitempty"`    // milliseconds, of a kind "ttl"

	// For people: an import cannot restore it.
	Owner    string `json:"owner,omitempty"`
	Version  int32  `json:"version"`
	Cversion int32  `json:"cversion"`
	Aversion int32  `json:"aversion"`
	Czxid    string `json:"czxid"`
	Mzxid    string `json:"mzxid"`
	Ctime    string `json:"ctime"`
	Mtime    string `json:"mtime"`
}

// exportOf is the line of a znode that has been read whole.
func exportOf(z *znode) exported {
	st := z.stat
	e := exported{
		Path: z.path, Version: st.Version, Cversion: st.Cversion, Aversion: st.Aversion,
		Czxid: st.Czxid.String(), Mzxid: st.Mzxid.String(), Ctime: isoTime(st.Ctime), Mtime: isoTime(st.Mtime),
	}
	switch {
	case z.data == nil:
	case utf8.Valid(z.data):
		text := string(z.data)
		e.Data = &text
	default:
		text := base64.StdEncoding.EncodeToString(z.data)
		e.Base64 = &text
	}
	if !slices.Equal(z.acl, zk.OpenACLUnsafe()) {
		for _, a := range z.acl {
			e.ACL = append(e.ACL, a.String())
		}
	}
	if k := kindOf(st); k == ephemeral {
		e.Kind, e.Owner = &k, zk.SessionID(st.EphemeralOwner).String()
	}
	return e
}

// planting is what an import makes of the line, at path.
func (e *exported) planting(path string) (planting, error) {
	p := planting{path: path, acl: zk.OpenACLUnsafe()}
	switch {
	case e.Data != nil && e.Base64 != nil:
		return p, errors.New("has both data and base64")
	case e.Data != nil:
		p.data = []byte(*e.Data)
	case e.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*e.Base64)
		if err != nil {
			return p, err
		}
		p.data = data
	}
	if e.ACL != nil {
		p.acl = nil
	}
	for _, text := range e.ACL {
		a, err := parseACLEntry(text)
		if err != nil {
			return p, err
		}
		p.acl = append(p.acl, a)
	}
	if e.Kind != nil {
		p.kind = *e.Kind
	}
	if p.kind == withTTL {
		if e.TTL <= 0 || e.TTL > maxTTL {
			return p, fmt.Errorf("ttl %d: must be from 1 to %d ms", e.TTL, int64(maxTTL))
		}
		p.ttl = time.Duration(e.TTL) * time.Millisecond
	}
	return p, nil
}

// parseACLEntry reads scheme:id:perms. Its id may have commas, which separate
// entries elsewhere. Its errors are of the file, not of the command.
func parseACLEntry(text string) (zk.ACL, error) {
	if strings.Count(text, ":") < 2 {
		return zk.ACL{}, fmt.Errorf("%q does not have the form scheme:id:perm", text)
	}
	a, err := parseEntry(text)
	if err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return a, errors.New(first)
	}
	return a, nil
}

// maxExportLine bounds a line of an export in bytes: a znode's data as it is at
// its longest, each byte an escape.
const maxExportLine = 16 << 20

// An exportReader reads an export line by line.
type exportReader struct {
	lines  *bufio.Scanner
	number int
	header exportHeader
	end    *exportTrailer // when it has been read
}

// readExport reads the header.
func readExport(from io.Reader) (*exportReader, error) {
	r := &exportReader{lines: bufio.NewScanner(from)}
	r.lines.Buffer(nil, maxExportLine)
	line, err := r.line()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the export is empty")
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(line, &r.header); err != nil || r.header.Format == "" {
		return nil, errors.New("this is no export: its first line is no header")
	}
	if r.header.Format != exportFormat {
		return nil, fmt.Errorf("the export's format is %q; only %s is known here", r.header.Format, exportFormat)
	}
	if err := client.CheckPath(r.header.Root); err != nil {
		return nil, fmt.Errorf("the export's root: %w", err)
	}
	return r, nil
}

// line returns the next line that is not empty; io.EOF after the last.
func (r *exportReader) line() ([]byte, error) {
	for r.lines.Scan() {
		r.number++
		if line := bytes.TrimSpace(r.lines.Bytes()); len(line) > 0 {
			return line, nil
		}
	}
	if err := r.lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d of the export: %w", r.number+1, err)
	}
	return nil, io.EOF
}

// next reads the next znode; io.EOF after the trailer. An export that ends
// without one is io.ErrUnexpectedEOF. A path must be the header's root or below
// it.
func (r *exportReader) next() (*exported, error) {
	line, err := r.line()
	switch {
	case errors.Is(err, io.EOF) && r.end == nil:
		return nil, fmt.Errorf("the export ends in line %d, without its last line: %w", r.number, io.ErrUnexpectedEOF)
	case err != nil:
		return nil, err
	case r.end != nil:
		return nil, r.wrong(errors.New("a line after the trailer"))
	}
	var e struct {
		exported
		exportTrailer
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, r.wrong(err)
	}
	if e.Nodes != nil && e.Path == "" {
		r.end = &e.exportTrailer
		return r.next()
	}
	if err := client.CheckPath(e.Path); err != nil {
		return nil, r.wrong(err)
	}
	if !isBelow(r.header.Root, e.Path) {
		return nil, r.wrong(fmt.Errorf("%s is not below %s", e.Path, r.header.Root))
	}
	return &e.exported, nil
}

func (r *exportReader) wrong(err error) error {
	return fmt.Errorf("line %d of the export: %w", r.number, err)
}
