//go:build !race

package client

// spoilLent is true under the race detector: lent data is overwritten as soon as its
// callback has returned, so that tests find callbacks that keep it.
const spoilLent = false
