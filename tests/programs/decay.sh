#!/usr/bin/env bash
# Memory that is freed goes back to the kernel without a call: by the frees themselves, and the rest
# by the keeper in a process with more threads. A process with one stays without a second one.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile decay
facts=""
# run THREADS KEPT_PERCENT: into a file of its own.
run() {
    on_sheaves "$work/decay" "$1" "$2" >"$work/out-$1-$2"
}

# check THREADS KEPT_PERCENT
check() {
    local start peak freed after_2 after_3 trimmed sleeps threads in_child
    read -r -d '' start peak freed after_2 after_3 trimmed sleeps threads in_child \
        <"$work/out-$1-$2" || true
    facts+="$1 threads, $2 % kept: start $start, peak $peak, freed $freed, 2 s later $after_2, "
    facts+="3 s later $after_3, trimmed $trimmed KiB; "
    ((peak > start + 1000 * 1024)) || die "the burst reached only $peak KiB"
    (($2 > 0 || freed <= start + 48 * 1024)) || die "too much after the last free: $facts"
    if (($1 == 1)); then
        ((threads == 1)) || die "a process with one thread has $threads: $facts"
    else
        (($2 > 0 || after_2 <= start + 24 * 1024)) || die "too much after 2 s: $facts"
        ((sleeps == 0)) || die "the keeper ran $sleeps times with nothing to do: $facts"
    fi
    (($2 == 0 || after_3 * 100 <= trimmed * 105)) ||
        die "more after 3 s than malloc_trim leaves: $facts"
    ((in_child == 1)) || die "a child with one thread has $in_child: $facts"
}

# Two at a time: most of it is waiting.
for kept in 0 10; do
    run 1 "$kept" &
    run 2 "$kept"
    wait $!
    check 1 "$kept"
    check 2 "$kept"
done
finish "$facts$(proof_of_sheaves)"
