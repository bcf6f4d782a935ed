package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	foundFlag   = flag.Bool("found", false, "TestFound: build every mutant and demand that it is found")
	onlyFlag    = flag.String("only", "", "TestFound: only the mutants whose name matches this regular expression")
	ofFlag      = flag.Int("of", 1, "TestFound: only every so many-th mutant")
	partFlag    = flag.Uint64("part", 0, "TestFound: with -of, which of the parts: this number modulo -of")
	atOnceFlag  = flag.Int("at-once", 2, "TestFound: how many mutants are built and run at once")
	effectsFlag = flag.Bool("effects", false, "TestFound: the simulator looks only at what members deliver and clients see")
	updateFlag  = flag.Bool("update", false, "TestFound: write the rows of what was found into the table in docs/testing.md")
)

// limit is of one run of a test binary. A test that has not ended by then has found nothing, even
// if the mutant is why: on a slow machine it would look the same without the mutant. It is long because a machine
// that is shared was once twelve times slower than usual for a minute.
const limit = 5 * time.Minute

// Every mutant is found by each of the ways that its file names. A mutant that
// survives is a failure: write the test that finds it.
func TestFound(t *testing.T) {
	if !*foundFlag {
		t.Skip("no -found is given: it takes minutes")
	}
	only, err := regexp.Compile(*onlyFlag)
	if err != nil {
		t.Fatal(err)
	}
	all := read(t)
	ms := choose(all, only, *ofFlag, *partFlag)
	rows := make([]string, len(ms)) // "" if the mutant survives
	failed := make([]error, len(ms))
	var wg sync.WaitGroup
	turns := make(chan int)
	for range *atOnceFlag {
		wg.Go(func() {
			for i := range turns {
				began := time.Now()
				how, err := prove(t.TempDir(), &ms[i])
				if err != nil {
					failed[i] = fmt.Errorf("%s: %w", ms[i].Name, err)
					fmt.Printf("NOT FOUND %v\n", failed[i]) // at once: what a test logs is lost if it is ended
					continue
				}
				rows[i] = row(&ms[i], how)
				t.Logf("%v %s", time.Since(began).Round(100*time.Millisecond), rows[i])
			}
		})
	}
	for i := range ms {
		turns <- i
	}
	close(turns)
	wg.Wait()
	fmt.Print(tableHead, strings.Join(rows, ""))
	if err := errors.Join(failed...); err != nil {
		t.Error(err) // in the end, where it is seen
		var names []string
		for i := range failed {
			if failed[i] != nil {
				names = append(names, ms[i].Name)
			}
		}
		t.Errorf("%d of %d are not found: %v", len(names), len(ms), names)
	}
	if *updateFlag {
		if err := updateTable(all, rows); err != nil {
			t.Error(err)
		}
	}
}

// choose returns the mutants whose name matches only, and of these every of-th, beginning with the one at part modulo of.
func choose(all []Mutant, only *regexp.Regexp, of int, part uint64) (ms []Mutant) {
	i := uint64(0)
	for _, m := range all {
		if !only.MatchString(m.Name) {
			continue
		}
		if i%uint64(of) == part%uint64(of) {
			ms = append(ms, m)
		}
		i++
	}
	return ms
}

// prove builds a mutant and runs what is to find it. It returns how the bug was
// found, or what survived.
func prove(dir string, m *Mutant) (how []string, err error) {
	overlay, err := writeOverlay(dir, m)
	if err != nil {
		return nil, err
	}
	for i, h := range m.Hunts {
		// One failure suffices, so the cases after it are left out.
		pkg, args := h.Package, []string{"-test.failfast", "-test.run", "^" + strings.ReplaceAll(h.Test, "/", "$/^") + "$"}
		if h.Seeds > 0 {
			pkg = "./internal/sim"
			args = []string{"-test.run", "^TestHunt$", "-hunt", strconv.Itoa(h.Seeds)}
			if *effectsFlag {
				args = append(args, "-effects")
			}
		}
		bin := filepath.Join(dir, fmt.Sprint("hunt", i, ".test"))
		build := exec.Command("go", "test", "-c", "-p", "1", "-overlay", overlay, "-ldflags=-s -w", "-o", bin, pkg)
		build.Dir = root
		build.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB") // a quarter less time: the compiler ends before it needs its garbage back
		if out, err := build.CombinedOutput(); err != nil {
			return how, fmt.Errorf("build: %w\n%s", err, out)
		}
		args = append(args, "-test.timeout", limit.String())
		found, err := h.run(bin, filepath.Join(root, filepath.FromSlash(pkg)), append(args, h.Args...))
		if err != nil {
			return how, err
		}
		how = append(how, found)
		if err := os.Remove(bin); err != nil {
			return how, err
		}
	}
	return how, nil
}

// writeOverlay writes the mutated files and the description of them for go build.
func writeOverlay(dir string, m *Mutant) (string, error) {
	files, err := m.Apply(os.DirFS(root))
	if err != nil {
		return "", err
	}
	abs, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name, text := range files {
		to := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(to, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(abs, filepath.FromSlash(name))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

var (
	seedPattern     = regexp.MustCompile(`seed=(\d+)`)
	violatedPattern = regexp.MustCompile(`seed=\d+: (\w+) is violated`)
)

// run runs a test binary in dir, in which the mutant's tests must fail, and returns
// how the mutant was found.
func (h *Hunt) run(bin, dir string, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "", fmt.Errorf("SURVIVES %s %v", bin, args)
	case !errors.As(err, &exit):
		return "", err
	case h.Seeds > 0:
		return h.inSim(out)
	case bytes.Contains(out, []byte("panic: test timed out")):
		return "", fmt.Errorf("%s has not ended within %v:\n%s", h.Test, limit, tail(out))
	case !bytes.Contains(out, []byte("--- FAIL: "+h.Test)) && !bytes.Contains(out, []byte("panic:")) && !bytes.Contains(out, []byte("fatal error:")):
		return "", fmt.Errorf("%s did not fail, but something else did:\n%s", h.Test, tail(out))
	}
	by := fmt.Sprintf("`%s` in %s", h.Test, strings.TrimPrefix(h.Package, "./"))
	if seed := seedPattern.FindSubmatch(out); seed != nil {
		return by + ", seed " + string(seed[1]), nil
	}
	return fmt.Sprintf("%s, %.1f s", by, took.Seconds()), nil
}

// inSim reads the output of a hunt in the simulator.
func (h *Hunt) inSim(out []byte) (string, error) {
	violated := violatedPattern.FindSubmatch(out)
	if violated == nil {
		return "", fmt.Errorf("no invariant is violated, but the simulator failed:\n%s", tail(out))
	}
	invariant := string(violated[1])
	if len(h.Invariants) > 0 && !slices.Contains(h.Invariants, invariant) {
		return "", fmt.Errorf("%s is violated, not one of %v:\n%s", invariant, h.Invariants, tail(out))
	}
	return fmt.Sprintf("simulator, seed %s: %s", seedPattern.FindSubmatch(out)[1], invariant), nil
}

// tail is the end of a test's output.
func tail(out []byte) []byte {
	const most = 4 << 10
	return out[max(0, len(out)-most):]
}
