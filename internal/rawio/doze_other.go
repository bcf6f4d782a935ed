//go:build !linux

package rawio

import "time"

// Doze sleeps for d.
func Doze(d time.Duration) { time.Sleep(d) }
