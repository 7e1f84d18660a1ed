#!/usr/bin/env bash
# bwrap, on Sheaves, makes sandboxes in which a program runs on Sheaves: namespaces alone, and with
# a filter (seccomp) that refuses rseq and membarrier, so that it has the portable engine.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

namespaces=(bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc)
"${namespaces[@]}" true 2>"$work/errors" \
    || finish "skipped: namespaces are refused: $(head -n 1 "$work/errors")"
cd "$work"
namespaces+=(--bind "$work" "$work" --chdir "$work")
compile filter
./filter >filter.bpf
# Enough lines for several threads.
seq 600000 | awk '{ print $1 * 7919 % 600011 }' >numbers
sort --parallel=4 numbers >plain

# inside NAME OPTION...: a program on Sheaves in what bwrap makes, which is on Sheaves, too.
inside() {
    local name=$1
    shift
    rm -f stats
    on_sheaves "${namespaces[@]}" "$@" sh -c 'sort --parallel=4 numbers >sorted; echo $$ >pid' \
        2>errors || die "$name: status $?, $(head -n 1 errors)"
    [[ ! -s errors ]] || die "$name: $(head -n 1 errors)"
    same plain sorted "what sort writes in $name"
    (($(<pid) < 10)) || die "$name: the program was in no namespace of its own"
    facts+="in $name $(proof_of_sheaves | paste -s -d ' ')${1:+, }"
}

facts=""
inside "a sandbox" --seccomp 4 4<filter.bpf
grep -q '"engine":"portable"' stats || die "the filter does not refuse rseq"
inside namespaces
finish "$facts"
