// Package report turns what `pinfold bench` has measured into pictures, and what
// `pinfold bench paper` has into a page.
package report

import (
	"bytes"
	_ "embed" // of the page
	"encoding/csv"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// Write writes report.html and samples.csv into a directory, and each plot as an
// SVG of its own.
func Write(dir string, found *bench.PaperData) error {
	if len(found.Systems) == 0 || len(found.Samples)+len(found.Failures) == 0 {
		return errors.New("report: nothing is measured")
	}
	page, pictures, err := render(found)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	pictures["report.html"] = page
	if pictures["samples.csv"], err = table(found); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		if err := os.WriteFile(filepath.Join(dir, name), pictures[name], 0o644); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

//go:embed page.html
var pageText string

// page is what the template is given.
type page struct {
	*bench.PaperData
	Base, Own string
	Runs      string
	Verdicts  []bench.Verdict
	Sections  []section
}

// A section is one plot and its table.
type section struct {
	ID, Title, Text string
	Picture         template.HTML
	Head            []string
	Rows            [][]string
}

func render(found *bench.PaperData) (html []byte, pictures map[string][]byte, err error) {
	p := page{PaperData: found, Base: found.Systems[0], Own: found.Systems[len(found.Systems)-1], Verdicts: found.Verdicts()}
	p.Runs = runs(found)
	pictures = map[string][]byte{}
	for _, c := range charts() {
		s, err := c.section(found)
		if err != nil {
			return nil, nil, err
		}
		if s != nil {
			pictures[c.id+".svg"] = []byte(s.Picture)
			p.Sections = append(p.Sections, *s)
		}
	}
	if s, err := failures(found); err != nil {
		return nil, nil, err
	} else if s != nil {
		pictures["failures.svg"] = []byte(s.Picture)
		p.Sections = append(p.Sections, *s)
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"number": number, "ratio": ratio, "join": strings.Join,
	}).Parse(pageText)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), pictures, err
}

// runs says how often points were measured.
func runs(found *bench.PaperData) string {
	times := map[string]int{}
	for _, s := range found.Samples {
		at := fmt.Sprint(s.Experiment, s.System, s.Members, s.Params)
		times[at] = max(times[at], s.Run)
	}
	counts := slices.Sorted(maps.Values(times))
	switch {
	case len(counts) == 0 || counts[len(counts)-1] == 1:
		return "1 run"
	case counts[0] == counts[len(counts)-1]:
		return fmt.Sprintf("%d runs", counts[0])
	}
	return fmt.Sprintf("%d runs of what bars are held against, %d of the rest", counts[len(counts)-1], counts[0])
}

// failures is the section of figure 8: the last run's picture, all runs' gaps.
func failures(found *bench.PaperData) (*section, error) {
	if len(found.Failures) == 0 {
		return nil, nil
	}
	last := found.Failures[len(found.Failures)-1].Run
	record := &bench.Failovers{}
	s := &section{ID: "failures", Title: "Figure 8: throughput while members fail", Text: failuresText,
		Head: []string{"run", "system", "event", "no write for, ms", "back in sync after, s"}}
	for _, f := range found.Failures {
		if f.Run == last {
			record.Sample, record.Systems = f.Sample, append(record.Systems, f.Timeline)
		}
		for _, e := range f.Events {
			mark := e.Mark
			if e.Leads {
				mark += ", the leader"
			}
			s.Rows = append(s.Rows, []string{strconv.Itoa(f.Run), f.System, mark, number(e.Gap), number(e.Back - e.Started)})
		}
	}
	picture, err := Timeline(record)
	s.Picture = template.HTML(picture) // our own
	return s, err
}

const failuresText = `Five servers under full load, 30 % of it writes. A follower fails and recovers (1), a different one (2),
the leader (3), two followers (4a, 4b), the leader (5). Clients that lose their connection go to the members that are left.`

// table is every value of every sample, a line each.
func table(found *bench.PaperData) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	lines := [][]string{{"experiment", "system", "servers", "run", "at", "value", "measured"}}
	for _, s := range found.Samples {
		var at []string
		for _, k := range slices.Sorted(maps.Keys(s.Params)) {
			at = append(at, k+"="+strconv.FormatFloat(s.Params[k], 'g', -1, 64))
		}
		for _, k := range slices.Sorted(maps.Keys(s.Values)) {
			lines = append(lines, []string{s.Experiment, s.System, strconv.Itoa(s.Members), strconv.Itoa(s.Run),
				strings.Join(at, " "), k, strconv.FormatFloat(s.Values[k], 'g', 6, 64)})
		}
	}
	err := w.WriteAll(lines)
	return b.Bytes(), err
}

// number prints a figure as one reads it.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 1000:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// group puts commas between thousands.
func group(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// ratio is own by base, or its inverse, so that it is not below 1.
func ratio(base, own float64) string {
	switch {
	case base <= 0 || own <= 0:
		return ""
	case own < base:
		return "1/" + number(base/own)
	}
	return number(own/base) + " ×"
}
