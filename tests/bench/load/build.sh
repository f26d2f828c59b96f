#!/bin/bash
# Builds the load programs into the folder named by the argument; needs gcc and Debian's librdkafka-dev.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
warnings=(-std=gnu11 -O2 -g -Wall -Wextra -Werror)
case $(uname -m) in
  x86_64) crc=-msse4.2 ;;
  aarch64) crc=-march=armv8-a+crc ;;
  *) crc= ;;
esac
gcc "${warnings[@]}" -o "$1/bench-load" "$here"/{client,common,consume,payload,produce}.c -lrdkafka -lpthread
gcc "${warnings[@]}" $crc -o "$1/bench-floor" "$here"/{common,floor}.c
gcc "${warnings[@]}" -o "$1/bench-prime" "$here"/{common,prime}.c
