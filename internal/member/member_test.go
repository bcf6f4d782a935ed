package member

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/fourletter"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server of the fake ensemble, by its address for clients.
type server struct {
	mode  string // "" is down
	zxid  zk.Zxid
	lines string // its configuration, if it is another's
}

// fake is an ensemble in which every change succeeds at once.
type fake struct {
	lines   []string
	version zk.Zxid
	servers map[string]*server
	joiner  string            // a line that the server of the session has besides, which is no member
	known   map[string]bool   // names that resolve everywhere
	asked   []client.Reconfig // all that were carried out
	errs    []error           // of the next reconfigurations
	meddles func(*fake)       // after a question for the members
	writes  int
	admin   bool
	lookUps map[int64]error
}

// three is an ensemble of three, of which server 3 leads, and server 4, which follows it.
func three() *fake {
	f := &fake{version: 0x100000001, servers: map[string]*server{}, known: map[string]bool{"zk4": true}}
	for i, mode := range []string{"follower", "follower", "leader", "observer"} {
		id := i + 1
		if id < 4 {
			f.lines = append(f.lines, fmt.Sprintf("server.%d=10.0.0.%d:2888:3888:participant;0.0.0.0:2181", id, id))
		}
		f.servers[fmt.Sprintf("10.0.0.%d:2181", id)] = &server{mode: mode, zxid: 0x100000005}
	}
	f.servers["zk4:2181"] = f.servers["10.0.0.4:2181"]
	return f
}

func (f *fake) text() []byte {
	return fmt.Appendf(nil, "%s\nversion=%x", strings.Join(f.lines, "\n"), int64(f.version))
}

func (f *fake) Members(context.Context) (client.Members, error) {
	m, err := client.ParseMembers(append([]byte(f.joiner+"\n"), f.text()...))
	if f.meddles != nil {
		f.meddles(f)
	}
	return m, err
}

func (f *fake) MembersAt(_ context.Context, addr string) (client.Members, error) {
	if s := f.servers[addr]; s.lines != "" {
		return client.ParseMembers([]byte(s.lines))
	}
	return client.ParseMembers(f.text())
}

func (f *fake) Status(_ context.Context, addr string) (fourletter.Status, error) {
	s := f.servers[addr]
	if s == nil || s.mode == "" {
		return fourletter.Status{}, errors.New("connection refused")
	}
	return fourletter.Status{Version: "3.9.4", Mode: s.mode, Zxid: s.zxid}, nil
}

func (f *fake) LookUp(_ context.Context, at *client.Member, host string) error {
	if at == nil {
		if f.known[host] {
			return nil
		}
		return errors.New("no such host")
	}
	if f.lookUps == nil {
		return ErrNotAsked
	}
	return f.lookUps[at.ID]
}

// Reconfig makes the change, and has every server take its role.
func (f *fake) Reconfig(_ context.Context, change client.Reconfig) error {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		if err != nil {
			return err
		}
	}
	if change.From != int64(f.version) {
		return zk.ErrBadVersion
	}
	f.asked = append(f.asked, change)
	f.version++
	var kept []string
	for _, line := range f.lines {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "server."), "=")
		joins := strings.HasPrefix(change.Joining, "server."+id+"=")
		if id != change.Leaving && !joins {
			kept = append(kept, line)
		}
	}
	if f.lines = kept; change.Joining != "" {
		f.lines = append(f.lines, change.Joining)
	}
	f.elect()
	return nil
}

// elect gives each member its role; the first with a vote leads, unless one does.
func (f *fake) elect() {
	m, err := client.ParseMembers(f.text())
	if err != nil {
		panic(err)
	}
	leads := false
	for pass := range 2 {
		for _, one := range m.Members {
			s := f.servers[one.ClientAddr()]
			switch {
			case s == nil || s.mode == "":
			case one.Observer:
				s.mode = "observer"
			case pass == 0 && s.mode == "leader":
				leads = true
			case pass == 1 && !leads:
				s.mode, leads = "leader", true
			case pass == 1 && s.mode == "observer":
				s.mode = "follower"
			}
		}
	}
}

func (f *fake) Write(context.Context) error {
	f.writes++
	for _, s := range f.servers {
		s.zxid++
	}
	return nil
}

