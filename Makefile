# Everything stays in this folder: programs in .venv and target, output in runs.

PYTHON := $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,\
            $(shell $(name) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $(name))))
BIN := .venv/bin
SETUP := .venv/setup
# `make setup PROFILE=release` adds link-time optimisation: long studies run faster, and the build takes longer.
PROFILE ?= quick

# One interpreter for every build, so that cargo and maturin do not invalidate each other's builds.
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.DEFAULT_GOAL := help
.PHONY: help setup run check test golden docs man release wheel matrix bench estimates bench-network bench-live bench-idle kernel-queues live-priorities reference-linux worlds reference-ns3 reference-shadow reference-shadow-cells references interop attacks soak fuzz audit slider clean tools

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(SETUP) ## build penstock and install it into .venv, with the development tools

run: setup ## run the scenario "quickstart": a table, a report and figures in runs/
	@$(BIN)/penstock run quickstart

check: .venv/packages ## check a change quickly: formats, lints, and the unit tests of the crates that it touches
	@.ci/check

test: PARTS := rustfmt clippy-driver
test: setup ## run every check of CI
	@.ci/test

golden: setup ## rewrite the digests of the shipped scenarios' tables; explain the reason in the changelog
	$(BIN)/python tests/python/golden.py

# Without --quiet, with which MkDocs counts no warnings.
docs: .venv-docs/packages ## build the documentation into site/; a broken link or anchor is an error
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

matrix: tools ## run every combination of algorithms for a few simulated seconds and count the cells; 17 minutes on one core
	cargo test --release --locked --package penstock-sim --test worlds -- --ignored --nocapture every_combination

bench: tools ## measure packets per second and core, memory, and the cost of a cell in EWMA
	cargo run --release --locked --package penstock-sim --example bench
	cargo run --release --locked --package penstock-sim --example tcp_bench
	cargo run --release --locked --package penstock-core --example ewma_bench

# NETWORK selects networks, such as `ci tenth`, and SCALE=0.2 shortens their runs. WHOLE=1 measures the peak heap of runs of
# full length, which take hours. With MARKDOWN, the page gets the table.
NETWORK ?=
SCALE ?= 1
ROUNDS ?= 3
WHOLE ?=
bench-network: setup ## measure Tor networks of 100 to 8,000 relays with one and two threads: speed, memory, balance; 25 minutes
	cargo build --release --locked --package penstock-sim --example bench
	$(BIN)/python benches/networks.py target/release/examples/bench $(NETWORK) --scale $(SCALE) --rounds $(ROUNDS) \
		$(if $(WHOLE),--whole) $(if $(MARKDOWN),--data docs/data/performance/networks.jsonl --markdown $(MARKDOWN))

estimates: setup ## compare the estimates of `penstock check` with the cost of each shipped scenario and of five networks
	$(BIN)/python benches/estimates.py

# One file for each kernel release, such as linux-6.18.jsonl.
LINUX = docs/data/tcp/linux-$(shell uname -r | cut -d . -f 1,2).jsonl

reference-linux: tools ## TCP: run the experiments that docs/data/tcp/linux-<release>.jsonl lacks, with this machine's kernel; two hours
	cargo build --release --locked --package penstock-testbed
	crates/testbed/run-linux-reference target/release/penstock-testbed $(LINUX)

