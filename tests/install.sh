#!/bin/bash
# Installs what the test suites need on a machine that has Rust, Java with Maven, Go, Python 3.11, Node and apt; run as root.
# Everything but kcat, librdkafka-dev and valgrind lands in .tools/ of the repository (or in $STRANDLINE_TOOLS). Running it again costs a fraction of a second:
# each part has a stamp that holds a checksum of the files it is made from.
#   install.sh           everything
#   install.sh --tiered  also a Kafka with tiered storage, which the cold parts of the suites are checked against
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
tools=${STRANDLINE_TOOLS:-$tests/../.tools}
mkdir -p "$tools"
tools=$(cd "$tools" && pwd)

# step NAME FILE... : runs install_NAME unless its stamp says that it ran with exactly these files in this place
step() {
  local name=$1 stamp=$tools/.stamp-$1 sum
  shift
  sum=$(cat "$@" | cksum)" $tools"
  if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then return; fi
  echo "install: $name"
  "install_$name"
  echo "$sum" >"$stamp"
}

install_python() {
  rm -rf "$tools/venv"
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" install -q -r "$tests/requirements.txt"
}

install_kafka() {
  rm -rf "$tools/kafka/lib"
  mvn -q -B -Dstyle.color=never -f "$tests/kafka/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$tools/kafka/lib"
}

install_kafka_tiered() {
  rm -rf "$tools/kafka/lib-tiered"
  mvn -q -B -Dstyle.color=never -Ptiered -f "$tests/kafka/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$tools/kafka/lib-tiered"
}

install_kafka_connect() {
  rm -rf "$tools/kafka/lib-connect"
  mvn -q -B -Dstyle.color=never -Pconnect -f "$tests/kafka/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$tools/kafka/lib-connect"
}

install_java() {
  rm -rf "$tools/java"
  mkdir -p "$tools/java"
  javac -Xlint:all -Werror -proc:none -cp "$tools/kafka/lib/*" -d "$tools/java" "$tests"/clients/java/*.java
}

install_node() {
  # no install scripts: nothing here needs a compiler or a download of its own
  (cd "$tests/clients/node" && npm ci --silent --ignore-scripts --no-audit --no-fund)
}

install_go() {
  mkdir -p "$tools/bin"
  (cd "$tests/clients/go" && go build -o "$tools/bin/franz-go-client" .)
}

install_bench() {
  bash "$tests/bench/load/build.sh" "$tools/bin"
}

if ! command -v kcat >/dev/null || [ ! -e /usr/include/librdkafka/rdkafka.h ] || ! command -v valgrind >/dev/null; then
  echo "install: kcat, librdkafka-dev and valgrind"
  packages=(kcat librdkafka-dev valgrind)
  apt-get install -qq -y "${packages[@]}" >/dev/null || { apt-get update -qq && apt-get install -qq -y "${packages[@]}" >/dev/null; }
fi
step python "$tests/requirements.txt"
step kafka "$tests/kafka/pom.xml"
step kafka_connect "$tests/kafka/pom.xml"
if [ "${1:-}" = --tiered ]; then step kafka_tiered "$tests/kafka/pom.xml"; fi
step java "$tests/kafka/pom.xml" "$tests"/clients/java/*.java
step node "$tests/clients/node/package-lock.json"
[ -d "$tests/clients/node/node_modules" ] || { rm "$tools/.stamp-node" && step node "$tests/clients/node/package-lock.json"; }
step bench "$tests"/bench/load/*
step go "$tests"/clients/go/*.go "$tests/clients/go/go.sum"