func (f *fake) CanHandOver(int64) bool { return f.admin }

func (f *fake) HandOver(_ context.Context, leader *client.Member) error {
	f.servers[leader.ClientAddr()].mode = "follower"
	f.elect()
	return nil
}

// do runs a command, in virtual time, and returns what it prints.
func do(t *testing.T, f *fake, c Command, o plan.Options) (out string, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		if o.Wait == 0 {
			o.Wait = time.Minute
		}
		err = Run(t.Context(), f, c, o, &plan.Printer{Out: &b}, func() bool { return false })
		out = b.String()
	})
	return out, err
}

func line(t *testing.T, text string) client.Member {
	t.Helper()
	m, err := client.ParseMember(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const fourth = "4=10.0.0.4:2888:3888;2181"

// Each command makes its changes, in their order.
func TestCommandsChange(t *testing.T) {
	for _, tt := range []struct {
		name    string
		command func() Command
		want    string // joining/leaving of each change
		leader  int
	}{
		{"add", func() Command { return Command{Name: "add", New: line(t, fourth)} },
			"server.4=10.0.0.4:2888:3888:participant;0.0.0.0:2181/", 3},
		{"remove", func() Command { return Command{Name: "remove", ID: 3} }, "/3", 1},
		{"demote", func() Command { return Command{Name: "demote", ID: 1} },
			"server.1=10.0.0.1:2888:3888:observer;0.0.0.0:2181/", 3},
		{"replace", func() Command { return Command{Name: "replace", ID: 2, New: line(t, fourth)} },
			"server.4=10.0.0.4:2888:3888:observer;0.0.0.0:2181/ server.4=10.0.0.4:2888:3888:participant;0.0.0.0:2181/2", 3},
		{"move-leader", func() Command { return Command{Name: "move-leader"} },
			"server.3=10.0.0.3:2888:3888:observer;0.0.0.0:2181/ server.3=10.0.0.3:2888:3888:participant;0.0.0.0:2181/", 1},
	} {
		f := three()
		out, err := do(t, f, tt.command(), plan.Options{Yes: true})
		var got []string
		for _, r := range f.asked {
			got = append(got, r.Joining+"/"+r.Leaving)
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v\nchanges %q\nwant    %q\n%s", tt.name, err, got, tt.want, out)
		}
		if f.servers[fmt.Sprintf("10.0.0.%d:2181", tt.leader)].mode != "leader" {
			t.Errorf("%s: server %d does not lead", tt.name, tt.leader)
		}
	}
}

// A leader that can be asked hands over, without a change of the configuration.
func TestMoveLeaderByHandOver(t *testing.T) {
	f := three()
	f.admin = true
	if out, err := do(t, f, Command{Name: "move-leader"}, plan.Options{Yes: true}); err != nil || len(f.asked) > 0 || f.servers["10.0.0.1:2181"].mode != "leader" {
		t.Errorf("%v, changes %v\n%s", err, f.asked, out)
	}
}

// What would harm the ensemble is refused, before anything is changed, with what to do.
func TestRefusals(t *testing.T) {
	add := func(text string) Command { return Command{Name: "add", New: line(t, text)} }
	down := func(id int) func(*fake) {
		return func(f *fake) { f.servers[fmt.Sprintf("10.0.0.%d:2181", id)].mode = "" }
	}
	for _, tt := range []struct {
		name    string
		prepare func(*fake)
		command Command
		want    []string
	}{
		{"the new server is down", down(4), add(fourth), []string{"is not in sync with the leader", "myid has 4", "\n    server.4=10.0.0.4:2888:3888:observer;0.0.0.0:2181\n"}},
		{"it leads another ensemble", func(f *fake) { f.servers["10.0.0.4:2181"].mode = "leader" }, add(fourth), []string{"leads an ensemble of its own"}},
		{"it follows another ensemble", func(f *fake) { f.servers["10.0.0.4:2181"].lines = "server.1=10.9.9.9:2888:3888;2181" }, add(fourth), []string{"follows another ensemble"}},
		{"a name that nobody knows", nil, add("4=zk9:2888:3888;2181"), []string{"zk9 cannot be resolved on this machine: no such host"}},
		{"a name that one member does not know", func(f *fake) { f.lookUps = map[int64]error{2: errors.New("no such host")} }, add("4=zk4:2888:3888;2181"), []string{"server 2 cannot resolve zk4: no such host"}},
		{"a member already", nil, add("2=10.0.0.4:2888:3888;2181"), []string{"server 2 is a member already", "replace"}},
		{"ports of another", nil, add("4=10.0.0.1:3888:4888;2181"), []string{"server 1 has a port of 10.0.0.1 already"}},
		{"no client port", nil, add("4=10.0.0.4:2888:3888"), []string{"no address for clients"}},
		{"the majority would be gone", down(1), Command{Name: "remove", ID: 3}, []string{"of the 2 voters after the change, 1 and 2, only 2 serve with a vote now; 2 are needed", "start 1"}},
		{"one would be left", func(f *fake) { f.lines = f.lines[1:] }, Command{Name: "remove", ID: 2}, []string{"1 voters would be left"}},
		{"the leader moves, and nobody could follow it", down(1), Command{Name: "move-leader"}, []string{"are needed for a majority"}},
		{"no member", nil, Command{Name: "remove", ID: 7}, []string{"server 7 is no member", "pinfold member list"}},
		{"a participant already", nil, Command{Name: "promote", ID: 1}, []string{"server 1 is a participant already"}},
		{"an observer that is down", func(f *fake) {
			f.lines[0] = strings.Replace(f.lines[0], "participant", "observer", 1)
			down(1)(f)
		}, Command{Name: "promote", ID: 1}, []string{"server 1 is not in sync"}},
		{"a line without a client port", func(f *fake) { f.lines[0], _, _ = strings.Cut(f.lines[0], ";") }, Command{Name: "demote", ID: 1}, []string{"the line of server 1 has no address for clients"}},
		{"the same id", nil, Command{Name: "replace", ID: 2, New: line(t, "2=10.0.0.4:2888:3888;2181")}, []string{"the new server has the id of the old one"}},
		{"two participants", nil, Command{Name: "replace", ID: 2, New: line(t, "1=10.0.0.1:2888:3888;2181")}, []string{"server 1 is a member already"}},
		{"groups", func(f *fake) { f.lines = append(f.lines, "group.1=1:2:3", "weight.1=2") }, Command{Name: "remove", ID: 1}, []string{"groups or weights", "reconfig -file"}},
		{"no leader", down(3), Command{Name: "remove", ID: 1}, []string{"no member says that it leads", "server 1 is follower"}},
	} {
		f := three()
		if tt.prepare != nil {
			tt.prepare(f)
		}
		before := string(f.text())
		out, err := do(t, f, tt.command, plan.Options{Yes: true})
		if !errors.Is(err, plan.ErrRefused) || string(f.text()) != before || f.writes > 0 {
			t.Errorf("%s: %v, %d writes\n%s", tt.name, err, f.writes, out)
		}
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: the output does not have %q:\n%s", tt.name, want, out)
			}
		}
	}
}

