package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// dumpTree reads every znode as the super user: path to answers of getData,
// getACL and getChildren2, in the order that walking gives.
func (s *side) dumpTree() (paths []string, items map[string][]item) {
	items = map[string][]item{}
	todo := []string{"/"}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		paths = append(paths, p)
		get := wire.PathWatch{Path: p}
		data := s.ask(&request{Xid: 1, Op: wire.OpGetData, Body: get.Append(nil)})
		acl := s.ask(&request{Xid: 2, Op: wire.OpGetACL, Body: pathBody(p)})
		q := request{Xid: 3, Op: wire.OpGetChildren2, Body: get.Append(nil)}
		children := s.ask(&q)
		items[p] = []item{data, acl, children}
		names, err := s.childNames(p)
		if err != nil {
			items[p] = append(items[p], item{Kind: itemNonsense, Text: err.Error()})
			continue
		}
		for _, n := range slices.Backward(names) {
			todo = append(todo, strings.TrimSuffix(p, "/")+"/"+n)
		}
	}
	return paths, items
}

// childNames reads the sorted children of p.
func (s *side) childNames(p string) ([]string, error) {
	get := wire.PathWatch{Path: p}
	q := request{Xid: 4, Op: wire.OpGetChildren, Body: get.Append(nil)}
	s.control.send(q.frame(nil, 0))
	b, err := s.control.frame(answerTimeout)
	if err != nil {
		return nil, err
	}
	d := jute.NewDecoder(b)
	var h wire.ReplyHeader
	h.Decode(&d)
	if h.Err != zk.OK {
		return nil, h.Err
	}
	names := d.Strings()
	slices.Sort(names)
	return names, d.Err()
}

// compareTrees walks both trees and compares node by node.
func (w *world) compareTrees() (*difference, int) {
	pa, ia := w.a.dumpTree()
	_, ib := w.b.dumpTree()
	none := &step{Kind: "tree"}
	for _, p := range pa {
		if what := w.sequences(none, ia[p], ib[p]); what != "" {
			return &difference{where: fmt.Sprintf("tree at %q", p), what: what, a: ia[p], b: ib[p], at: w.firstPair(none, ia[p], ib[p])}, len(pa)
		}
	}
	if len(ia) != len(ib) {
		return &difference{where: "tree", what: fmt.Sprintf("%d znodes against %d", len(ia), len(ib))}, len(pa)
	}
	return nil, len(pa)
}

// compareWords compares the counts and lists of the four-letter words that
// both servers must agree on. Left out are the watch counts, which are of the
// data table, and that holds different watches in different releases; the
// approximate data size, in which Apache misses the growth of quota statistics;
// and dump's number of sessions with ephemerals, in which Apache counts those
// that have none left.
func (w *world) compareWords() *difference {
	// A gauge may be a second old.
	const patience = 3 * time.Second
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		d := w.compareWordsOnce()
		if d == nil || time.Now().After(end) {
			return d
		}
	}
}

func (w *world) compareWordsOnce() *difference {
	sum := func(s *side) (string, error) {
		var out []string
		srvr, err := fourLetter(s.addr, "srvr")
		if err != nil {
			return "", err
		}
		out = append(out, linesWith(srvr, "Node count:", "Mode:")...)
		mntr, err := fourLetter(s.addr, "mntr")
		if err != nil {
			return "", err
		}
		out = append(out, linesWith(mntr, "zk_znode_count\t", "zk_ephemerals_count\t", "zk_server_state\t",
			"zk_num_alive_connections\t", "zk_global_sessions\t")...)
		dump, err := fourLetter(s.addr, "dump")
		if err != nil {
			return "", err
		}
		return strings.Join(append(out, s.ephemerals(dump)...), "\n"), nil
	}
	a, err := sum(w.a)
	if err != nil {
		return &difference{where: "four-letter words of A", what: err.Error()}
	}
	b, err := sum(w.b)
	if err != nil {
		return &difference{where: "four-letter words of B", what: err.Error()}
	}
	if a != b {
		return wordsDiffer(a, b)
	}
	return nil
}

// wordsDiffer names the first line that differs up to its value, so that a
// shorter run that differs in the same line counts as the same.
func wordsDiffer(a, b string) *difference {
	la, lb := strings.Split(a, "\n"), strings.Split(b, "\n")
	line := "number of lines"
	for i := range min(len(la), len(lb)) {
		if la[i] != lb[i] {
			line, _, _ = strings.Cut(la[i], "\t")
			break
		}
	}
	return &difference{where: "four-letter words", what: line, detail: fmt.Sprintf("A:\n%s\nB:\n%s\n", a, b)}
}

func linesWith(text string, prefixes ...string) []string {
	var out []string
	for l := range strings.Lines(text) {
		for _, p := range prefixes {
			if strings.HasPrefix(l, p) {
				out = append(out, strings.TrimSpace(l))
			}
		}
	}
	slices.Sort(out)
	return out
}

// ephemerals is the "ephemeral nodes" part of dump with the sessions named and
// all of it sorted.
func (s *side) ephemerals(dump string) []string {
	var out []string
	in, owner := false, ""
	for l := range strings.Lines(dump) {
		l = strings.TrimRight(l, "\n")
		switch {
		case strings.HasPrefix(l, "Sessions with Ephemerals"):
			in = true
		case strings.HasPrefix(l, "Connections dump"):
			in = false
		case in && strings.HasPrefix(l, "0x"):
			var id uint64
			if _, err := fmt.Sscanf(l, "0x%x:", &id); err != nil {
				owner = l
			} else {
				owner = s.sessionName(int64(id))
			}
		case in && strings.HasPrefix(l, "\t"):
			out = append(out, owner+l)
		}
	}
	slices.Sort(out)
	return out
}
