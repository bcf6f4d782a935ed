package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// All that a backup copies takes the time that its rate says; what was read slowly is not made up for.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{rate: 1 << 20}
		began := time.Now()
		for range 2 { // the pace is that of all readers together
			content := bytes.Repeat([]byte("x"), 5<<20)
			got, err := io.ReadAll(p.reader(t.Context(), bytes.NewReader(content)))
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
			time.Sleep(time.Minute) // virtual time: the bubble's clock jumps
		}
		if took := time.Since(began) - 2*time.Minute; took.Round(time.Millisecond) != 10*time.Second {
			t.Errorf("10 MiB at 1 MiB a second took %v", took)
		}
	})
}

// A backup that is stopped does not wait.
func TestPaceStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		p := pace{rate: 1}
		n, err := io.Copy(io.Discard, p.reader(ctx, bytes.NewReader(make([]byte, 1<<20))))
		if n != 0 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// Run's two kinds of files go at the pace: a snapshot and the log.
func TestABackupHasAPace(t *testing.T) {
	dir := t.TempDir()
	s, c := start(t, dir)
	create(t, c, "/a%d", 0, 20)
	stop(t, s, c)
	rates := &recordingStore{Store: Local(t.TempDir())}
	run(t, Backup{Store: rates, DataDir: dir, Rate: 1 << 30})
	if rates.paced < 2 || rates.others > 0 {
		t.Errorf("%d files were copied at the pace, %d were not", rates.paced, rates.others)
	}
}

// A recordingStore counts what is put at a pace.
type recordingStore struct {
	Store
	paced, others int
}

func (s *recordingStore) Put(ctx context.Context, name string, content io.Reader, bytes int64) error {
	if _, ok := content.(*pacedReader); ok {
		s.paced++
	} else {
		s.others++
	}
	return s.Store.Put(ctx, name, content, bytes)
}
