#!/usr/bin/env bash
# A real single-node KRaft Kafka broker for tests, from Maven jars. Loopback only.
#   broker.sh start DIR PORT   format DIR if new, start, wait until it answers (PORT+1 is the controller)
#   broker.sh stop DIR         stop the broker started in DIR (by its pid), wait until it has ended
#   broker.sh kill DIR         the same with SIGKILL
#   broker.sh status DIR       pid, RSS and CPU time
# Environment: KAFKA_HEAP (512m), KAFKA_GC (-XX:+UseSerialGC), KAFKA_JVM (more flags),
#   KAFKA_CDS=1 (class-data archive in target: made on the first stop, then used),
#   KAFKA_PROPS (a file appended to server.properties).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cmd=${1:-}; dir=${2:-}
[ -n "$dir" ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }

classpath() {
  local f=$here/target/classpath
  if [ ! -s "$f" ] || [ "$here/../../tests/broker/pom.xml" -nt "$f" ]; then
    mkdir -p "$here/target"
    mvn -q -B -f "$here/../../tests/broker/pom.xml" dependency:build-classpath \
      -Dmdep.outputFile="$f.new" -Dmdep.includeScope=runtime >&2
    mv "$f.new" "$f"
  fi
  cat "$f"
}

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
alive() { [ -s "$dir/pid" ] && kill -0 "$(cat "$dir/pid")" 2>/dev/null; }
now() { date +%s%3N; }

start() {
  local port=${1:?PORT} cp t0 t1
  alive && { echo "already running: pid $(cat "$dir/pid")" >&2; exit 1; }
  if answers "$port" || answers $((port + 1)); then
    echo "port $port or $((port + 1)) is taken" >&2; exit 1
  fi
  cp=$(classpath)
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  cat >"$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/data
num.partitions=8
default.replication.factor=1
min.insync.replicas=1
auto.create.topics.enable=false
# record timestamps may lie years back: never delete by age
log.retention.ms=-1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
# the cleaner's buffer is 128 MiB by default: too much for a small heap
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=16777216
log.cleaner.io.buffer.size=524288
# 9 s by default: a broker restarted after a kill waits that long for its old session to end
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
P
  [ -z "${KAFKA_PROPS:-}" ] || cat "$KAFKA_PROPS" >>"$dir/server.properties"
  local log="-Dorg.slf4j.simpleLogger.defaultLogLevel=${KAFKA_LOG:-warn} -Dorg.slf4j.simpleLogger.showDateTime=true"
  t0=$(now)
  if [ ! -s "$dir/data/meta.properties" ]; then
    local id; id=$(head -c16 /dev/urandom | base64 | tr '+/' 'ab' | tr -d '=')
    # shellcheck disable=SC2086
    java -Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 $log -cp "$cp" \
      kafka.tools.StorageTool format -t "$id" -c "$dir/server.properties" >"$dir/format.log" 2>&1 ||
      { cat "$dir/format.log" >&2; exit 1; }
  fi
  t1=$(now)
  local cds=
  if [ -n "${KAFKA_CDS:-}" ]; then
    local jsa=$here/target/kafka.jsa
    if [ -s "$jsa" ]; then cds=-XX:SharedArchiveFile=$jsa; else cds=-XX:ArchiveClassesAtExit=$jsa; fi
  fi
  # shellcheck disable=SC2086
  setsid java -Xmx"${KAFKA_HEAP:-512m}" ${KAFKA_GC:--XX:+UseSerialGC} $cds ${KAFKA_JVM:-} \
    -XX:+ExitOnOutOfMemoryError $log \
    -cp "$cp" kafka.Kafka "$dir/server.properties" >>"$dir/broker.log" 2>&1 </dev/null &
  echo $! >"$dir/pid"
  # The client listener opens only once the broker is unfenced, so a connect is a good sign of life.
  for _ in $(seq 1200); do
    if answers "$port"; then
      echo "pid $(cat "$dir/pid") port $port format_ms $((t1 - t0)) start_ms $(($(now) - t1))"
      return
    fi
    alive || { tail -20 "$dir/broker.log" >&2; echo "broker ended while starting" >&2; exit 1; }
    sleep 0.05
  done
  echo "broker does not answer" >&2; exit 1
}

end() {
  alive || { rm -f "$dir/pid"; return 0; }
  local pid; pid=$(cat "$dir/pid")
  kill -"$1" "$pid"
  for _ in $(seq 600); do kill -0 "$pid" 2>/dev/null || { rm -f "$dir/pid"; return 0; }; sleep 0.1; done
  echo "pid $pid still runs" >&2; exit 1
}

case $cmd in
  start) start "${3:-}" ;;
  stop) end TERM ;;
  kill) end KILL ;;
  status) alive || { echo "not running"; exit 1; }
    pid=$(cat "$dir/pid")
    echo "pid $pid $(grep -E 'VmHWM|VmRSS' "/proc/$pid/status" | tr -s '\t ' ' ' | tr '\n' ' ')cpu_s $(awk '{print ($14+$15)/100}' "/proc/$pid/stat")" ;;
  *) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
