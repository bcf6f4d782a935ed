//go:build race

package sim

// raceDetector makes tests do a part of what they do without it.
const raceDetector = true
