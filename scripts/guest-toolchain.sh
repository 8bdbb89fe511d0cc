#!/usr/bin/env bash
# Finds or makes a Rust toolchain that builds for wasm32-unknown-unknown, and leaves behind CACHE_DIR/guest-cargo, which runs
# cargo with it:
#
#   scripts/guest-toolchain.sh [CACHE_DIR]     (default: WEIR_CACHE/guest, with WEIR_CACHE ~/.cache/weir); prints the command
#   CACHE_DIR/guest-cargo build|rustc … [cargo flags]
#
# 1. the installed toolchain has the target           → it is used
# 2. `rustup target add`, within RUSTUP_WAIT seconds  → it is used
# 3. Debian's rustc-web, unpacked into CACHE_DIR, and the standard library built from its sources
# GUEST_TOOLCHAIN=rustup|debian forces a way. Running it again costs nothing.
set -euo pipefail
cd "$(dirname "$0")/.." # rustup asks a rust-toolchain.toml of the workspace which toolchain is meant

say() { echo "guest-toolchain: $*" >&2; }
die() { say "$*"; exit 1; }

[ $# -le 1 ] || die "usage: scripts/guest-toolchain.sh [CACHE_DIR]"
cache=${1:-${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}/guest}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
target=wasm32-unknown-unknown
way=${GUEST_TOOLCHAIN:-auto}
patience=${RUSTUP_WAIT:-30}
command -v cargo >/dev/null || die "no cargo on PATH"

has_target() { compgen -G "$(rustc --print target-libdir --target $target)/libstd-*.rlib" >/dev/null; }

# Leaves the command behind; stdin holds the lines that set the environment and the flags. Unchanged, it stays untouched: its
# time tells whether plugins must be built anew.
write_command() {
    local new=$cache/guest-cargo.$$
    {
        echo '#!/usr/bin/env bash'
        echo "# Made by guest-toolchain.sh ($1): runs cargo for $target."
        echo 'set -euo pipefail'
        cat
        # shellcheck disable=SC2016
        echo 'exec cargo "$1" --target '$target' "${flags[@]}" "${@:2}"'
    } >"$new"
    chmod +x "$new"
    if cmp -s "$new" "$cache/guest-cargo"; then
        rm "$new"
    else
        mv "$new" "$cache/guest-cargo"
        say "plugins are built with $1"
    fi
    echo "$cache/guest-cargo"
}

use_installed() {
    has_target || return 1
    write_command "the installed toolchain" <<<'flags=()'
}

try_rustup() {
    command -v rustup >/dev/null || return 1
    say "asking rustup for $target (${patience} s at most)"
    timeout "$patience" rustup target add "$target" >"$cache/rustup.log" 2>&1 && has_target && return 0
    say "rustup could not add $target within $patience s; its last word: $(tail -1 "$cache/rustup.log")"
    return 1
}

# The version of rustc-web whose standard library Debian has too.
debian_version() {
    apt-cache show rustc-web 2>/dev/null | sed -n 's/^Depends:.*libstd-rust-web-dev (= \([^)]*\)).*/\1/p' | head -1
}

unpack_debian() {
    local root=$1 version llvm std package tool
    for tool in apt-get apt-cache dpkg-deb; do
        command -v $tool >/dev/null ||
            die "the wasm target is missing, and neither rustup nor Debian's packages ($tool is missing) can help.
Install the target $target for the Rust toolchain in use and run this again."
    done
    version=$(debian_version)
    if [ -z "$version" ]; then
        apt-get update >"$cache/apt.log" 2>&1 || die "apt-get update failed: $(tail -1 "$cache/apt.log")"
        version=$(debian_version)
    fi
    [ -n "$version" ] || die "Debian's lists have no rustc-web with a matching libstd-rust-web-dev.
Install the target $target for the Rust toolchain in use and run this again."
    llvm=$(apt-cache show "rustc-web=$version" | sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | head -1)
    std=$(apt-cache show "libstd-rust-web-dev=$version" | sed -n 's/^Depends:.*\(libstd-rust-web-[0-9.]*\) .*/\1/p' | head -1)
    [ -n "$llvm" ] || llvm=$(apt-cache show "$std=$version" | sed -n 's/^Depends:.*\(libllvm[0-9]*\).*/\1/p' | head -1)
    [ -n "$std" ] && [ -n "$llvm" ] || die "could not read rustc-web $version's dependencies (std '$std', llvm '$llvm')"

    say "fetching Debian's rustc-web $version into $root (0.5 GB, about half a minute)"
    local debs=$cache/debs packages=(rustc-web libstd-rust-web-dev "$std" rust-web-src "$llvm")
    rm -rf "$root" "$debs"
    mkdir -p "$root" "$debs"
    (cd "$debs" && apt-get download "rustc-web=$version" "libstd-rust-web-dev=$version" "$std=$version" \
        "rust-web-src=$version" "$llvm") >"$cache/apt.log" 2>&1 || die "apt-get download failed: $(tail -2 "$cache/apt.log")"
    for package in "${packages[@]}"; do
        compgen -G "$debs/${package}_*.deb" >/dev/null || die "$package was not downloaded"
    done
    for package in "$debs"/*.deb; do
        case $(basename "$package") in
            rust-web-src_*) # all of rustc is 500 MB; the standard library is in library/
                dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --wildcards './usr/src/*/library/*' ;;
            *) dpkg-deb -x "$package" "$root" ;;
        esac || die "cannot unpack $(basename "$package")"
    done
    rm -rf "$debs"
    cat >"$root/rustc" <<R
#!/usr/bin/env bash
export LD_LIBRARY_PATH=$root/usr/lib/$(uname -m)-linux-gnu:$root/usr/lib/llvm-${llvm#libllvm}/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
exec "$root/usr/bin/rustc" "\$@"
R
    chmod +x "$root/rustc"
    "$root/rustc" -vV >"$cache/rustc.log" 2>&1 || die "the unpacked rustc does not start: $(tail -1 "$cache/rustc.log")"
    # cargo looks for the sources under the compiler's own sysroot.
    local sysroot source
    sysroot=$("$root/rustc" --print sysroot)
    if [ ! -f "$sysroot/lib/rustlib/src/rust/library/std/Cargo.toml" ]; then
        source=$(find "$root/usr/src" -maxdepth 3 -path '*/library/std' | head -1)
        [ -n "$source" ] || die "rust-web-src has no library/std"
        rm -rf "$sysroot/lib/rustlib/src"
        mkdir -p "$sysroot/lib/rustlib/src/rust"
        ln -s "$(dirname "$source")" "$sysroot/lib/rustlib/src/rust/library"
    fi
    touch "$root/ready"
}

use_debian() {
    local root=$cache/debian lld host
    [ -e "$root/ready" ] || unpack_debian "$root"
    host=$(rustc -vV | sed -n 's/^host: //p')
    lld=$(rustc --print sysroot)/lib/rustlib/$host/bin/rust-lld
    [ -x "$lld" ] || lld=$(compgen -c ld.lld | head -1 | xargs -r which || true)
    [ -n "$lld" ] || die "no rust-lld in the toolchain and no ld.lld (Debian: apt-get install lld)"
    write_command "Debian's rustc-web" <<C
export RUSTC="$root/rustc" RUSTC_BOOTSTRAP=1 CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$lld"
unset RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER
flags=(-Zbuild-std=std,panic_abort)
C
}

case $way in
    rustup) use_installed || { try_rustup && use_installed; } || die "rustup cannot give $target" ;;
    debian) use_debian ;;
    auto) use_installed || { try_rustup && use_installed; } || use_debian ;;
    *) die "GUEST_TOOLCHAIN is '$way'; it must be rustup, debian or unset" ;;
esac
