package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinfold-zk/pinfold/internal/cli"
	"github.com/pinfold-zk/pinfold/internal/member"
	"github.com/pinfold-zk/pinfold/internal/plan"
)

// operatorFlags are those of the commands that an operator changes an ensemble with, `pinfold
// member` and `pinfold migrate`: how its servers are asked, and what is printed.
type operatorFlags struct {
	connect    cli.Options
	adminPorts string
	output     string
}

func (f *operatorFlags) register(p *pflag.FlagSet) {
	f.connect.RegisterOnly(p, "timeout", "auth-file", "tls", "tls-ca", "tls-cert", "tls-key", "login")
	p.StringVar(&f.adminPorts, "admin-port", "", "port of the administration servers; or 1=8081,2=8082")
	p.StringVarP(&f.output, "output", "o", "text", "text, or json: one value a line")
}

// begin checks the flags, and returns what asks servers and what prints.
// The Live has no Client.
func (f *operatorFlags) begin(c *cobra.Command) (*member.Live, *plan.Printer, error) {
	if f.output != "text" && f.output != "json" {
		return nil, nil, fmt.Errorf("--output %q: must be text or json", f.output)
	}
	ports, err := member.ParseAdminPorts(f.adminPorts)
	if err != nil {
		return nil, nil, err
	}
	tls, err := f.connect.TLSConfig()
	if err != nil {
		return nil, nil, err
	}
	live := &member.Live{TLS: tls, AdminPorts: ports, Authorization: f.connect.Authorization()}
	return live, &plan.Printer{Out: c.OutOrStdout(), JSON: f.output == "json"}, nil
}

var errCannotAsk = errors.New("the input is no terminal, so the command cannot ask: --yes goes on without, --dry-run (migrate: plan) only shows the plan")

// canConfirm checks that the input can confirm a plan, if that is needed: a file that is no
// terminal cannot answer.
func canConfirm(c *cobra.Command, o plan.Options) error {
	in := c.InOrStdin()
	if _, isFile := in.(*os.File); isFile && !o.Yes && !o.DryRun && !cli.IsTerminal(in) {
		return errCannotAsk
	}
	return nil
}

// confirm returns what asks on the terminal.
func confirm(c *cobra.Command) func() bool {
	return func() bool {
		fmt.Fprint(c.ErrOrStderr(), "Go on? [y/N] ")
		answer, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n') // no answer is no
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes"
	}
}
