package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pinfold-zk/pinfold/zk"
)

// A format is a value of --output.
type format string

const (
	plain format = "plain" // as zkCli.sh prints
	table format = "table" // columns with headings
	jsonl format = "json"  // one value a line
)

// String, Set and Type make a format an option.
func (f *format) String() string { return string(*f) }

// Set accepts the three formats.
func (f *format) Set(text string) error {
	if !slices.Contains([]format{plain, table, jsonl}, format(text)) {
		return fmt.Errorf("must be plain, table or json")
	}
	*f = format(text)
	return nil
}

// Type names the kind of value in help.
func (f *format) Type() string { return "plain|table|json" }

// A row is a part of an answer in all formats.
type row struct {
	plain string   // lines as zkCli.sh prints them, without the last line break
	cells []string // one for each column; as plain if nil
	value any      // what encoding/json makes a line of; as cells by column if nil
}

// rows prints an answer, row by row as it becomes known. add until the end, then
// end, in all cases:
//
//	r := s.rows("path", "bytes")
//	defer r.end()
//
// An answer that is not one of many rows is printed by print.
type rows struct {
	s       *shell
	columns []string
	held    [][]string // rows of a table, until its widths are known
	widths  []int      // nil until then
	buf     bytes.Buffer
}

// Rows of a table decide its widths, as long as they are no more than this.
const widthRows = 1000

// Output is written when there is so much of it, in bytes.
const outputChunk = 32 << 10

// rows begins an answer with these columns.
func (s *shell) rows(columns ...string) *rows { return &rows{s: s, columns: columns} }

// print prints an answer of one row.
func (s *shell) print(columns []string, r row) error {
	out := s.rows(columns...)
	err := out.add(r)
	out.end()
	return err
}

// add prints a row, now or soon.
func (r *rows) add(one row) error {
	switch r.s.format {
	case jsonl:
		if one.value == nil {
			one.value = r.object(one)
		}
		text, err := encodeJSON(one.value)
		if err != nil {
			return err
		}
		r.buf.Write(text)
	case table:
		r.hold(one)
	default:
		r.buf.WriteString(one.plain)
		r.buf.WriteByte('\n')
	}
	if r.buf.Len() < outputChunk {
		return nil
	}
	return r.write()
}

// addNote prints a line for people: not in JSON.
func (r *rows) addNote(text string) error {
	if r.s.format == jsonl {
		return nil
	}
	r.release()
	r.buf.WriteString(text + "\n")
	return nil
}

// show writes the rows that add has buffered, for output that must appear at once. The
// command's output is then not paged.
func (r *rows) show() error {
	r.s.pager.live = r.s.pager.program == nil
	r.release()
	return r.write()
}

func (r *rows) write() error {
	_, err := r.s.pager.Write(r.buf.Bytes())
	r.buf.Reset()
	return err
}

// end writes what is left. Errors of the output come from the shell (call).
func (r *rows) end() {
	if r.s.format == table && r.widths == nil && len(r.held) == 0 {
		return // nothing at all: no headings either
	}
	r.release()
	if err := r.write(); err != nil {
		return // the screen keeps it
	}
}

// object is a row by its columns.
func (r *rows) object(one row) any {
	if one.cells == nil {
		return one.plain
	}
	object := make(map[string]string, len(r.columns))
	for i, c := range r.columns {
		object[c] = one.cells[i]
	}
	return object
}

func (r *rows) hold(one row) {
	cells := one.cells
	if cells == nil {
		cells = []string{one.plain}
	}
	if r.widths != nil {
		r.line(cells)
		return
	}
	r.held = append(r.held, cells)
	if len(r.held) >= widthRows {
		r.release()
	}
}

