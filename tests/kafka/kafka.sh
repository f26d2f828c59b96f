#!/bin/bash
# Apache Kafka from the jars that tests/install.sh brings.
#   kafka.sh CLASS ARGS...              run a Kafka tool by its simple name (TopicCommand, DumpLogSegments, ...)
#   kafka.sh server PORT DIR [tiered]   format and run a one-node Kafka in the foreground on PORT and PORT2 (env CONTROLLER_PORT)
# STRANDLINE_KAFKA_LIB names another folder of jars. Heap of a tool: KAFKA_TOOL_HEAP (256m), of the server: KAFKA_HEAP (512m).
# KAFKA_JVM: options of the server's JVM in place of ours, which suit tests (a quick start, little memory) and not measurements.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lib=${STRANDLINE_KAFKA_LIB:-$here/../../.tools/kafka/lib}
if [ "${1:-}" = server ] && [ "${4:-}" = tiered ]; then lib=$here/../../.tools/kafka/lib-tiered; fi
small=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1)
read -ra server <<<"${KAFKA_JVM:-${small[*]}}"
paths=("-Dlog4j2.configurationFile=$here/log4j2.properties" -cp "$lib/*")
common=("${small[@]}" "${paths[@]}")

# Classes move between packages from one Kafka to the next, so a tool is looked up by its simple name.
class_of() {
  local index=$lib/.classes jar
  if [ ! -s "$index" ] || [ "$lib" -nt "$index" ]; then
    for jar in "$lib"/kafka*.jar; do python3 -m zipfile -l "$jar"; done |
      sed -n 's/^\([^ ]*\)\.class .*/\1/p' | grep -v '\$' | tr / . | grep -E '^(kafka|org\.apache\.kafka\.(tools|server))\.' |
      sort -u >"$index.$$" && touch -r "$lib" "$index.$$" && mv "$index.$$" "$index" && touch "$index"
  fi
  grep -E "(^|\.)$1\$" "$index" | head -1
}

if [ "${1:-}" != server ]; then
  class=$(class_of "$1") || { echo "no class $1 in $lib" >&2; exit 1; }
  shift
  exec java "-Xmx${KAFKA_TOOL_HEAP:-256m}" "${common[@]}" "$class" "$@"
fi

port=$2 dir=$3
mkdir -p "$dir/logs" "$dir/remote"
{
  cat "$here/server.properties"
  if [ "${4:-}" = tiered ]; then cat "$here/tiered.properties"; fi
  if [ -n "${KAFKA_EXTRA:-}" ]; then printf '%s\n' "$KAFKA_EXTRA"; fi
} | sed "s#@DIR@#$dir#g; s#@PORT@#$port#g; s#@CONTROLLER@#$CONTROLLER_PORT#g" >"$dir/server.properties"
if [ ! -e "$dir/logs/meta.properties" ]; then
  java "${common[@]}" "$(class_of StorageTool)" format -t "$(java "${common[@]}" "$(class_of StorageTool)" random-uuid)" \
    -c "$dir/server.properties" >/dev/null
fi
exec java "-Xmx${KAFKA_HEAP:-512m}" "${server[@]}" "${paths[@]}" kafka.Kafka "$dir/server.properties"
