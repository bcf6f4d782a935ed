package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is a Store in a bucket of a service with the protocol of Amazon S3. The bucket must
// exist.
type S3 struct {
	client *minio.Client
	bucket string
	prefix string // "" or with a slash at its end
}

// S3Options say where the service is.
type S3Options struct {
	Endpoint string // https://host:port, or http for a service on a trusted network; "" for Amazon's
	Region   string // "" if the service tells it

	transport http.RoundTripper // nil for the default
}

// OpenS3 returns the Store of a name such as s3://bucket/prefix. The credentials are those
// that Amazon's tools use: the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the
// file ~/.aws/credentials, or the role of the machine. It does not connect.
func OpenS3(name string, o S3Options) (*S3, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(name, "s3://"), "/")
	if !strings.HasPrefix(name, "s3://") || bucket == "" {
		return nil, fmt.Errorf("backup: %q is not s3://bucket or s3://bucket/prefix", name)
	}
	if prefix = strings.Trim(prefix, "/"); prefix != "" {
		prefix += "/"
	}
	if o.Endpoint == "" {
		o.Endpoint = "https://s3.amazonaws.com"
	}
	at, err := url.Parse(o.Endpoint)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || strings.Trim(at.Path, "/") != "" {
		return nil, fmt.Errorf("backup: the endpoint %q is not https://host or https://host:port", o.Endpoint)
	}
	client, err := minio.New(at.Host, &minio.Options{
		Secure: at.Scheme == "https", Region: o.Region, Transport: o.transport,
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
	})
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return &S3{client, bucket, prefix}, nil
}

// List implements Store.
func (s *S3) List(ctx context.Context) (files []File, err error) {
	for o := range s.client.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, fmt.Errorf("bucket %s: %w", s.bucket, o.Err)
		}
		files = append(files, File{strings.TrimPrefix(o.Key, s.prefix), o.Size})
	}
	return files, nil
}

// Put implements Store. The service checks the sum of what it gets.
func (s *S3) Put(ctx context.Context, name string, content io.Reader, bytes int64) error {
	info, err := s.client.PutObject(ctx, s.bucket, s.prefix+name, content, bytes,
		minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true})
	if err == nil && info.Size != bytes {
		err = fmt.Errorf("%d bytes were written, not %d", info.Size, bytes)
	}
	return err
}

// Get implements Store.
func (s *S3) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	o, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := o.Stat(); err != nil { // GetObject does not connect
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}
