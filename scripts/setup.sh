#!/usr/bin/env bash
# Makes this machine ready: finds what is missing, installs it where it may, and says either way what it found.
#
#   scripts/setup.sh build|demo    a C++ compiler, make, libclang, the wasm target, RocksDB's archive
#   scripts/setup.sh test          these, and rustfmt, clippy, a Java runtime (17 or newer) and Maven for the real Kafka broker
#
# With nothing missing it takes a fraction of a second and writes nothing. Nothing is installed outside apt's and rustup's
# own places and the cache folder; the clone gets a marked block in .cargo/config.toml, so that plain cargo and
# editors link the same RocksDB. Environment: WEIR_CACHE (~/.cache/weir).
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:-}
case $what in
    build | demo | test) ;;
    *) echo "usage: scripts/setup.sh build|demo|test" >&2; exit 2 ;;
esac
export WEIR_CACHE=${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}
say() { echo "setup: $*" >&2; }
die() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null; }

# ---------------------------------------------------------------- Rust, which is the one thing that must be there

needed_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
has cargo || die "no cargo. Install Rust $needed_rust or newer (https://rustup.rs) and run this again."
rust=$(rustc --version | cut -d' ' -f2)
[ "$(printf '%s\n' "$needed_rust" "$rust" | sort -V | head -1)" = "$needed_rust" ] ||
    die "Rust $rust is too old: $needed_rust or newer is needed (rustup update stable)."
found="Rust $rust"

# Adds to the line of things that were there already.
note() { found="$found, $1"; }

if [ "$what" = test ]; then
    tools=$(rustc --print sysroot)/bin
    for component in rustfmt clippy; do
        program=cargo-${component/rustfmt/fmt}
        if [ -x "$tools/$program" ]; then
            note $component
        elif has rustup; then
            say "adding $component with rustup"
            rustup component add $component >&2 || die "rustup could not add $component (its words are above)"
        else
            has "$program" || die "no $program. Install your Rust's $component and run this again."
        fi
    done
fi

# ---------------------------------------------------------------- what the system gives

packages=() # Debian packages to install
reasons=()  # one a thing that is missing, for the reader

# need THING PACKAGE...
need() {
    reasons+=("$1")
    packages+=("${@:2}")
}

# The folder of libclang, which bindgen loads to read RocksDB's header. Looks where bindgen itself looks, and in our cache.
libclang() {
    local dir
    for dir in ${LIBCLANG_PATH:+"$LIBCLANG_PATH"} /usr/lib/llvm*/lib /usr/local/llvm*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib \
        /usr/local/lib "$WEIR_CACHE/libclang/clang/native"; do
        if compgen -G "$dir/libclang.so*" >/dev/null || compgen -G "$dir/libclang-[0-9]*.so*" >/dev/null; then
            echo "$dir"
            return 0
        fi
    done
    return 1
}

# The major version of the Java on PATH, without starting it (that takes a second); 0 if there is none.
java_version() {
    local java home
    java=$(command -v java) || { echo 0; return; }
    home=$(dirname "$(dirname "$(readlink -f "$java")")")
    if [ -f "$home/release" ]; then
        sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$home/release"
    else
        java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'
    fi
}

compiler=${CXX:-g++}
if has cc && has "$compiler"; then note "$compiler"; else need "a C and C++ compiler" g++; fi
if has make; then note make; else need "make" make; fi
if clang_dir=$(libclang); then note libclang; else need "libclang" libclang; fi
if [ "$what" = test ]; then
    java=$(java_version)
    if [ "${java:-0}" -ge 17 ]; then note "Java $java"; else need "Java 17" java; fi
    if has mvn; then note Maven; else need "Maven" maven; fi
fi

# Debian's name for something that carries a version in it: the tried one, or the newest there is.
newest() {
    local names
    names=$(apt-cache search --names-only "$1" | cut -d' ' -f1 | sort -V)
    if grep -qx "$2" <<<"$names"; then echo "$2"; else tail -1 <<<"$names"; fi
}

# apt update | apt install PACKAGE...: runs apt-get as root or through sudo, and shows the lines that tell of what was asked for.
apt() {
    local become=() log=$WEIR_CACHE/apt.log asked
    [ "$(id -u)" = 0 ] || become=(sudo -n)
    mkdir -p "$WEIR_CACHE"
    asked=$(printf '\\|%s' "${@:2}" | sed 's/[+.]/[&]/g')
    if ! "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" 2>&1 </dev/null |
        tee "$log" | sed -un "s/^\(Need to get\|Setting up \(${asked:2}\)[: ]\)/setup:   &/p" >&2; then
        say "apt-get $1 failed; its last lines:"
        tail -5 "$log" >&2
        return 1
    fi
}

# libclang without root: the wheel of the Python package, in the cache.
libclang_from_pip() {
    has python3 && python3 -m pip --version >/dev/null 2>&1 || return 1
    say "fetching libclang as a Python package into $WEIR_CACHE/libclang (not root, so not with apt-get)"
    python3 -m pip install --quiet --no-deps --target "$WEIR_CACHE/libclang" libclang==18.1.1 >&2
}

