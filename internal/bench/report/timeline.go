package report

import (
	"errors"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

// Of the picture, in points.
const (
	width       = 9 * vg.Inch
	panelHeight = 2.9 * vg.Inch
	gapBetween  = 0.15 * vg.Inch
	keyHeight   = 0.3 * vg.Inch
	headroom    = 1.15 // of the y axis, for the marks
)

// lineStyles are how the parts of the picture are drawn.
type lineStyles struct{ all, writes, killed, back draw.LineStyle }

func lines() lineStyles {
	line := func(r, g, b uint8) draw.LineStyle {
		return draw.LineStyle{Color: color.RGBA{R: r, G: g, B: b, A: 0xff}, Width: vg.Points(0.9)}
	}
	s := lineStyles{
		all: line(0x1f, 0x4e, 0x9c), writes: line(0xd9, 0x8c, 0x1a),
		killed: line(0xc0, 0x20, 0x20), back: line(0x2a, 0x8a, 0x3c),
	}
	s.back.Dashes = []vg.Length{vg.Points(3), vg.Points(2)}
	return s
}

// Timeline draws what `pinfold bench failover` has recorded: an SVG with a panel for each system, one above the other, over
// the same time. Each has its own scale: what is shown is how far each falls
// below its own best.
func Timeline(found *bench.Failovers) ([]byte, error) {
	n := len(found.Systems)
	if n == 0 || found.Sample <= 0 {
		return nil, errors.New("nothing is recorded")
	}
	seconds := 0.0
	for _, s := range found.Systems {
		if len(s.Reads) != len(s.Writes) {
			return nil, fmt.Errorf("%s: %d samples of reads, %d of writes", s.System, len(s.Reads), len(s.Writes))
		}
		seconds = max(seconds, float64(len(s.Reads))*found.Sample)
	}
	canvas := vgsvg.New(width, vg.Length(n)*panelHeight+keyHeight)
	whole := draw.New(canvas)
	if err := drawKey(draw.Crop(whole, gapBetween, 0, vg.Length(n)*panelHeight, -gapBetween/2)); err != nil {
		return nil, err
	}
	tiles := draw.Tiles{Rows: n, Cols: 1, PadY: gapBetween, PadBottom: gapBetween / 2,
		PadLeft: gapBetween, PadRight: gapBetween}
	var panels [][]*plot.Plot
	for i := range found.Systems {
		p, err := panel(&found.Systems[i], found.Sample, seconds)
		if err != nil {
			return nil, err
		}
		panels = append(panels, []*plot.Plot{p})
	}
	for i, c := range plot.Align(panels, tiles, draw.Crop(whole, 0, 0, 0, -keyHeight)) {
		panels[i][0].Draw(c[0])
	}
	return svg(canvas)
}

// drawKey says what the lines are, side by side.
func drawKey(c draw.Canvas) error {
	style := lines()
	entries := []struct {
		name  string
		style draw.LineStyle
	}{
		{"reads and writes", style.all}, {"writes", style.writes},
		{"a member is killed", style.killed}, {"it is back in sync", style.back},
	}
	each := c.Size().X / vg.Length(len(entries))
	for i, e := range entries {
		sample, err := upright(0, 1, e.style)
		if err != nil {
			return err
		}
		key := plot.NewLegend()
		setFont(&key.TextStyle)
		key.Left, key.Top = true, true
		key.Add(e.name, sample)
		key.Draw(draw.Crop(c, vg.Length(i)*each, vg.Length(i+1)*each-c.Size().X, 0, 0))
	}
	return nil
}

// panel makes the plot of one system.
func panel(line *bench.Timeline, sample, seconds float64) (*plot.Plot, error) {
	p := newPlot()
	p.Title.Text = line.System
	// What a build that did not know its commit says of it is left out.
	version, _, _ := strings.Cut(line.Version, ", ")
	if version, _, _ = strings.Cut(version, "-$"); version != "" {
		p.Title.Text += " (" + version + ")"
	}
	p.X.Label.Text, p.Y.Label.Text = "seconds", "operations per second"
	all, writes := rates(line, sample)
	best := 0.0
	for _, xy := range all {
		best = max(best, xy.Y)
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, seconds, 0, max(best, 1)*headroom

	style := lines()
	for _, curve := range []struct {
		points plotter.XYs
		style  draw.LineStyle
	}{{all, style.all}, {writes, style.writes}} {
		l, err := plotter.NewLine(curve.points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line.System, err)
		}
		l.LineStyle = curve.style
		p.Add(l)
	}
	return p, addEvents(p, line)
}

// rates returns the points of the curves: each sample is at the middle of its interval.
func rates(line *bench.Timeline, sample float64) (all, writes plotter.XYs) {
	for i := range line.Reads {
		x := (float64(i) + 0.5) * sample
		all = append(all, plotter.XY{X: x, Y: float64(line.Reads[i]+line.Writes[i]) / sample})
		writes = append(writes, plotter.XY{X: x, Y: float64(line.Writes[i]) / sample})
	}
	return all, writes
}

// addEvents draws a line where a member was killed, with its mark at the top,
// and another where it was back.
func addEvents(p *plot.Plot, line *bench.Timeline) error {
	style := lines()
	var at plotter.XYLabels
	for _, ev := range line.Events {
		killed, err := upright(ev.Killed, p.Y.Max, style.killed)
		if err != nil {
			return err
		}
		back, err := upright(ev.Back, p.Y.Max, style.back)
		if err != nil {
			return err
		}
		p.Add(killed, back)
		mark := ev.Mark
		if ev.Leads {
			mark += " leader"
		}
		at.XYs = append(at.XYs, plotter.XY{X: ev.Killed, Y: p.Y.Max})
		at.Labels = append(at.Labels, mark)
	}
	marks, err := plotter.NewLabels(at)
	if err != nil {
		return err
	}
	for i := range marks.TextStyle {
		setFont(&marks.TextStyle[i])
		marks.TextStyle[i].Color, marks.TextStyle[i].YAlign = style.killed.Color, draw.YTop
	}
	marks.Offset = vg.Point{X: vg.Points(2), Y: -vg.Points(1)}
	p.Add(marks)
	return nil
}

func upright(x, top float64, style draw.LineStyle) (*plotter.Line, error) {
	l, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: top}})
	if err != nil {
		return nil, err
	}
	l.LineStyle = style
	return l, nil
}
