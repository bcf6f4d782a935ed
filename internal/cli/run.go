package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/client"
)

// Options are what Run is to do. Register fills them from the command line.
type Options struct {
	Servers  string        // connect string
	Timeout  time.Duration // of the session
	ReadOnly bool          // accept a server without a quorum
	Wait     bool          // for a connection as long as Timeout, not for a few seconds
	Format   string        // plain, table or json; "" is plain
	Commands string        // run these, separated by ";"
	Stop     bool          // at the first command that fails

	Version  string // of this program
	JVMFlags string // those for zkCli.sh, as in CLIENT_JVMFLAGS; their -Dname=value count for TLS and SASL

	Args []string // a command and its arguments; none: Commands, or those that In has

	In       io.Reader
	Out, Err io.Writer

	auths       []credential
	login       loginOptions
	properties  string // file of -client-configuration; "" for none
	tls         tlsOptions
	dialOptions []client.Option // for tests
}

// A credential is what addauth takes.
type credential struct{ scheme, secret string }

// Run does what o says: one command, or those of o.Commands, or those that come
// line by line from o.In, which is the interactive shell if it is a terminal.
// The context's end, an interrupt and SIGTERM end it; in the interactive shell an
// interrupt only ends the command that runs. Errors of commands have been printed (Told);
// ExitStatus knows what each means for the process.
func Run(ctx context.Context, o Options) error {
	s, err := newShell(o)
	if err != nil {
		return err
	}
	defer s.disconnect()
	if c, ok := openConsole(o.In, o.Out); ok && len(o.Args) == 0 && o.Commands == "" {
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		return s.interact(ctx, c)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt does not wait for the tidying up
	return s.runBatch(ctx)
}

// runBatch runs the commands that the options have, or those of the input.
func (s *shell) runBatch(ctx context.Context) error {
	switch {
	case len(s.opts.Args) > 0:
		return s.runWords(ctx, s.opts.Args)
	case s.opts.Commands != "":
		return s.runAll(ctx, splitCommands(s.opts.Commands))
	}
	return s.runLines(ctx)
}

func newShell(o Options) (*shell, error) {
	s := &shell{
		opts: o, commands: commands(), in: o.In, out: newScreen(o.Out), errs: newScreen(o.Err),
		servers: o.Servers, format: plain,
	}
	s.outage.limit = o.Timeout
	s.outage.say = func(line string) { fmt.Fprintln(s.errs, line) }
	s.printWatches.Store(true)
	if o.Format != "" {
		if err := s.format.Set(o.Format); err != nil {
			return nil, usageError{"--output: " + err.Error()}
		}
	}
	properties, err := javaProperties(o.JVMFlags, o.properties)
	if err != nil {
		return nil, err
	}
	if err := s.opts.tls.use(properties); err != nil {
		return nil, err
	}
	s.opts.login.use(properties)
	return s, nil
}

// runAll runs lines. Its error is that of the first that failed.
func (s *shell) runAll(ctx context.Context, lines []string) error {
	var first error
	for _, line := range lines {
		err := s.execute(ctx, line)
		if first == nil {
			first = err
		}
		if s.ends(ctx, err) {
			break
		}
	}
	return first
}

// ends reports whether no further command is run.
func (s *shell) ends(ctx context.Context, err error) bool {
	return s.quit || err != nil && s.opts.Stop || ctx.Err() != nil
}

// maxLine bounds a command that is read, in bytes: a znode's data, quoted.
const maxLine = 4 << 20

// runLines runs the lines of the input, which is not a terminal.
func (s *shell) runLines(ctx context.Context) error {
	var first error
	lines := bufio.NewScanner(s.in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		err := s.execute(ctx, line)
		if first == nil {
			first = err
		}
		if s.ends(ctx, err) {
			return first
		}
	}
	if err := lines.Err(); err != nil {
		return errors.Join(first, fmt.Errorf("read commands: %w", err))
	}
	return first
}

// Register declares the options on the command line.
func (o *Options) Register(f *pflag.FlagSet) {
	o.Timeout = 30 * time.Second
	f.StringVar(&o.Servers, "server", "localhost:2181", "connect string, host:port,host:port/chroot")
	f.Var((*millis)(&o.Timeout), "timeout", "session timeout, in milliseconds or as 30s")
	f.BoolVarP(&o.ReadOnly, "readonly", "r", false, "accept a server that has lost its quorum")
	f.BoolVar(&o.Wait, "waitforconnection", false, "wait for a connection as long as --timeout says, not just 5 seconds")
	f.StringVarP(&o.Format, "output", "o", "plain", "plain, as zkCli.sh prints; table; or json, a value a line")
	f.StringVarP(&o.Commands, "command", "c", "", "run these commands, separated by ; or line breaks")
	f.BoolVarP(&o.Stop, "stop-on-error", "e", false, "end at the first command that fails")
	f.Var((*credentials)(&o.auths), "auth", "authenticate, scheme:secret as in digest:user:password, which every user of the machine can see; may be repeated")
	f.Var((*credentialsFile)(&o.auths), "auth-file", "file with such credentials, a line each")
	f.BoolVar(&o.tls.on, "tls", false, "encrypt connections; the options below imply it")
	f.StringVar(&o.tls.ca, "tls-ca", "", "file with the certificates that vouch for the servers, in PEM (the system's)")
	f.StringVar(&o.tls.cert, "tls-cert", "", "file with a certificate of one's own, in PEM")
	f.StringVar(&o.tls.key, "tls-key", "", "file with its key, in PEM")
	f.StringVar(&o.login.file, "login", "", "log in by SASL as the section Client of this file says, in the form of Java's JAAS")
	f.BoolVar(&o.login.kerberos, "kerberos", false, "log in by Kerberos, with the tickets of kinit; the next two options imply it")
	f.StringVar(&o.login.Principal, "principal", "", "principal to log in as (the ticket cache's)")
	f.StringVar(&o.login.Keytab, "keytab", "", "file with the principal's key, instead of a ticket cache")
	f.StringVar(&o.login.Config, "krb5-conf", "", "krb5.conf (KRB5_CONFIG, or /etc/krb5.conf)")
	f.StringVar(&o.login.Service, "service", "", "first part of the servers' principals (zookeeper)")
	f.StringVar(&o.login.Server, "server-principal", "", "principal of all servers, instead of zookeeper/HOST")
	f.BoolVar(&o.login.Canonicalize, "canonicalize-hostname", false, "ask DNS for the canonical name of HOST")
	f.StringVar(&o.properties, "client-configuration", "", "zkCli.sh's file of properties, whose settings of TLS and SASL are used")
}

// RegisterOnly declares the named options, for a command that has no use for the others.
func (o *Options) RegisterOnly(f *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Register(all)
	for _, name := range names {
		f.AddFlag(all.Lookup(name))
	}
}

// millis is a duration that may be given as a number of milliseconds.
type millis time.Duration

// String, Set and Type make it an option.
func (m *millis) String() string { return time.Duration(*m).String() }

// Set reads a number or a duration, which must be above 0.
func (m *millis) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, numErr := strconv.Atoi(text); numErr == nil {
		d, err = time.Duration(n)*time.Millisecond, nil
	}
	if err != nil || d <= 0 || d > 1<<31*time.Millisecond {
		return errors.New("must be a number of milliseconds or a duration such as 30s")
	}
	*m = millis(d)
	return nil
}

