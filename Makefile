# uetlab: `make help` lists the targets. On a machine where nothing is installed, `make setup` comes first (`make demo`
# does that by itself). Everything that a target needs beyond Go is installed by scripts/setup.sh.

GO       ?= go
FUZZTIME ?= 30s
# of a package's tests: a guard against hanging, also on a machine that is busy with other things
TIMEOUT  ?= 40m
FUZZDIRS ?= .
BENCH    ?= .
SHELL    := bash
# sudo forgets where Go is.
export PATH := $(PATH):/usr/local/go/bin
.SHELLFLAGS := -eu -o pipefail -c

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
# Without a readable repository the binary knows no revision.
VCS     := $(if $(VERSION),auto,false)
LDFLAGS := -X main.release=$(or $(VERSION),unknown)
SOURCES := $(shell find cmd fabric fep internal scripts sim switchd topologies wire workload \
             -type f \( -name '*.go' -o -name '*.yaml' -o -name '*.json' -o -name '*.lua' \) ! -name '*_test.go' ! -path '*/testdata/*' 2>/dev/null)

# Packages that bring real labs or containers up; all others are unit tests.
LABS     := e2e|fabric/runtime/embedded|fabric/runtime/docker
# Packages with goroutines of their own. The cores run on one thread and are left to the unit tests.
RACE     := ./cmd/... ./fabric/api ./fabric/capture ./fabric/control ./fabric/labdir ./fabric/wiring/... ./internal/...

stage = @printf '\n== %s\n' '$(1)'

.NOTPARALLEL:
.DEFAULT_GOAL := build

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install what is missing (apt on Debian and Ubuntu), start dockerd where there is no init system
	@bash scripts/setup.sh

.PHONY: build
build: bin/uetlab ## build the one static binary, bin/uetlab

bin/uetlab: $(SOURCES) go.mod go.sum bin/.version
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -ldflags '$(LDFLAGS)' -o $@ ./cmd/uetlab

.PHONY: examples
examples: ## build the programs in examples/, each static: bin/NAME
	CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(VCS) -o bin/ ./examples/...

# Touched only when the version changes, so that a commit without changed sources builds again and nothing else does.
bin/.version: FORCE
	@mkdir -p bin; [ "$$(cat $@ 2>/dev/null)" = '$(LDFLAGS)' ] || printf '%s\n' '$(LDFLAGS)' > $@
.PHONY: FORCE
FORCE:

.PHONY: demo
demo: setup build ## a fabric, two collectives, a link failure in the middle of the second
	@bash scripts/demo.sh

.PHONY: test
test: test-unit test-race test-embedded test-docker ## all tests: unit, race, real labs on embedded and on docker
	$(call stage,all tests passed)

.PHONY: test-unit
test-unit: ## unit, property and simulator tests
	$(call stage,unit tests)
	@packages=$$($(GO) list ./... | grep -vE '/uetlab/($(LABS))$$'); $(GO) test -timeout $(TIMEOUT) $$packages

.PHONY: test-race
test-race: ## the packages that use goroutines, under the race detector
	$(call stage,race detector)
	@CGO_ENABLED=1 $(GO) test -timeout $(TIMEOUT) -short -race $(RACE)

.PHONY: test-embedded
test-embedded: build ## real labs on the embedded runtime
	$(call stage,integration on the embedded runtime)
	@UETLAB_E2E_RUNTIME=embedded $(GO) test -timeout $(TIMEOUT) -count=1 -p 1 ./fabric/runtime/embedded ./e2e
	$(call stage,packet delivery and the link layer through veth pairs)
	@if [ "$$(id -u)" = 0 ]; then \
	  UETLAB_TEST_VETH=1 $(GO) test -count=1 -run 'Test[A-J][0-9][0-9]|TestSequences' ./fep; \
	  UETLAB_TEST_VETH=1 $(GO) test -count=1 -p 1 -run 'Test(LLR|CBFC|LLDP|PFC)[0-9]|TestRetryProperty' ./internal/link/... ./internal/lldp; \
	else \
	  echo '!!! SKIPPED: veth pairs need root, so packet delivery, LLR, CBFC and LLDP were NOT tested on them'; \
	fi

.PHONY: test-docker
test-docker: build ## real labs on Docker; skipped with a loud line where no engine answers
	$(call stage,integration on the docker runtime)
	@if docker info >/dev/null 2>&1; then \
	  UETLAB_E2E_RUNTIME=docker $(GO) test -timeout $(TIMEOUT) -count=1 -p 1 ./fabric/runtime/docker ./e2e; \
	else \
	  echo '!!! SKIPPED: no Docker engine answers, so NOTHING was tested on docker (make setup starts one)'; \
	fi

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, module files, shell syntax
	$(call stage,gofmt)
	@bad=$$(gofmt -l $$(find . -name '*.go' ! -path './bin/*')); [ -z "$$bad" ] || { echo "run gofmt -w on:"; echo "$$bad"; exit 1; }
	$(call stage,go vet)
	@$(GO) vet ./...
	$(call stage,staticcheck)
	@$(GO) tool staticcheck ./...
	$(call stage,module files)
	@$(GO) mod verify
	@$(GO) mod tidy -diff
	$(call stage,shell scripts)
	@for f in scripts/*.sh .ci/run; do bash -n "$$f"; done
	@if command -v shellcheck >/dev/null; then shellcheck -S warning scripts/*.sh .ci/run; fi

.PHONY: bench
bench: ## all benchmarks with allocations; BENCH=regexp picks
	@$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem $$(grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n1 dirname | sort -u)

.PHONY: fuzz
# A worker that is in the middle of an input when the time is over makes go test fail although nothing was found.
fuzz: ## every fuzz target under FUZZDIRS (.) for FUZZTIME (30s)
	@mkdir -p bin; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' $(FUZZDIRS) | xargs -n1 dirname | sort -u); do \
	  dir=./$$dir; targets=$$($(GO) test -list '^Fuzz' "$$dir" | awk '/^Fuzz/'); \
	  for target in $$targets; do \
	    printf '\n== fuzz %s %s\n' "$$dir" "$$target"; \
	    for try in 1 2 3; do \
	      if $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime '$(FUZZTIME)' "$$dir" 2>&1 | tee bin/.fuzz; then break; fi; \
	      if [ $$try = 3 ] || grep -q 'Failing input' bin/.fuzz || ! grep -q 'context deadline exceeded' bin/.fuzz; then exit 1; fi; \
	    done; \
	  done; \
	done

.PHONY: conformance
conformance: ## run the tests of the specification's requirements and write docs/conformance.md (real labs need root)
	@$(GO) run ./scripts/conformance

.PHONY: labs
labs: build ## play all experiments of labs/ in the simulator: claims, figures, pass or fail
	@bin/uetlab compare labs/*.yaml --sim

.PHONY: labs-table
labs-table: build ## … and write what came of them into labs/README.md
	@code=0; bin/uetlab compare labs/*.yaml --sim --format json > bin/.labs || code=$$?; [ $$code = 0 ] || [ $$code = 8 ]; $(GO) run ./scripts/labs < bin/.labs

.PHONY: images
images: build ## the image of the lab daemon, uetlab/labd (images of nodes are made by `uetlab up`)
	docker build -t uetlab/labd -f images/Dockerfile bin

.PHONY: clean
clean: ## remove what was built; labs that run are left alone
	rm -rf bin dist
