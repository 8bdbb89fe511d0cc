#!/usr/bin/env bash
# Runs a command in a fresh clone of HEAD, as on a new machine: to see that the set-up does all it says.
#
#   scripts/masked.sh make demo ARGS=--exit
#
# Nothing is pretended. In a mount namespace of its own, the system's folders and the home folder are overlays: there the
# compilers, libclang, Java and Maven are purged with apt, the wasm target is removed with rustup, apt's lists are
# empty, and so are the caches of cargo, Maven and Weir. What the command installs is installed for real, and all
# of it is gone afterwards; the machine is as before. Needs root, Debian, rustup and some 10 GB in TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || { echo "usage: scripts/masked.sh COMMAND..." >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "masked: mounting needs root" >&2; exit 1; }
say() { echo "masked: $*" >&2; }

# The second half, inside the namespace; $1 is the scratch folder.
if [ "$1" = --inside ]; then
    scratch=$2
    shift 2
    for folder in /etc /opt /usr /var "$HOME"; do
        mkdir -p "$scratch/over$folder" "$scratch/work$folder"
        mount -t overlay overlay -o "lowerdir=$folder,upperdir=$scratch/over$folder,workdir=$scratch/work$folder,redirect_dir=on" "$folder"
    done
    for folder in "$HOME/.cache" "$HOME/.m2" "${CARGO_HOME:-$HOME/.cargo}/registry" /var/lib/apt/lists; do
        mkdir -p "$folder" "$scratch/empty$folder"
        mount --bind "$scratch/empty$folder" "$folder"
    done
    installed=$(dpkg-query -W -f '${Package}\n' |
        grep -E '^(build-essential|binutils|clang.*|cmake|cpp.*|g\+\+.*|gcc|gcc-[0-9]+|libc6-dev|libclang.*|libssl-dev|llvm.*|maven|openjdk.*|pkg-config|zlib1g-dev)$')
    apt-mark manual make git ca-certificates >/dev/null
    # Whom the machine trusts stays (a network of its own may need that): a JDK that is installed adds to what it finds.
    trusted=/etc/ssl/certs/java/cacerts
    [ ! -f $trusted ] || cp $trusted "$scratch/cacerts"
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get purge -y --autoremove -o Dpkg::Options::=--force-unsafe-io $installed >"$scratch/purge.log" 2>&1 </dev/null ||
        { tail -5 "$scratch/purge.log" >&2; exit 1; }
    [ ! -f "$scratch/cacerts" ] || install -D -m 644 "$scratch/cacerts" $trusted
    rustup --quiet target remove wasm32-unknown-unknown
    for program in cc g++ clang java mvn; do
        ! command -v $program >/dev/null || say "$program is still here: $(command -v $program)"
    done
    say "purged $(grep -c '^Removing ' "$scratch/purge.log") packages; running: $*"
    cd "$scratch/weir"
    unset BINDGEN_EXTRA_CLANG_ARGS CARGO_TARGET_DIR JAVA_HOME LIBCLANG_PATH ROCKSDB_LIB_DIR ROCKSDB_STATIC WEIR_CACHE XDG_CACHE_HOME
    exec "$@"
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/weir-masked.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
git clone --quiet . "$scratch/weir"
unshare --mount --propagation private "$PWD/scripts/masked.sh" --inside "$scratch" "$@"
