.PHONY: build check test lint race fuzz interop differential crash ci bench-apache

build: ## the binary, build/pinfold
	go build -o build/pinfold ./cmd/pinfold

check: ## before a commit: what needs nothing but Go
	.ci/run lint race fuzz

test: ## as README.md says
	go test ./...

# FUZZTIME=1m, SEEDS=20 STEPS=3000 are passed on; .ci/run tells what each is.
lint race fuzz interop differential:
	.ci/run $@

crash: export KILLS ?= 1000
crash: ## kill -9 under load, a thousand times
	.ci/run $@

ci: ## all that CI runs, packages of Debian included
	.ci/run

# BENCH="--rows reads,writes --pairs 1 --write docs/bench.md" selects and keeps.
bench-apache: ## measure against Apache ZooKeeper 3.8.0
	scripts/bench-apache $(BENCH)
