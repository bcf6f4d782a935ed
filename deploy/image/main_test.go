package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// made writes an image of three small files.
func made(t *testing.T) (dir, digest string) {
	t.Helper()
	in, dir := t.TempDir(), t.TempDir()
	for _, name := range []string{"binary", "license", "sbom"} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	digest, err := write(&options{
		binary: filepath.Join(in, "binary"), license: filepath.Join(in, "license"), sbom: filepath.Join(in, "sbom"),
		arch: "amd64", version: "1.2.3", revision: "abc", seconds: 1_700_000_000, out: dir,
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, digest
}

// blob reads a blob, whose name is its sum.
func blob(t *testing.T, dir, digest string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digest, "sha256:")))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(data); "sha256:"+hex.EncodeToString(sum[:]) != digest {
		t.Errorf("%s has another sum", digest)
	}
	return data
}

// Equal files make equal images; all that an image names is there, and nobody but the user
// of the server owns what is written to.
func TestImage(t *testing.T) {
	dir, digest := made(t)
	if _, again := made(t); again != digest {
		t.Errorf("%s and %s", digest, again)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	var config struct {
		Config struct{ User string }
		Rootfs struct {
			Layers []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(blob(t, dir, digest), &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(blob(t, dir, manifest.Config.Digest), &config); err != nil || config.Config.User != "65532:65532" {
		t.Errorf("user %q, %v", config.Config.User, err)
	}
	z, err := gzip.NewReader(strings.NewReader(string(blob(t, dir, manifest.Layers[0].Digest))))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	r := tar.NewReader(io.TeeReader(z, sum))
	var names []string
	for {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if owned := h.Name == "data/"; owned != (h.Uid == user) || h.ModTime.Unix() != 1_700_000_000 {
			t.Errorf("%s is of %d, at %v", h.Name, h.Uid, h.ModTime)
		}
	}
	if _, err := io.Copy(sum, z); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(names, " "); got != "data/ licenses/ tmp/ licenses/LICENSE licenses/sbom.json pinfold" {
		t.Error(got)
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); len(config.Rootfs.Layers) != 1 || config.Rootfs.Layers[0] != got {
		t.Errorf("the layer is %s, named %v", got, config.Rootfs.Layers)
	}
}