// What the plan warns of does not keep it from being carried out.
func TestWarnings(t *testing.T) {
	f := three()
	out, err := do(t, f, Command{Name: "add", New: line(t, "4=zk4:2888:3888;2181")}, plan.Options{DryRun: true})
	for _, want := range []string{"whether 1, 2 and 3 can is not known", "4 voters survive no more failures than 3", "  step 1   server 4 becomes a participant"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: no %q in\n%s", err, want, out)
		}
	}
	f.lookUps = map[int64]error{}
	if out, _ = do(t, f, Command{Name: "add", New: line(t, "4=zk4:2888:3888;2181")}, plan.Options{DryRun: true}); !strings.Contains(out, "zk4 can be resolved here and by 1, 2 and 3") {
		t.Error(out)
	}
	if len(f.asked) > 0 {
		t.Error("a dry run changes the members")
	}
	if out, err = do(t, f, Command{Name: "remove", ID: 3}, plan.Options{}); !errors.Is(err, plan.ErrDeclined) || len(f.asked) > 0 || !strings.Contains(out, "server 3 leads: another voter takes over") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Errors that end by themselves are waited for, an answer that is lost is looked up, and
// others end the command.
func TestErrorsOfAChange(t *testing.T) {
	remove := Command{Name: "remove", ID: 2}
	for _, tt := range []struct {
		name    string
		errs    []error
		meddles func(*fake)
		want    string // in the error; "" for none
		changes int
	}{
		{"waits", []error{zk.ErrNewConfigNoQuorum, zk.ErrReconfigInProgress, nil}, nil, "", 1},
		{"never", slices.Repeat([]error{zk.ErrNewConfigNoQuorum}, 100), nil, "not within 1s: the leader waits for a quorum", 0},
		{"no right", []error{zk.ErrNoAuth}, nil, "--auth-file", 0},
		{"disabled", []error{zk.ErrReconfigDisabled}, nil, "reconfigEnabled=true", 0},
		{"bad", []error{zk.ErrBadArguments}, nil, "the leader refuses the change", 0},
		{"old", []error{zk.ErrUnimplemented}, nil, "Apache ZooKeeper before 3.5", 0},
		{"lost, and made", []error{zk.ErrConnectionLoss}, func(f *fake) {
			if len(f.errs) == 0 && len(f.lines) == 3 {
				f.lines, f.version = append(f.lines[:1:1], f.lines[2]), f.version+1
			}
		}, "", 0},
		{"lost, and not made", []error{zk.ErrConnectionLoss}, nil, "", 1},
		{"another's change", []error{zk.ErrBadVersion}, func(f *fake) {
			if len(f.errs) == 0 {
				f.version++
			}
		}, "changed by another", 0},
	} {
		f := three()
		f.errs, f.meddles = tt.errs, tt.meddles
		out, err := do(t, f, remove, plan.Options{Yes: true, Wait: time.Second})
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || len(f.asked) != tt.changes {
			t.Errorf("%s: %v, %d changes; want %q, %d\n%s", tt.name, err, len(f.asked), tt.want, tt.changes, out)
		}
	}
}

