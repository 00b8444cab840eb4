#!/usr/bin/env bash
# Checks the models with spin, and that each rule taken out is refuted.
#   run.sh        about a minute
#   run.sh long   the largest configurations too: minutes, and 6 GB of memory
set -euo pipefail
cd "$(dirname "$0")"
models=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check EXPECTED MODEL FLAGS...: EXPECTED is "holds", "finishes" (with weak fairness) or "refuted".
check() {
  local expected=$1 model=$2 compile=-DSAFETY options=()
  shift 2
  if [ "$expected" = finishes ]; then
    set -- "$@" -DPROGRESS
    compile=-DNFAIR=3 options=(-a -f)
  fi
  case " $* " in *" -DDIE_IN_GUARD "*) options+=(-E) ;; esac
  (
    cd "$work"
    spin -a "$@" "$models/$model.pml" >spin.log || { cat spin.log; exit 1; }
    gcc -w -O2 "$compile" -DCOLLAPSE -DMEMLIM=8000 -o pan pan.c
    ./pan -m2000000 "${options[@]}" >out || { cat out; exit 1; }
  )
  local errors states
  errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' "$work/out")
  states=$(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' "$work/out")
  if grep -q 'search not completed' "$work/out" && [ "$expected" != refuted ]; then
    errors="incomplete search"
  fi
  printf '%-9s %-8s %9s states  %s\n' "$expected" "$model" "$states" "$*"
  case $expected in
    refuted) [ "$errors" != 0 ] ;;
    *) [ "$errors" = 0 ] ;;
  esac || { echo "errors: $errors"; cat "$work/out"; exit 1; }
}

check holds witness -DGOS=3 -DCRASHES=1
check holds witness -DGOS=2 -DCRASHES=2
check holds witness -DGOS=2 -DCRASHES=2 -DKEEP -DROUNDS=2
check holds witness -DGOS=2 -DNODES=1 -DCRASHES=1
check holds witness -DGOS=1 -DNODES=1 -DCRASHES=2 -DDIE_IN_GUARD
check holds witness -DGOS=1 -DNODES=1 -DCRASHES=1 -DKEEP -DROUNDS=2
check finishes witness -DGOS=2 -DCRASHES=1
check finishes witness -DGOS=2 -DCRASHES=1 -DKEEP -DROUNDS=2
# Among Go processes the kernel's lock alone is enough.
check holds witness -DGOS=2 -DCRASHES=1 -DNO_GUARD
check holds queue
check holds fence -DPROCS=3 -DCRASHES=1
check holds fence -DPROCS=2 -DROUNDS=2 -DCHANGES=2 -DCRASHES=2

for rule in NO_RECHECK TRUST_WAKEUP LOCK_AFTER_CREATE UNLOCK_FIRST PROBE_THEN_UNLINK; do
  check refuted witness -DGOS=2 -DCRASHES=1 -DNO_GUARD "-D$rule"
done
for rule in NO_RECHECK LOCK_AFTER_CREATE UNLOCK_FIRST; do
  check refuted witness -DGOS=2 -DCRASHES=1 "-D$rule"
done
check refuted witness -DGOS=2 -DCRASHES=1 -DKEEP -DROUNDS=2 -DTRUST_WAKEUP
for rule in NO_GUARD TRUST_LEGACY NODE_NO_GUARD NO_RECHECK; do
  check refuted witness -DGOS=1 -DNODES=1 -DCRASHES=1 "-D$rule"
done
for rule in COUNTER_FIRST ONLY_THE_NEXT; do
  check refuted queue "-D$rule"
done
for rule in TOKEN_AFTER_EVICTION SINGLE_SLOT NO_TRANSITION_LOCK NO_CHANGE_LOCK RECHECK_NOTHING; do
  check refuted fence -DPROCS=2 -DCRASHES=1 "-D$rule"
done

if [ "${1:-}" = long ]; then
  check holds witness -DGOS=2 -DNODES=1 -DCRASHES=2
  check holds witness -DGOS=2 -DNODES=1 -DCRASHES=2 -DDIE_IN_GUARD
  check holds queue -DPROCS=3 -DROUNDS=3 -DCRASHES=3
fi
