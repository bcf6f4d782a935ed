package cli

import "cmp"

// comparePaths orders paths as a scan meets them: a znode, then all below it,
// siblings by the bytes of their names.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// pathed is what a queue can hold.
type pathed interface{ pathOf() string }

// A queue gives back what it holds in the order of comparePaths (a binary heap).
type queue[T pathed] []T

func (q queue[T]) less(i, j int) bool { return comparePaths(q[i].pathOf(), q[j].pathOf()) < 0 }

// first is the least; the queue must not be empty.
func (q queue[T]) first() T { return q[0] }

func (q *queue[T]) push(x T) {
	*q = append(*q, x)
	for i := len(*q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			return
		}
		(*q)[i], (*q)[up] = (*q)[up], (*q)[i]
		i = up
	}
}

func (q *queue[T]) pop() T {
	old := *q
	x, last := old[0], len(old)-1
	old[0] = old[last]
	var none T
	old[last] = none
	*q = old[:last]
	q.settle()
	return x
}

// settle puts the first, whose path has grown, where it belongs now.
func (q queue[T]) settle() {
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(q); child++ {
			if q.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
