package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// errMemberForm describes the form of a server line.
var errMemberForm = errors.New("not of the form host:quorumPort:electionPort[:participant|observer]" +
	"[;[clientHost:]clientPort[;[secureHost:]securePort]]")

// ParseMember reads the value of a server line, as Line returns it.
func ParseMember(id int64, value string) (Member, error) { return parseMember(id, value) }

// parseMember reads the value of a server line. IP addresses are returned in their
// usual form (::1, 127.0.0.1), names as they are written.
func parseMember(id int64, value string) (Member, error) {
	s := Member{ID: id}
	parts := strings.Split(value, ";")
	if len(parts) > 3 {
		return s, errMemberForm
	}
	if err := s.addAddresses(parts[0]); err != nil {
		return s, err
	}
	var err error
	if len(parts) > 1 && parts[1] != "" {
		s.HasClient = true
		if s.ClientHost, s.ClientPort, err = parseListen(parts[1]); err != nil {
			return s, err
		}
	}
	if len(parts) > 2 && parts[2] != "" {
		s.HasSecure = true
		if s.SecureHost, s.SecurePort, err = parseListen(parts[2]); err != nil {
			return s, err
		}
	}
	return s, nil
}

// maxAddresses bounds the addresses of one server.
const maxAddresses = 16

// addAddresses reads addresses separated by |. One of them may have the role; Apache
// writes it after the last.
func (s *Member) addAddresses(text string) error {
	role := ""
	for address := range strings.SplitSeq(text, "|") {
		a, r, err := parseAddress(address)
		switch {
		case err != nil:
			return err
		case r != "" && role != "" && r != role:
			return errors.New("the addresses of one server have different roles")
		case len(s.Addresses) == maxAddresses:
			return fmt.Errorf("more than %d addresses", maxAddresses)
		case r != "":
			role = r
		}
		s.Addresses = append(s.Addresses, a)
	}
	s.Observer = role == observer
	return nil
}

// parseAddress reads host:quorumPort:electionPort[:role]. The role is "" if
// there is none.
func parseAddress(text string) (a MemberAddress, role string, err error) {
	host, fields, err := cutHost(text)
	if err != nil {
		return a, "", err
	}
	if len(fields) != 2 && len(fields) != 3 {
		return a, "", errMemberForm
	}
	a.Host = host
	if a.QuorumPort, err = parsePort(fields[0]); err != nil {
		return a, "", err
	}
	if a.ElectionPort, err = parsePort(fields[1]); err != nil {
		return a, "", err
	}
	switch {
	case a.QuorumPort == 0 || a.ElectionPort == 0:
		return a, "", errors.New("port 0 is not allowed: no peer could reach it")
	case a.QuorumPort == a.ElectionPort:
		return a, "", fmt.Errorf("quorum port and election port are both %d", a.QuorumPort)
	case len(fields) == 3:
		role, err = parseRole(fields[2])
	}
	return a, role, err
}

// The roles, as Text writes them.
const (
	participant = "participant"
	observer    = "observer"
)

// parseRole reads participant or observer, in any case.
func parseRole(s string) (string, error) {
	switch role := strings.ToLower(strings.TrimSpace(s)); role {
	case participant, observer:
		return role, nil
	}
	return "", errors.New("is not participant or observer")
}

// parseListen reads [host:]port.
func parseListen(text string) (host string, port int, err error) {
	if !strings.Contains(text, ":") {
		port, err = parsePort(text)
		return "0.0.0.0", port, err
	}
	host, fields, err := cutHost(text)
	if err != nil {
		return "", 0, err
	}
	if len(fields) != 1 {
		return "", 0, errMemberForm
	}
	port, err = parsePort(fields[0])
	return host, port, err
}

// cutHost splits text into the host, an IPv6 address in brackets or a name, and the
// fields after it.
func cutHost(text string) (host string, fields []string, err error) {
	rest, bracketed := strings.CutPrefix(text, "[")
	if !bracketed {
		fields = strings.Split(text, ":")
		if fields[0] == "" {
			return "", nil, errMemberForm
		}
		host, err = parseHost(fields[0])
		return host, fields[1:], err
	}
	host, rest, ok := strings.Cut(rest, "]")
	if !ok || host == "" || !strings.HasPrefix(rest, ":") {
		return "", nil, errMemberForm
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.Is6() {
		return "", nil, fmt.Errorf("%q is not an IPv6 address", host)
	}
	return ip.Unmap().String(), strings.Split(rest[1:], ":"), nil
}

// maxHostBytes is the maximum length of a DNS name.
const maxHostBytes = 253

// parseHost reads a name or an IPv4 address. It refuses a number, or four of them, that
// are not a usual address (127.1, 010.0.0.1): Java and the system's resolver read some
// of them as different addresses.
func parseHost(text string) (string, error) {
	number := true
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9' || c == '.':
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_':
			number = false
		default:
			return "", fmt.Errorf("%q is not a host name", text)
		}
	}
	if len(text) > maxHostBytes {
		return "", fmt.Errorf("a host name of more than %d bytes", maxHostBytes)
	}
	if !number {
		return text, nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return "", fmt.Errorf("%q is neither a host name nor an IP address", text)
	}
	return ip.String(), nil
}

func parsePort(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err == nil {
		return int(n), nil
	}
	err = fmt.Errorf("%q is not a port number", s)
	if isNumber(s) {
		err = unreadable{err}
	}
	return 0, err
}
