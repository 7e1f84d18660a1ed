#!/usr/bin/env bash
# Under a limit of 256 MiB a program whose bursts of 200 MiB leave more than 400 MiB stays below it,
# whether the limit is a number or that of a control group.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile limit
limit_kib=$((256 * 1024))
free_kib=$(on_sheaves "$work/limit")
((free_kib > 400 * 1024)) || die "without a limit it reaches only $free_kib KiB"
kib=$(SHEAVES_LIMIT=256M on_sheaves "$work/limit" 2>"$work/errors")
((kib <= limit_kib)) || die "$kib KiB under a limit of $limit_kib KiB"
(($(grep -c "its limit is 256 MiB" "$work/errors") == 1)) || die "not one line: $(<"$work/errors")"

# The group of this process, and one above it, as the kernel shows them.
group=$(sed -n 's/^0:://p' /proc/self/cgroup)
mkdir -p "$work/cgroup/$group"
echo max >"$work/cgroup/$group/memory.high"
echo $((limit_kib * 1024)) >"$work/cgroup/memory.max"
group_kib=$(SHEAVES_LIMIT=auto SHEAVES_CGROUP=$work/cgroup on_sheaves "$work/limit" 2>/dev/null)
((group_kib <= limit_kib)) || die "$group_kib KiB under a group's limit of $limit_kib KiB"
finish "most $free_kib KiB, with a limit $kib KiB, with that of a group $group_kib KiB," \
    "$(proof_of_sheaves)"
