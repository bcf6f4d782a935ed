package history

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/znode"
)

// An ApacheComparison compares the sizes of two snapshots by the depth of their znodes, as
// Apache's SnapshotComparer prints it.
type ApacheComparison struct {
	Out    io.Writer
	Bytes  int64 // a difference of more bytes is printed
	Znodes int64 // and one of more znodes
	Debug  bool  // print what is not
	// In, unless it is nil, has lines that ask for a layer or a subtree each.
	In io.Reader
}

// Run reads and compares two snapshot files.
func (c *ApacheComparison) Run(left, right string) error {
	w := bufio.NewWriter(c.Out)
	fmt.Fprint(w, "Successfully parsed options!\n") // bufio keeps the error for Flush
	var layers [2][]map[string]sum
	for i, name := range []string{left, right} {
		began := time.Now()
		s, err := ReadSnapshot(name, 0)
		if err != nil {
			return errors.Join(err, w.Flush())
		}
		fmt.Fprintf(w, "Deserialized snapshot in %s in %f seconds\n", filepath.Base(name), time.Since(began).Seconds())
		began = time.Now()
		layers[i] = layersOf(s.Tree())
		fmt.Fprintf(w, "Processed data tree in %f seconds\n", time.Since(began).Seconds())
	}
	for _, l := range layers {
		printLayers(w, l)
	}
	if c.In != nil {
		return c.ask(w, layers)
	}
	c.thresholds(w)
	for i := range max(len(layers[0]), len(layers[1])) {
		c.depth(w, layers, i)
	}
	fmt.Fprint(w, "All layers compared.\n")
	return w.Flush()
}

func (c *ApacheComparison) thresholds(w io.Writer) {
	fmt.Fprintf(w, "Printing analysis for nodes difference larger than %d bytes or node count difference larger than %d.\n", c.Bytes, c.Znodes)
}

// depth prints the differences of the znodes at one depth.
func (c *ApacheComparison) depth(w io.Writer, layers [2][]map[string]sum, i int) {
	fmt.Fprintf(w, "Analysis for depth %d\n", i)
	c.layer(w, layerAt(layers[0], i), layerAt(layers[1], i))
}