# This rewrites the simulator's rows, which are deterministic. The rows of Linux stay.
WORLDS = docs/data/worlds
WORLDS_VARIANTS ?= vanilla kist vanilla-up kist-up
WORLDS_SEEDS ?= 1 2 3 4
# Each of these variants is compared with vanilla, on seeds of their own.
WORLDS_MECHANISMS ?= vanilla n23 window-50 dynamic round-robin vegas static bit-splitting flagging threshold pctcp backtap marut
WORLDS_MECHANISM_SEEDS ?= 5 6 7 8
# Linked circuits need two paths, so they have a scenario of their own.
WORLDS_LINKED ?= unlinked conflux
WORLDS_LINKED_SEEDS ?= 9 10 11 12 13
WORLDS_LATENCY ?= unlinked conflux-latency
WORLDS_LATENCY_SEEDS ?= 14 15 16 17
worlds: setup ## compare small scenarios on live relays over emulated links with the simulator; two hours
	cargo build --release --locked --package penstock-testbed --features relays
	rm -f $(WORLDS)/star-sim.jsonl $(WORLDS)/two-paths-sim.jsonl
	crates/testbed/run-worlds target/release/penstock-testbed scenarios/worlds/star.toml $(WORLDS) \
		"$(WORLDS_VARIANTS)" "$(WORLDS_SEEDS)"
	crates/testbed/run-worlds target/release/penstock-testbed scenarios/worlds/star.toml $(WORLDS) \
		"$(WORLDS_MECHANISMS)" "$(WORLDS_MECHANISM_SEEDS)"
	crates/testbed/run-worlds target/release/penstock-testbed scenarios/worlds/two-paths.toml $(WORLDS) \
		"$(WORLDS_LINKED)" "$(WORLDS_LINKED_SEEDS)"
	crates/testbed/run-worlds target/release/penstock-testbed scenarios/worlds/two-paths.toml $(WORLDS) \
		"$(WORLDS_LATENCY)" "$(WORLDS_LATENCY_SEEDS)"
	$(BIN)/python benches/references/worlds.py $(WORLDS)/*.jsonl $(if $(MARKDOWN),--markdown $(MARKDOWN))

reference-ns3: .venv-ns3/packages ## TCP: run the experiments that docs/data/tcp/ns3.jsonl lacks, with ns-3 (GPL, from PyPI, in .venv-ns3)
	.venv-ns3/bin/python benches/references/ns3.py grid --append docs/data/tcp/ns3.jsonl

# SHADOW, TGEN and TOR are installed programs. ONLY has names of scenarios or variants, such as ONLY=line.
SHADOW ?= shadow
TGEN ?= tgen
TOR ?= tor
GENCERT ?= tor-gencert
ONLY ?=
reference-shadow: setup ## networks: run the experiments that docs/data/shadow/shadow.jsonl lacks, with Shadow and C tor; hours
	$(BIN)/python benches/references/shadow.py run --shadow "$(SHADOW)" --tgen "$(TGEN)" --tor "$(TOR)" \
		--gencert "$(GENCERT)" $(if $(ONLY),--only $(ONLY))
	$(BIN)/python benches/references/shadow.py compare $(if $(MARKDOWN),--markdown $(MARKDOWN))

reference-shadow-cells: setup ## networks: compare every cell of two downloads with Shadow; 2 minutes
	$(BIN)/python benches/references/shadow_cells.py --shadow "$(SHADOW)" --tgen "$(TGEN)" --tor "$(TOR)" \
		--gencert "$(GENCERT)" $(if $(MARKDOWN),--markdown $(MARKDOWN))

references: setup ## TCP: compare the references in docs/data/tcp with each other and with the model
	$(BIN)/python benches/references/compare.py

bench-live: tools ## measure the cost of a middle relay, ours and C tor's, and of kernel queries; 4 minutes on an idle machine
	@if command -v "$${TOR:-tor}" >/dev/null; then \
		cargo test --release --locked --package penstock-live --lib -- --ignored --nocapture measure_the_time_of_a_socket_query && \
		cargo bench --locked --package penstock-live --bench middle; \
	else echo "skipped: C tor is missing; install Debian's package tor, or set TOR"; fi

# bench-network, worlds, bench-idle, attacks and soak write their tables into the page MARKDOWN.
MARKDOWN ?=
PAGE = $(if $(MARKDOWN),MARKDOWN=$(abspath $(MARKDOWN)))

IDLE ?=
bench-idle: tools ## measure downloads over idle relays, ours and C tor's, with each scheduler; IDLE has options such as --rounds 1
	$(PAGE) cargo bench --locked --package penstock-live --bench idle -- $(IDLE)

kernel-queues: tools ## measure where cells wait in relays of 1, 10 and 50 Mbit/s, ours and C tor's (KIST figure 3); 8 minutes
	cargo build --release --locked --package penstock-kqtime --package penstock-kqtime-preload
	cargo bench --locked --package penstock-live --bench kernel_queues -- --kqtime $(CURDIR)/target/release/penstock-kqtime \
		--out $(CURDIR)/docs/data/kist/kernel-queues.csv
	$(MAKE) --no-print-directory setup
	$(BIN)/python benches/kernel_queues.py docs/data/kist/kernel-queues.csv $(if $(MARKDOWN),--markdown $(MARKDOWN))

live-priorities: tools ## measure small downloads and onion services through live relays with and without EWMA (EWMA figures 7 to 9, 14); 60 minutes
	for round in 1 2 3 4 5; do \
		cargo bench --locked --package penstock-live --bench priorities -- --out $(CURDIR)/docs/data/ewma --round $$round || exit; \
	done
	for round in 1 2 3; do \
		cargo bench --locked --package penstock-live --bench priorities -- --out $(CURDIR)/docs/data/ewma --round $$round --factor uplink || exit; \
	done
	$(MAKE) --no-print-directory setup
	$(BIN)/python benches/live_priorities.py docs/data/ewma $(if $(MARKDOWN),--markdown $(MARKDOWN))

# C tor is Debian's package tor, or the program at the path in TOR. `make interop SHORT=1` runs one relay of C tor for
# half a minute. The whole target takes a quarter of an hour.
SHORT ?=
interop: tools ## test the live relay with C tor and networks of C tor, and its parts with Arti's crates
	@if command -v "$${TOR:-tor}" >/dev/null; then cargo test --locked $(if $(SHORT),--workspace --test interop -- \
		--ignored,--package penstock-live --package penstock-link --features penstock-link/oracles --lib --test interop \
		--test network -- --include-ignored) --show-output; \
	else echo "skipped: C tor is missing; install Debian's package tor, or set TOR"; fi

attacks: tools ## flood the live relay and C tor from a few hosts, and print the delays of honest clients; 10 minutes
	$(PAGE) cargo test --release --locked --package penstock-live --test hostile -- --ignored --nocapture attacks_at_full_size

soak: TIME = 3600
soak: tools ## load the live relay with circuits, slow readers and floods for TIME seconds; fail if its memory grows
	$(PAGE) TIME=$(TIME) cargo test --release --locked --package penstock-live --test soak -- --ignored --nocapture soak_for_an_hour

# New inputs go to target/corpus, inputs that break an invariant to fuzz/artifacts.
TARGET ?= relay
TIME ?= 60
fuzz: target/tools/bin/cargo-fuzz ## fuzz one TARGET of fuzz/ for TIME seconds; needs a C++ compiler
	@mkdir -p target/corpus/$(TARGET)
	CARGO_TARGET_DIR=$(CURDIR)/target/fuzz $< fuzz run --sanitizer none $(TARGET) target/corpus/$(TARGET) fuzz/corpus/$(TARGET) -- \
		-max_total_time=$(TIME) -print_final_stats=1 $(addprefix -dict=,$(wildcard fuzz/dictionaries/$(TARGET)))

man: setup ## write the manual pages into target/man
	$(BIN)/python python/man.py target/man

release: ## make the commit and the tag of the release VERSION, such as VERSION=0.2.0; send nothing
	@.ci/release "$(VERSION)"

# To publish: make wheel PROFILE=release
wheel: tools ## build a wheel with the profile PROFILE, and test it in an empty environment without Rust
	@.ci/wheel "$(PYTHON)" $(PROFILE)

slider: setup ## write the tutorial's page with a slider again
	$(BIN)/penstock play quickstart --variant stock --param relay.edge_control.circuit_window=100,150,200,300,500,700 \
		--set "trace.interval=500 ms" --save docs/tutorials/quickstart-slider.html

clean: ## remove all builds and environments; runs/ stays
	rm -rf target site .venv .venv-docs .venv-ns3 .mypy_cache .pytest_cache .ruff_cache .hypothesis python/penstock/_core.abi3.so
	find python tests -name __pycache__ -prune -exec rm -rf {} +

.venv-docs/packages: docs/requirements.txt | tools
	@test -x .venv-docs/bin/python || "$(PYTHON)" -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

# Nothing of penstock imports ns-3.
.venv-ns3/packages: benches/references/requirements-ns3.txt | tools
	@test -x .venv-ns3/bin/python || "$(PYTHON)" -m venv .venv-ns3
	.venv-ns3/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

audit: target/tools/bin/cargo-deny ## check the licences and sources of dependencies, and their known vulnerabilities
	@.ci/audit $<

# Without optimisation it builds in about a minute.
target/tools/bin/cargo-deny: | tools
	cargo install cargo-deny --version 0.20.2 --locked --debug --root target/tools --target-dir target/tools/build
	@rm -rf target/tools/build

target/tools/bin/cargo-fuzz: | tools
	cargo install cargo-fuzz --version 0.13.2 --locked --root target/tools --target-dir target/tools/build
	@rm -rf target/tools/build

# Prints the tools that are missing or too old.
tools:
	@.ci/tools "$(PYTHON)" $(PARTS)

# The version has the commit, so a commit or a checkout builds crates/py again, and no other crate.
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name Cargo.toml -o -name build.rs -o -path '*/src/*.rs' -o -path '*/data/*.csv') \
	$(wildcard $(shell git rev-parse --git-path logs/HEAD 2>/dev/null))

$(SETUP): .venv/packages $(SOURCES) | tools
	VIRTUAL_ENV=$(CURDIR)/.venv PIP_QUIET=1 $(BIN)/maturin develop --profile $(PROFILE) --locked
	@touch $@

.venv/packages: python/requirements.txt | tools
	@test -x $(BIN)/python || "$(PYTHON)" -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
