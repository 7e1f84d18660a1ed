#!/usr/bin/env bash
# A process with one thread keeps one, however much it frees: unshare(2) of the user namespace
# works, as do fork, daemon and exec after bursts. And forks beside the keeper of a process with two
# threads.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile single
on_sheaves "$work/single" >"$work/out" 2>"$work/err" || die "$(head -n 1 "$work/err")"
answer=$(<"$work/out")
on_sheaves "$work/single" forks 1000 >"$work/forks" 2>"$work/err" || die "$(head -n 1 "$work/err")"
finish "$answer; $(<"$work/forks"); $(proof_of_sheaves)"
