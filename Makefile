# What the tests and the demo need is found, or installed, or run in Docker, by
# integration/setup. It is built without cgo, as the C compiler may be missing.
SETUP := CGO_ENABLED=0 go run ./integration/setup
GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER := go run github.com/goreleaser/goreleaser/v2@v2.17.0
FUZZTIME ?= 20s
# "work" names the packages of every module of go.work; "./..." is the library alone.
MODULES := . ./cmd/strikes ./examples ./integration ./plugin/otelstrikes ./plugin/promstrikes
RUNS ?= 1

# With these flags all other messages of a soak succeed.
HEALTHY := -messages 200 -killers 4 -hangs 0 -plain

# Every target with a description is a command, not a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## show what strikes does, on a RabbitMQ of its own or at AMQP_URL
	@$(SETUP) -need rabbitmq go run ./cmd/strikes demo

# Packages and shards run side by side, each with servers of its own; flags in SUITE, such as -jobs 2.
test: ## run the tests with the race detector, on private servers or at AMQP_URL, REDIS_URL
	@$(SETUP) env CGO_ENABLED=1 go run ./integration/suite -part short $(SUITE)

test-long: ## run those that take long: they kill servers, end many processes, or are large
	@$(SETUP) env CGO_ENABLED=1 go run ./integration/suite -part long $(SUITE)

cover: ## run all tests and print the coverage
	@$(SETUP) -need rabbitmq,redis go test -count=1 -timeout 15m -coverpkg=work -coverprofile=cover.out work
	@go tool cover -func=cover.out | tail -n 1

bench: ## compare strikes with its alternatives; flags in BENCH, such as -only success
	@$(SETUP) -need rabbitmq,redis go run ./integration/bench $(BENCH)

compare: ## run the usual ways to retry under the same faults; flags in COMPARE, such as -only incr,strikes
	@$(SETUP) -need rabbitmq,redis go run ./integration/compare $(COMPARE)

# A browser renders the pages; without one these targets fail.
console-bench: ## time the console's first screens, and the lists, with 100,000 dead letters and 1,000 queues
	@$(SETUP) -need rabbitmq,redis,browser env CI=true go test -count=1 -timeout 20m ./integration/console -run '^TestScale$$' -v -dead 100000 -queues 1000 -goals

screenshots: ## write the pictures of docs/console.md
	@mkdir -p docs/console
	@$(SETUP) -need rabbitmq,redis,browser env CI=true go test -count=1 ./integration/console -run '^TestScreenshots$$' -screenshots $(CURDIR)/docs/console

# Without node or npm this installs them. The lock file records no addresses.
client-node: ## check clients/node and run its tests, on private servers or at AMQP_URL, REDIS_URL
	@$(SETUP) -need rabbitmq,redis,node true
	@cd clients/node && npm ci --silent --no-audit --no-fund && npm run --silent check
	@go run ./integration/private -dir clients/node -- npm test --silent
	@$(call schedules,300,1,$(NODE_SCHEDULES))

# Debian's python3 has the modules; another one is PYTHON.
PYTHON ?= /usr/bin/python3

client-python: ## run the tests of clients/python on private servers or at AMQP_URL, REDIS_URL
	@PYTHONDONTWRITEBYTECODE=1 $(SETUP) -need rabbitmq,redis,python go run ./integration/private -dir clients/python -- $(PYTHON) -m pytest
	@$(call schedules,300,1,$(PYTHON_SCHEDULES))

N ?= 20000
SEED ?= 1
PYTHON_SCHEDULES = PYTHONDONTWRITEBYTECODE=1 $(PYTHON) clients/python/tests/schedules.py
NODE_SCHEDULES = node clients/node/test/schedules.js
# Go plays as many schedules, from a seed; then each command compares its client with them.
schedules = f=$$(mktemp) && trap 'rm -f "$$f"' EXIT && \
	(cd consumer && go test -count=1 -timeout 4h -run '^TestSchedules$$' -schedules $(1) -schedules.seed $(2) -schedules.out "$$f") && \
	failed=0 && $(foreach client,3 4,$(if $($(client)),{ $($(client)) "$$f" || failed=1; } &&)) exit $$failed

client-schedules: ## play N (20,000) random schedules from SEED (1) on Go, Python and Node.js, and compare what they do
	@$(SETUP) -need python,node true
	@cd clients/node && npm ci --silent --no-audit --no-fund
	@$(call schedules,$(N),$(SEED),$(PYTHON_SCHEDULES),$(NODE_SCHEDULES))