may_install() { has apt-get && { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }; }

if [ ${#reasons[@]} -gt 0 ]; then
    missing=$(printf ', %s' "${reasons[@]}")
    say "missing: ${missing:2}"
    if may_install; then
        # A fresh image has no package lists at all.
        if [ -z "$(apt-cache search --names-only '^libclang1-[0-9]+$')" ]; then
            say "reading Debian's package lists"
            apt update
        fi
        names=()
        for package in "${packages[@]}"; do
            case $package in
                libclang)
                    names+=("$(newest '^libclang1-[0-9]+$' libclang1-14)")
                    names+=("$(newest '^libclang-common-[0-9]+-dev$' "${names[-1]/libclang1/libclang-common}-dev")") ;;
                java) names+=("$(newest '^openjdk-[0-9]+-jre-headless$' openjdk-17-jre-headless)") ;;
                *) names+=("$package") ;;
            esac
        done
        say "installing with apt-get: ${names[*]}"
        # The lists may be older than the mirror.
        apt install "${names[@]}" || { apt update && apt install "${names[@]}"; }
    elif [ "${reasons[*]}" = libclang ] && libclang_from_pip; then
        :
    else
        hint=" ${packages[*]} "
        hint=${hint/ libclang / libclang1-14 libclang-common-14-dev }
        hint=${hint/ java / openjdk-17-jre-headless }
        say "these cannot be installed from here (neither root nor sudo without a password). On Debian, as root:"
        say "  apt-get install -y --no-install-recommends${hint% }"
        die "and then run this again. Elsewhere: the packages of the same things; LIBCLANG_PATH names libclang's folder."
    fi
    note "${missing:2}"
    clang_dir=$(libclang) || die "libclang was installed, yet no libclang.so is to be found: set LIBCLANG_PATH to its folder."
fi

# ---------------------------------------------------------------- the wasm target, for the plugins

scripts/guest-toolchain.sh >/dev/null # what it has to say goes to stderr
note "the wasm target"

# ---------------------------------------------------------------- RocksDB, and where cargo finds it

# Sets the lines between our marks in .cargo/config.toml; everything else there is the user's and stays.
write_cargo_config() {
    local file=.cargo/config.toml begin="# >>> scripts/setup.sh" end="# <<< scripts/setup.sh" old="" rest block new
    [ ! -f $file ] || old=$(cat $file)
    rest=$(awk -v begin="$begin" -v end="$end" '$0 == begin { ours = 1 } !ours { print } $0 == end { ours = 0 }' <<<"$old")
    block=$(printf '%s\n' "$begin" "[env]" "$@" "$end")
    if grep -qE '^ *"?(env\.)?ROCKSDB_' <<<"$rest"; then
        note "RocksDB as your $file says"
        return 0
    elif grep -qE '^ *env *[.=]' <<<"$rest"; then
        die "your $file writes its env without a table: put [env] above it and NAME = \"value\" below, and run this again."
    elif grep -q '^\[env\]' <<<"$rest"; then
        # A table may be opened only once: ours go into the one that is there.
        new=$(awk -v block="$(grep -v '^\[env\]' <<<"$block")" '{ print } /^\[env\]/ { print block }' <<<"$rest")
    else
        new=${rest:+$rest$'\n'}$block
    fi
    note "RocksDB's archive"
    [ "$new" != "$old" ] || return 0
    mkdir -p .cargo
    printf '%s\n' "$new" >$file.new
    mv $file.new $file
    say "wrote RocksDB's place into $file"
}

if [ -n "${ROCKSDB_LIB_DIR:-}" ]; then
    note "RocksDB in $ROCKSDB_LIB_DIR (ROCKSDB_LIB_DIR)"
else
    rocksdb=$(scripts/rocksdb.sh)
    lines=("ROCKSDB_LIB_DIR = \"$rocksdb\"" 'ROCKSDB_STATIC = "1"')
    case $clang_dir in
        /usr/lib* | /usr/local/*) ;;
        *) lines+=("LIBCLANG_PATH = \"$clang_dir\"") ;;
    esac
    # A libclang without headers of its own reads the C compiler's, after all others.
    compgen -G "$clang_dir/clang/*/include/stddef.h" >/dev/null || compgen -G "/usr/lib/llvm-*/lib/clang/*/include/stddef.h" >/dev/null ||
        lines+=("BINDGEN_EXTRA_CLANG_ARGS = \"-idirafter $(cc -print-file-name=include)\"")
    write_cargo_config "${lines[@]}"
fi
say "ready: $found"

# ---------------------------------------------------------------- what is to be waited for

target=${CARGO_TARGET_DIR:-target}
case $what in
    test) built=$target/debug/weir cpu_minutes=30 ;;
    *) built=$target/release/weir cpu_minutes=25 ;;
esac
if [ ! -x "$built" ]; then
    cores=$(nproc)
    say "the first build compiles all dependencies: about $cpu_minutes CPU minutes, so $((cpu_minutes / cores + 1)) minutes on these $cores cores; later ones take seconds"
fi