// release fixes the widths of a table and prints the rows that waited for them.
func (r *rows) release() {
	if r.s.format != table || r.widths != nil {
		return
	}
	headings := make([]string, len(r.columns))
	r.widths = make([]int, len(r.columns))
	for i, c := range r.columns {
		headings[i] = strings.ToUpper(c)
		r.widths[i] = utf8.RuneCountInString(c)
	}
	for _, cells := range r.held {
		for i := range r.widths {
			r.widths[i] = max(r.widths[i], utf8.RuneCountInString(oneLine(cells[i])))
		}
	}
	r.line(headings)
	for _, cells := range r.held {
		r.line(cells)
	}
	r.held = nil
}

// line prints a row of a table. The last column is not filled up.
func (r *rows) line(cells []string) {
	for i, w := range r.widths {
		text := oneLine(cells[i])
		r.buf.WriteString(text)
		if i < len(r.widths)-1 {
			r.buf.WriteString(strings.Repeat(" ", max(0, w-utf8.RuneCountInString(text))+2))
		}
	}
	r.buf.WriteByte('\n')
}

// oneLine makes a text fit for a cell.
func oneLine(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }) {
		text = fmt.Sprintf("%q", text)
		return text[1 : len(text)-1]
	}
	return text
}

// encodeJSON is a value on a line, without the escapes that are for HTML.
func encodeJSON(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(value)
	return b.Bytes(), err
}

// jsonStat is a Stat in JSON. Transactions and sessions are in hexadecimal, as
// zkCli.sh prints them, and times in UTC.
type jsonStat struct {
	Czxid          string `json:"czxid"`
	Ctime          string `json:"ctime"`
	Mzxid          string `json:"mzxid"`
	Mtime          string `json:"mtime"`
	Pzxid          string `json:"pzxid"`
	Cversion       int32  `json:"cversion"`
	Version        int32  `json:"dataVersion"`
	Aversion       int32  `json:"aclVersion"`
	EphemeralOwner string `json:"ephemeralOwner"`
	DataLength     int32  `json:"dataLength"`
	NumChildren    int32  `json:"numChildren"`
}

func statJSON(st zk.Stat) *jsonStat {
	return &jsonStat{
		Czxid: st.Czxid.String(), Ctime: isoTime(st.Ctime), Mzxid: st.Mzxid.String(), Mtime: isoTime(st.Mtime),
		Pzxid: st.Pzxid.String(), Cversion: st.Cversion, Version: st.Version, Aversion: st.Aversion,
		EphemeralOwner: fmt.Sprintf("0x%x", uint64(st.EphemeralOwner)), DataLength: st.DataLength, NumChildren: st.NumChildren,
	}
}

func isoTime(millis int64) string {
	return time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z")
}

// statPlain is a Stat as zkCli.sh prints it, without the last line break.
func statPlain(st zk.Stat) string {
	const java = "Mon Jan 02 15:04:05 MST 2006"
	return fmt.Sprintf(`cZxid = %v
ctime = %s
mZxid = %v
mtime = %s
pZxid = %v
cversion = %d
dataVersion = %d
aclVersion = %d
ephemeralOwner = 0x%x
dataLength = %d
numChildren = %d`, st.Czxid, time.UnixMilli(st.Ctime).Format(java), st.Mzxid, time.UnixMilli(st.Mtime).Format(java),
		st.Pzxid, st.Cversion, st.Version, st.Aversion, uint64(st.EphemeralOwner), st.DataLength, st.NumChildren)
}

// statColumns are the headings of a Stat in a table; statCells are its values.
func statColumns() []string {
	return []string{"version", "children", "bytes", "modified", "owner", "mzxid"}
}

func statCells(st zk.Stat) []string {
	owner := "-"
	if st.EphemeralOwner != 0 {
		owner = fmt.Sprintf("0x%x", uint64(st.EphemeralOwner))
	}
	return []string{
		fmt.Sprint(st.Version), fmt.Sprint(st.NumChildren), fmt.Sprint(st.DataLength), isoTime(st.Mtime), owner, st.Mzxid.String(),
	}
}
