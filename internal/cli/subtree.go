package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
)

// subtreeCommands are those that work on a znode and all below it, and on what
// they find there.
func subtreeCommands() []command {
	return []command{
		treeCommand(), findCommand(), grepCommand(), duCommand(), diffCommand(),
		copyCommand(), moveCommand(), exportCommand(), importCommand(),
	}
}

// A subtree is a znode and all below it, in an ensemble.
type subtree struct {
	c    *client.Client
	root string
	own  bool // c was made for this subtree
}

// locate reads an argument that names a subtree: "/path" in the ensemble of the
// shell, "host:port,host:port/path" in another. close it in the end.
func (s *shell) locate(ctx context.Context, arg string) (subtree, error) {
	servers, path, _ := strings.Cut(arg, "/")
	if servers != "" && !strings.Contains(servers, ":") {
		return subtree{}, usageError{arg + ": a path begins with /, one in another ensemble with host:port/"}
	}
	path = "/" + strings.TrimSuffix(path, "/")
	if err := client.CheckPath(path); err != nil {
		return subtree{}, usageError{err.Error()}
	}
	if servers == "" {
		c, err := s.client(ctx)
		return subtree{c: c, root: path}, err
	}
	c, err := s.dial(ctx, servers)
	return subtree{c: c, root: path, own: true}, err
}

// absolute is the root's path without a chroot.
func (t subtree) absolute() string { return place(cmp.Or(t.c.Chroot(), "/"), relative("/", t.root)) }

// close ends a session that locate has made. If the server cannot be reached, that
// does no harm: the session has nothing.
func (t subtree) close() {
	if t.own && t.c != nil {
		t.c.Close()
	}
}

// serversOwn is left out of what is compared and copied: quotas, and the
// ensemble's membership.
const serversOwn = "/zookeeper"

// scanner begins a scan of the subtree. With all, /zookeeper is not left out.
func (t subtree) scanner(ctx context.Context, opt scanOptions, all bool) *scanner {
	if t.root == "/" && t.c.Chroot() == "" && !all {
		opt.leaveOut = func(path string) bool { return path == serversOwn }
	}
	return newScanner(ctx, t.c, t.root, opt)
}

// scan calls visit for each znode of a subtree that can be read, prints how far it
// is, and what cannot be read. Its error is visit's, that of the scan, or, at the
// end, that something could not be read, which has been printed.
func (s *shell) scan(ctx context.Context, path string, opt scanOptions, visit func(z *znode) error) error {
	t, err := s.locate(ctx, path)
	if err != nil {
		return err
	}
	defer t.close()
	p := s.progress("nodes read")
	defer p.stop()
	opt.visited = p.add
	bad := complaints{s: s}
	err = t.scanner(ctx, opt, true).each(func(z *znode) error {
		if z.err != nil {
			p.stop()
			bad.add(z.err)
		}
		return visit(z)
	})
	if err != nil {
		return err
	}
	return bad.end()
}

// complaints are errors of single znodes, which do not end the work. The
// first are printed, the others counted.
type complaints struct {
	s *shell
	n int
}

const maxComplaints = 10

func (c *complaints) add(err error) {
	if c.n++; c.n <= maxComplaints {
		text, _, _ := strings.Cut(explain(err), "\n")
		fmt.Fprintln(c.s.errs, text)
	}
}

// end is the error of work that was not all done; nil without complaints.
func (c *complaints) end() error {
	if c.n == 0 {
		return nil
	}
	if more := c.n - maxComplaints; more > 0 {
		fmt.Fprintf(c.s.errs, "and %d more like these\n", more)
	}
	return statusError{statusFailed}
}

// pathsOf are args, or "/" if there are none.
func pathsOf(args []string) []string {
	if len(args) == 0 {
		return []string{"/"}
	}
	return args
}

// sizeUnits are those of sizes in options and output, as du(1) has them.
const sizeUnits = "KMGTPE"

// humanBytes is n with at most three digits and a unit: 17, 1.2K, 340M.
func humanBytes(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10)
	}
	v, unit := float64(n)/1024, 0
	for v >= 999.5 {
		v /= 1024
		unit++
	}
	if v < 9.95 {
		return fmt.Sprintf("%.1f%c", v, sizeUnits[unit])
	}
	return fmt.Sprintf("%.0f%c", v, sizeUnits[unit])
}

// parseSize reads a number of bytes: 100, 10K, 1M.
func parseSize(text string) (int64, error) {
	digits, factor := text, int64(1)
	if n := len(text); n > 0 {
		if unit := strings.IndexByte(sizeUnits, text[n-1]&^0x20); unit >= 0 && unit < 4 && text[n-1] > '9' {
			digits, factor = text[:n-1], 1<<(10*(unit+1))
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62/factor {
		return 0, fmt.Errorf("%q is no size: a number of bytes, optionally followed by K, M or G", text)
	}
	return n * factor, nil
}
