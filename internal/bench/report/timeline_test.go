package report

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// recorded is a record of two systems of ten samples.
func recorded() *bench.Failovers {
	line := bench.Timeline{
		System: "apache", Version: "3.8.0-${mvngit.commit.id}, built on some day",
		Events: []bench.Event{
			{Mark: "1", Member: 2, Killed: 0.2, Started: 0.3, Back: 0.5},
			{Mark: "4a", Member: 1, Leads: true, Killed: 0.6, Started: 0.7, Back: 0.9},
		},
		Reads:  []uint32{9, 9, 9, 8, 9, 9, 0, 3, 9, 9},
		Writes: []uint32{3, 3, 3, 2, 3, 3, 0, 1, 3, 3},
	}
	other := line
	other.System, other.Version = "pinfold", ""
	return &bench.Failovers{Sample: 0.1, Systems: []bench.Timeline{line, other}}
}

// The picture is well-formed, and names all that is in it.
func TestTimeline(t *testing.T) {
	svg, err := Timeline(recorded())
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	paths := 0
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch x := token.(type) {
		case xml.StartElement:
			if x.Name.Local == "path" {
				paths++
			}
		case xml.CharData:
			counts[strings.TrimSpace(string(x))]++
		}
	}
	for text, want := range map[string]int{
		"apache (3.8.0)": 1, "pinfold": 1, "1": 4, "4a leader": 2, // 1 second is there too
		"operations per second": 2, "seconds": 2,
		"reads and writes": 1, "writes": 1, "a member is killed": 1, "it is back in sync": 1, "100": 2,
	} {
		if counts[text] != want {
			t.Errorf("%q is there %d times, want %d", text, counts[text], want)
		}
	}
	if paths < 20 {
		t.Errorf("%d lines are drawn", paths)
	}
}

func TestTimelineRefuses(t *testing.T) {
	uneven := recorded()
	uneven.Systems[1].Reads = uneven.Systems[1].Reads[1:]
	for name, found := range map[string]*bench.Failovers{"nothing": {Sample: 1}, "uneven": uneven} {
		if _, err := Timeline(found); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct {
		about     int
		low, high float64
		want      string
	}{
		{5, 0, 23e3, "0 5 k 10 k 15 k 20 k"},
		{5, 0, 2.3e6, "0 500 k 1 M 1.5 M 2 M"},
		{10, 0, 29, "0 5 10 15 20 25"},
		{5, 0, 0, "0"},
	} {
		var got []string
		for _, tick := range (roundTicks{test.about}).Ticks(test.low, test.high) {
			got = append(got, tick.Label)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%v to %v: %q, want %q", test.low, test.high, got, test.want)
		}
	}
}
