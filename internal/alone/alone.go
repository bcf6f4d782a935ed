// Package alone is `pinfold member recover`: it makes a server the only member of its ensemble when so
// many voters are lost for ever that the others can have no leader.
//
// No rule could do that without an operator. The voters that are lost may have committed
// transactions that no other server has, and servers that are only cut off may go on: what is left cannot
// tell. So the operator states which servers are lost; what this server does not have is lost then.
//
// The server does not run. Its configuration is replaced in the file of memberships in the data directory,
// by one write: the command can be repeated, and a crash leaves the old configuration or the new one.
package alone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/plan"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Survivor is a server that is to be the only member. It has the locks of its directories.
type Survivor struct {
	cfg  *config.Config
	o    replica.Options
	dir  *storage.Dir
	now  zab.Memberships // what it knows of the membership
	last zk.Zxid         // of its history
	at   time.Time       // of that transaction, by the leader's clock; zero: not known
	// accepted and current are its epochs.
	accepted, current uint32
}

// Open reads what a server has. The caller must Close it. The error wraps vfs.ErrLocked if the server runs.
func Open(cfg *config.Config) (s *Survivor, err error) {
	if !cfg.Quorum.Distributed() {
		return nil, errors.New("the server is standalone: it needs no others")
	}
	if !cfg.Quorum.ReconfigEnabled {
		return nil, errors.New("reconfigEnabled is not true: the server lines of zoo.cfg are what counts; edit them")
	}
	so := options.Storage(cfg)
	so.AutoCreate = false
	s = &Survivor{cfg: cfg}
	if s.dir, err = storage.Open(vfs.OS{}, so); err != nil {
		return nil, err
	}
	if err := s.read(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close releases the directories.
func (s *Survivor) Close() error { return s.dir.Close() }

func (s *Survivor) read() error {
	h, healing, err := s.dir.Healing()
	if err != nil {
		return err
	}
	if healing {
		return fmt.Errorf("the data of this server are damaged, and no history: %s", h.Reason)
	}
	if s.o, err = options.Replica(s.cfg); err != nil {
		return err
	}
	s.o.Dir = s.dir
	if s.now, err = replica.ReadMemberships(&s.o); err != nil {
		return err
	}
	if err := s.readHistory(); err != nil {
		return err
	}
	s.accepted, s.current, err = s.dir.Epochs(s.last)
	return err
}

// readHistory finds the end of the history, without a tree.
func (s *Survivor) readHistory() error {
	snaps, err := s.dir.Snapshots()
	if err != nil {
		return err
	}
	if len(snaps) > 0 {
		s.last = snaps[0].Zxid
	}
	log, err := s.dir.ReadLog(s.last)
	if err != nil {
		return err
	}
	for {
		payload, err := log.Next()
		if errors.Is(err, io.EOF) {
			return log.Close()
		}
		if err != nil {
			return errors.Join(err, log.Close())
		}
		t, err := txn.Decode(payload)
		if err != nil {
			return errors.Join(err, log.Close())
		}
		s.last, s.at = t.Zxid, time.UnixMilli(t.Time)
	}
}

// An Asker reports whether a server listens at an address.
type Asker func(ctx context.Context, address string) bool

// Dial is the Asker that connects.
func Dial(ctx context.Context, address string) bool {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Plan returns the plan that makes the server the only member. lost are the servers that the operator
// states to be lost for ever.
func (s *Survivor) Plan(ctx context.Context, lost []int64, answers Asker) (*plan.Plan, error) {
	p := plan.New("recover", fmt.Sprintf("%x", int64(s.now.Seen.Version())))
	id := s.cfg.Quorum.MyID
	old, err := config.ParseMembers(s.now.Seen.Text())
	if err != nil {
		return nil, err
	}
	own := old.Find(id)
	if own == nil { // it is removed by a change that is not committed, or was
		if own = s.line(id); own == nil {
			p.Refuse(fmt.Sprintf("server %d is no member", id), "run the command for one that is, with the longest history")
			return &p, nil
		}
	}
	s.describe(&p)
	s.checkLost(ctx, &p, lost, answers)
	if s.cfg.Quorum.StandaloneEnabled {
		p.Refuse("standaloneEnabled is true: a member that is alone would be a standalone server after its next start, to which no other can be added",
			"add standaloneEnabled=false to zoo.cfg; then repeat the command")
	}
	to, err := s.only(own)
	if err != nil {
		return nil, err
	}
	p.Steps = append(p.Steps, plan.Step{
		Text: fmt.Sprintf("server %d is the only member, in the configuration %x", id, int64(to.Version())),
		Run: func(context.Context, func(string)) error {
			p.NewVersion = to.Version().String()
			return replica.WriteMemberships(&s.o, &zab.Memberships{Committed: to, Seen: to})
		},
	})
	p.After = fmt.Sprintf("Start server %d, and add the others with pinfold member add. One that lives follows when it hears of server %d; never start one that is lost with its old data.", id, id)
	return &p, nil
}

// line returns the line of a server in the membership that is committed, nil if there is none.
func (s *Survivor) line(id int64) *config.Member {
	m, err := config.ParseMembers(s.now.Committed.Text())
	if err != nil {
		return nil
	}
	return m.Find(id)
}

// describe says what the server has, and what that means.
func (s *Survivor) describe(p *plan.Plan) {
	when := ""
	if !s.at.IsZero() {
		when = " of " + s.at.UTC().Format(time.RFC3339)
	}
	p.OK("server %d does not run; its history ends with the transaction %v%s, its epoch is %d", s.cfg.Quorum.MyID, s.last, when, s.current)
	if s.now.Seen != s.now.Committed {
		p.Warn(fmt.Sprintf("the change of the members %x is in its log, and not known to be committed", int64(s.now.Seen.Version())),
			"if the servers without zoo.cfg.dynamic.next are a majority of the members before it, leave this server stopped until they have a leader: then nothing is lost")
	}
	p.Warn("writes that were acknowledged and that this server does not have are lost",
		"of all servers that are left, recover the one with the latest epoch and, of these, with the last transaction: --dry-run shows both")
}

// checkLost checks the operator's statement: without the servers that are lost there is no quorum, and none of
// them answers.
func (s *Survivor) checkLost(ctx context.Context, p *plan.Plan, lost []int64, answers Asker) {
	members := s.now.Members()
	for _, id := range lost {
		if !slices.ContainsFunc(members, func(m zab.Member) bool { return m.ID == id }) {
			p.Refuse(fmt.Sprintf("server %d, which is said to be lost, is no member", id), "")
		}
		if id == s.cfg.Quorum.MyID {
			p.Refuse(fmt.Sprintf("server %d is the one that is to stay", id), "name the others in --lost")
		}
	}
	system := s.now.System()
	left := func(id int64) bool { return !slices.Contains(lost, id) }
	if system.Quorum(left) {
		p.Refuse("the servers that are not lost are a majority: they can have a leader", "start them; or name in --lost all those that are lost for ever")
	} else {
		p.OK("the servers that are not lost are no majority")
	}
	for _, m := range members {
		if !slices.Contains(lost, m.ID) {
			continue
		}
		if address, err := answering(ctx, &m, answers); err != nil {
			p.Refuse(fmt.Sprintf("server %d cannot be asked: %v", m.ID, err), "")
		} else if address != "" {
			p.Refuse(fmt.Sprintf("server %d, which is said to be lost, answers at %s", m.ID, address), "start what is left of the ensemble; or stop that server for ever")
		} else {
			p.OK("server %d does not answer", m.ID)
		}
	}
}

// answering returns the address at which a member listens, "" if it does not. The error says that its line cannot be
// read.
func answering(ctx context.Context, m *zab.Member, answers Asker) (string, error) {
	line, err := config.ParseMember(m.ID, m.Address)
	if err != nil {
		return "", err
	}
	addresses := []string{line.ElectionAddr()}
	if host := line.ClientHost; line.HasClient {
		if host == "0.0.0.0" || host == "::" {
			host = line.Addresses[0].Host
		}
		addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(line.ClientPort)))
	}
	for _, a := range addresses {
		if answers(ctx, a) {
			return a, nil
		}
	}
	return "", nil
}

// only returns the configuration that has this server alone. Its version is the beginning of the next
// epoch: later than all that this server knows, and earlier than each transaction of the leader that it will be.
func (s *Survivor) only(own *config.Member) (*zab.Membership, error) {
	m := *own
	m.Observer = false
	epoch := max(s.accepted, s.now.Seen.Version().Epoch(), s.last.Epoch()) + 1
	list := config.Members{Servers: []config.Member{m}, Version: int64(zk.MakeZxid(epoch, 0))}
	return options.Membership(&list)
}
