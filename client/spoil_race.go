//go:build race

package client

// spoilLent: see spoil.go.
const spoilLent = true
