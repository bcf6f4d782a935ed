package backup

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// bucket starts a server of the protocol with a bucket, and returns a store in it.
func bucket(t *testing.T, prefix string) *S3 {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "user")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	backend := s3mem.New()
	if err := backend.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	s, err := OpenS3("s3://backups"+prefix, S3Options{Endpoint: server.URL, Region: "us-east-1", transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A bucket is a store like a directory: it is filled in pieces, and restored.
func TestS3(t *testing.T) {
	for _, prefix := range []string{"", "/zookeeper/one"} {
		t.Run(prefix, func(t *testing.T) {
			store, dir := bucket(t, prefix), t.TempDir()
			s, c := start(t, dir)
			create(t, c, "/a-%d", 0, 5)
			run(t, Backup{Store: store, DataDir: dir})
			create(t, c, "/a-%d", 5, 8)
			r := run(t, Backup{Store: store, DataDir: dir})
			if r.Generation != 1 || r.Transactions != 3 {
				t.Errorf("the second backup: %+v", r)
			}
			stop(t, s, c)
			got, to, err := restoreFrom(t, nil, func(x *Restore) { x.Store = store; x.Zxid = r.Zxid - 1 })
			if err != nil || got.Zxid != r.Zxid-1 {
				t.Fatalf("%+v, %v", got, err)
			}
			s, c = start(t, to)
			has(t, c, "/a-%d", 7)
			stop(t, s, c)
		})
	}
}

// What a store does not have, or a service that is not there, is an error.
func TestS3Errors(t *testing.T) {
	store := bucket(t, "")
	if f, err := store.Get(within(t), "nothing"); err == nil {
		f.Close()
		t.Error("a file that is not there was opened")
	}
	store.bucket = "other"
	if _, err := store.List(within(t)); err == nil {
		t.Error("a bucket that is not there was listed")
	}
	if err := store.Put(within(t), "x", strings.NewReader("x"), 1); err == nil {
		t.Error("a file was written to a bucket that is not there")
	}
	for _, name := range []string{"", "bucket", "s3://", "s3:///prefix"} {
		if _, err := OpenS3(name, S3Options{}); err == nil {
			t.Errorf("%q was opened", name)
		}
	}
	for _, endpoint := range []string{"host:9000", "ftp://host", "https://host/path"} {
		if _, err := OpenS3("s3://bucket", S3Options{Endpoint: endpoint}); err == nil {
			t.Errorf("the endpoint %q was accepted", endpoint)
		}
	}
}

// A file that is larger than a part of an upload is there as it was.
func TestS3LargeFile(t *testing.T) {
	store := bucket(t, "")
	want := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	if err := store.Put(within(t), "large", bytes.NewReader(want), int64(len(want))); err != nil {
		t.Fatal(err)
	}
	f, err := store.Get(within(t), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
