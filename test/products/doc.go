// Package products runs other people's systems on an ensemble of three servers, and kills its
// leader: PostgreSQL under Patroni, and replicated tables of ClickHouse. It has tests only.
//
//	apt-get install patroni postgresql clickhouse-server
//	CGO_ENABLED=0 go build -o build/pinfold ./cmd/pinfold
//	go test ./test/products -v -count 1 -pinfold $PWD/build/pinfold
//
// Without the flag the tests skip.
package products