// Type names the kind of value in help.
func (m *millis) Type() string { return "duration" }

// credentials are the values of --auth.
type credentials []credential

// String, Set and Type make it an option.
func (c *credentials) String() string { return "" }

// Set adds one.
func (c *credentials) Set(text string) error {
	scheme, secret, ok := strings.Cut(text, ":")
	if !ok || scheme == "" {
		return errors.New("must be scheme:secret, as in digest:user:password")
	}
	*c = append(*c, credential{scheme, secret})
	return nil
}

// Type names the kind of value in help.
func (c *credentials) Type() string { return "scheme:secret" }

// credentialsFile are those in the file of --auth-file, so that no other user of the machine sees
// a secret.
type credentialsFile credentials

// String, Set and Type make it an option.
func (c *credentialsFile) String() string { return "" }

// Set adds the credentials of a file: a line each; empty ones and those that begin with # are skipped.
func (c *credentialsFile) Set(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := (*credentials)(c).Set(line); err != nil {
			return fmt.Errorf("a line %w", err)
		}
	}
	return nil
}

// Type names the kind of value in help.
func (c *credentialsFile) Type() string { return "file" }

// Arguments reads the program's options from words, what follows `pinfold cli`,
// in the forms that zkCli.sh accepts too. What remains is the command. Its errors
// are usage errors.
func Arguments(f *pflag.FlagSet, words []string) (args []string, err error) {
	args, err = parse(f, words, false)
	if err != nil {
		return nil, usageError{optionWords("pinfold cli", err)}
	}
	return args, nil
}
