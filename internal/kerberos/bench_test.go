package kerberos

import (
	"runtime"
	"testing"
	"time"
)

// BenchmarkLogin is a login on the server's side, all tokens of it.
func BenchmarkLogin(b *testing.B) {
	r := newRig(b)
	for name, oneWay := range map[string]bool{"one way": true, "mutual": false} {
		b.Run(name, func(b *testing.B) {
			k := r.ticket(nil)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				in, token, err := initiate(k, InitiatorOptions{OneWay: oneWay})
				x := r.Begin()
				for err == nil && !in.Done() {
					b.StartTimer()
					var answer []byte
					answer, err = x.Step(token)
					b.StopTimer()
					if err == nil {
						token, err = in.Step(answer)
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := x.Step(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReplays is the memory of a full replay cache.
func BenchmarkReplays(b *testing.B) {
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := newReplays(time.Minute, maxReplays, "", nil)
		now := time.Unix(1e9, 0)
		for i := range maxReplays {
			if err := r.add([]byte{byte(i), byte(i >> 8), byte(i >> 16)}, now); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "bytes")
		runtime.KeepAlive(r)
	}
}
