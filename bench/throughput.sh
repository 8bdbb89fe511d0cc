#!/usr/bin/env bash
# Weir beside Kafka Streams 4.4 on the project aggregate: the same broker, the same records, one after the other.
#
#   bench/throughput.sh [--keys 100000] [--records 200000] [--threads "1 2 8"] [--guarantees "alo eos"] [--rounds 1] [--dir DIR]
#
# Prints for each run the records a second from the first record to the last (all eight topics), CPU seconds a million
# records, and peak memory; then Weir ÷ Kafka Streams. All input is there before a run starts. Kafka Streams runs with its
# defaults. Needs target/release/weir and the plugins (make build), Java 17, Maven and curl. On a busy machine the figures are worth nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
keys=100000 records=200000 threads="1 2 8" guarantees="alo eos" rounds=1 dir=bench/run
while [ $# -gt 1 ]; do
    case $1 in
        --keys) keys=$2 ;; --records) records=$2 ;; --threads) threads=$2 ;; --guarantees) guarantees=$2 ;;
        --rounds) rounds=$2 ;; --dir) dir=$2 ;; *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done
weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "no $weir: run make build" >&2; exit 1; }
peer=bench/kafka-streams
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
port=${PORT:-19292} http=${HTTP:-19280}
boot=127.0.0.1:$port
"$peer/peer.sh" build
rm -rf "$dir/broker" "$dir/state"
"$peer/broker.sh" start "$dir/broker" "$port" >&2
trap '"$peer/broker.sh" stop "$dir/broker" >&2; [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null || true' EXIT
"$peer/peer.sh" generator --bootstrap "$boot" --keys "$keys" --records "$records" 2>"$dir/generator.log"
tail -n 1 "$dir/generator.log" >&2
total=$(awk '/^generator records/ {print $3}' "$dir/generator.log")
streams=$((6 * records))

now() { date +%s%N; }
metric() { curl -s "http://127.0.0.1:$http/metrics" | awk -v name="$1" '$1 == name || index($1, name "{") == 1 {sum += $2} END {printf "%d", sum}'; }

# kafka_streams GUARANTEE THREADS ID → per_s cpu_s_per_million rss_mib
kafka_streams() {
    "$peer/peer.sh" app --bootstrap "$boot" --application "ks-$3" --output "ks-$3-out" --cleanup yes \
        --state-dir "$dir/state" --threads "$2" --guarantee "$1" 2>"$dir/ks.err" |
        awk -v total="$total" '/^result records/ {for (i = 1; i < NF; i++) v[$i] = $(i + 1); printf "%d %.1f %d\n", v["per_s"], v["cpu_s"] * 1e6 / total, v["rss_mib"]}'
}

# weir GUARANTEE THREADS ID → the same
weir_run() {
    local guarantee=at-least-once first="" done_at cpu rss restored processed
    [ "$1" = eos ] && guarantee=exactly-once
    rm -rf "$dir/state/weir"
    "$weir" run plugins/projekt/weir.toml --set app.id="weir-$3" --set app.threads="$2" --set app.guarantee=$guarantee \
        --set kafka.bootstrap.servers="$boot" --set state.dir="$dir/state/weir" --set http.listen="127.0.0.1:$http" 2>"$dir/weir.err" &
    pid=$!
    while :; do
        kill -0 $pid 2>/dev/null || { tail -5 "$dir/weir.err" >&2; return 1; }
        restored=$(metric weir_restore_records_total) || true
        processed=$(metric weir_records_processed_total) || true
        if [ -z "$first" ] && [ "${restored:-0}" -gt 0 ]; then first=$(now); fi
        [ "${processed:-0}" -ge "$streams" ] && break
        sleep 0.05
    done
    done_at=$(now)
    cpu=$(awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$pid/stat")
    rss=$(awk '/VmHWM/ {printf "%d", $2 / 1024}' "/proc/$pid/status")
    kill $pid && wait $pid
    pid=
    awk -v total="$total" -v ns=$((done_at - first)) -v cpu="$cpu" -v rss="$rss" \
        'BEGIN {printf "%d %.1f %d\n", total * 1e9 / ns, cpu * 1e6 / total, rss}'
}

printf '%-5s %-10s %-7s %26s %26s %8s\n' round guarantee threads "kafka streams /s cpu rss" "weir /s cpu rss" ratio
for round in $(seq "$rounds"); do
    for guarantee in $guarantees; do
        for count in $threads; do
            id=$round-$guarantee-$count-$$
            ks=$(kafka_streams "$guarantee" "$count" "$id")
            ours=$(weir_run "$guarantee" "$count" "$id")
            printf '%-5s %-10s %-7s %26s %26s %8s\n' "$round" "$guarantee" "$count" "$ks" "$ours" \
                "$(awk -v a="${ours%% *}" -v b="${ks%% *}" 'BEGIN {printf "%.2f", a / b}')"
        done
    done
done
