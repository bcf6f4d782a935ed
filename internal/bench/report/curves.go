package report

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A curve is one system at one setting.
type curve struct {
	name   string
	system int // which colour
	index  int // among those of its system: which dashes and which glyph
	points []spread
}

// A spread is what the runs have measured at one point.
type spread struct{ x, median, low, high float64 }

// axes say how a plot is drawn.
type axes struct {
	x, y       string
	logX, logY bool
}

// colours are those of the systems: the last system, which is ours, has the first.
var colours = []color.RGBA{{0x1f, 0x4e, 0x9c, 0xff}, {0xd9, 0x8c, 0x1a, 0xff}, {0x2a, 0x8a, 0x3c, 0xff}, {0x8a, 0x2a, 0x8a, 0xff}}

const (
	plotWidth  = 7.5 * vg.Inch
	plotHeight = 3.6 * vg.Inch
)

// drawCurves returns an SVG with the curves, a vertical line at each point from
// the lowest to the highest run.
func drawCurves(curves []curve, a axes) ([]byte, error) {
	p := newPlot()
	p.X.Label.Text, p.Y.Label.Text = a.x, a.y
	p.Legend.Top = true
	if rises(curves) {
		p.Legend.Left, p.Legend.XOffs = true, vg.Points(8)
	}
	setFont(&p.Legend.TextStyle)
	p.Legend.Padding = vg.Points(2)
	top, bottom := 0.0, math.Inf(1)
	for _, c := range curves {
		if err := addCurve(p, c); err != nil {
			return nil, err
		}
		for _, s := range c.points {
			top, bottom = max(top, s.high), min(bottom, s.low)
		}
	}
	p.Y.Min, p.Y.Max = 0, top*headroom
	if a.logY && bottom > 0 {
		p.Y.Min, p.Y.Max = bottom/1.5, top*3 // room for the legend
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, powerTicks{}
	}
	if a.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powerTicks{}
	}
	if p.X.Min == p.X.Max {
		p.X.Min, p.X.Max = p.X.Min*0.9, p.X.Max*1.1+1
	}
	canvas := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.Crop(draw.New(canvas), gapBetween, -gapBetween, gapBetween, -gapBetween))
	return svg(canvas)
}

// rises reports whether the highest of the curves' ends is on the right: the legend
// is on the left then, out of the way.
func rises(curves []curve) bool {
	left, right := 0.0, 0.0
	for _, c := range curves {
		if n := len(c.points); n > 0 {
			left, right = max(left, c.points[0].high), max(right, c.points[n-1].high)
		}
	}
	return right > left
}

func addCurve(p *plot.Plot, c curve) error {
	var at plotter.XYs
	style := draw.LineStyle{Color: colours[c.system%len(colours)], Width: vg.Points(1.1)}
	if c.index > 0 {
		style.Dashes = []vg.Length{vg.Points(float64(2 + 3*c.index)), vg.Points(2)}
	}
	for _, s := range c.points {
		at = append(at, plotter.XY{X: s.x, Y: s.median})
		if s.high > s.low {
			run, err := plotter.NewLine(plotter.XYs{{X: s.x, Y: s.low}, {X: s.x, Y: s.high}})
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			run.LineStyle = draw.LineStyle{Color: style.Color, Width: vg.Points(0.6)}
			p.Add(run)
		}
	}
	line, dots, err := plotter.NewLinePoints(at)
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	line.LineStyle = style
	dots.GlyphStyle = draw.GlyphStyle{Color: style.Color, Radius: vg.Points(2), Shape: shape(c.index)}
	p.Add(line, dots)
	p.Legend.Add(c.name, line, dots)
	return nil
}

// shape is the glyph of the i-th curve of a system.
func shape(i int) draw.GlyphDrawer {
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.CrossGlyph{}}
	return shapes[i%len(shapes)]
}

// powerTicks marks a logarithmic axis at 1, 2 and 5 times the powers of ten.
type powerTicks struct{}

// Ticks returns the marks from low to high.
func (powerTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	wide := high/low > 300 // then the powers alone have labels
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if v := m * power; v >= low && v <= high {
				t := plot.Tick{Value: v}
				if m == 1 || !wide {
					t.Label = short(v)
				}
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}
