package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A share is who used how many of the machine's processors while servers were attacked, on
// average. What others used was taken from the innocent clients' time, and is no fault of
// the servers.
type share struct {
	Servers   float64
	Attack    float64 // the attackers
	Innocents float64
	Others    float64 // all other processes of the machine, and its kernel

	// Waiting is how many threads of the servers could run and waited for a processor, on
	// average. On a machine with a processor for each thread it would be 0.
	Waiting float64 `json:",omitzero"`
}

func (s *share) String() string {
	text := fmt.Sprintf("processors: servers %.1f, attack %.1f, others %.1f", s.Servers, s.Attack, s.Others)
	if s.Waiting > 0 {
		text += fmt.Sprintf(", servers wait %.1f", s.Waiting)
	}
	return text
}

// A clock is the time that processors have been used for since the machine began. A process
// that ends between two looks counts as another one.
type clock struct {
	at                                time.Time
	servers, attack, innocents, total time.Duration
	waited                            time.Duration // by threads of the servers
}

func readClock(servers []int, innocents []*innocentProcess) (c clock) {
	c.at = time.Now()
	for _, pid := range servers {
		c.servers += usedBy(strconv.Itoa(pid))
		c.waited += waitedBy(strconv.Itoa(pid))
	}
	for _, p := range innocents {
		c.innocents += usedBy(strconv.Itoa(p.cmd.Process.Pid))
	}
	c.attack = usedBy("self")
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		c.total = usedOf(string(text))
	}
	return c
}

// since returns the shares of the time since an earlier look.
func (c clock) since(earlier clock) share {
	wall := c.at.Sub(earlier.at).Seconds()
	of := func(now, then time.Duration) float64 { return max(0, (now-then).Seconds()/wall) }
	s := share{Servers: of(c.servers, earlier.servers), Attack: of(c.attack, earlier.attack), Innocents: of(c.innocents, earlier.innocents), Waiting: of(c.waited, earlier.waited)}
	s.Others = max(0, of(c.total, earlier.total)-s.Servers-s.Attack-s.Innocents)
	return s
}

// jiffy is the unit of times in /proc, USER_HZ.
const jiffy = 10 * time.Millisecond

// usedBy is the time that a process has used; 0 if it has ended.
func usedBy(pid string) time.Duration {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	return usedByProcess(string(text))
}

// waitedBy is how long the threads of a process could run and waited for a processor, all
// together; 0 if it has ended, or the kernel does not count it.
func waitedBy(pid string) (sum time.Duration) {
	names, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat") // fails only if the pattern is wrong
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil {
			sum += waitedOf(string(text))
		}
	}
	return sum
}

// waitedOf reads the second field of schedstat: nanoseconds.
func waitedOf(schedstat string) time.Duration {
	fields := strings.Fields(schedstat)
	if len(fields) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(fields[1], 10, 64) // no number: the kernel does not count it
	return time.Duration(n)
}

// usedByProcess reads user and system time from /proc/PID/stat. The name of the program,
// between parentheses, may have spaces.
func usedByProcess(stat string) time.Duration {
	_, rest, _ := strings.Cut(stat[strings.LastIndex(stat, ")")+1:], " ")
	const user, system = 11, 12 // after the name
	return jiffies(strings.Fields(rest), user, system)
}

// usedOf reads the time that all processors were busy from /proc/stat. What a host takes
// from a virtual machine is in it.
func usedOf(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	const user, nice, system, irq, softirq, steal = 1, 2, 3, 6, 7, 8
	return jiffies(strings.Fields(line), user, nice, system, irq, softirq, steal)
}

func jiffies(fields []string, which ...int) (sum time.Duration) {
	for _, i := range which {
		if i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64) // no number: it is not Linux, and counts nothing
			sum += time.Duration(n) * jiffy
		}
	}
	return sum
}

// compute uses all processors, and asks the servers nothing: what an innocent client waits
// for beside it, it waits for a processor.
func compute(x *scene) {
	for range runtime.NumCPU() {
		go func() {
			for x.lasts() {
			}
		}()
	}
	x.hold(time.Minute)
}

func TestClock(t *testing.T) {
	if got := usedByProcess("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0"); got != 2*time.Second {
		t.Errorf("a process has used %v, want 2 s", got)
	}
	if got := usedOf("cpu  100 200 300 4000 50 6 7 8 9 9\ncpu0 1 1 1 1\n"); got != 6210*time.Millisecond {
		t.Errorf("the machine has used %v, want 6.21 s", got)
	}
	at := time.Unix(1000, 0)
	if got := waitedOf("918123 1481310 2\n"); got != 1481310 {
		t.Errorf("a thread has waited %v, want 1.48131 ms", got)
	}
	then := clock{at, time.Second, time.Second, time.Second, 10 * time.Second, time.Second}
	now := clock{at.Add(2 * time.Second), 3 * time.Second, 1500 * time.Millisecond, time.Second, 14 * time.Second, 4 * time.Second}
	if got, want := now.since(then), (share{1, 0.25, 0, 0.75, 1.5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
