.PHONY: build image packages check test lint race fuzz soak mutants interop differential crash ensemble ci bench bench-apache bench-ensemble bench-paper bench-client

build: ## the binary, build/pinfold
	CGO_ENABLED=0 go build -ldflags "-s -w $$(scripts/stamp)" -o build/pinfold ./cmd/pinfold

image: ## the OCI image, into build/image
	scripts/image

packages: ## .deb, .rpm and .tar.gz, into build/packages
	scripts/package

check: ## before a commit: what needs nothing but Go
	.ci/run lint race fuzz

test: ## as README.md says
	go test ./...

# FUZZTIME=1m, SEEDS=20 STEPS=3000 are passed on; .ci/run tells what each is.
lint race fuzz soak mutants interop differential ensemble:
	.ci/run $@

crash: export KILLS ?= 1000
crash: ## kill -9 under load, a thousand times
	.ci/run $@

ci: ## all that CI runs, packages of Debian included
	.ci/run

# OLD=HEAD~5 is what is compared with; scripts/bench-hot tells of COUNT, BENCH and TIME.
bench: ## the benchmarks of the hot paths, held against an older commit
	scripts/bench-hot $(OLD)

# scripts/bench-client tells of RUNS, GETS, PORT and GOZK.
bench-client: ## the Go client beside the load generator and go-zookeeper/zk: two minutes
	scripts/bench-client

# BENCH="--quick" for a short one.
bench-paper: build ## the paper's evaluation beside Apache ZooKeeper 3.8.0: hours
	build/pinfold bench paper --against apache $(BENCH)

# BENCH="--rows reads,writes --pairs 1 --write docs/bench.md" selects and keeps.
bench-apache: ## measure against Apache ZooKeeper 3.8.0
	scripts/bench-apache $(BENCH)

# BENCH as above; FAILOVER="--members 3 --step 8s" for the record of throughput over time.
bench-ensemble: ## the same for ensembles of three, and the plot: about 25 minutes, writes docs/bench.md
	scripts/bench-ensemble $(BENCH)
