#!/usr/bin/env bash
# Memory over time, Weir beside Kafka Streams 4.4, on the project aggregate: the same broker, the same records, one after the other.
#
#   bench/memory.sh [--memory 192] [--factor 10] [--keys 400000] [--threads 2] [--guarantee eos] [--out bench] [--dir DIR]
#
# Weir gets state.memory = --memory MiB; the input is made until it is --factor times as much. Writes OUT/memory.csv (a line every half
# second: who, seconds, MiB resident) and OUT/memory.svg, and fails if Weir was ever over its memory. Kafka Streams runs with its defaults
# in a JVM with PEER_JVM (-Xmx1g): it has no such number. Needs what throughput.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
memory=192 factor=10 keys=400000 threads=2 guarantee=eos out=bench dir=bench/run
while [ $# -gt 1 ]; do
    case $1 in
        --memory) memory=$2 ;; --factor) factor=$2 ;; --keys) keys=$2 ;; --threads) threads=$2 ;; --guarantee) guarantee=$2 ;;
        --out) out=$2 ;; --dir) dir=$2 ;; *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done
weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "no $weir: run make build" >&2; exit 1; }
peer=bench/kafka-streams
mkdir -p "$dir" "$out"
dir=$(cd "$dir" && pwd)
port=${PORT:-19292} http=${HTTP:-19280}
boot=127.0.0.1:$port
"$peer/peer.sh" build
rm -rf "$dir/broker" "$dir/state"
"$peer/broker.sh" start "$dir/broker" "$port" >&2
pid=
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; "$peer/broker.sh" stop "$dir/broker" >&2' EXIT

# Bytes of the eight inputs on the broker, in MiB.
input() { find "$dir/broker/data" -name '*.log' -path '*/data/[a-z]*-[0-9]*/*' ! -path '*/__*' -printf '%s\n' | awk '{sum += $1} END {printf "%d", sum / 1048576}'; }

# A first part says how large records are; the rest is made to measure.
"$peer/peer.sh" generator --bootstrap "$boot" --keys "$keys" --records 100000 2>"$dir/generator.log"
first=$(input)
# On a new broker: topics that are deleted and made again take their time to come.
"$peer/broker.sh" stop "$dir/broker" >&2
rm -rf "$dir/broker"
"$peer/broker.sh" start "$dir/broker" "$port" >&2
rows=$((2 * keys))
records=$(awk -v want=$((memory * factor)) -v first="$first" -v rows="$rows" 'BEGIN {
    each = first / (600000 + rows); need = want / each - rows; printf "%d", (need > 600000 ? need : 600000) / 6 * 1.1 + 1 }')
"$peer/peer.sh" generator --bootstrap "$boot" --keys "$keys" --records "$records" 2>"$dir/generator.log"
mib=$(input)
echo "$records records a stream, $keys keys, $mib MiB of input: $(awk -v a="$mib" -v b="$memory" 'BEGIN {printf "%.1f", a / b}') times the memory"
[ "$mib" -ge $((memory * factor)) ] || { echo "the input is too small" >&2; exit 1; }

csv=$out/memory.csv
echo "who,seconds,mib" >"$csv"
now() { date +%s%N; }
# sample WHO PID START: a line of the file
sample() {
    local mib
    mib=$(awk '/^VmRSS/ {printf "%.1f", $2 / 1024}' "/proc/$2/status" 2>/dev/null) || return 0
    [ -z "$mib" ] || awk -v who="$1" -v ns=$(($(now) - $3)) -v mib="$mib" 'BEGIN {printf "%s,%.1f,%s\n", who, ns / 1e9, mib}' >>"$csv"
}
metric() { curl -s "http://127.0.0.1:$http/metrics" | awk -v name="$1" '$1 == name || index($1, name "{") == 1 {sum += $2} END {printf "%d", sum}'; }

long=at-least-once
[ "$guarantee" = eos ] && long=exactly-once
"$weir" run plugins/projekt/weir.toml --set app.id="weir-memory-$$" --set app.threads="$threads" --set app.guarantee=$long \
    --set state.memory="$memory MiB" --set plugins.projekt.memory="16 MiB" \
    --set kafka.bootstrap.servers="$boot" --set state.dir="$dir/state/weir" --set http.listen="127.0.0.1:$http" 2>"$dir/weir.err" &
pid=$!
start=$(now)
while kill -0 $pid 2>/dev/null; do
    sample weir $pid "$start"
    processed=$(metric weir_records_processed_total) || processed=0
    [ "${processed:-0}" -lt $((6 * records)) ] || break
    sleep 0.5
done
kill -0 $pid 2>/dev/null || { tail -5 "$dir/weir.err" >&2; exit 1; }
peak=$(awk '/VmHWM/ {printf "%d", ($2 + 1023) / 1024}' "/proc/$pid/status")
kill $pid && wait $pid
pid=

"$peer/peer.sh" app --bootstrap "$boot" --application "ks-memory-$$" --output "ks-memory-$$-out" --cleanup yes \
    --state-dir "$dir/state" --threads "$threads" --guarantee "$guarantee" >"$dir/ks.out" 2>"$dir/ks.err" &
pid=$!
start=$(now)
while kill -0 $pid 2>/dev/null; do
    sample kafka-streams $pid "$start"
    sleep 0.5
done
wait $pid
pid=
theirs=$(awk '/^result records/ {for (i = 1; i < NF; i++) v[$i] = $(i + 1); printf "%d", v["rss_mib"]}' "$dir/ks.out")

bench/memory-plot.sh "$csv" "$memory" "$mib" >"$out/memory.svg"
echo "peak: Weir $peak MiB of $memory, Kafka Streams $theirs MiB; $csv, $out/memory.svg"
[ "$peak" -le "$memory" ] || { echo "over the memory" >&2; exit 1; }
