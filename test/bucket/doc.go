// Package bucket has tests of `pinfold backup` and `pinfold restore` with a real server of Amazon S3's
// protocol: versitygw, which keeps a bucket as a directory. It checks signatures and checksums.
package bucket
