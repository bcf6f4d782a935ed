package kerberos

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Mapping turns the principal of a client into the user that ACLs name, as
// ZooKeeper's servers do.
type Mapping struct {
	Rules     Rules
	DropHost  bool // kerberos.removeHostFromPrincipal
	DropRealm bool // kerberos.removeRealmFromPrincipal
}

// User returns the user of a principal: the short name that the first matching rule gives,
// then /HOST and @REALM as far as they exist and are not dropped. If no rule matches, or
// the one that matches gives a name with / or @, the user is the principal unchanged:
// Apache uses the identity that the client asks for then, which is the principal if the
// client is honest.
//
// The error reports a principal of more than two components, which has no name in
// ZooKeeper.
func (m *Mapping) User(principal string) (string, error) {
	service, host, realm, err := Split(principal)
	if err != nil {
		return "", err
	}
	user, ok := m.Rules.Short(service, host, realm)
	if !ok {
		return principal, nil
	}
	if host != "" && !m.DropHost {
		user += "/" + host
	}
	if realm != "" && !m.DropRealm {
		user += "@" + realm
	}
	return user, nil
}

var principalForm = regexp.MustCompile(`^([^/@]*)(?:/([^/@]*))?@([^/@]*)$`)

// Split parses SERVICE/HOST@REALM, NAME@REALM or a name without realm, which may contain
// a slash.
func Split(principal string) (service, host, realm string, err error) {
	if m := principalForm.FindStringSubmatch(principal); m != nil {
		return m[1], m[2], m[3], nil
	}
	if strings.Contains(principal, "@") {
		return "", "", "", fmt.Errorf("kerberos: principal %q has more than two components", principal)
	}
	return principal, "", "", nil
}

// Rules are zookeeper.security.auth_to_local: the first rule that matches counts. The zero
// value has no rule.
type Rules struct {
	list  []rule
	realm string
}

type rule struct {
	isDefault  bool
	components int // without the realm
	format     string
	match      *regexp.Regexp // nil: every name
	from       *regexp.Regexp // nil: no substitution
	to         string         // in Java's form
	repeat     bool
}

// Java's pattern, but for the brackets that RE2 wants escaped.
var ruleForm = regexp.MustCompile(`^\s*(?:(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?)`)

// ParseRules reads rules, separated by white space:
//
//	DEFAULT                        the first component, if the realm is defaultRealm
//	RULE:[N:FORMAT](REGEXP)s/FROM/TO/g   of a principal with N components; $0 in FORMAT is the
//	                               realm, $1 the first component; REGEXP must match all of it
//
// Regular expressions are RE2's: those of Java that look ahead or back, or refer to
// groups, are refused.
func ParseRules(text, defaultRealm string) (Rules, error) {
	r := Rules{realm: defaultRealm}
	rest := strings.TrimSpace(text)
	for rest != "" {
		m := ruleForm.FindStringSubmatchIndex(rest)
		if m == nil {
			return Rules{}, fmt.Errorf("invalid rule: %q", rest)
		}
		group := func(i int) (string, bool) {
			if m[2*i] < 0 {
				return "", false
			}
			return rest[m[2*i]:m[2*i+1]], true
		}
		one, err := newRule(group)
		if err != nil {
			return Rules{}, fmt.Errorf("rule %q: %w", strings.TrimSpace(rest[:m[1]]), err)
		}
		r.list = append(r.list, one)
		rest = strings.TrimSpace(rest[m[1]:])
	}
	return r, nil
}

// newRule builds a rule from the groups of ruleForm.
func newRule(group func(int) (string, bool)) (r rule, err error) {
	if _, r.isDefault = group(1); r.isDefault {
		return r, nil
	}
	count, _ := group(2)
	if r.components, err = strconv.Atoi(count); err != nil {
		return r, errors.New("no number of components")
	}
	r.format, _ = group(3)
	if match, ok := group(4); ok {
		if r.match, err = regexp.Compile(`^(?:` + match + `)$`); err != nil {
			return r, err
		}
	}
	if from, ok := group(5); ok {
		if r.from, err = regexp.Compile(from); err != nil {
			return r, err
		}
	}
	r.to, _ = group(6)
	_, r.repeat = group(7)
	return r, nil
}

// Short returns the short name of a principal. ok is false if no rule matches, or if the
// first that does gives no simple name. A name without host and realm is short already.
func (r *Rules) Short(service, host, realm string) (name string, ok bool) {
	if host == "" && realm == "" {
		return service, true
	}
	params := []string{realm, service}
	if host != "" {
		params = append(params, host)
	}
	for i := range r.list {
		name, matched, err := r.list[i].apply(params, r.realm)
		if err != nil || matched && strings.ContainsAny(name, "/@") {
			return "", false
		}
		if matched {
			return name, true
		}
	}
	return "", false
}

// apply returns what the rule makes of a principal: its realm and components.
func (r *rule) apply(params []string, defaultRealm string) (name string, matched bool, err error) {
	if r.isDefault {
		return params[1], params[0] == defaultRealm, nil
	}
	if r.components != len(params)-1 {
		return "", false, nil
	}
	base, err := fill(r.format, params)
	if err != nil || r.match != nil && !r.match.MatchString(base) {
		return "", false, err
	}
	if r.from == nil {
		return base, true, nil
	}
	name, err = r.substitute(base)
	return name, err == nil, err
}

// fill replaces $0, $1 … in the format.
func fill(format string, params []string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(format, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		digits := len(after) - len(strings.TrimLeft(after, "0123456789"))
		n, err := strconv.Atoi(after[:digits])
		if err != nil || n >= len(params) {
			return "", fmt.Errorf("no component $%s", after[:digits])
		}
		b.WriteString(params[n])
		format = after[digits:]
	}
}

// substitute replaces the first match of from, or all, as java.util.regex.Matcher does.
func (r *rule) substitute(base string) (string, error) {
	var b strings.Builder
	most, end := 1, 0
	if r.repeat {
		most = -1
	}
	for _, m := range r.from.FindAllStringSubmatchIndex(base, most) {
		b.WriteString(base[end:m[0]])
		if err := expand(&b, r.to, base, m); err != nil {
			return "", err
		}
		end = m[1]
	}
	b.WriteString(base[end:])
	return b.String(), nil
}

// expand appends a replacement in Java's form: $N is a group, with as many digits as such
// groups exist; a backslash escapes.
func expand(b *strings.Builder, to, base string, m []int) error {
	for i := 0; i < len(to); i++ {
		switch c := to[i]; c {
		case '\\':
			if i++; i == len(to) {
				return errors.New("the replacement ends with a backslash")
			}
			b.WriteByte(to[i])
		case '$':
			if i++; i == len(to) || to[i] < '0' || to[i] > '9' {
				return errors.New("the replacement has a $ without a number")
			}
			n := int(to[i] - '0')
			for i+1 < len(to) && '0' <= to[i+1] && to[i+1] <= '9' && n*10+int(to[i+1]-'0') < len(m)/2 {
				i++
				n = n*10 + int(to[i]-'0')
			}
			if n >= len(m)/2 {
				return fmt.Errorf("the replacement names group %d", n)
			}
			if m[2*n] >= 0 {
				b.WriteString(base[m[2*n]:m[2*n+1]])
			}
		default:
			b.WriteByte(c)
		}
	}
	return nil
}
