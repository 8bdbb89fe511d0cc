#!/usr/bin/env bash
# Weir's results beside Kafka Streams', at full size, on a real broker: last value of each key, byte for byte.
#
#   bench/differential.sh SCENARIO... [--keys 100000] [--records 200000] [--tables before|after] [--runs 5] [--guarantees "eos alo"] [--dir DIR]
#
#   fresh      RUNS runs from empty
#   kill       kill -9 at five random moments of a run, restarted on the same state folder each time
#   wipe       kill -9 half-way, the state folder deleted, restarted
#   instances  two, then three, then two instances of the group while records flow
#
# Each runs with 8 stream threads. With --tables after the tables' timestamps are later than the streams'; there the oracle gets
# the same records with the tables first, since that is what the barrier promises. Needs what bench/throughput.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
scenarios=() keys=100000 records=200000 tables=before runs=5 guarantees="eos alo" dir=bench/run
while [ $# -gt 0 ]; do
    case $1 in
        --keys) keys=$2; shift ;; --records) records=$2; shift ;; --tables) tables=$2; shift ;; --runs) runs=$2; shift ;;
        --guarantees) guarantees=$2; shift ;; --dir) dir=$2; shift ;;
        fresh | kill | wipe | instances) scenarios+=("$1") ;;
        *) sed -n '2,12s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "no $weir: run make build" >&2; exit 1; }
peer=bench/kafka-streams
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
port=${PORT:-19392} http=${HTTP:-19380}
boot=127.0.0.1:$port
streams=$((6 * records))
pids=()
stop_all() { for pid in "${pids[@]:-}"; do [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; done; pids=(); }
"$peer/peer.sh" build
rm -rf "$dir/broker" "$dir/state"
"$peer/broker.sh" start "$dir/broker" "$port" >&2
trap 'stop_all; "$peer/broker.sh" stop "$dir/broker" >&2' EXIT
"$peer/peer.sh" generator --bootstrap "$boot" --file "$dir/in.jsonl" --keys "$keys" --records "$records" --tables "$tables" 2>&1 | tail -n 1 >&2
PEER_JVM="${PEER_JVM:--Xmx4g}" "$peer/peer.sh" oracle --file "$dir/in.jsonl" >"$dir/want.jsonl" 2>"$dir/oracle.log"
tail -n 1 "$dir/oracle.log" >&2

metric() { curl -s -m 5 "http://127.0.0.1:$1/metrics" | awk -v name="$2" '$1 == name || index($1, name "{") == 1 {sum += $2} END {printf "%d", sum}'; }
lag() { curl -s -m 5 "http://127.0.0.1:$1/metrics" | awk '/^weir_source_lag_records/ {sum += $2; n++} END {if (n) printf "%d", sum; else print -1}'; }

# start NUMBER APP GUARANTEE STATE: an instance on HTTP port base + NUMBER
start() {
    local guarantee=at-least-once
    [ "$3" = eos ] && guarantee=exactly-once
    "$weir" run plugins/projekt/weir.toml --set app.id="$2" --set app.threads=8 --set app.guarantee=$guarantee \
        --set kafka.bootstrap.servers="$boot" --set kafka.session.timeout.ms=6000 --set state.dir="$4" \
        --set http.listen="127.0.0.1:$((http + $1))" --set sinks.projekt-aggregate.topic="$2-out" 2>>"$dir/weir-$1.log" &
    pids[$1]=$!
}
end() { kill "${pids[$1]}" && wait "${pids[$1]}"; pids[$1]=; }
murder() { kill -9 "${pids[$1]}"; wait "${pids[$1]}" 2>/dev/null || true; pids[$1]=; }
ready() { until curl -s -m 5 -o "$dir/ready" -w '%{http_code}' "http://127.0.0.1:$((http + $1))/readyz" | grep -q 200; do kill -0 "${pids[$1]}" || return 1; sleep 0.1; done; }
# processed PORT NUMBER: until so many records have been processed by this process
processed() { until [ "$(metric $((http + $1)) weir_records_processed_total)" -ge "$2" ]; do kill -0 "${pids[$1]}" || return 1; sleep 0.05; done; }
# caught_up NUMBER...: until all of these instances together have no lag for two looks in a row
caught_up() {
    local still=0 sum one number
    while [ $still -lt 3 ]; do
        sum=0
        for number in "$@"; do one=$(lag $((http + number))); [ "$one" -ge 0 ] || one=1; sum=$((sum + one)); done
        if [ $sum -eq 0 ]; then still=$((still + 1)); else still=0; fi
        sleep 2.1
    done
}
compare() {
    "$peer/peer.sh" dump --bootstrap "$boot" --topic "$1-out" >"$dir/got.jsonl" 2>"$dir/dump.log"
    if cmp -s "$dir/want.jsonl" "$dir/got.jsonl"; then
        echo "$2: equal ($(tail -n 1 "$dir/dump.log"))"
    else
        echo "$2: DIFFERENT: $(diff "$dir/want.jsonl" "$dir/got.jsonl" | grep -c '^[<>]') lines; $(tail -n 1 "$dir/dump.log")"
        failed=1
    fi
}
topic() { "$peer/peer.sh" topic --bootstrap "$boot" --topic "$1" --partitions 8; }

failed=0
for scenario in "${scenarios[@]}"; do
    for guarantee in $guarantees; do
        case $scenario in
            fresh)
                for run in $(seq "$runs"); do
                    app=fresh-$guarantee-$run; topic "$app-out"; rm -rf "$dir/state"
                    began=$(date +%s%N); start 0 "$app" "$guarantee" "$dir/state/a"; ready 0; processed 0 "$streams"; took=$((($(date +%s%N) - began) / 1000000))
                    end 0
                    compare "$app" "fresh $guarantee run $run, $took ms"
                done ;;
            kill)
                app=kill-$guarantee; topic "$app-out"; rm -rf "$dir/state"
                for moment in 1 2 3 4 5; do
                    start 0 "$app" "$guarantee" "$dir/state/a"; ready 0
                    echo "  restored at start $moment: $(metric $http weir_restore_records_total) records"
                    processed 0 $((streams * (RANDOM % 15 + 2) / 100)); murder 0
                done
                start 0 "$app" "$guarantee" "$dir/state/a"; ready 0
                echo "  restored at the last start: $(metric $http weir_restore_records_total) records"
                caught_up 0; end 0; compare "$app" "kill $guarantee" ;;
            wipe)
                app=wipe-$guarantee; topic "$app-out"; rm -rf "$dir/state"
                start 0 "$app" "$guarantee" "$dir/state/a"; ready 0; processed 0 $((streams / 2)); murder 0; rm -rf "$dir/state/a"
                start 0 "$app" "$guarantee" "$dir/state/a"; ready 0
                echo "  restored: $(metric $http weir_restore_records_total) records"
                caught_up 0; end 0; compare "$app" "wipe $guarantee" ;;
            instances)
                app=instances-$guarantee; topic "$app-out"; rm -rf "$dir/state"
                start 0 "$app" "$guarantee" "$dir/state/a"; start 1 "$app" "$guarantee" "$dir/state/b"; ready 0; processed 0 $((streams / 10))
                start 2 "$app" "$guarantee" "$dir/state/c"; ready 2; processed 2 $((streams / 20)); end 1
                caught_up 0 2; end 0; end 2; compare "$app" "instances $guarantee" ;;
        esac
    done
done
exit $failed
