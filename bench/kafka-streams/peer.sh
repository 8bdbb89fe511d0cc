#!/usr/bin/env bash
# Builds the Java programs when needed and runs one:
#   peer.sh generator|app|oracle|dump|topic|latency [options]     (each tells its options with --help)
# Environment: PEER_JVM (default -Xmx1g), PEER_LOG (warn)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
app=$here/app
cp=$app/target/classpath
if [ ! -s "$cp" ] || [ -n "$(find "$app/src" "$app/pom.xml" -newer "$cp" -print -quit)" ]; then
  mvn -q -B -f "$app/pom.xml" compile dependency:build-classpath \
    -Dmdep.outputFile="$cp.new" -Dmdep.includeScope=runtime >&2
  mv "$cp.new" "$cp"
fi
case ${1:-} in
  generator) main=Generator ;; app) main=App ;; oracle) main=Oracle ;;
  dump) main=Dump ;; topic) main=Topic ;; latency) main=Latency ;;
  build) exit 0 ;;
  *) sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
shift
# exec: the caller can stop the program by the pid it got
# shellcheck disable=SC2086
exec java ${PEER_JVM:--Xmx1g} -Dorg.slf4j.simpleLogger.defaultLogLevel="${PEER_LOG:-warn}" \
  -Dorg.slf4j.simpleLogger.showDateTime=true \
  -Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.StreamsConfig=error \
  -Dorg.slf4j.simpleLogger.log.org.apache.kafka.streams.processor.internals.StateDirectory=error \
  -cp "$app/target/classes:$(cat "$cp")" "peer.$main" "$@"
