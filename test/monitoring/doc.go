// Package monitoring holds what Prometheus sees of servers against what Apache ZooKeeper
// exports, and against the real Prometheus. It has tests only.
//
//	CGO_ENABLED=0 go build -o build/pinfold ./cmd/pinfold
//	go test ./test/monitoring -v -count 1 -pinfold build/pinfold   # Debian's prometheus is installed
//	go test ./test/monitoring -v -count 1 -apache                  # Apache 3.9.3 and a JVM
//	go test ./test/monitoring -v -count 1 -apache -update          # writes the list of its names anew
//	go test ./test/monitoring -v -count 1 -run TestApachesExporter -provider CLASSPATH -update
//
// The last one records what Apache ZooKeeper 3.9.3's own exporter, PrometheusMetricsProvider with version 0.9.0 of
// Prometheus's library for Java, shows to Prometheus: Debian has neither, so CLASSPATH names their classes. Without
// the flags the tests skip.
package monitoring