// ask prints what each line of In asks for: an empty one the next layer, a number that layer, a
// path the children of a znode. It ends after the last layer, or with the input.
func (c *ApacheComparison) ask(w *bufio.Writer, layers [2][]map[string]sum) error {
	in, layersInAll := bufio.NewScanner(c.In), max(len(layers[0]), len(layers[1]))
	for at := 0; at < layersInAll; {
		fmt.Fprintf(w, "Current depth is %d\n%s\n", at, asks)
		if err := w.Flush(); err != nil || !in.Scan() {
			return errors.Join(err, in.Err())
		}
		c.thresholds(w)
		line := in.Text()
		number, err := strconv.Atoi(line)
		switch {
		case line == "":
			c.depth(w, layers, at)
			at++
		case line[0] == '/':
			c.children(w, layers, line)
		case err != nil:
			fmt.Fprintf(w, "Input %s is not valid. Depth must be in range [0, %d]. Path must be an absolute path which starts with '/'.\n", line, layersInAll-1)
		case number < 0 || number >= layersInAll:
			fmt.Fprintf(w, "Depth must be in range [0, %d]\n", layersInAll-1)
			continue // without an empty line, as Apache's
		default:
			at = number
			c.depth(w, layers, at)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, "All layers compared.\n")
	return w.Flush()
}

// asks is what Apache's tool prints before it reads a line.
const asks = `- Press enter to move to print current depth layer;
- Type a number to jump to and print all nodes at a given depth;
- Enter an ABSOLUTE path to print the immediate subtree of a node. Path must start with '/'.`

// children prints the differences of the children of a znode. Apache's calls the root "", so it
// does not find "/"; here it is found.
func (c *ApacheComparison) children(w io.Writer, layers [2][]map[string]sum, path string) {
	fmt.Fprintf(w, "Analysis for node %s\n", path)
	top, found := strings.TrimSuffix(path, "/"), false
	var sides [2]map[string]sum
	for i, l := range layers {
		_, has := layerAt(l, depth(path))[top]
		found = found || has
		sides[i] = map[string]sum{}
		for p, s := range layerAt(l, depth(path)+1) {
			if strings.HasPrefix(p, top+"/") {
				sides[i][p] = s
			}
		}
	}
	if !found {
		fmt.Fprintf(w, "Path %s is neither found in left tree nor right tree.\n", path)
		return
	}
	c.layer(w, sides[0], sides[1])
}

func layerAt(layers []map[string]sum, i int) map[string]sum {
	if i >= len(layers) {
		return nil
	}
	return layers[i]
}

// layersOf returns the sums of all znodes by their depth. The path of the root is empty, as
// in Apache.
func layersOf(t *znode.Tree) (layers []map[string]sum) {
	for path, s := range sumsOf(t, "/") {
		path = strings.TrimSuffix(path, "/")
		at := depth(path)
		for len(layers) <= at {
			layers = append(layers, map[string]sum{})
		}
		layers[at][path] = s
	}
	return layers
}

func printLayers(w io.Writer, layers []map[string]sum) {
	root := layers[0][""]
	fmt.Fprintf(w, "Node count: %d\nTotal size: %d\nMax depth: %d\n", root.znodes+1, root.bytes, len(layers))
	for i, l := range layers {
		fmt.Fprintf(w, "Count of nodes at depth %d: %d\n", i, len(l))
	}
	fmt.Fprintln(w)
}

// layer prints the differences of two layers. It takes the znodes of each in the order of
// their paths; a debugging line shows each step.
func (c *ApacheComparison) layer(w io.Writer, left, right map[string]sum) {
	l, r := slices.Sorted(maps.Keys(left)), slices.Sorted(maps.Keys(right))
	for len(l) > 0 || len(r) > 0 {
		order := 0
		switch {
		case len(l) == 0:
			order = 1
		case len(r) == 0:
			order = -1
		default:
			order = cmp.Compare(l[0], r[0])
			c.debug(w, "Comparing %s to %s\n%s\n", l[0], r[0], [...]string{"left is less", "same", "right is less"}[order+1])
		}
		switch order {
		case -1:
			c.one(w, "left", l[0], left[l[0]])
			l = l[1:]
		case 1:
			c.one(w, "right", r[0], right[r[0]])
			r = r[1:]
		default:
			c.both(w, l[0], left[l[0]], right[r[0]])
			l, r = l[1:], r[1:]
		}
	}
}

func (c *ApacheComparison) debug(w io.Writer, format string, args ...any) {
	if c.Debug {
		fmt.Fprintf(w, format, args...)
	}
}

// filtered prints a line about what is not printed: with Debug, and in answer to a line of In.
func (c *ApacheComparison) filtered(w io.Writer, format string, args ...any) {
	if c.Debug || c.In != nil {
		fmt.Fprintf(w, format, args...)
	}
}

func (c *ApacheComparison) one(w io.Writer, side, path string, s sum) {
	if s.bytes > c.Bytes || int64(s.znodes) > c.Znodes {
		fmt.Fprintf(w, "Node %s found only in %s tree. Descendant size: %d. Descendant count: %d\n", path, side, s.bytes, s.znodes)
		return
	}
	c.filtered(w, "Filtered %s node %s of size %d\n", side, path, s.bytes)
}

func (c *ApacheComparison) both(w io.Writer, path string, l, r sum) {
	size, znodes := r.bytes-l.bytes, int64(r.znodes-l.znodes)
	if max(size, -size) > c.Bytes || max(znodes, -znodes) > c.Znodes {
		fmt.Fprintf(w, "Node %s found in both trees. Delta: %d bytes, %d descendants\n", path, size, znodes)
		return
	}
	c.filtered(w, "Filtered node %s of left size %d, right size %d\n", path, l.bytes, r.bytes)
}