client-python-bench: ## compare the speed of clients/python with that of bare loops
	@$(SETUP) -need rabbitmq,redis,python go run ./integration/private -- $(PYTHON) clients/python/bench.py

client-python-scripts: ## copy the steps' scripts to clients/python
	@for f in clients/python/src/strikes/scripts/*.lua; do cp counter/scripts/$${f##*/} $$f; done

soak: ## run 20,000 messages through faults and audit what the processes wrote down; flags in SOAK, such as -cluster
	@$(SETUP) -need rabbitmq,redis go run ./integration/soak $(SOAK)

soak-languages: ## run 50,000 messages and 50 faults through consumers in Go, Python, Node.js and push mode; flags in SOAK
	@$(SETUP) -need rabbitmq,redis,python,node true
	@cd clients/node && npm ci --silent --no-audit --no-fund
	@$(SETUP) -need rabbitmq,redis go run ./integration/soak -languages go,python,node,http -messages 50000 -faults 50 $(SOAK)

soak-store: ## run soaks with killers on a store that is slow or loses replies, and with abandoned handlers, RUNS times (1)
	@for seed in $$(seq $(RUNS)); do \
		for flags in "-store-faults start" "-store-faults end" "-store-faults start -drops 12" "-store-faults end -drops 12" \
			"-store-faults late $(HEALTHY)" "-store-faults lossy $(HEALTHY)" "-store-faults slow $(HEALTHY)" \
			"-abandoned 8 -handler-timeout 500ms $(HEALTHY)" "-store-faults late -messages 5000 -killers 10" \
			"-store-faults lossy -messages 5000 -killers 10" "-store-faults slow -messages 5000 -killers 10"; do \
			$(SETUP) -need rabbitmq,redis go run ./integration/soak -seed $$seed $$flags || exit 1; \
		done; \
	done

lanes: ## hold, replay and release 100 lanes of 20,000 messages under faults, hold a queue of 4,000, and play 100,000 simulated schedules; flags in LANES
	@$(SETUP) -need rabbitmq,redis go test ./integration -count=1 -timeout 1h -v -run '^TestHoldLanes$$' -lanes.messages 20000 -lanes.lanes 100 -lanes.faults 90 -lanes.restarts 3 $(LANES)
	@$(SETUP) -need rabbitmq,redis go test ./integration -count=1 -timeout 1h -v -run '^TestHoldQueue$$' -lanes.messages 4000 -lanes.faults 36 -lanes.restarts 3 $(LANES)
	@(cd consumer && go test -count=1 -timeout 4h -v -run '^TestSimulationLanes$$' -sim.from 10000 -sim.n 100000)

lanes-scale: ## judge how long a start, status and lane list take with 1,000,000 blocked messages; Redis needs 1 GB
	@$(SETUP) -need rabbitmq,redis go test ./integration -count=1 -timeout 30m -v -run '^TestManyBlockedLanes$$' -scale.lanes 100000 -scale.deep 300000 -scale.judge

later: ## kill 500 processes while 10,000 delayed messages wait in the later lane
	@$(SETUP) -need rabbitmq,redis go test ./integration -count=1 -timeout 1h -v -run '^TestLaterKilled$$' -later.messages 10000 -later.kills 100 -later.delay 40s

fuzz: ## run every fuzz test for FUZZTIME (20s)
	@for pkg in $$(go list work); do \
		for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

lint: ## check style and common mistakes
	@$(GOLANGCI_LINT) run $(MODULES:%=%/...)

fmt: ## format the code
	@$(GOLANGCI_LINT) fmt

vet: ## run go vet
	@go vet work

tidy: ## tidy the modules, each as it stands alone
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

build: ## build bin/strikes
	go build -trimpath -o bin/ ./cmd/strikes

# In the repository the command replaces the library by its directory, which go install refuses.
release: ## make the command's go.mod require the library's VERSION, for the commit to tag VERSION and cmd/strikes/VERSION
	@go run ./integration/release -version $(VERSION) -write

snapshot: ## build the archives and packages of a release in dist/, without publishing them
	@$(GORELEASER) check
	@$(GORELEASER) release --snapshot --clean $(shell command -v syft >/dev/null || echo --skip=sbom)
