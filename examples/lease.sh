#!/bin/sh
# Runs a command while holding a lease, over HTTP, with curl and jq:
#
#     examples/lease.sh work:W-17 make deploy
#
# TENURE_URL is the server (default http://127.0.0.1:7420), TENURE_TOKEN its token if it asks for one, TENURE_HOLDER who
# holds (default: this host's name). The lease is renewed every third of its TTL; a command that may no longer hold it is
# ended. The command finds its fence in TENURE_FENCE.
set -eu

resource=$1
shift
url=${TENURE_URL:-http://127.0.0.1:7420}
holder=${TENURE_HOLDER:-$(hostname)}
ttl_ms=30000

# ask METHOD PATH [BODY]: prints the answer; fails where it is a problem.
ask() {
    curl --silent --show-error --fail-with-body --max-time 70 --request "$1" "$url$2" \
        ${TENURE_TOKEN:+--header "Authorization: Bearer $TENURE_TOKEN"} \
        --header 'Content-Type: application/json' ${3:+--data "$3"}
}

wanted=$(jq --null-input --compact-output --arg resource "$resource" --arg holder "$holder" \
    --argjson ttlMs $ttl_ms '{resource: $resource, holder: $holder, ttlMs: $ttlMs, waitMs: 60000}')
if ! answer=$(ask POST /v1/leases "$wanted"); then
    printf '%s\n' "$answer" | jq --raw-output .detail >&2
    exit 10
fi
id=$(printf '%s' "$answer" | jq --raw-output .lease.id)
TENURE_FENCE=$(printf '%s' "$answer" | jq --raw-output .lease.fence)
export TENURE_FENCE
own=$(jq --null-input --compact-output --arg holder "$holder" '{holder: $holder}')

"$@" &
command=$!

# A renewal that fails, for whatever reason, ends the command before the lease can be another's.
(
    while sleep $((ttl_ms / 3000)); do
        ask POST "/v1/leases/$id/renew" "$own" >/dev/null || break
    done
    kill "$command"
) &
renewal=$!

status=0
wait "$command" || status=$?
kill "$renewal" 2>/dev/null || true
ask POST "/v1/leases/$id/release" "$own" >/dev/null
exit "$status"
