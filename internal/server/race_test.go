//go:build race

package server

// raceDetector makes tests take a part of what they take without it.
const raceDetector = true
