//go:build race

package pipeline

// raceDetector makes tests do a part of what they do without it.
const raceDetector = true
