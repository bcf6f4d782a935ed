package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// splitLine splits a line into words as zkCli.sh does. Words are separated by
// white space. One that begins with a quote, ' or ", goes to the next such
// quote, without the two; a quote elsewhere is an ordinary character, and so is
// a backslash: {"a":1} is one word. A quote that is not closed is a
// usage error, where zkCli.sh drops the quote.
func splitLine(line string) ([]string, error) {
	var words []string
	for {
		word, rest, found, err := nextWord(line)
		if err != nil || !found {
			return words, err
		}
		words, line = append(words, word), rest
	}
}

// nextWord takes the first word off a line.
func nextWord(line string) (word, rest string, found bool, err error) {
	line = strings.TrimLeftFunc(line, unicode.IsSpace)
	if line == "" {
		return "", "", false, nil
	}
	if quote := line[0]; quote == '\'' || quote == '"' {
		end := strings.IndexByte(line[1:], quote)
		if end < 0 {
			return "", "", false, usageError{"the quote " + string(quote) + " is not closed: " + shorten(line, 40)}
		}
		return line[1 : 1+end], line[end+2:], true, nil
	}
	end := strings.IndexFunc(line, unicode.IsSpace)
	if end < 0 {
		end = len(line)
	}
	return line[:end], line[end:], true, nil
}

// splitCommands splits the text of -c into lines. Commands are separated by
// line breaks, and by a ";" outside of quotes at the end of a word:
// that of "server.1=h:2888:3888;2181" separates nothing.
func splitCommands(text string) []string {
	var lines []string
	start, atWord := 0, true // atWord: the next character begins a word
	quote := rune(0)
	for i, r := range text {
		switch {
		case quote != 0:
			if r == quote {
				quote, atWord = 0, true
			}
			continue
		case atWord && (r == '\'' || r == '"'):
			quote = r
		case r == '\n', r == ';' && endsWord(text[i+1:]):
			lines, start = append(lines, text[start:i]), i+1
		}
		atWord = unicode.IsSpace(r) || r == ';' && start == i+1
	}
	return append(lines, text[start:])
}

// endsWord reports whether nothing or white space follows.
func endsWord(rest string) bool {
	next, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || unicode.IsSpace(next)
}

// shorten cuts a text for a message.
func shorten(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit]) + "…"
}
