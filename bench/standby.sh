#!/usr/bin/env bash
# Failover to a standby beside a restore from scratch: time and records read, on a real broker.
#
#   bench/standby.sh [--keys 100000] [--records 200000] [--rounds 1] [--guarantee eos|alo] [--dir DIR]
#
# Two instances share eight tasks of the project aggregate, whose store holds KEYS keys. Once all records are processed, one
# instance is killed with -9; the other takes its tasks over, once with `state.standby = 1` and once without. Measured are, from
# the moment at which the group gives the tasks on (the log says when): the time until the last of them processes, and the records
# that its restore has read. The session's time-out, which comes before that and is the same for both, is told beside.
# Needs what bench/throughput.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
keys=100000 records=200000 rounds=1 guarantee=eos dir=bench/run
while [ $# -gt 0 ]; do
    case $1 in
        --keys) keys=$2 ;; --records) records=$2 ;; --rounds) rounds=$2 ;; --guarantee) guarantee=$2 ;; --dir) dir=$2 ;;
        *) sed -n '2,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift 2
done
weir=${WEIR:-target/release/weir}
[ -x "$weir" ] || { echo "no $weir: run make build" >&2; exit 1; }
peer=bench/kafka-streams
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
port=${PORT:-19392} http=${HTTP:-19380}
boot=127.0.0.1:$port
session=6000
pids=()
stop_all() { for pid in "${pids[@]:-}"; do [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true; done; pids=(); }
"$peer/peer.sh" build
rm -rf "$dir/broker" "$dir/state"
"$peer/broker.sh" start "$dir/broker" "$port" >&2
trap 'stop_all; "$peer/broker.sh" stop "$dir/broker" >&2' EXIT
"$peer/peer.sh" generator --bootstrap "$boot" --keys "$keys" --records "$records" 2>&1 | tail -n 1 >&2

get() { curl -s -m 5 "http://127.0.0.1:$((http + $1))$2"; }
# start NUMBER APP STANDBY
start() {
    local mode=exactly-once
    [ "$guarantee" = eos ] || mode=at-least-once
    "$weir" run plugins/projekt/weir.toml --set app.id="$2" --set app.threads=2 --set app.guarantee=$mode \
        --set state.standby="$3" --set kafka.bootstrap.servers="$boot" --set kafka.session.timeout.ms=$session \
        --set state.dir="$dir/state/$1" --set http.listen="127.0.0.1:$((http + $1))" \
        --set sinks.projekt-aggregate.topic="$2-out" 2>"$dir/weir-$1.log" &
    pids[$1]=$!
}
# tasks NUMBER COUNT: until the instance has so many tasks, and all run
tasks() {
    until get "$1" /v1/status | jq -e --argjson n "$2" '(.tasks | length) == $n and all(.tasks[]; .state == "running")' >/dev/null; do
        kill -0 "${pids[$1]}" || return 1
        sleep 0.02
    done
}
# quiet NUMBER...: until none of these has anything left to process, or its standbys to follow, for three looks in a row
quiet() {
    local still=0 number busy
    while [ $still -lt 3 ]; do
        busy=0
        for number in "$@"; do
            get "$number" /v1/status | jq -e '[.tasks[].inputs[].lag, .standbys[].lag] | all(. == 0)' >/dev/null || busy=1
        done
        if [ $busy -eq 0 ]; then still=$((still + 1)); else still=0; fi
        sleep 2.1
    done
}
# moment FILE: when the group has last taken partitions away, as seconds since 1970
moment() { date +%s.%N -d "$(sed 's/\x1b\[[0-9;]*m//g' "$1" | grep ' revoked ' | tail -n 1 | awk '{print $1}')"; }

failed=0
for round in $(seq "$rounds"); do
    for standby in 1 0; do
        app=standby-$guarantee-$standby-$round
        "$peer/peer.sh" topic --bootstrap "$boot" --topic "$app-out" --partitions 8
        rm -rf "$dir/state"
        start 0 "$app" "$standby"; start 1 "$app" "$standby"
        tasks 0 4; tasks 1 4; quiet 0 1
        [ "$standby" = 0 ] || get 1 /v1/status | jq -e '(.standbys | length) == 4' >/dev/null || { echo "no standbys" >&2; failed=1; }
        lost=$(get 0 /v1/status | jq -c '[.tasks[].task]')
        killed=$(date +%s.%N)
        kill -9 "${pids[0]}"; wait "${pids[0]}" 2>/dev/null || true; pids[0]=
        until get 1 /v1/status | jq -e '(.tasks | length) == 8 and all(.tasks[]; .state == "running")' >/dev/null; do sleep 0.02; done
        running=$(date +%s.%N)
        began=$(moment "$dir/weir-1.log")
        get 1 /v1/status | jq -r --argjson lost "$lost" --arg standby "$standby" --arg round "$round" \
            --argjson killed "$killed" --argjson began "$began" --argjson running "$running" '
            [.tasks[] | select(.task as $task | $lost | index($task)) | .restore[]] as $of
            | "round \($round), standby = \($standby): \(($running - $began) * 1000 | round) ms from the revocation to the last task that runs, "
            + "\([$of[].records] | add) records read of \([$of[].end] | add) offsets; \(($began - $killed) * 1000 | round) ms for the session"'
        kill "${pids[1]}" && wait "${pids[1]}" || failed=1
        pids[1]=
    done
done
exit $failed
