#!/bin/bash
# Stands in for zkServer.sh before go-zookeeper's test harness, which runs
# `zkServer.sh start-foreground CONFIG` with SERVER_JVMFLAGS in the environment.
set -eu
[ "$1" = start-foreground ] || { echo "shim/zkServer.sh: unexpected: $*" >&2 && exit 2; }
exec "$INTEROP_LAUNCH" "$2"
