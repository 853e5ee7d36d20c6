#!/bin/sh
# Leases in shell scripts: docs/recipes/shell.md. TENURE_STORE says where they are kept.
set -eu

# The simplest way: the lease lasts as long as the command, and the command ends when the lease is lost.
tenure run backup:db --ttl 30s --wait 1m --reason "nightly backup" -- \
  sh -c 'echo "dumping, fence $TENURE_FENCE"'

# Over several commands: acquire, and release however the script ends. Nothing renews this lease: its TTL must be long
# enough for all of it.
me="backup-$$"
status=0
tenure acquire backup:disk --holder "$me" --ttl 10m --reason "copying" >/dev/null || status=$?
case $status in
  0) ;;
  10) exit 0 ;; # another copy is under way; tenure has said whose
  *) exit "$status" ;;
esac
trap 'tenure release backup:disk --holder "$me" >/dev/null' EXIT

# In the background, because a shell that waits for a command hears no signal before the command has ended.
sleep "${1:-0}" &
copy=$!
trap 'kill "$copy"; exit 130' INT
trap 'kill "$copy"; exit 143' TERM
echo "copying"
wait "$copy"
echo "copied"
