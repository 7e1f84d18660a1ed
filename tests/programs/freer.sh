#!/usr/bin/env bash
# A thread that only frees what others allocated: what it collects must find its way back, or the
# program grows without bound.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile freer
read -r first last blocks < <(on_sheaves "$work/freer" 1200)
((last * 10 <= first * 11)) \
    || die "RSS grows: $first KiB in the third quarter, $last KiB in the last"
finish "$blocks blocks, RSS $first KiB in the third quarter, $last KiB in the last," \
    "$(proof_of_sheaves)"
