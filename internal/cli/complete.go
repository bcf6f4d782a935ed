package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// Bounds of completion: how long it may take, and how many words it shows.
const (
	completeTime = 2 * time.Second
	completeMost = 100
)

// completions are the words that an incomplete word can become.
type completions struct {
	words []string // sorted
	start int      // where the word begins in the line, its quote included
	// open says of the only word that more may follow it without a space: a
	// directory, a znode that has children.
	open bool
}

// complete returns what the word may become that ends at the end of line.
func (s *shell) complete(ctx context.Context, line string) completions {
	words, begun, start, quote := splitBegun(line)
	var c completions
	if len(words) == 0 {
		c.words = s.names()
	} else if command, known := s.find(words[0]); known {
		c = s.completeArgument(ctx, command, words[1:], begun)
	}
	c.words = slices.DeleteFunc(c.words, func(w string) bool { return !strings.HasPrefix(w, begun) })
	slices.Sort(c.words)
	c.words = slices.Compact(c.words)
	c.start = start
	for i, w := range c.words {
		c.words[i] = quoted(w, quote)
	}
	return c
}

// names are those of the commands.
func (s *shell) names() (list []string) {
	for _, c := range s.commands {
		list = append(list, c.name)
	}
	return list
}

// splitBegun splits a line into its whole words, and the last that is not ended
// by a space: without its quote, and where it begins.
func splitBegun(line string) (words []string, begun string, start int, quote byte) {
	rest := line
	for {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		start = len(line) - len(rest)
		word, after, found, err := nextWord(rest)
		switch {
		case err != nil: // a quote that is not closed
			return words, rest[1:], start, rest[0]
		case !found || after == "" && rest[0] != '"' && rest[0] != '\'':
			return words, rest, start, 0
		}
		words, rest = append(words, word), after
	}
}

// quoted returns a word in a form that splitLine parses into the same word. quote is the
// quote that the user has typed before it, or 0.
func quoted(word string, quote byte) string {
	if quote == 0 && !strings.ContainsFunc(word, unicode.IsSpace) {
		return word
	}
	if quote == 0 {
		quote = '"'
	}
	return string(quote) + word
}

// completeArgument returns the completions of begun, an option or argument that
// follows words.
func (s *shell) completeArgument(ctx context.Context, c command, words []string, begun string) completions {
	if c.raw && len(words) > 0 {
		inner, known := s.find(words[0])
		if !known {
			return completions{}
		}
		return s.completeArgument(ctx, inner, words[1:], begun)
	}
	f := newFlagSet(c.name)
	if c.setup != nil {
		c.setup(f)
	}
	if strings.HasPrefix(begun, "-") {
		return completions{words: optionsOf(f, begun)}
	}
	args, err := parse(f, append(slices.Clone(words), "--", begun), true)
	if err != nil || len(args) == 0 || len(c.complete) == 0 {
		return completions{}
	}
	switch c.complete[min(len(args), len(c.complete))-1] {
	case argPath:
		return s.completePath(ctx, begun)
	case argFile:
		return completeFile(begun)
	case argCommand:
		return completions{words: s.names()}
	}
	return completions{}
}

// optionsOf returns the options of a command: single letters with one dash, names with
// two.
func optionsOf(f *pflag.FlagSet, begun string) []string {
	var list []string
	f.VisitAll(func(flag *pflag.Flag) {
		switch {
		case strings.HasPrefix(begun, "--"):
			list = append(list, "--"+flag.Name)
		case flag.Shorthand != "":
			list = append(list, "-"+flag.Shorthand)
		default:
			list = append(list, "-"+flag.Name)
		}
	})
	return list
}

