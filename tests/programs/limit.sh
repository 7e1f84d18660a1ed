#!/usr/bin/env bash
# Under a limit of 256 MiB a program whose bursts of 200 MiB leave more than 400 MiB stays below it,
# whether the limit is a number or that of a control group.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

compile limit
limit_kib=$((256 * 1024))
free_kib=$(on_sheaves "$work/limit")
((free_kib > 400 * 1024)) || die "without a limit it reaches only $free_kib KiB"
# The limit is one on the heap; headers of slabs, sheaves and the like come on top, up to 1/64.
kib=$(SHEAVES_LIMIT=256M on_sheaves "$work/limit" 2>"$work/errors")
((kib <= limit_kib + limit_kib / 64)) || die "$kib KiB under a limit of $limit_kib KiB"
(($(grep -c "its limit is 256 MiB" "$work/errors") == 1)) || die "not one line: $(<"$work/errors")"

# A control group with a limit of 320 MiB, since the kernel counts more than the heap and ends what
# is above it, and a group in it for the program, where the kernel permits to make them.
limit_kib=$((320 * 1024))
group_kib="none was made"
for folder in /sys/fs/cgroup /sys/fs/cgroup/memory; do
    group=$folder/sheaves-limit-$$
    { [[ -d $folder ]] && mkdir -p "$group/program"; } 2>/dev/null || continue
    for file in memory.max memory.limit_in_bytes; do
        if [[ -e $group/$file ]] && echo $((limit_kib * 1024)) >"$group/$file"; then
            # shellcheck disable=SC2016 # the shell in the group expands it
            group_kib=$(SHEAVES_LIMIT=auto on_sheaves sh -c 'echo $$ >"$1" && exec "$2"' sh \
                "$group/program/cgroup.procs" "$work/limit" 2>/dev/null)
            ((group_kib <= limit_kib)) \
                || die "$group_kib KiB under a group's limit of $limit_kib KiB"
        fi
    done
    rmdir "$group/program" "$group"
done
finish "most $free_kib KiB, with a limit $kib KiB, with that of a group $group_kib KiB," \
    "$(proof_of_sheaves)"
