// Image writes an OCI image of the static binary, as an image layout in a directory: from
// scratch, for a user without rights and a read-only root. Equal files make equal images.
// scripts/image runs it.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// user is the numeric user that the image runs as, the one of the Helm chart.
const user = 65532

// options are the flags.
type options struct {
	binary, license, sbom   string // files
	arch, version, revision string
	seconds                 int64  // time of the commit, since 1970
	out                     string // a directory
}

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "", "the static binary")
	flag.StringVar(&o.license, "license", "", "the licence")
	flag.StringVar(&o.sbom, "sbom", "", "the list of what is in the binary")
	flag.StringVar(&o.arch, "arch", "", "its architecture, as GOARCH names it")
	flag.StringVar(&o.version, "version", "", "the version")
	flag.StringVar(&o.revision, "revision", "", "the commit")
	flag.Int64Var(&o.seconds, "time", 0, "when that was, in seconds since 1970")
	flag.StringVar(&o.out, "out", "", "the directory to write")
	flag.Parse()
	digest, err := write(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// Media types of the OCI image specification, version 1.
const (
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

// A descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// object is JSON, whose keys are sorted.
type object = map[string]any

// write writes the layout, and returns the digest of the image.
func write(o *options) (string, error) {
	content, err := layer(o)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(content); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	blobs := filepath.Join(o.out, "blobs", "sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return "", err
	}
	put := func(mediaType string, data []byte) (descriptor, error) {
		d := descriptor{MediaType: mediaType, Digest: digestOf(data), Size: len(data)}
		return d, os.WriteFile(filepath.Join(blobs, d.Digest[len("sha256:"):]), data, 0o644)
	}
	l, err := put(layerType, packed.Bytes())
	if err != nil {
		return "", err
	}
	config, err := putJSON(put, configType, configuration(o, digestOf(content)))
	if err != nil {
		return "", err
	}
	manifest, err := putJSON(put, manifestType, object{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": []descriptor{l}, "annotations": labels(o),
	})
	if err != nil {
		return "", err
	}
	manifest.Annotations = map[string]string{"org.opencontainers.image.ref.name": o.version}
	for name, value := range map[string]object{
		"index.json": {"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{manifest}},
		"oci-layout": {"imageLayoutVersion": "1.0.0"},
	} {
		data, err := json.Marshal(value)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(o.out, name), data, 0o644); err != nil {
			return "", err
		}
	}
	return manifest.Digest, nil
}

// putJSON puts a blob of JSON.
func putJSON(put func(string, []byte) (descriptor, error), mediaType string, value object) (descriptor, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return put(mediaType, data)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// labels say what the image is.
func labels(o *options) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "pinfold",
		"org.opencontainers.image.version":  o.version,
		"org.opencontainers.image.revision": o.revision,
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.created":  o.created(),
	}
}

func (o *options) created() string { return time.Unix(o.seconds, 0).UTC().Format(time.RFC3339) }

// configuration is the configuration of the image, whose layer has a digest before it is
// compressed.
func configuration(o *options, layer string) object {
	return object{
		"created": o.created(), "architecture": o.arch, "os": "linux",
		"config": object{
			"User": fmt.Sprintf("%d:%d", user, user), "WorkingDir": "/", "StopSignal": "SIGTERM", "Labels": labels(o),
			"Entrypoint": []string{"/pinfold"}, "Cmd": []string{"server", "--listen", "0.0.0.0", "--data", "/data"},
			"Volumes": object{"/data": object{}}, "ExposedPorts": object{"2181/tcp": object{}},
		},
		"rootfs":  object{"type": "layers", "diff_ids": []string{layer}},
		"history": []object{{"created": o.created(), "created_by": "scripts/image"}},
	}
}

// layer is the content of the image: the binary, the licence, the list, and two directories
// that a server writes to: /data, to be a volume, and /tmp, for pinfold backup.
func layer(o *options) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	when := time.Unix(o.seconds, 0)
	for _, h := range []tar.Header{
		{Name: "data/", Mode: 0o750, Uid: user, Gid: user}, {Name: "licenses/", Mode: 0o755}, {Name: "tmp/", Mode: 0o1777},
	} {
		h.Typeflag, h.ModTime = tar.TypeDir, when
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	for _, file := range []struct {
		name, from string
		mode       int64
	}{{"licenses/LICENSE", o.license, 0o644}, {"licenses/sbom.json", o.sbom, 0o644}, {"pinfold", o.binary, 0o755}} {
		data, err := os.ReadFile(file.from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(data)), ModTime: when}); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}
