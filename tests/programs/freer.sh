#!/usr/bin/env bash
# A thread that only frees what others allocated: what it collects must find its way back, or the
# program grows without bound.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

# A burst may touch pages of slabs that were there before, at any time: 1.6 MiB have been seen at
# once, and the most of a process is 16 MiB. 12 GB pass in the last quarter: 4 MiB are one block of
# 3,000 that does not come back.
compile freer
on_sheaves "$work/freer" 2400 >"$work/out" || die "exit status $?"
read -r first last blocks <"$work/out"
((last <= first + 4096)) \
    || die "RSS grows: $first KiB in the third quarter, $last KiB in the last"
finish "$blocks blocks, RSS $first KiB in the third quarter, $last KiB in the last," \
    "$(proof_of_sheaves)"
