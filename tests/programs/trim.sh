#!/usr/bin/env bash
# After a burst of 1 GiB that is freed, malloc_trim(0) gives the memory back to the kernel.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile burst
on_sheaves "$work/burst" >"$work/out" || die "exit status $?"
read -r start peak freed end <"$work/out"
((peak > 1024 * 1024)) || die "the burst reached only $peak KiB"
((end * 10 <= start * 11)) \
    || die "RSS $end KiB after malloc_trim, more than 10 % above $start KiB at the start"
finish "RSS in KiB: start $start, peak $peak, freed $freed, trimmed $end, $(proof_of_sheaves)"
