package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/spf13/pflag"
)

func grepCommand() command {
	return command{
		name: "grep", synopsis: "[-i] [-l] [-E] pattern [path...]", short: "Search the data of nodes",
		long: `Prints the lines in the data of nodes, at and below the paths, in which the pattern
occurs. Data that is no text is searched too, and said to match, but not printed.
As with grep(1) the exit status is 1 if nothing matches, and 2 if something could
not be read.`,
		examples: `grep password /app
grep -i -l jdbc: /app        # only the paths, whatever the case
grep -E '"port": *80[0-9]+' /app
grep --output json timeout / # path, number and text of the lines`,
		min: 1, max: -1, complete: []argKind{argNone, argPath},
		setup: func(f *pflag.FlagSet) runFunc {
			fold := f.BoolP("ignore-case", "i", false, "A is a")
			list := f.BoolP("files-with-matches", "l", false, "print only the paths of nodes that match")
			regex := f.BoolP("extended-regexp", "E", false, "the pattern is a regular expression")
			return func(ctx context.Context, s *shell, args []string) error {
				text := args[0]
				if !*regex {
					text = regexp.QuoteMeta(text)
				}
				if *fold {
					text = "(?i)" + text
				}
				pattern, err := regexp.Compile(text)
				if err != nil {
					return usageError{err.Error()}
				}
				return s.grep(ctx, pattern, pathsOf(args[1:]), *list)
			}
		},
	}
}

// matchedLine is a line in JSON.
type matchedLine struct {
	Path string `json:"path"`
	Line int    `json:"line,omitempty"` // from 1; without it the data is binary, or -l was asked for
	Text string `json:"text,omitempty"`
}

func (s *shell) grep(ctx context.Context, pattern *regexp.Regexp, paths []string, list bool) error {
	r := s.rows("path", "line", "text")
	defer r.end()
	matched := false
	visit := func(z *znode) error {
		if len(z.data) == 0 || !pattern.Match(z.data) {
			return nil
		}
		switch {
		case list:
			matched = true
			return r.add(row{plain: z.path, cells: []string{z.path, "", ""}, value: matchedLine{Path: z.path}})
		case binary(z.data):
			matched = true
			const text = "binary data matches"
			return r.add(row{plain: z.path + ": " + text, cells: []string{z.path, "", text}, value: matchedLine{Path: z.path}})
		}
		number := 0
		for line := range bytes.Lines(z.data) {
			number++
			line = bytes.TrimRight(line, "\r\n")
			if !pattern.Match(line) {
				continue
			}
			matched = true
			m := matchedLine{z.path, number, string(line)}
			err := r.add(row{
				plain: z.path + ":" + m.Text, cells: []string{m.Path, fmt.Sprint(m.Line), m.Text}, value: m,
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	refused := false
	for _, p := range paths {
		if err := s.scan(ctx, p, scanOptions{depth: -1, data: true}, visit); err != nil {
			if !errors.As(err, new(statusError)) {
				s.tell(err)
				return statusError{statusTrouble}
			}
			refused = true
		}
	}
	switch {
	case refused:
		return statusError{statusTrouble}
	case !matched:
		return statusError{statusFailed}
	}
	return nil
}

// statusTrouble is the status of commands whose status 1 is an answer.
const statusTrouble = 2

// binary reports whether data is no text: it has a NUL, or is no UTF-8.
func binary(data []byte) bool { return bytes.IndexByte(data, 0) >= 0 || !utf8.Valid(data) }
