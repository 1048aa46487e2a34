GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GORELEASER := go run github.com/goreleaser/goreleaser/v2@v2.17.0
FUZZTIME ?= 20s
# "work" names the packages of every module of go.work; "./..." is the library alone.
MODULES := . ./cmd/strikes ./examples ./integration ./plugin/otelstrikes ./plugin/pgstrikes ./plugin/promstrikes \
	./plugin/sqlstrikes ./store/mysql ./store/postgres
RUNS ?= 1
# Debian's python3 has the modules that apt installs; another one is PYTHON.
export PYTHON ?= /usr/bin/python3
# Where servers are installed.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin

# make vet runs go vet. The vet of go test could not report here: make sets its output to append mode, in which vet
# cannot write.
export GOFLAGS := $(GOFLAGS) -vet=off

# With these flags all other messages of a soak succeed.
HEALTHY := -messages 200 -killers 4 -hangs 0 -plain

# Packages and the tests of a package run side by side: most of them wait more than they work.
# Without debug information, linking takes half as long, and compiling a quarter less CPU time. Inlining is a tenth of
# the work of compiling with the race detector, and half of it for go-redis. So only INLINED has it, where the tests
# compute much. With -trimpath, clones share the build cache. Programs that tests build have the same flags.
# make test RACE= is without the race detector, and several times as fast.
RACE ?= -race
INLINED := std github.com/yuin/gopher-lua/... $(addprefix github.com/strikesmq/strikes/,consumer/... counter/...)
LIGHT := -trimpath '-gcflags=all=-dwarf=false -l' $(INLINED:%=-gcflags=%=-dwarf=false)
GOTEST := GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 GOFLAGS="$$GOFLAGS $(LIGHT)" go test $(RACE) \
	-ldflags='-s -w' -count=1 -timeout 30m -p 4 -parallel 8
# The tests that begin with servertest.Long, and their packages.
long = $$(grep -rhB1 --include='*_test.go' '$(says)' . | sed -n 's/^func \(Test[^(]*\).*/\1/p' | paste -sd '|')
long_packages = $$(grep -rl --include='*_test.go' '$(says)' . | xargs -n 1 dirname | sort -u)
says := ^\s\(servertest\.\)\?Long(t)$$

# Every target with a description is a command, not a file.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' $(MAKEFILE_LIST))
.PHONY: rabbitmq redis postgresql mariadb cc browser promtool node python

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-21s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## show what strikes does, on a RabbitMQ of its own or at AMQP_URL; flags in DEMO, such as --store postgres
	@[ -n "$$AMQP_URL" ] || $(MAKE) --silent rabbitmq
	@go run ./cmd/strikes demo $(DEMO)

setup: rabbitmq redis postgresql mariadb cc browser promtool ## install what make test needs, with apt as root

# The slow packages come first.
test: setup ## run the tests with the race detector, on private servers or at AMQP_URL, REDIS_URL; flags in TEST
	@$(GOTEST) $(TEST) ./integration ./cmd/strikes ./integration/console ./store/postgres work

test-long: setup node python ## run the long tests: they kill servers, end many processes, or are large; flags in TEST
	@STRIKES_LONG=1 $(GOTEST) $(TEST) -run "^($(long))$$" $(long_packages)

# $(call install,COMMAND,PACKAGES,BEFORE) installs Debian's packages unless COMMAND succeeds, after the command BEFORE.
# Their services do not start, neither now nor at the next boot: tests start servers of their own.
APT := DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120
POLICY := /usr/sbin/policy-rc.d
define install
@{ $(1); } >/dev/null 2>&1 && exit; \
if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	echo "As root, make installs $(2) with apt-get. Install what is missing with your package manager,"; \
	echo "or run docker compose up -d, and set AMQP_URL and REDIS_URL."; exit 1; \
fi; \
[ -e $(POLICY) ] || { trap 'rm $(POLICY)' EXIT; printf '#!/bin/sh\nexit 101\n' >$(POLICY); chmod 755 $(POLICY); }; \
set -ex; $(or $(3),true); $(APT) update; $(APT) install --yes --no-install-recommends $(2); \
for s in rabbitmq-server redis-server postgresql pgbouncer; do systemctl --quiet disable $$s 2>/dev/null || true; done
endef

rabbitmq:
	$(call install,command -v rabbitmq-server,rabbitmq-server)

redis:
	$(call install,command -v redis-server || command -v valkey-server,redis-server)

