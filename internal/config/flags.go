package config

import "strings"

// A definition is one -Dname=value.
type definition struct {
	name  string
	value string
	where string // "command line" or "SERVER_JVMFLAGS"
}

// FlagProperties returns the -Dname=value of a text that is split as by a shell. Of one name the last
// one counts.
func FlagProperties(text string) map[string]string {
	values := map[string]string{}
	for _, d := range parseFlags(splitWords(text), "") {
		values[d.name] = d.value
	}
	return values
}

// parseFlags returns the -Dname=value of a list of words. -Dname alone sets the empty
// string, as in Java. Other words (-Xmx1g, -XX:..., -server, ...) are for a JVM; they
// are ignored.
func parseFlags(words []string, where string) []definition {
	var all []definition
	for _, w := range words {
		def, ok := strings.CutPrefix(w, "-D")
		if !ok || def == "" {
			continue
		}
		name, value, _ := strings.Cut(def, "=")
		all = append(all, definition{name, value, where})
	}
	return all
}

// splitWords splits s like a POSIX shell: blanks separate words; single quotes keep all
// characters; double quotes keep all but \\, \", \$, \` and an escaped end of line;
// elsewhere a backslash keeps the next character. Nothing is expanded. An unclosed
// quote ends with the input.
func splitWords(s string) []string {
	var words []string
	var word []byte
	started := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\t', '\n', '\r':
			if started {
				words, word, started = append(words, string(word)), word[:0], false
			}
		case '\'':
			started = true
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				end = len(s) - i - 1
			}
			word = append(word, s[i+1:i+1+end]...)
			i += end + 1
		case '"':
			started = true
			word, i = doubleQuoted(word, s, i+1)
		case '\\':
			i++
			if i < len(s) && s[i] != '\n' {
				started = true
				word = append(word, s[i])
			}
		default:
			started = true
			word = append(word, c)
		}
	}
	if started {
		words = append(words, string(word))
	}
	return words
}

// doubleQuoted appends the text from s[i] to the closing quote, and returns the
// position of the quote.
func doubleQuoted(word []byte, s string, i int) ([]byte, int) {
	for ; i < len(s) && s[i] != '"'; i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte("\\\"$`\n", s[i+1]) >= 0 {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		word = append(word, s[i])
	}
	return word, i
}
