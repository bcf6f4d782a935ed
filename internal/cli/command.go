// Package cli is `pinfold cli`: the commands of ZooKeeper's zkCli.sh, by their
// names and options and with their output, and those that its users miss there;
// one at a time, from a file, or in an interactive shell.
//
// It is a program in a package, for cmd/pinfold to wire. It knows ensembles by
// package client only. The type command describes a command; the shell is its
// environment.
//
// Invariants:
//
//  1. Without --output, what zkCli.sh prints is printed in the same words, on
//     the same stream, as scripts parse it.
//  2. A command that failed says so on the error stream, in words, and in the
//     exit status (ExitStatus).
//  3. What a command needs of memory is bounded by a window of requests and not
//     by the tree, but for lists of the children of one znode, which the
//     protocol gives whole.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// A command is one that users type. It is a value: setup is called for
// each time that it is run.
type command struct {
	name     string
	synopsis string // its options and arguments: "[-s] [-w] [-R] path"
	short    string // one line for the list of all
	long     string // what it does, in paragraphs; ends without a newline
	examples string // a line each, "ls -R /app    # all znodes below", ends without a newline

	raw      bool      // all words after the first argument are arguments, dashes or not
	min, max int       // number of arguments beside options; a max of -1 is any
	complete []argKind // what each argument is; the last also applies to all that follow

	// setup declares the options, into variables that the function returned
	// closes over. That one does the work. A nil setup is of a command without
	// options that only has run.
	setup func(f *pflag.FlagSet) runFunc
	run   runFunc
}

// A runFunc does the work of a command. args are the arguments without options,
// as many as min and max allow. The context ends with an interrupt. What the
// command prints goes through s. An error is printed by the caller (explain),
// and is the exit status (ExitStatus).
type runFunc func(ctx context.Context, s *shell, args []string) error

// An argKind says how an argument is completed.
type argKind int

const (
	argNone    argKind = iota // not at all
	argPath                   // the path of a znode
	argFile                   // a file on this machine
	argCommand                // the name of a command
)

// commands are all that there are, in the order of help.
func commands() []command {
	return slices.Concat(
		readCommands(), writeCommands(), deleteCommands(), aclCommands(), watchCommands(),
		subtreeCommands(), liveCommands(), quotaCommands(), sessionCommands(), ensembleCommands(), shellCommands(),
	)
}

// find returns the command of a name.
func (s *shell) find(name string) (command, bool) {
	i := slices.IndexFunc(s.commands, func(c command) bool { return c.name == name })
	if i < 0 {
		return command{}, false
	}
	return s.commands[i], true
}

// newFlagSet makes a set of options for a command or for the program, which
// prints nothing itself.
func newFlagSet(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.SortFlags = false
	f.Usage = func() {}
	return f
}

// prepare declares the options of c and reads them from words, which do not
// have its name. It returns what is to be run, with what arguments; help says
// that --help was among the words. Its errors are usage errors.
func (c command) prepare(words []string) (run runFunc, args []string, help bool, err error) {
	f := newFlagSet(c.name)
	run = c.run
	if c.setup != nil {
		run = c.setup(f)
	}
	short := "h"
	if f.ShorthandLookup(short) != nil {
		short = "" // the command has another use for it, as du(1) has
	}
	f.BoolVarP(&help, "help", short, false, "what the command does")
	if args, err = parse(f, words, !c.raw); err != nil {
		return nil, nil, false, c.misused(optionWords(c.name, err))
	}
	switch {
	case help:
		return run, args, true, nil
	case len(args) < c.min:
		return nil, nil, false, c.misused(fmt.Sprintf("%s needs %s", c.name, count(c.min, "argument")))
	case c.max >= 0 && len(args) > c.max:
		return nil, nil, false, c.misused(fmt.Sprintf("%q is too much", args[c.max]))
	}
	return run, args, false, nil
}

// misused is the error of a command that was not given what it takes.
func (c command) misused(what string) error {
	return usageError{what + "\n" + c.usage() + "\n(help " + c.name + " says more)"}
}

// optionWords says what is wrong with an option of name, the command or program.
func optionWords(name string, err error) string {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	var noLetters unknownLetters
	switch {
	case errors.As(err, &noLetters):
		word := string(noLetters)
		if slices.Contains([]string{"-server", "-timeout", "-waitforconnection", "-client-configuration"}, word) {
			word += "; it goes before the command"
		}
		return name + " has no option " + word
	case errors.As(err, &unknown):
		dashes := "-"
		if unknown.GetSpecifiedShortnames() == "" {
			dashes = "--"
		}
		return name + " has no option " + dashes + unknown.GetSpecifiedName()
	case errors.As(err, &missing):
		return optionName(missing.GetFlag()) + " needs a value"
	case errors.As(err, &invalid):
		flag := invalid.GetFlag()
		if strings.HasPrefix(flag.Value.Type(), "int") {
			return fmt.Sprintf("%s takes a number, not %q", optionName(flag), invalid.GetValue())
		}
		return fmt.Sprintf("%s %q: %v", optionName(flag), invalid.GetValue(), invalid.Unwrap())
	}
	return err.Error()
}

func optionName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// usage is the command on a line, as zkCli.sh's help has it.
func (c command) usage() string { return strings.TrimSpace(c.name + " " + c.synopsis) }

// parse reads options and arguments as zkCli.sh's users write them: long
// options may have one dash ("-server", "-members"), where pflag would see
// several short ones; a negative number is an argument, unless there is such an
// option; options may follow arguments, if mixed. "--" ends the options.
func parse(f *pflag.FlagSet, words []string, mixed bool) (args []string, err error) {
	var options []string
	for len(words) > 0 {
		w := words[0]
		if w == "--" {
			args = append(args, words[1:]...)
			break
		}
		if !isOption(f, w) {
			if !mixed {
				args = append(args, words...)
				break
			}
			args, words = append(args, w), words[1:]
			continue
		}
		w, wantsValue, ok := longOption(f, w)
		if !ok {
			return nil, unknownLetters(w)
		}
		options, words = append(options, w), words[1:]
		if wantsValue && len(words) > 0 {
			options, words = append(options, words[0]), words[1:]
		}
	}
	return args, f.Parse(options)
}

func isOption(f *pflag.FlagSet, word string) bool {
	if len(word) < 2 || word[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(word, 64)
	return err != nil || f.ShorthandLookup(word[1:2]) != nil
}

// unknownLetters is a word with one dash of which not all letters are options, and
// that is no long option either. It is an error with the word as it was typed, where
// pflag names what is left of it.
type unknownLetters string

func (e unknownLetters) Error() string { return "no such option: " + string(e) }

// longOption returns an option in pflag's form, and whether its value is the next
// word; ok is false if it is neither a long one nor letters that are all options.
func longOption(f *pflag.FlagSet, word string) (long string, wantsValue, ok bool) {
	name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	if flag := f.Lookup(name); flag != nil && (len(name) > 1 || strings.HasPrefix(word, "--")) {
		return "--" + strings.TrimLeft(word, "-"), flag.NoOptDefVal == "" && !hasValue, true
	}
	if strings.HasPrefix(word, "--") {
		return word, false, true
	}
	for i := range len(name) {
		flag := f.ShorthandLookup(name[i : i+1])
		if flag == nil {
			return word, false, false
		}
		if flag.NoOptDefVal == "" {
			return word, i == len(name)-1 && !hasValue, true
		}
	}
	return word, false, true
}
