package migrate

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// slow is an ensemble whose new server does not show its configuration when it is asked first.
// What the change itself does is not tested: it fails with errChange.
type slow struct {
	member.Ensemble
	members        client.Members
	changes, asked int
}

var errChange = errors.New("the change begins")

func (s *slow) Members(context.Context) (client.Members, error) {
	if s.changes++; s.changes > 1 {
		return client.Members{}, errChange
	}
	return s.members, nil
}

func (s *slow) Status(context.Context, string) (fourletter.Status, error) {
	return fourletter.Status{Mode: "follower"}, nil
}

func (s *slow) MembersAt(ctx context.Context, _ string) (client.Members, error) {
	if s.asked++; s.asked < 3 {
		<-ctx.Done()
		return client.Members{}, ctx.Err()
	}
	return s.members, nil
}

// A new server that has a role and does not answer a client in time is waited for.
func TestHostsWaitForASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := three()
		m := &slow{}
		for _, line := range []string{"1=a:1:2:participant;3", "2=b:1:2:participant;3"} {
			one, err := client.ParseMember(line)
			if err != nil {
				t.Fatal(err)
			}
			m.members.Members = append(m.members.Members, one)
		}
		added, err := client.ParseMember("4=d:1:2:participant;3")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		o := Options{Options: plan.Options{Yes: true, Wait: time.Minute}}
		err = Hosts(t.Context(), f, m, []Pair{{Old: 1, New: added}}, o, &plan.Printer{Out: &out}, nil)
		if !errors.Is(err, errChange) || m.asked != 3 {
			t.Errorf("%v, asked %d times\n%s", err, m.asked, out.String())
		}
	})
}
