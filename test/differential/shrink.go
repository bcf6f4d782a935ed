package main

import (
	"fmt"
	"slices"
	"time"
)

// shrinkTime bounds the search for fewer steps; every try starts both servers
// anew.
const shrinkTime = 3 * time.Minute

// again runs steps on fresh servers. It returns the first difference and the
// index of its step; len(steps) stands for the final comparison.
func (o *options) again(p *processes, c configuration, steps []step, show bool) (*difference, int, error) {
	w, err := o.world(p, c, false)
	if err != nil {
		return nil, 0, err
	}
	defer w.a.close()
	defer w.b.close()
	for i := range steps {
		got, d := w.step(&steps[i])
		if show {
			fmt.Printf("%5d  %v\n", i+1, steps[i])
			for name, items := range got {
				for _, it := range items {
					fmt.Printf("         %s: %v\n", name, it)
				}
			}
		}
		if d != nil {
			return d, i, nil
		}
	}
	d, _, err := o.finish(p, w, c)
	return d, len(steps), err
}

// shorten removes steps, and requests of pipelined steps, while the servers
// still differ in the same way. It returns the steps and their difference.
func (o *options) shorten(p *processes, c configuration, steps []step, d *difference) ([]step, *difference) {
	end := time.Now().Add(shrinkTime)
	tries := 0
	try := func(s []step) bool {
		if time.Now().After(end) {
			return false
		}
		tries++
		got, at, err := o.again(p, c, s, false)
		if err != nil || got == nil || got.what != d.what || got.where != d.where || at < len(s)-1 {
			return false
		}
		d = got
		return true
	}
	steps = remove(steps, try)
	for i := range steps {
		if len(steps[i].Reqs) < 2 {
			continue
		}
		steps[i].Reqs = remove(steps[i].Reqs, func(r []request) bool {
			s := slices.Clone(steps)
			s[i].Reqs = r
			return try(s)
		})
	}
	fmt.Printf("(%d tries)\n", tries)
	return steps, d
}

// remove takes parts out of v, large ones first, as long as ok holds for what
// is left.
func remove[T any](v []T, ok func([]T) bool) []T {
	for size := (len(v) + 1) / 2; size > 0; size /= 2 {
		for at := 0; at < len(v); {
			without := slices.Delete(slices.Clone(v), at, min(at+size, len(v)))
			if len(without) > 0 && ok(without) {
				v = without
			} else {
				at += size
			}
		}
	}
	return v
}
