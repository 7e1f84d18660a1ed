#!/usr/bin/env bash
# `true`: the smallest program there is must not become much larger, nor its start much longer.
# Compared are the peak of resident memory and the page faults with the preload object and without,
# the medians of nine runs each.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile cost
"$SHEAVES" run --verbose -- true 2>"$work/verbose"
grep -q 'runs on Sheaves' "$work/verbose" || die "true does not run on Sheaves"
object=$("$SHEAVES" run -- printenv LD_PRELOAD)

# Prints the median of nine runs with this object; of memory, or of page faults with field 2.
median_of_nine() {
    local field=$1
    shift
    for _ in {1..9}; do
        "$work/cost" "$@" true
    done | cut -d' ' -f"$field" | sort -n | sed -n 5p
}

without=$(median_of_nine 1 '')
with=$(median_of_nine 1 "$object")
faults_without=$(median_of_nine 2 '')
faults_with=$(median_of_nine 2 "$object")
((with <= without + 1024)) \
    || die "peak RSS $with KiB, without Sheaves $without KiB: more than 1 MiB above"
((faults_with <= faults_without + 22)) \
    || die "$faults_with page faults, without Sheaves $faults_without: more than 22 above"
finish "peak RSS $with KiB, without Sheaves $without KiB; page faults $faults_with, $faults_without"
