package auth

import (
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/zk"
)

// The scheme x509 exists with a TLS port only, and its identities come from certificates
// alone.
func TestX509(t *testing.T) {
	const owner, admin = "CN=owner,O=Test", "CN=admin,O=Test"
	a := mustNew(t, Config{X509: true, X509SuperUser: admin})
	list := &access.List{Entries: []zk.ACL{entry(zk.PermAll, "x509", owner)}}
	ids := a.Certified(owner, []zk.ID{peer})
	if !slices.Equal(ids, []zk.ID{peer, {Scheme: "x509", ID: owner}}) || !a.Allowed(list, zk.PermRead, ids) {
		t.Errorf("%v", ids)
	}
	other := a.Certified("CN=other", []zk.ID{peer})
	super := a.Certified(admin, []zk.ID{peer})
	if a.Allowed(list, zk.PermRead, other) || !a.Allowed(list, zk.PermRead, super) {
		t.Error("another subject may read, or the superuser may not")
	}
	if _, v := a.Authenticate("x509", nil, []zk.ID{peer}); v != Refused {
		t.Error("x509 without a certificate")
	}
	if got, v := a.Authenticate("x509", []byte(admin), ids); v != Accepted || !slices.Equal(got, ids) {
		t.Errorf("%v, %v", got, v)
	}
	if acl, code := a.FixUp(zk.CreatorAllACL(), ids); code != zk.OK || acl[0].ID.ID != owner {
		t.Errorf("%v, %v", acl, code)
	}
	long := &access.List{}
	for i := range FewEntries + 1 {
		long.Entries = append(long.Entries, entry(zk.PermAll, "ip", "1.2.3."+string(rune('0'+i%10))))
	}
	long.Entries = append(long.Entries, list.Entries...)
	if !a.Allowed(long, zk.PermRead, ids) || a.Allowed(long, zk.PermRead, other) {
		t.Error("a list with an index")
	}
	off := mustNew(t, Config{X509SuperUser: admin})
	if got := off.Certified(admin, []zk.ID{peer}); len(got) != 1 || off.Allowed(list, zk.PermRead, ids) {
		t.Errorf("without the scheme: %v", got)
	}
}

func TestIsSubject(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "CN=a": true, "CN=a,O=b": true, "cn = a ; o=b+OU=c": true, `CN="a,b"`: true, `CN=a\,b`: true, "1.2.3=#0500": true,
		"OID.1.2=a": true, "EMAILADDRESS=a@b": true, "CN=": true,
		"a": false, "CN=a,b": false, "XX=a": false, `CN="a`: false, `CN=a\`: false, "1=a": false, ",": false, " ": false,
	} {
		if isSubject(text) != ok {
			t.Errorf("%q: %v", text, !ok)
		}
	}
}
