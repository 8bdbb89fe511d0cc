#!/usr/bin/env bash
# After kill -9 under exactly-once: the time from the restart to the first processed record, and what was read again.
#
#   bench/restart.sh [--keys "1000000 5000000"] [--records 100000] [--systems "weir ks ks-tuned"] [--runs 3] [--peer-runs 3] [--dir DIR]
#
#   weir       as the topology file has it, with Kafka's default session time-out (45 s)
#   ks         Kafka Streams with its defaults
#   ks-tuned   Kafka Streams with session.timeout.ms=6000 and enable.transactional.statestores=true
#
# One instance, two stream threads, intact state folder; each is killed when it has processed two fifths of the stream records.
# Weir's time counts from the start of the process, Kafka Streams' from KafkaStreams.start(): the JVM's start is not in it. Prints
# the median over the runs and its range, then Kafka Streams ÷ Weir. Needs what bench/throughput.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
keys="1000000 5000000" records=100000 systems="weir ks ks-tuned" runs=3 peer_runs= dir=bench/run
while [ $# -gt 1 ]; do
    case $1 in
        --keys) keys=$2 ;; --records) records=$2 ;; --systems) systems=$2 ;; --runs) runs=$2 ;; --peer-runs) peer_runs=$2 ;; --dir) dir=$2 ;;
        *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done
weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "no $weir: run make build" >&2; exit 1; }
peer=bench/kafka-streams
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
port=${PORT:-19492} http=${HTTP:-19480}
boot=127.0.0.1:$port
"$peer/peer.sh" build
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; "$peer/broker.sh" stop "$dir/broker" >&2' EXIT

now() { date +%s%N; }
metric() { curl -s -m 5 "http://127.0.0.1:$http/metrics" | awk -v name="$1" '$1 == name || index($1, name "{") == 1 {sum += $2} END {printf "%d", sum}'; }
# until_processed NUMBER: until this process has processed so many records
until_processed() { until [ "$(metric weir_records_processed_total)" -ge "$1" ]; do kill -0 "$pid" || return 1; sleep 0.01; done; }
murder() { kill -9 "$pid"; wait "$pid" 2>/dev/null || true; pid=; }

start_weir() {
    "$weir" run plugins/projekt/weir.toml --set app.id="$1" --set app.threads=2 --set app.guarantee=exactly-once \
        --set kafka.bootstrap.servers="$boot" --set state.dir="$dir/state/$1" --set http.listen="127.0.0.1:$http" 2>>"$dir/weir.err" &
    pid=$!
}
# weir ID → seconds restored
run_weir() {
    local began
    start_weir "$1"; until_processed $((6 * records * 2 / 5)); murder
    began=$(now); start_weir "$1"; until_processed 1
    awk -v ns=$(($(now) - began)) -v restored="$(metric weir_restore_records_total)" 'BEGIN {printf "%.2f %d\n", ns / 1e9, restored}'
    murder
}
# kafka_streams ID SETTING... → the same
run_kafka_streams() {
    local id=$1 goal=$((6 * records * 2 / 5))
    shift
    local args=(--bootstrap "$boot" --application "$id" --output "$id-out" --threads 2 --guarantee eos --state-dir "$dir/state/$id" "$@")
    "$peer/peer.sh" app "${args[@]}" >"$dir/ks.out" 2>"$dir/ks.err" &
    pid=$!
    # It counts table records too: these come first.
    until tail -n 1 "$dir/ks.out" | awk -v goal="$goal" -v streams=$((6 * records)) '/^t / {at = $4 > $6 - streams + goal} END {exit !at}'; do
        kill -0 "$pid" || return 1
        sleep 0.1
    done
    murder
    "$peer/peer.sh" app "${args[@]}" --cleanup yes >"$dir/ks.out" 2>"$dir/ks.err"
    awk '/^result records/ {for (i = 1; i < NF; i++) if ($i == "first_record_s") first = $(i + 1)}
         /^restore / {for (i = 1; i < NF; i++) if ($i == "records") restored = $(i + 1)} END {print first, restored}' "$dir/ks.out"
}
# Lines of "seconds restored" → median (lowest–highest), restored of each
summary() { sort -n | awk '{s[NR] = $1; r = r " " $2} END {printf "%.2f %.2f %.2f%s\n", s[int((NR + 1) / 2)], s[1], s[NR], r}'; }

printf '%-9s %-9s %8s %16s %8s   %s\n' keys system "first s" range "÷ weir" "records restored, each run"
for count in $keys; do
    "$peer/broker.sh" stop "$dir/broker" >&2 || true
    rm -rf "$dir/broker" "$dir/state"
    "$peer/broker.sh" start "$dir/broker" "$port" >&2
    "$peer/peer.sh" generator --bootstrap "$boot" --keys "$count" --records "$records" 2>"$dir/generator.log"
    ours=
    for system in $systems; do
        times=$runs
        [ "$system" = weir ] || times=${peer_runs:-$runs}
        for run in $(seq "$times"); do
            id=$system-$count-$run-$$
            case $system in
                weir) run_weir "$id" ;;
                ks) run_kafka_streams "$id" ;;
                ks-tuned) run_kafka_streams "$id" -c session.timeout.ms=6000 -c enable.transactional.statestores=true ;;
            esac
            rm -rf "$dir/state/$id"
        done >"$dir/results"
        read -r median low high restored <<<"$(summary <"$dir/results")"
        [ "$system" = weir ] && ours=$median
        printf '%-9s %-9s %8s %16s %8s   %s\n' "$count" "$system" "$median" "$low–$high" \
            "$(awk -v a="$median" -v b="${ours:-0}" 'BEGIN {if (b > 0) printf "%.1f", a / b}')" "$restored"
    done
done
