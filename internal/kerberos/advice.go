package kerberos

import (
	"fmt"
	"strings"
)

const wayUnknown = "the service's KDC does not know the way of %s through other realms: name these in the section capaths of its krb5.conf"

// advices are what to do about an error of the KDC, or of gokrb5 about it, by a part of its
// text: gokrb5 has no other form of it.
var advices = []struct{ part, what string }{
	{"KDC_ERR_S_PRINCIPAL_UNKNOWN", "the KDC does not know the service: use the host in the server's principal, or add the principal with kadmin's addprinc"},
	{"KDC_ERR_C_PRINCIPAL_UNKNOWN", "the KDC does not know %s: add it with kadmin's addprinc"},
	{"KDC_ERR_PREAUTH_FAILED", "the KDC has another key of %s: bring the newest with kadmin's ktadd"},
	{"AS_REP is not valid", "the KDC has another key of %s: bring the newest with kadmin's ktadd"},
	{"KDC_ERR_KEY_EXPIRED", "the key of %s has expired: make a new one with kadmin's ktadd"},
	{"KDC_ERR_CLIENT_REVOKED", "the KDC has locked %s"},
	{"KDC_ERR_ETYPE_NOSUPP", "the KDC has no key of an accepted encryption type: make AES keys with kadmin's ktadd"},
	{"BAD_TRANSIT", wayUnknown},
	{"KDC_ERR_PATH_NOT_ACCEPTED", wayUnknown},
	{"KRB_AP_ERR_SKEW", "the clocks of this machine and the KDC differ: set both by NTP"},
	{"clock skew", "the clocks of this machine and the KDC differ: set both by NTP"},
	{"KRB_AP_ERR_TKT_EXPIRED", "the ticket of %s has expired: run kinit"},
	{"Networking_Error", "no KDC answers: is the section realms of krb5.conf right?"},
}

// advise puts what to do before an error that kept the client from a ticket.
func advise(err error, client string) error {
	text := err.Error()
	for _, a := range advices {
		if strings.Contains(text, a.part) {
			return fmt.Errorf("%s: %w", strings.ReplaceAll(a.what, "%s", client), err)
		}
	}
	return err
}
