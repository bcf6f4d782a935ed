//go:build race

package replica

// raceDetector makes tests take a part of what they take without it.
const raceDetector = true
