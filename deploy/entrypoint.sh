#!/bin/sh
# What a container runs. Arguments are those of omnigraph-server; without any, the environment says
# which graph is served. The server takes the place of this shell, so that signals reach it.
set -eu

if [ "$#" -gt 0 ]; then
  exec omnigraph-server "$@"
fi

bind="${OMNIGRAPH_BIND:-0.0.0.0:8080}"
if [ -n "${OMNIGRAPH_CONFIG:-}" ]; then # the policy and the limits of a graph given by address, too
  set -- --config "$OMNIGRAPH_CONFIG"
fi
if [ -n "${OMNIGRAPH_TARGET_URI:-}" ]; then
  exec omnigraph-server "$OMNIGRAPH_TARGET_URI" "$@" --bind "$bind"
fi
if [ -n "${OMNIGRAPH_CONFIG:-}" ]; then
  if [ -n "${OMNIGRAPH_TARGET:-}" ]; then
    set -- "$@" --target "$OMNIGRAPH_TARGET"
  fi
  exec omnigraph-server "$@" --bind "$bind"
fi

cat >&2 <<'USAGE'
Nothing says which graph to serve. Set one of:
  OMNIGRAPH_TARGET_URI   its address, for example s3://bucket/graph or /var/lib/omnigraph/team.omni
  OMNIGRAPH_CONFIG       an omnigraph.yaml; OMNIGRAPH_TARGET names one of its graphs
Both together serve the address under the policy and limits of the file. Or pass the arguments of
omnigraph-server.
USAGE
exit 64
