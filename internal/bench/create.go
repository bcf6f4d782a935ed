package bench

import (
	"context"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// Create is the benchmark of the paper's section 5.2: each worker creates a
// znode and waits for the answer, then deletes it without waiting and creates
// the next.
type Create struct {
	Options
	Workers int
	Size    int
}

// Run applies the load. The Result is nil only if nothing was measured.
func (c Create) Run(ctx context.Context) (*Result, error) {
	if c.Workers < 1 || c.Size < 0 {
		return nil, fmt.Errorf("bench: create: a parameter is out of range: %+v", c)
	}
	place := newPlace("create")
	set := znodes{parents: []string{place}}
	if err := set.parent(ctx, c.Options); err != nil {
		return nil, err
	}
	res, err := c.load(ctx, place)
	if e := removeEmpty(context.WithoutCancel(ctx), c.Options, place); err == nil {
		err = e
	}
	return res, err
}

func (c Create) load(ctx context.Context, place string) (*Result, error) {
	value := fixedValue(c.Size)
	r, err := prepare(ctx, c.Options, c.Workers, func(i int) script {
		p := path{prefix: fmt.Sprintf("%s/w%d-", place, i), numbered: true}
		return &createScript{create: createFrame(p, value), delete: deleteFrame(p),
			body: 4 + len(p.at(0))}
	})
	if err != nil {
		return nil, err
	}
	r.start()
	return r.conclude(ctx, "create", map[string]any{"workers": c.Workers, "size": c.Size}, kindCreate)
}

// removeEmpty deletes a znode that should have no children left.
func removeEmpty(ctx context.Context, o Options, p string) error {
	c, err := dialControl(ctx, o.TLS, o.Servers[0])
	if err != nil {
		return err
	}
	defer c.close()
	return c.remove(p)
}

// createScript creates znodes one after the other.
type createScript struct {
	create, delete frame
	body           int
	number         uint64
	creating       bool
}

func (c *createScript) next(s *session, now int64) {
	if c.creating {
		return
	}
	c.number++
	c.create.number(c.number)
	s.send(c.create, kindCreate, c.body, now)
	c.creating = true
}

func (c *createScript) reply(s *session, q request, code zk.Code, _ []byte, now int64) error {
	if code != zk.OK {
		return fmt.Errorf("%v: %w", q.kind, code)
	}
	if q.kind == kindCreate {
		c.creating = false
		c.delete.number(c.number)
		s.send(c.delete, kindDelete, 0, now)
	}
	return nil
}

func (*createScript) event(*session, []byte, int64) error { return errUnaskedEvent }
