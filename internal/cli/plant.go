package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A planting describes a znode that a planter creates or verifies.
type planting struct {
	path string
	data []byte        // must not change until its outcome is reported
	acl  []zk.ACL      // nil: world:anyone:cdrwa for a new znode, and the ACL of one that exists is kept
	kind kind          // not ephemeral; not compared with a znode that exists
	ttl  time.Duration // of withTTL
}

// An outcome is what became of a planting.
type outcome int

const (
	created  outcome = iota // it was not there, or only this planter's lost answer had made it
	replaced                // data, ACL or both were others
	same                    // it was there as it should be
	failed                  // see the error
	outcomes                // how many there are
)

func (o outcome) String() string { return [...]string{"created", "replaced", "unchanged", "failed"}[o] }

// errDiffers is the error of a planting whose znode exists with other contents, if
// overwrite was not asked for.
var errDiffers = errors.New("is there already, and differs")

// plantOptions say what a planter may do.
type plantOptions struct {
	overwrite bool // give znodes that are there the data and ACL of the planting
	dryRun    bool // only read, and report what would be done

	// told reports an outcome. It is called once for each planting, in no order, by the goroutine that
	// uses the planter. An error that it returns ends the planting.
	told func(p *planting, o outcome, err error) error
}

// The limits of a planter.
const (
	maxPlanted      = 512      // plantings under way
	maxPlantedBytes = 16 << 20 // of data in them
	maxTries        = 8        // of one planting, and of connections in a row without success
)

// A planter creates or updates many znodes, many at a time. They must be added parents
// first: a request is sent before the one that it relies on is
// answered, as servers execute them in order.
//
// A znode that already is as planned is not changed, so planting may be
// repeated; that is also how a broken connection is survived. When one breaks, the
// planter waits until every request under way has failed or succeeded, and starts
// those that did not succeed once more, in their order.
//
// A planter is used by one goroutine.
type planter struct {
	ctx context.Context
	c   *client.Client
	opt plantOptions

	jobs   []*job // under way, in order; those that are over are dropped from the front
	bytes  int
	active int // operations under way
	broken bool
	losses int // connections in a row that broke
	done   *answers[planted]
	counts [outcomes]int
}

// A step is what a job waits for.
type step int

const (
	stepCreate step = iota
	stepRead        // data and ACL, to compare
	stepWrite       // data, ACL or both
	stepAgain       // for the others to be answered, to begin again
	stepOver
)

// job is a planting under way.
type job struct {
	planting
	step  step
	waits int
	tries int

	// What was read.
	data  []byte
	stat  zk.Stat
	acl   []zk.ACL
	wrong error // of the present step

	wrote outcome // what an attempt may have done whose answer was lost; same for nothing

	thenACL bool // the ACL is to be written once the data is
}

// planted is the answer to one operation of a job.
type planted struct {
	j    *job
	data []byte
	stat zk.Stat
	acl  []zk.ACL
	what what
	err  error
}

func newPlanter(ctx context.Context, c *client.Client, opt plantOptions) *planter {
	return &planter{ctx: ctx, c: c, opt: opt, done: newAnswers[planted]()}
}

// add starts a planting, and waits while there are too many. An error ends it
// all: of the session, the context, or from told.
func (p *planter) add(x planting) error {
	for len(p.jobs) >= maxPlanted || p.bytes > maxPlantedBytes || p.broken {
		if err := p.advance(); err != nil {
			return err
		}
	}
	j := &job{planting: x, wrote: same}
	p.jobs = append(p.jobs, j)
	p.bytes += len(x.data)
	p.begin(j)
	return p.takeAll(p.done.poll())
}

// flush waits until all are over.
func (p *planter) flush() error {
	for len(p.jobs) > 0 {
		if err := p.advance(); err != nil {
			return err
		}
	}
	return nil
}

// advance waits for answers, and begins again what a lost connection has undone
// when nothing is under way.
func (p *planter) advance() error {
	if p.active > 0 {
		list, err := p.done.take(p.ctx)
		if err != nil {
			return err
		}
		return p.takeAll(list)
	}
	if p.losses++; p.losses > maxTries {
		return fmt.Errorf("%w: %d connections in a row broke", zk.ErrConnectionLoss, p.losses)
	}
	p.broken = false
	for _, j := range p.jobs {
		if j.step == stepAgain {
			p.begin(j)
		}
	}
	return nil
}

func (p *planter) takeAll(list []planted) error {
	for i := range list {
		if err := p.takeIn(&list[i]); err != nil {
			return err
		}
	}
	for len(p.jobs) > 0 && p.jobs[0].step == stepOver {
		p.jobs[0] = nil
		p.jobs = p.jobs[1:]
	}
	return nil
}

// begin starts or restarts a job.
func (p *planter) begin(j *job) {
	j.tries++
	if p.opt.dryRun {
		p.read(j)
		return
	}
	j.step = stepCreate
	p.sent(j)
	if j.kind == withTTL {
		p.c.CreateTTLAsync(p.ctx, j.path, j.planting.data, j.kind.mode(), j.planting.acl, j.ttl, func(_ string, _ zk.Stat, err error) {
			p.done.put(planted{j: j, err: err})
		})
		return
	}
	p.c.CreateAsync(p.ctx, j.path, j.planting.data, j.kind.mode(), j.planting.acl, func(_ string, err error) {
		p.done.put(planted{j: j, err: err})
	})
}

