package auth

import (
	"slices"
	"strconv"
	"strings"
)

// keywords are the names of attributes that Java reads in a subject.
var keywords = []string{
	"CN", "C", "L", "ST", "O", "OU", "STREET", "DC", "UID",
	"S", "T", "IP", "DNQUALIFIER", "DNQ", "SURNAME", "GIVENNAME", "INITIALS", "GENERATION", "EMAILADDRESS", "SERIALNUMBER",
}

// isSubject reports whether an ACL may name the subject: attributes, each with a keyword
// or a number, "=" and a value, separated by commas, semicolons or plus signs.
func isSubject(text string) bool {
	if strings.TrimSpace(text) == "" {
		return text == ""
	}
	quoted, escaped, start := false, false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == ';' || c == '+'):
			if !isAttribute(text[start:i]) {
				return false
			}
			start = i + 1
		}
	}
	return !quoted && !escaped && isAttribute(text[start:])
}

func isAttribute(text string) bool {
	name, _, ok := strings.Cut(text, "=")
	name = strings.ToUpper(strings.TrimSpace(name))
	if !ok || slices.Contains(keywords, name) {
		return ok
	}
	numbers := strings.Split(strings.TrimPrefix(name, "OID."), ".")
	for _, n := range numbers {
		if _, err := strconv.ParseUint(n, 10, 64); err != nil {
			return false
		}
	}
	return len(numbers) > 1
}
