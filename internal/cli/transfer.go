package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/zk"
)

// transferOptions are those that cp, mv and import share.
type transferOptions struct {
	overwrite, dryRun, noACL, parents bool
}

func (o *transferOptions) declare(f *pflag.FlagSet) {
	f.BoolVar(&o.overwrite, "overwrite", false, "replace the data and ACL of nodes that are there and differ")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done")
	f.BoolVar(&o.noACL, "no-acl", false, "create nodes with world:anyone:cdrwa, and keep the ACLs of existing ones")
	f.BoolVarP(&o.parents, "parents", "p", false, "make what is missing above the target")
}

// A transfer copies znodes from any source to a subtree, and reports the outcome of
// each.
type transfer struct {
	s   *shell
	opt transferOptions
	to  subtree

	p        *planter
	out      *rows // of a dry run
	bad      complaints
	failedAt string // the last path that failed
	refused  bool   // something failed for want of permission
	leftOut  int    // ephemerals
	progress *progress
}

// transferSummary is a transfer's end in JSON.
type transferSummary struct {
	Created   int `json:"created"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
	Failed    int `json:"failed"`
	LeftOut   int `json:"ephemeralsLeftOut"`
}

// transferTo begins a transfer; end must be called.
func (s *shell) transferTo(ctx context.Context, to subtree, opt transferOptions) (*transfer, error) {
	t := &transfer{s: s, opt: opt, to: to, bad: complaints{s: s}}
	if opt.parents && !opt.dryRun && to.root != "/" {
		if err := to.makeParents(ctx); err != nil {
			return nil, err
		}
	}
	if opt.dryRun {
		t.out = s.rows("what", "path")
	}
	t.progress = s.progress("nodes written")
	t.p = newPlanter(ctx, to.c, plantOptions{overwrite: opt.overwrite, dryRun: opt.dryRun, told: t.told})
	return t, nil
}

// makeParents makes what is missing above the root.
func (t subtree) makeParents(ctx context.Context) error {
	for i := 1; i < len(t.root); i++ {
		if t.root[i] != '/' {
			continue
		}
		_, err := t.c.Create(ctx, t.root[:i], nil, zk.Persistent, nil)
		if err != nil && !errors.Is(err, zk.ErrNodeExists) && !errors.Is(err, zk.ErrNoAuth) {
			return err // without permission here, what is below may still be there
		}
	}
	return nil
}

// add transfers a znode.
func (t *transfer) add(x planting) error {
	if x.kind == ephemeral {
		t.leftOut++
		return nil
	}
	if t.opt.noACL {
		x.acl = nil
	}
	return t.p.add(x)
}

// told counts and prints an outcome (plantOptions).
func (t *transfer) told(x *planting, o outcome, err error) error {
	t.progress.add(1)
	if err != nil {
		below := t.failedAt != "" && isBelow(t.failedAt, x.path) && errors.Is(err, zk.ErrNoNode)
		t.refused = t.refused || errors.Is(err, zk.ErrNoAuth)
		if !below {
			t.failedAt = x.path
			t.progress.stop()
			t.bad.add(err)
		}
		return nil
	}
	if t.out == nil || o == same {
		return nil
	}
	verb := map[outcome]string{created: "create", replaced: "replace"}[o]
	return t.out.add(row{plain: verb + " " + x.path, cells: []string{verb, x.path}})
}

// end finishes the transfer, of which err is what ended it early, and prints the
// summary.
func (t *transfer) end(err error) error {
	if err == nil || !isFatal(err) {
		err = errors.Join(err, t.p.flush())
	}
	t.progress.stop()
	if t.out != nil {
		t.out.end()
	}
	done := 0
	for _, n := range t.p.counts {
		done += n
	}
	if err == nil || done > 0 {
		err = errors.Join(err, t.summarize())
	}
	if err != nil {
		resumable := (isFatal(err) || errors.Is(err, zk.ErrConnectionLoss)) && !t.opt.dryRun
		err = t.s.tell(err)
		if resumable {
			fmt.Fprintln(t.s.errs, "(not all is done; the same command again goes on: what is there as it should be is left alone)")
		}
		return err
	}
	if t.refused {
		fmt.Fprintln(t.s.errs, "(a copied ACL may deny you the creation of nodes below: use addauth with an identity that it permits, or --no-acl)")
	}
	return t.bad.end()
}

func (t *transfer) summarize() error {
	sum := transferSummary{t.p.counts[created], t.p.counts[replaced], t.p.counts[same], t.p.counts[failed], t.leftOut}
	text := fmt.Sprintf("%d created, %d replaced, %d unchanged, %d failed", sum.Created, sum.Replaced, sum.Unchanged, sum.Failed)
	if t.opt.dryRun {
		text = "would be: " + text
	}
	if t.leftOut > 0 {
		text += fmt.Sprintf("; %s left out", count(t.leftOut, "ephemeral"))
	}
	value := any(sum)
	if t.opt.dryRun {
		value = map[string]any{"wouldBe": sum}
	}
	return t.s.print(
		[]string{"created", "replaced", "unchanged", "failed", "ephemerals left out"},
		row{plain: text, cells: strings.Fields(fmt.Sprintf("%d %d %d %d %d", sum.Created, sum.Replaced, sum.Unchanged, sum.Failed, sum.LeftOut)), value: value},
	)
}