func (p *planter) sent(j *job) { j.waits++; p.active++ }

// read reads the existing znode.
func (p *planter) read(j *job) {
	j.step = stepRead
	p.sent(j)
	p.c.GetAsync(p.ctx, j.path, func(data []byte, stat zk.Stat, err error) {
		p.done.put(planted{j: j, what: askData, data: bytes.Clone(data), stat: stat, err: err})
	})
	if j.planting.acl != nil {
		p.sent(j)
		p.c.GetACLAsync(p.ctx, j.path, func(acl []zk.ACL, _ zk.Stat, err error) {
			p.done.put(planted{j: j, what: askACL, acl: acl, err: err})
		})
	}
}

// takeIn processes the answer to one operation, and continues its job when that
// was the last of the step.
func (p *planter) takeIn(a *planted) error {
	j := a.j
	j.waits--
	p.active--
	switch {
	case a.err == nil:
		p.losses = 0
		switch a.what {
		case askData:
			j.data, j.stat = a.data, a.stat
		case askACL:
			j.acl = a.acl
		}
	case isFatal(a.err) || p.ctx.Err() != nil:
		return a.err
	case errors.Is(a.err, zk.ErrConnectionLoss):
		p.broken = true
		var e *client.Error
		if j.step == stepCreate && errors.As(a.err, &e) && e.Maybe {
			j.wrote = created
		}
		j.wrong = a.err
	case !errors.Is(j.wrong, zk.ErrConnectionLoss):
		j.wrong = a.err
	}
	if j.waits > 0 {
		return nil
	}
	wrong := j.wrong
	j.wrong = nil
	if errors.Is(wrong, zk.ErrConnectionLoss) {
		j.step = stepAgain
		return nil
	}
	return p.goOn(j, wrong)
}

// goOn starts the step that follows one that ended with the error wrong.
func (p *planter) goOn(j *job, wrong error) error {
	switch {
	case j.step == stepCreate && errors.Is(wrong, zk.ErrNodeExists):
		p.read(j)
		return nil
	case j.step == stepCreate && errors.Is(wrong, zk.ErrNoNode) && p.broken:
		j.step = stepAgain // its parent waits to be made again
		return nil
	case j.step == stepRead && errors.Is(wrong, zk.ErrNoNode) && p.opt.dryRun:
		return p.over(j, created, nil)
	case j.step != stepCreate && (errors.Is(wrong, zk.ErrNoNode) || errors.Is(wrong, zk.ErrBadVersion)) && j.tries < maxTries:
		p.begin(j) // another client changes the znode as well
		return nil
	case wrong != nil:
		return p.over(j, failed, wrong)
	case j.step == stepCreate:
		return p.over(j, created, nil)
	case j.step == stepWrite && j.thenACL:
		p.writeACL(j)
		return nil
	case j.step == stepWrite:
		return p.over(j, replaced, nil)
	}
	return p.compare(j)
}

// compare decides what to do with a znode that exists.
func (p *planter) compare(j *job) error {
	sameData := bytes.Equal(j.data, j.planting.data)
	sameACL := j.planting.acl == nil || slices.Equal(j.acl, j.planting.acl)
	switch {
	case kindOf(j.stat) == ephemeral:
		return p.over(j, failed, fmt.Errorf("%s: %w: it is ephemeral, and ends with a session", j.path, errDiffers))
	case sameData && sameACL:
		return p.over(j, j.wrote, nil)
	case !p.opt.overwrite:
		return p.over(j, failed, fmt.Errorf("%s: %w", j.path, errDiffers))
	case p.opt.dryRun:
		return p.over(j, replaced, nil)
	}
	j.step, j.wrote, j.thenACL = stepWrite, replaced, !sameData && !sameACL
	if sameData {
		p.writeACL(j)
		return nil
	}
	p.sent(j)
	p.c.SetAsync(p.ctx, j.path, j.planting.data, j.stat.Version, func(_ zk.Stat, err error) {
		p.done.put(planted{j: j, what: askStat, err: err})
	})
	return nil
}

// writeACL follows the data's answer: were both on their way, a connection that
// breaks between them could let the ACL pass alone, and it may forbid the data.
func (p *planter) writeACL(j *job) {
	j.thenACL = false
	p.sent(j)
	p.c.SetACLAsync(p.ctx, j.path, j.planting.acl, j.stat.Aversion, func(_ zk.Stat, err error) {
		p.done.put(planted{j: j, what: askStat, err: err})
	})
}

func (p *planter) over(j *job, o outcome, err error) error {
	j.step = stepOver
	p.bytes -= len(j.planting.data)
	p.counts[o]++
	return p.opt.told(&j.planting, o, err)
}

// isFatal reports whether err is of the session, the client or the context, and
// not of the znode that it came from.
func isFatal(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrNotReadOnly) ||
		errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
