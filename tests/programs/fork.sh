#!/usr/bin/env bash
# fork in a process whose other threads allocate all the time: the child has their locks and none of
# the threads. Children allocate, free what the parent allocated, and must neither hang nor find
# anything changed.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile forks
begin=$SECONDS
on_sheaves "$work/forks" 8 "${FORKS:-10000}" >"$work/out" 2>"$work/err" \
    || die "exit status $?: $(head -n 1 "$work/err")"
read -r children operations <"$work/out"
[[ $children == "${FORKS:-10000}" ]] || die "only $children children"
finish "$children children beside 8 threads with $operations operations," \
    "$((SECONDS - begin)) s, $(proof_of_sheaves)"
