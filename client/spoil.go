//go:build !race

package client

// spoilLent is on under the race detector: data that was lent is overwritten as soon
// as its callback has returned, so that a test finds who has kept it.
const spoilLent = false
