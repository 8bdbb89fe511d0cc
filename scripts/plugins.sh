#!/usr/bin/env bash
# Builds every plugin of plugins/ as plugins/NAME/NAME.wasm, where its topology file expects it.
#
#   scripts/plugins.sh [cargo flags]
#
# Needs what scripts/setup.sh build makes ready.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}/guest/build-guest.sh
[ -x "$build" ] || { echo "plugins: no wasm toolchain yet; run scripts/setup.sh build" >&2; exit 1; }
for manifest in plugins/*/Cargo.toml; do
    name=$(basename "$(dirname "$manifest")")
    "$build" "plugins/$name" "plugins/$name/$name.wasm" --locked "$@"
done
