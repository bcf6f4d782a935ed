package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// The files of testdata/forms hold lines of commands and what they print, in
// one session a file: "E " is the error output, "exit" the status if it is not
// 0. run format=json is --output json. -rewrite writes the files anew.
func TestForms(t *testing.T) {
	files, err := filepath.Glob("testdata/forms/*.txt")
	if err != nil || len(files) < 3 {
		t.Fatal("no files", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				datadriven.RunTest(r.t, file, func(t *testing.T, d *datadriven.TestData) string {
					return r.runData(t, d)
				})
			})
		})
	}
}

func (r *rig) runData(t *testing.T, d *datadriven.TestData) string {
	if d.Cmd != "run" {
		d.Fatalf(t, "no directive %s", d.Cmd)
	}
	r.format = plain
	if d.HasArg("format") {
		var name string
		d.ScanArgs(t, "format", &name)
		if err := r.format.Set(name); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	var b strings.Builder
	for line := range strings.Lines(d.Input) {
		out, errs, status := r.do(line)
		b.WriteString(out)
		for e := range strings.Lines(errs) {
			b.WriteString("E " + e)
		}
		if status != statusOK {
			fmt.Fprintf(&b, "exit %d\n", status)
		}
	}
	return steady(b.String())
}
