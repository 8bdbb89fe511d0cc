#!/usr/bin/env bash
# Builds librocksdb.a once, from the very sources that librocksdb-sys ships, as a unity build: many C++ files
# in one compilation, 2.5 times cheaper than one at a time. All profiles and clones link the one archive.
#
#   scripts/rocksdb.sh        prints the folder that holds librocksdb.a (for ROCKSDB_LIB_DIR)
#
# The folder's name carries the crate's version, the compiler and the flags, so nothing stale is ever linked.
# Environment: WEIR_CACHE (where build results are kept; ~/.cache/weir), CXX (g++), JOBS (as many as cores and memory allow).
set -euo pipefail
cd "$(dirname "$0")/.."

group_size=24
cache=${WEIR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/weir}
compiler=${CXX:-g++}
# A group takes up to 1.3 GB to compile.
room=$(awk '/^MemAvailable:/ { print int($2 / 1300000) }' /proc/meminfo)
jobs=${JOBS:-$(printf '%s\n' "$(nproc)" "$((room > 0 ? room : 1))" | sort -n | head -1)}
say() { echo "rocksdb: $*" >&2; }
die() { say "$*"; exit 1; }
command -v "$compiler" >/dev/null || die "no C++ compiler '$compiler' (Debian: apt-get install g++)"

# What Cargo.lock says, not cargo itself: the answer is there at once when nothing is to be built.
version=$(awk '$0 == "name = \"librocksdb-sys\"" { getline; gsub(/version = |"/, ""); print }' Cargo.lock)
[ -n "$version" ] || die "Cargo.lock has no librocksdb-sys"
name=librocksdb-sys-$version

defines="-DLZ4=1 -DZSTD=1 -DNDEBUG=1 -DHAVE_ALIGNED_NEW -DHAVE_UINT128_EXTENSION -DOS_LINUX -DROCKSDB_PLATFORM_POSIX
 -DROCKSDB_LIB_IO_POSIX -DROCKSDB_SCHED_GETCPU_PRESENT -DROCKSDB_AUXV_GETAUXVAL_PRESENT -DROCKSDB_FALLOCATE_PRESENT
 -DROCKSDB_RANGESYNC_PRESENT -DROCKSDB_SUPPORT_THREAD_LOCAL"
case $(uname -m) in
    x86_64) machine="-msse4.2 -mpclmul -DHAVE_SSE42 -DHAVE_PCLMUL" ;;
    aarch64) machine="-march=armv8-a+crc+crypto -DHAVE_ARM64_CRC" ;;
    *) machine="" ;;
esac
flags="-O3 -fPIC -std=c++20 -w -include cstdint $machine $defines"
key=$( { echo "$name"; "$compiler" --version | head -1; echo "$flags $group_size"; } | sha256sum | cut -c1-12)
out=$cache/$name-$key
if [ -f "$out/librocksdb.a" ]; then echo "$out"; exit 0; fi

# The folder of a dependency's sources, as cargo unpacked them.
source_of() {
    local manifest
    manifest=$(cargo metadata --format-version 1 --locked | tr ',' '\n' | grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^/]*/Cargo.toml\"" | head -1)
    [ -n "$manifest" ] || die "cargo knows no package $1"
    manifest=${manifest#*:\"}
    dirname "${manifest%\"}"
}
crate=$(source_of librocksdb-sys)
lz4=$(source_of lz4-sys)/liblz4/lib
zstd=$(source_of zstd-sys)/zstd/lib
rocksdb=$crate/rocksdb
for header in "$lz4/lz4.h" "$zstd/zstd.h"; do [ -f "$header" ] || die "no $header: has the crate changed its layout?"; done

# Objects stay there until the archive is made: an interrupted build goes on where it was.
work=$out.part
mkdir -p "$work"
exec 9>"$work/lock"
flock 9 # a second caller waits for the first, and then finds the archive
if [ -f "$out/librocksdb.a" ]; then echo "$out"; exit 0; fi
total=$(grep -c . "$crate/rocksdb_lib_sources.txt")
groups=$(((total + group_size - 2) / group_size + 1))
say "building $name once: $total files in $groups groups on $jobs cores; about 9 CPU minutes, so $((9 / jobs + 1)) minutes on a free machine"

grep . "$crate/rocksdb_lib_sources.txt" | grep -v '^util/build_version.cc$' | split -l "$group_size" -d - "$work/group"
echo "../build_version.cc" >"$work/groupzz"

# One group in one compilation; if two of its files clash, each on its own.
compile_group() {
    local group=$1 name
    [ ! -f "$group.o" ] || return 0
    while read -r name; do echo "#include \"$rocksdb/$name\""; done <"$group" >"$group.cc"
    # shellcheck disable=SC2086
    if ! "$compiler" $flags -I"$rocksdb/include" -I"$rocksdb" -I"$crate" -I"$lz4" -I"$zstd" -c "$group.cc" -o "$group.o.new" 2>"$group.err" \
        || ! mv "$group.o.new" "$group.o"; then
        local i=0
        while read -r name; do
            # shellcheck disable=SC2086
            "$compiler" $flags -I"$rocksdb/include" -I"$rocksdb" -I"$crate" -I"$lz4" -I"$zstd" -c "$rocksdb/$name" -o "$group-$i.o" || exit 255
            i=$((i + 1))
        done <"$group"
    fi
    echo "rocksdb: $(find "$(dirname "$group")" -name 'group*.o' | wc -l)/$groups" >&2
}
export -f compile_group
export compiler flags rocksdb crate lz4 zstd groups
# shellcheck disable=SC2016
find "$work" -name 'group??' -print0 | sort -z | xargs -0 -n 1 -P "$jobs" bash -c 'set -euo pipefail; compile_group "$1"' _ \
    || die "the C++ compiler failed; its words are above"

ar rcs "$work/librocksdb.a" "$work"/group*.o
mkdir -p "$out"
mv "$work/librocksdb.a" "$out/librocksdb.a.new"
mv "$out/librocksdb.a.new" "$out/librocksdb.a"
rm -rf "$work"
say "ready: $out/librocksdb.a"
echo "$out"