// completePath returns the znodes whose paths begin with begun. Without a
// connection there are none: Tab does not wait for one to be made.
func (s *shell) completePath(ctx context.Context, begun string) completions {
	slash := strings.LastIndexByte(begun, '/')
	if slash < 0 {
		if begun == "" {
			return completions{words: []string{"/"}, open: true}
		}
		return completions{}
	}
	if s.conn == nil {
		return completions{}
	}
	ctx, stop := context.WithTimeout(ctx, completeTime)
	defer stop()
	parent := begun[:max(slash, 1)]
	names, _, err := s.conn.Children(ctx, parent)
	if err != nil {
		return completions{} // no such znode, no rights, no answer: nothing to offer
	}
	var c completions
	for _, name := range names {
		if strings.HasPrefix(name, begun[slash+1:]) {
			c.words = append(c.words, childPath(parent, name))
		}
	}
	if len(c.words) == 1 {
		stat, _, err := s.conn.Exists(ctx, c.words[0])
		c.open = err == nil && stat.NumChildren > 0
	}
	return c
}

// completeFile returns the files on this machine that begin so.
func completeFile(begun string) completions {
	dir, prefix := filepath.Split(begun)
	entries, err := os.ReadDir(filepath.Clean("./" + dir))
	if filepath.IsAbs(begun) {
		entries, err = os.ReadDir(dir)
	}
	if err != nil {
		return completions{}
	}
	var c completions
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || strings.HasPrefix(e.Name(), ".") && prefix == "" {
			continue
		}
		word := dir + e.Name()
		if e.IsDir() {
			word += "/"
		}
		c.words = append(c.words, word)
	}
	c.open = len(c.words) == 1 && strings.HasSuffix(c.words[0], "/")
	return c
}

// completeLine is what Tab does: it completes the word before the cursor as far
// as it is certain, and shows what it may be if that is not far.
func (s *shell) completeLine(ctx context.Context, screen io.Writer, line string, pos int) (newLine string, newPos int, ok bool) {
	c := s.complete(ctx, line[:pos])
	if len(c.words) == 0 {
		return line, pos, true
	}
	word := commonPrefix(c.words)
	if len(c.words) == 1 && !c.open {
		if q := word[0]; q == '"' || q == '\'' {
			word += string(q)
		}
		word += " "
	}
	if len(c.words) == 1 && c.open && word == line[c.start:pos] && !strings.HasSuffix(word, "/") {
		word += "/" // the node is typed: on to its children
	}
	if len(c.words) > 1 && word == line[c.start:pos] {
		s.showCompletions(screen, c.words)
	}
	return line[:c.start] + word + line[pos:], c.start + len(word), true
}

func commonPrefix(words []string) string {
	prefix := words[0]
	for _, w := range words[1:] {
		for !strings.HasPrefix(w, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	return strings.ToValidUTF8(prefix, "")
}

// showCompletions prints words in columns. Of paths it prints the part after the last
// slash.
func (s *shell) showCompletions(screen io.Writer, words []string) {
	more := len(words) - completeMost
	words = words[:min(len(words), completeMost)]
	names := make([]string, len(words))
	width := 0
	for i, w := range words {
		names[i] = w[strings.LastIndexByte(strings.TrimSuffix(w, "/"), '/')+1:]
		width = max(width, len([]rune(names[i])))
	}
	total, _ := s.console.size()
	perLine := max(1, total/(width+2))
	var b strings.Builder
	for i, name := range names {
		switch {
		case i%perLine == perLine-1 || i == len(names)-1:
			b.WriteString(name + "\n")
		default:
			fmt.Fprintf(&b, "%-*s", width+2, name)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	io.WriteString(screen, b.String())
}

// Complete returns what the last of words may become, for the completion of
// shells: words are what follows `pinfold cli`, the last one begun. It connects
// as o says, for no longer than completion may take.
func Complete(ctx context.Context, o Options, args []string, begun string) []string {
	ctx, stop := context.WithTimeout(ctx, completeTime)
	defer stop()
	o.In, o.Out, o.Err = strings.NewReader(""), io.Discard, io.Discard
	s, err := newShell(o)
	if err != nil {
		return nil
	}
	defer s.disconnect()
	if len(args) == 0 {
		return s.complete(ctx, begun).words
	}
	c, known := s.find(args[0])
	if !known {
		return nil
	}
	if strings.HasPrefix(begun, "/") {
		if _, err := s.client(ctx); err != nil {
			return nil
		}
	}
	words := s.completeArgument(ctx, c, args[1:], begun).words
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasPrefix(w, begun) })
	slices.Sort(words)
	return words
}
