#!/usr/bin/env bash
# Builds the plugins, as the core modules that the host takes: plugins/target/weir/*.wasm
#
#   projekt.wasm, projekt-v2.wasm (one optional field more, same state version), projekt-lacking.wasm (without `ausgabe`),
#   orders.wasm, evil.wasm
#
# With nothing changed it takes a fraction of a second. Environment: WEIR_CACHE, CARGO_TARGET_DIR; see guest-toolchain.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "plugins: $*" >&2; }
die() { say "$*"; exit 1; }

cargo=$(scripts/guest-toolchain.sh)
out=plugins/target/weir
stamp=$out/.built
sources=(wit guest-sdk plugins/Cargo.toml plugins/Cargo.lock plugins/*/Cargo.toml plugins/*/src Cargo.toml scripts/plugins.sh "$cargo")
if [ -f "$stamp" ] && [ -z "$(find "${sources[@]}" -newer "$stamp" -print -quit)" ]; then exit 0; fi
mkdir -p "$out"
touch "$stamp.new" # what changes from here on is built the next time

# Panic messages name their place. Neither they nor the digests should depend on where the sources lie.
export CARGO_ENCODED_RUSTFLAGS="--remap-path-prefix=$PWD/="$'\x1f'"--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src/="
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-plugins/target}

# plugin NAME PACKAGE [cargo flags]
plugin() {
    local made
    made=$("$cargo" build --release --locked --manifest-path plugins/Cargo.toml --package "$2" "${@:3}" \
        --message-format=json-render-diagnostics | grep -o "\"[^\"]*/$2\.wasm\"" | tail -1 | tr -d '"')
    [ -f "$made" ] || die "$2 made no .wasm file; is its crate-type cdylib?"
    cmp -s "$made" "$out/$1.wasm" || cp "$made" "$out/$1.wasm"
}

say "building (the first time: one to four minutes)"
plugin projekt projekt
plugin projekt-v2 projekt --features v2
plugin projekt-lacking projekt --features lacking
plugin orders orders
plugin evil evil
mv "$stamp.new" "$stamp"
say "ready: $(cd "$out" && echo *.wasm)"