// A server that is about to join, and has itself in its configuration, is not believed.
func TestConfigurationIsTheLeaders(t *testing.T) {
	f := three()
	f.joiner = line(t, fourth).WithRole(true).Line()
	var out bytes.Buffer
	if err := List(t.Context(), f, &plan.Printer{Out: &out}); err != nil || strings.Contains(out.String(), "10.0.0.4") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if out, err := do(t, f, Command{Name: "add", New: line(t, fourth)}, plan.Options{DryRun: true}); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A replacement that was interrupted after its first step goes on there.
func TestReplaceGoesOn(t *testing.T) {
	f := three()
	f.lines = append(f.lines, line(t, fourth).WithRole(true).Line())
	f.servers["10.0.0.2:2181"].mode = "" // the old one is dead
	out, err := do(t, f, Command{Name: "replace", ID: 2, New: line(t, fourth)}, plan.Options{Yes: true})
	if err != nil || len(f.asked) != 1 || f.asked[0].Leaving != "2" {
		t.Errorf("%v, %v\n%s", err, f.asked, out)
	}
}

func TestList(t *testing.T) {
	f := three()
	f.servers["10.0.0.2:2181"].mode = ""
	var text, value bytes.Buffer
	if err := errors.Join(List(t.Context(), f, &plan.Printer{Out: &text}), List(t.Context(), f, &plan.Printer{Out: &value, JSON: true})); err != nil {
		t.Fatal(err)
	}
	if want := "3    participant  leader    0x100000005   10.0.0.3:2181          3.9.4\nconfiguration 100000001\n"; !strings.HasSuffix(text.String(), want) || !strings.Contains(text.String(), "connection refused") {
		t.Errorf("%s\nwant the end\n%s", text.String(), want)
	}
	if !strings.HasPrefix(value.String(), `{"version":"100000001","members":[{"id":1,"role":"participant","state":"follower","zxid":"0x100000005"`) {
		t.Error(value.String())
	}
}

func TestParseAdminPorts(t *testing.T) {
	for text, good := range map[string]bool{"": true, "8080": true, "1=8081,2=8082": true, "8080,3=1": true, "x": false, "1=": false, "70000": false, "0": false} {
		if _, err := ParseAdminPorts(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
