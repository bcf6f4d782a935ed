.PHONY: build bench-apache

build: ## the binary, build/pinfold
	go build -o build/pinfold ./cmd/pinfold

# BENCH="--rows reads,writes --pairs 1 --write docs/bench.md" selects and keeps.
bench-apache: ## measure against Apache ZooKeeper 3.8.0
	scripts/bench-apache $(BENCH)
