package hostile

import (
	"fmt"
	"os"
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
}

func (s *share) String() string {
	return fmt.Sprintf("processors: servers %.1f, attack %.1f, others %.1f", s.Servers, s.Attack, s.Others)
}

// A clock is the time that processors have been used for since the machine began. A process
// that ends between two looks counts as another one.
type clock struct {
	at                                time.Time
	servers, attack, innocents, total time.Duration
}

func readClock(servers []int, innocents []*innocentProcess) (c clock) {
	c.at = time.Now()
	for _, pid := range servers {
		c.servers += usedBy(strconv.Itoa(pid))
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
	s := share{Servers: of(c.servers, earlier.servers), Attack: of(c.attack, earlier.attack), Innocents: of(c.innocents, earlier.innocents)}
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
	then := clock{at, time.Second, time.Second, time.Second, 10 * time.Second}
	now := clock{at.Add(2 * time.Second), 3 * time.Second, 1500 * time.Millisecond, time.Second, 14 * time.Second}
	if got, want := now.since(then), (share{1, 0.25, 0, 0.75}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
