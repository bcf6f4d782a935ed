package report

import (
	"bytes"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The readers' machine need not have the font that the text was measured with.
const (
	fontFamily    = "font-family:Liberation Sans"
	fontFallbacks = fontFamily + ",Arial,Helvetica,sans-serif"
)

// svg returns the picture.
func svg(canvas *vgsvg.Canvas) ([]byte, error) {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte(fontFamily), []byte(fontFallbacks)), nil
}

// setFont chooses one without serifs.
func setFont(style *text.Style) {
	style.Font.Typeface, style.Font.Variant, style.Font.Size = "Liberation", "Sans", font.Points(9)
}

// newPlot returns an empty one in a font without serifs.
func newPlot() *plot.Plot {
	p := plot.New()
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label,
	} {
		setFont(style)
	}
	p.Title.TextStyle.Font.Size = font.Points(11)
	p.Title.Padding, p.X.Label.Padding, p.Y.Label.Padding = vg.Points(4), vg.Points(2), vg.Points(3)
	p.X.Padding, p.Y.Padding = 0, 0
	p.X.Tick.Marker, p.Y.Tick.Marker = roundTicks{10}, roundTicks{5}
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	p.Add(grid)
	return p
}

// roundTicks marks an axis at round numbers, the large ones shortened.
type roundTicks struct{ about int }

// Ticks returns at most about as many marks as wanted, from low to high.
func (t roundTicks) Ticks(low, high float64) (ticks []plot.Tick) {
	step := roundStep((high - low) / float64(t.about))
	for v := math.Ceil(low/step) * step; v <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
	}
	return ticks
}

// roundStep returns the smallest of 1, 2 and 5 times a power of ten that is not
// below v; 1 for what is not positive.
func roundStep(v float64) float64 {
	if !(v > 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 4, 64) + " M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 4, 64) + " k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
