package monitoring

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

var (
	measure = flag.Bool("measure", false, "run the tests that measure")
	znodes  = flag.Int("znodes", 1_000_000, "how many `znodes` the ensemble has while its scrapes are measured")
	rounds  = flag.Int("rounds", 5, "how many `pairs` of runs there are, without scrapes and with them")
)

// TestScrapesDelayNobody measures what scrapes of three members, one of each every second, do to the 99th percentile
// of clients, who read and write at a rate below what the members could serve.
func TestScrapesDelayNobody(t *testing.T) {
	if !*measure {
		t.Skip("this measures, and takes minutes: -measure runs it")
	}
	e := startMembers(t, 3)
	var servers, metrics []string
	for _, m := range e.Members {
		servers, metrics = append(servers, m.Client), append(metrics, m.Metrics)
	}
	load := func(args ...string) bench.Result {
		name := filepath.Join(t.TempDir(), "result.json")
		args = append([]string{"bench"}, append(args, "--servers", strings.Join(servers, ","), "--json", name, "-q")...)
		if out, err := exec.Command(*pinfold, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		text, err := os.ReadFile(name)
		var result bench.Result
		if err == nil {
			err = json.Unmarshal(text, &result)
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	load("fill", "--count", strconv.Itoa(*znodes), "--parents", "1000")
	p99 := map[string]map[bool][]float64{}
	for range *rounds {
		for _, scraped := range []bool{false, true} {
			stop := make(chan struct{})
			done := make(chan int)
			go func() {
				if !scraped {
					done <- 0
					return
				}
				done <- scrape(t, metrics, stop)
			}()
			result := load("mix", "--rate", "3000", "--read-ratio", "0.8", "--outstanding", "10", "--duration", "15s")
			close(stop)
			t.Logf("%d scrapes", <-done)
			for _, op := range result.Ops {
				if p99[op.Op] == nil {
					p99[op.Op] = map[bool][]float64{}
				}
				p99[op.Op][scraped] = append(p99[op.Op][scraped], op.P99)
			}
		}
	}
	for op, of := range p99 {
		t.Logf("RESULT scrapes: %s, %d znodes: median of the 99th percentiles %.2f ms without, %.2f ms with; all without %.0f µs, all with %.0f µs",
			op, *znodes, middle(of[false])/1000, middle(of[true])/1000, of[false], of[true])
	}
}

// scrape asks all members for their metrics every second until stop is closed, and returns how often it got them.
func scrape(t *testing.T, metrics []string, stop <-chan struct{}) int {
	n := 0
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return n
		case <-tick.C:
		}
		for _, addr := range metrics {
			res, err := http.Get("http://" + addr + "/metrics")
			if err == nil {
				_, err = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			if err != nil {
				t.Error(err)
				return n
			}
			n++
		}
	}
}

func middle(list []float64) float64 { return slices.Sorted(slices.Values(list))[len(list)/2] }
