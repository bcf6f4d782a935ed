package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// differing are the commands at which we do not do as zkCli.sh, and what we do.
var differing = map[string]struct {
	status    int
	out, errs string // the beginnings of the outputs
	why       string
}{
	"create /acl3 data bogus":                {2, "", "bogus does not have the form scheme:id:perm", "zkCli.sh goes on without the entry"},
	"setAcl /r/1 bogus":                      {2, "", "bogus does not have the form scheme:id:perm", "zkCli.sh goes on without the entry"},
	"bogus":                                  {2, "", "Command not found: bogus", "zkCli.sh prints all that there are"},
	"delete /c 9":                            {1, "", "'delete path [version]' has been deprecated", "zkCli.sh does not look at the version"},
	"whoami":                                 {0, "Auth scheme: User\nip: 10.1.0.1\n", "", "another address; the order is the server's"},
	"setquota -n 3 /":                        {2, "", "the root cannot have a quota", "zkCli.sh: Path must not end with / character"},
	"reconfig -add server.5=127.0.0.1:1:2;3": {1, "", "Reconfig is disabled", "a standalone Apache has no reconfig at all"},
}

// A recorded is a command of a recorded session, and what zkCli.sh printed.
type recorded struct{ line, out, errs string }

func readRecorded(t *testing.T, file string) (steps []recorded) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "> "), strings.HasPrefix(line, "!> "):
			_, command, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "> ")
			steps = append(steps, recorded{line: command})
		case strings.HasPrefix(line, "  "):
			steps[len(steps)-1].out += line[2:]
		case strings.HasPrefix(line, "E "):
			steps[len(steps)-1].errs += line[2:]
		}
	}
	return steps
}

// What zkCli.sh prints, we print, on the same stream; to what it says of an
// error we may add. test/cli/record-zkcli has recorded it.
func TestAsZkCli(t *testing.T) {
	files, err := filepath.Glob("testdata/zkcli/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatal("no recordings", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			inBubble(t, nil, func(r *rig) {
				for _, s := range readRecorded(t, file) {
					out, errs, status := r.do(s.line)
					compareRecorded(t, s, steady(out), steady(errs), status)
				}
			})
		})
	}
}

// misuse is what zkCli.sh says to a command that it does not understand: its
// usage, or an exception, or words.
var misuse = regexp.MustCompile(`^(org.apache.commons.cli|NumberFormatException|\(zkCli.sh ended|.* must be a long value)`)

// ownWords are the names of errors that zkCli.sh prints beside or for words.
var ownWords = regexp.MustCompile(`KeeperErrorCode = (InvalidACL for .*\n)?`)

func compareRecorded(t *testing.T, s recorded, out, errs string, status int) {
	t.Helper()
	if d, ok := differing[s.line]; ok {
		if status != d.status || !strings.HasPrefix(out, d.out) || !strings.HasPrefix(errs, d.errs) {
			t.Errorf("%s: status %d, output %q, error output %q; want %d, %q…, %q…", s.line, status, out, errs, d.status, d.out, d.errs)
		}
		return
	}
	if diff := cmp.Diff(steady(s.out), out); diff != "" {
		t.Errorf("%s: output (-zkCli.sh +we):\n%s", s.line, diff)
	}
	name, _, _ := strings.Cut(s.line, " ")
	if strings.HasPrefix(s.errs, name+" ") || misuse.MatchString(s.errs) {
		if status != statusUsage || errs == "" {
			t.Errorf("%s: status %d, error output %q; zkCli.sh prints %q", s.line, status, errs, s.errs)
		}
		return
	}
	if !strings.HasPrefix(errs, ownWords.ReplaceAllString(s.errs, "")) {
		t.Errorf("%s: error output (-zkCli.sh +we), status %d:\n%s", s.line, status, cmp.Diff(s.errs, errs))
	}
}
