# One gate, two verbs: `make verify` and `make test` only look, `make fix` repairs what a program can repair.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.PHONY: run test fuzz flaky verify schema fix bench chaos images tools

export PATH := $(CURDIR)/target/tools/bin:$(PATH)
ARGS ?=

# Before the name of a program: it is built with the features that libraries have for the tests, so that nothing is compiled
# twice. Cargo takes those of the whole workspace and of dev-dependencies only if an example, a test or a benchmark is built too.
AS_FOR_TESTS := --workspace --example floor

# Builds a server to try, optimized less than a release but sooner ready, and serves with an embedded store in .trireme; flags
# go in ARGS.
run:
	scripts/install-tools build
	cargo build --profile trial --locked -p trireme
	exec target/trial/trireme serve $(ARGS)

# The static gate: format, lints, docs, words, licences and bans, the edges between rooms, actor ranks, generated schema data.
verify:
	scripts/install-tools build verify
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked
	scripts/deny
	scripts/check-words
	cargo test --workspace --locked --test layering
	cargo test --locked -p trireme-actors topology
	cargo clippy --locked $(AS_FOR_TESTS) --features trireme-schema/generate --bin schema-generate -- -D warnings
	cargo build --locked $(AS_FOR_TESTS) --features trireme-schema/generate --bin schema-generate
	target/debug/schema-generate --check

# Makes the generated files under src/schema/data anew; see PROVENANCE.md there. Nothing else compiles the generator but `verify`.
# With TREE, a folder with the sources of Kubernetes RELEASE, the facts are taken from there first.
schema:
	cargo build --locked $(AS_FOR_TESTS) --features trireme-schema/generate --bin schema-generate
	target/debug/schema-generate $(if $(TREE),--tree $(TREE) --version $(RELEASE))

# Every test; those that start servers use the debug build made here. Then each fuzz target, always from the same random
# numbers on: what fails is to be blamed on a change.
test:
	scripts/install-tools build test fuzz
	cargo build --locked --workspace --all-targets
	cargo test --workspace --locked --no-fail-fast
	tests/compose.sh target/debug/trireme
	FUZZ_SEED=1 scripts/fuzz $(FUZZ_SECONDS)

# Each fuzz target for FUZZ_SECONDS, with other random numbers each time: make fuzz FUZZ_SECONDS=600.
FUZZ_SECONDS ?= 15
fuzz:
	scripts/fuzz $(FUZZ_SECONDS)

# Finds tests that fail now and then, by repetition: make flaky FLAKY_SECONDS=3600 PACKAGES="trireme-actors trireme-registry".
# What has passed is kept in target/flaky.json, and the next run goes on from there.
FLAKY_SECONDS ?= 1800
PACKAGES ?=
flaky:
	scripts/install-tools build test
	scripts/flaky $(FLAKY_SECONDS) $(PACKAGES)

fix:
	cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all

# Figures of a release build over etcd, in up to 12 minutes: a table, and target/bench.json. See docs/performance.md.
bench:
	scripts/install-tools build test
	cargo build --release --locked -p trireme -p trireme-bench
	cargo build --release --locked -p trireme-http --example floor
	target/release/trireme-bench all --server-binary target/release/trireme --json target/bench.json $(ARGS)

# Breaks a group of replicas under load, one thing after the other, and checks what was promised: up to 30 minutes with a
# release build, about 5 with SHORT=1, which takes the debug build that the tests use. SEED repeats a run, TARGET=compose
# takes containers in place of processes, as root, with images from Debian packages and the binary made here. The report is
# chaos/report/index.html; exit code 1 means a broken promise, 2 a run that shows nothing. See chaos/README.md.
TARGET ?= loopback
SEED ?=
SHORT ?=
CHAOS_PROFILE := $(if $(SHORT),debug,release)
CONTAINED := $(filter compose,$(TARGET))
chaos:
	scripts/install-tools build chaos $(if $(CONTAINED),docker images)
	cargo build --locked $(if $(SHORT),$(AS_FOR_TESTS),--release -p trireme -p trireme-chaos) --bin trireme --bin trireme-chaos
	$(if $(CONTAINED),scripts/with-docker scripts/images target/$(CHAOS_PROFILE)/trireme)
	$(if $(CONTAINED),scripts/with-docker) target/$(CHAOS_PROFILE)/trireme-chaos run --target $(TARGET) \
	  $(if $(SEED),--seed $(SEED)) $(if $(SHORT),--short) --report chaos/report $(ARGS)

# The images of docker-compose.yml where no registry is reachable, from Debian packages. PROFILE=dev: a debug build.
PROFILE ?= release
images:
	scripts/install-tools build images
	cargo build --profile $(PROFILE) --locked -p trireme
	scripts/images target/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))/trireme

# Everything that is needed beside a Rust toolchain.
tools:
	scripts/install-tools
