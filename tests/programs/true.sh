#!/usr/bin/env bash
# `true`: the smallest program there is must not become much larger. Compared is the peak of
# resident memory with the preload object and without, the median of nine runs each.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile max_rss
"$SHEAVES" run --verbose -- true 2>"$work/verbose"
grep -q 'runs on Sheaves' "$work/verbose" || die "true does not run on Sheaves"
object=$("$SHEAVES" run -- printenv LD_PRELOAD)

median_of_nine() {
    for _ in {1..9}; do
        "$work/max_rss" "$@"
    done | sort -n | sed -n 5p
}

without=$(median_of_nine '' true)
with=$(median_of_nine "$object" true)
((with <= without + 1024)) \
    || die "peak RSS $with KiB, without Sheaves $without KiB: more than 1 MiB above"
finish "peak RSS $with KiB, without Sheaves $without KiB"
