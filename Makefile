# The commands of README.md. Each sets the machine up first (scripts/setup.sh): Rust and make are all that must be there.
.PHONY: demo build test test-slow

# Tests that only `make test-slow` runs.
LONG := kills::points::at_each memory::memory_stays

# The host and the plugins, then the race between tables and streams. It goes on serving; ARGS=--exit ends it after the comparison.
demo:
	@scripts/setup.sh demo
	@scripts/plugins.sh
	cargo run --release --locked --package weir --features embedded-plugins -- demo $(ARGS)

# target/release/weir and plugins/target/weir/*.wasm
build:
	@scripts/setup.sh build
	@scripts/plugins.sh
	cargo build --release --locked --package weir --features embedded-plugins

# Everything that CI runs: format, lints, the plugins' own tests, then unit, integration, end-to-end and documentation tests.
test:
	@scripts/setup.sh test
	cargo fmt --all --check
	cd plugins && cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- --deny warnings
	cd plugins && cargo clippy --workspace --all-targets --locked -- --deny warnings
	cd plugins && cargo test --workspace --locked
	@scripts/plugins.sh
	cargo test --workspace --locked --no-fail-fast -- $(addprefix --skip ,$(LONG))

# What takes minutes: SIGKILL at each step, `kill -9` fifty times, a network that stands still for a minute, more input than memory.
test-slow:
	@scripts/setup.sh test
	@scripts/plugins.sh
	WEIR_SLOW=1 cargo test --workspace --locked --test it -- --nocapture kills::random network::everything $(LONG)
