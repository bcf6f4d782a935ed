package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A shell runs commands. It has at most one connection at a time, made when a
// command first needs it. Commands run one after the other, in the goroutine
// that owns the shell; watches print from goroutines of their own (follow).
type shell struct {
	opts     Options
	commands []command

	in       io.Reader
	out      *screen
	errs     *screen
	format   format
	terminal bool // a person reads the output: prompts, paging and progress make sense

	console *console    // nil unless the shell is interactive
	prompt  *promptLine // nil unless the shell is interactive
	pager   *pager      // of the command that runs

	servers string         // the connect string
	closed  bool           // by close: connect must come first
	conn    *client.Client // nil while there is none
	watches watchList      // of conn
	auths   []credential   // by addauth, of conn
	outage  outage         // of conn, and of other connections of the command that runs

	printWatches atomic.Bool
	history      []string // lines of this run, the oldest first
	quit         bool     // quit was typed

	followers sync.WaitGroup // goroutines that print events
}

// client returns the connection, and makes it if there is none, or none of any
// more use. Its error is a connectError.
func (s *shell) client(ctx context.Context) (*client.Client, error) {
	if s.conn != nil {
		switch s.conn.State() {
		case client.Expired, client.AuthFailed, client.Closed:
			s.disconnect()
		default:
			return s.conn, nil
		}
	}
	if s.closed {
		return nil, connectError{s.servers, errClosed}
	}
	c, err := s.dial(ctx, s.servers)
	if err != nil {
		return nil, err
	}
	s.conn = c
	return c, nil
}

// dial makes a connection of its own to an ensemble, with the options of the
// command line; the caller closes it. Commands that work with two ensembles use
// it for the other one. Its error is a connectError, or a usageError if servers
// are no connect string.
func (s *shell) dial(ctx context.Context, servers string) (*client.Client, error) {
	wait, stop := context.WithTimeout(ctx, s.opts.connectTimeout())
	defer stop()
	opts := []client.Option{client.SessionTimeout(s.opts.Timeout), client.MaxReply(maxReply)}
	if s.opts.ReadOnly {
		opts = append(opts, client.AllowReadOnly())
	}
	for _, a := range s.opts.auths {
		opts = append(opts, client.Auth(a.scheme, []byte(a.secret)))
	}
	login, err := s.opts.login.mechanism()
	if err != nil {
		return nil, err
	}
	if login != nil {
		opts = append(opts, client.SASL(login))
	}
	encryption, err := s.opts.tls.config()
	if err != nil {
		return nil, err
	}
	if encryption != nil {
		opts = append(opts, client.TLS(encryption))
	}
	opts = append(opts, s.opts.dialOptions...)
	c, err := client.Dial(wait, servers, opts...)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if wait.Err() == nil && !errors.Is(err, zk.ErrAuthFailed) {
			return nil, usageError{fmt.Sprintf("Cannot connect to %s: %v", servers, err)} // it did not even try
		}
		return nil, connectError{servers, err}
	}
	s.followStates(c, servers)
	return c, nil
}

// Dial connects to an ensemble as the options say, with more options of the client. The
// caller closes the connection. ExitStatus knows its errors.
func (o Options) Dial(ctx context.Context, servers string, more ...client.Option) (*client.Client, error) {
	o.dialOptions = append(slices.Clone(o.dialOptions), more...)
	o.Out, o.Err = io.Discard, io.Discard
	s, err := newShell(o)
	if err != nil {
		return nil, err
	}
	return s.dial(ctx, servers)
}

// TLSConfig is what the options say of TLS; nil for none.
func (o Options) TLSConfig() (*tls.Config, error) { return o.tls.config() }

// Authorization is the first of the credentials in the form of the header of requests to
// an administration server; "ip" if there is none.
func (o Options) Authorization() string {
	if len(o.auths) == 0 {
		return "ip"
	}
	return o.auths[0].scheme + " " + o.auths[0].secret
}

// maxReply bounds a list of children, which may be of millions.
const maxReply = 512 << 20

// connectTimeout is how long to wait for a session.
func (o *Options) connectTimeout() time.Duration {
	if o.Wait {
		return o.Timeout
	}
	return min(o.Timeout, 5*time.Second)
}

// disconnect ends the session, if there is one. If the server cannot be reached, it
// prints that; ephemeral znodes are deleted after the session's timeout.
func (s *shell) disconnect() {
	if s.conn == nil {
		return
	}
	live := s.conn.State() != client.Expired && s.conn.State() != client.AuthFailed
	if err := s.conn.Close(); err != nil && live {
		fmt.Fprintln(s.errs, "The session could not be closed and ends after its timeout:", err)
	}
	s.followers.Wait()
	s.conn, s.auths = nil, nil
	s.watches.clear()
}

// execute runs a line and remembers it. Its error has been printed.
func (s *shell) execute(ctx context.Context, line string) error {
	words, err := splitLine(line)
	if err != nil {
		return s.tell(err)
	}
	if len(words) == 0 {
		return nil
	}
	s.history = append(s.history, strings.TrimSpace(line))
	return s.runWords(ctx, words)
}

// runWords runs a command that has been split into words. Its error has been
// printed.
func (s *shell) runWords(ctx context.Context, words []string) error {
	return s.tell(s.call(ctx, words))
}

// call is runWords without the printing.
func (s *shell) call(ctx context.Context, words []string) error {
	c, ok := s.find(words[0])
	if !ok {
		return usageError{s.unknown(words[0])}
	}
	run, args, help, err := c.prepare(words[1:])
	switch {
	case err != nil:
		return err
	case help:
		return s.printHelp(c)
	}
	outer := s.pager
	s.pager = &pager{s: s}
	err = s.outage.run(ctx, func(ctx context.Context) error { return run(ctx, s, args) })
	paged := s.pager.finish()
	s.pager = outer
	if errors.Is(err, errPaged) {
		err = nil
	}
	return cmp.Or(err, paged, s.out.flush())
}

// tell prints an error once, and returns one that is not printed again.
func (s *shell) tell(err error) error {
	if err == nil || Told(err) {
		return err
	}
	if s.format == jsonl {
		fmt.Fprintln(s.errs, ErrorInJSON(err))
	} else {
		fmt.Fprintln(s.errs, explain(err))
	}
	return statusError{ExitStatus(err)}
}