# Debian's package would create the files of a server of the machine's own.
CLUSTER := /etc/postgresql-common/createcluster.d
postgresql:
	$(call install,ls /usr/lib/postgresql/*/bin/postgres || command -v postgres,postgresql,\
		mkdir -p $(CLUSTER) && echo "create_main_cluster = false" >$(CLUSTER)/strikes.conf)
	$(call install,command -v pgbouncer,pgbouncer)

mariadb:
	$(call install,command -v mariadbd,mariadb-server-core)

# For the race detector, which needs the C library's headers.
cc:
	$(call install,printf '#include <stdlib.h>\n#include <pthread.h>\n' | $(CC) -x c -fsyntax-only -,gcc libc6-dev)

# Chromium and axe-core, for the tests of the console.
browser:
	$(call install,command -v chromium-headless-shell || command -v chromium || command -v google-chrome || \
		command -v google-chrome-stable || ls /Applications/*Chrom*,chromium-headless-shell)
	$(call install,command -v npm,npm)
	@cd integration/console && { [ -e node_modules/axe-core ] || npm ci --silent --no-audit --no-fund; }

# It tests alert rules. Debian's package would start servers.
promtool:
	@command -v promtool bin/promtool >/dev/null || { set -e; d=$$(mktemp -d); trap 'rm -r "$$d"' EXIT; mkdir -p bin; \
		[ "$$(id -u)" != 0 ] || $(APT) update; \
		(cd "$$d" && apt-get -qq download prometheus && dpkg-deb -x prometheus_*.deb .); cp "$$d/usr/bin/promtool" bin/; }

# Node.js 18 or later, and the packages of clients/node, with its types. The lock file records no addresses.
node:
	$(call install,command -v npm && node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)',nodejs npm)
	@cd clients/node && npm ci --silent --no-audit --no-fund

python:
	$(call install,$(PYTHON) -c "import redis; import pika; import aio_pika; import psycopg2; import pytest",\
		python3 python3-redis python3-pika python3-aio-pika python3-psycopg2 python3-pytest)

cover: setup node python ## run all tests and print the coverage
	@STRIKES_LONG=1 go test -count=1 -timeout 15m -coverpkg=work -coverprofile=cover.out work
	@go tool cover -func=cover.out | tail -n 1

bench: rabbitmq redis ## compare strikes with its alternatives; flags in BENCH, such as -only success
	@go run ./integration/lab bench $(BENCH)

compare: rabbitmq redis ## run the usual ways to retry under the same faults; flags in COMPARE, such as -only incr
	@go run ./integration/lab compare $(COMPARE)

# A browser renders the pages; without one these targets fail.
STORES ?= redis postgres mysql
console-bench: rabbitmq redis postgresql mariadb browser ## time the console with 100,000 dead letters on STORES
	@failed=0; for store in $(STORES); do \
		echo "$$store:"; \
		STRIKES_LONG=1 go test -count=1 -timeout 20m ./integration/console -run '^TestScale$$' -v \
			-dead 100000 -queues 1000 -goals -store $$store || failed=1; \
	done; exit $$failed

lists: rabbitmq redis postgresql mariadb ## time the lists of 100,000 dead letters on Redis, PostgreSQL and MariaDB
	@STRIKES_LONG=1 go test ./integration -count=1 -timeout 1h -v -run '^TestLists$$' \
		-lists.dead 100000 -lists.rounds 5 -lists.judge

screenshots: rabbitmq redis browser ## write the pictures of docs/console.md
	@mkdir -p docs/console
	@go test -count=1 ./integration/console -run '^TestScreenshots$$' -screenshots $(CURDIR)/docs/console

client-node: redis rabbitmq postgresql node ## check and test clients/node; private servers, or AMQP_URL, REDIS_URL
	@STRIKES_LONG=1 go test -count=1 -timeout 15m ./integration/clients -run '^TestNode$$'
	@$(call schedules,300,1,$(NODE_SCHEDULES))

client-python: redis rabbitmq postgresql python ## test clients/python; private servers, or AMQP_URL, REDIS_URL
	@STRIKES_LONG=1 go test -count=1 -timeout 15m ./integration/clients -run '^TestPython$$'
	@$(call schedules,300,1,$(PYTHON_SCHEDULES))

N ?= 20000
SEED ?= 1
PYTHON_SCHEDULES = PYTHONDONTWRITEBYTECODE=1 $(PYTHON) clients/python/tests/schedules.py
NODE_SCHEDULES = node clients/node/test/schedules.js
# Go plays as many schedules, from a seed; then each command compares its client with them.
schedules = f=$$(mktemp) && trap 'rm -f "$$f"' EXIT && \
	(cd consumer && go test -count=1 -timeout 4h -run '^TestSchedules$$' \
		-schedules $(1) -schedules.seed $(2) -schedules.out "$$f") && \
	failed=0 && $(foreach client,3 4,$(if $($(client)),{ $($(client)) "$$f" || failed=1; } &&)) exit $$failed

client-schedules: python node ## play N (20,000) random schedules from SEED (1) on Go, Python and Node.js, and compare
	@$(call schedules,$(N),$(SEED),$(PYTHON_SCHEDULES),$(NODE_SCHEDULES))

client-python-bench: rabbitmq redis python ## compare the speed of clients/python with that of bare loops
	@go test ./integration/clients -run '^$$' -bench '^BenchmarkPython$$' -benchtime 1x

soak: rabbitmq redis postgresql mariadb ## run 20,000 messages through faults and check the end of each; flags in SOAK
	@go run ./integration/lab soak $(SOAK)

soak-outage: rabbitmq redis ## cut a service that handlers call for 10 minutes, on both types of queues; flags in SOAK
	@for type in quorum classic; do \
		go run ./integration/lab soak -outage 10m -messages 6000 -concurrency 4 -type $$type $(SOAK) || exit 1; \
	done

# PARTITIONS changes the fleet: {"Hold":true} for example.
soak-partitions: rabbitmq redis ## share 100,000 messages among processes that come and go; JSON in PARTITIONS
	@STRIKES_PARTITIONS='$(or $(PARTITIONS),{})' go test ./integration -run '^TestPartitionFleet$$' -v -timeout 60m

soak-languages: rabbitmq redis python node ## run 50,000 messages and 50 faults through all clients and push mode
	@go run ./integration/lab soak -languages go,python,node,http -messages 50000 -faults 50 $(SOAK)

soak-store: rabbitmq redis ## run soaks with killers on a store that is slow or loses replies, RUNS times (1)
	@for seed in $$(seq $(RUNS)); do \
		for flags in "-store-faults late $(HEALTHY)" "-store-faults lossy $(HEALTHY)" \
			"-store-faults slow $(HEALTHY)" \
			"-store-faults late -messages 5000 -killers 10" \
			"-store-faults lossy -messages 5000 -killers 10" "-store-faults slow -messages 5000 -killers 10"; do \
			go run ./integration/lab soak -seed $$seed $$flags || exit 1; \
		done; \
	done

# lanes also holds a queue of 4,000 messages, and plays 100,000 simulated schedules.
lanes: rabbitmq redis ## hold, replay and release 100 lanes of 20,000 messages under faults; flags in LANES
	@go test ./integration -count=1 -timeout 1h -v -run '^TestHoldLanes$$' \
		-lanes.messages 20000 -lanes.lanes 100 -lanes.faults 90 -lanes.restarts 3 $(LANES)
	@go test ./integration -count=1 -timeout 1h -v -run '^TestHoldQueue$$' \
		-lanes.messages 4000 -lanes.faults 36 -lanes.restarts 3 $(LANES)
	@(cd consumer && STRIKES_LONG=1 go test -count=1 -timeout 4h -v -run '^TestSimulationLanes$$' \
		-sim.from 10000 -sim.n 100000)

lanes-scale: rabbitmq redis ## judge a start, status and lane list with 1,000,000 blocked messages; Redis needs 1 GB
	@go test ./integration -count=1 -timeout 30m -v -run '^TestManyBlockedLanes$$' \
		-scale.lanes 100000 -scale.deep 300000 -scale.judge

delay: rabbitmq redis ## kill 500 processes while 10,000 delayed messages wait in a delay queue
	@go test ./integration -count=1 -timeout 1h -v -run '^TestDelayKilled$$' \
		-delay.messages 10000 -delay.kills 100 -delay.wait 40s

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

# In the repository these modules replace the library by its directory, which go install refuses.
LIBRARY := github.com/strikesmq/strikes
release: ## make the plugins and stores require the library's VERSION, whose tag is pushed
	@for m in plugin/otelstrikes plugin/pgstrikes plugin/promstrikes plugin/sqlstrikes store/mysql store/postgres; do \
		(cd $$m && go mod edit -dropreplace=$(LIBRARY) -require=$(LIBRARY)@$(VERSION) && \
			GOWORK=off go mod tidy) || exit 1; \
	done

release-command: ## make the command require the library's and the stores' VERSION, whose tags are pushed
	@cd cmd/strikes && for m in $(LIBRARY) $(LIBRARY)/store/mysql $(LIBRARY)/store/postgres; do \
		go mod edit -dropreplace=$$m -require=$$m@$(VERSION); done && GOWORK=off go mod tidy

snapshot: ## build the archives and packages of a release in dist/, without publishing them
	@$(GORELEASER) check
	@$(GORELEASER) release --snapshot --clean $(shell command -v syft >/dev/null || echo --skip=sbom)
