# shellcheck shell=bash
# What the tests share. Each test is a script that sources this file, works in a directory of its
# own ($work), and ends in `finish FACTS` or `die REASON`. $SHEAVES is the command under test.
set -Eeuo pipefail

: "${SHEAVES:?the command under test; tests/programs/run sets it}"
: "${PROGRAMS_DIR:?the folder of the tests; tests/programs/run sets it}"
test_name=$(basename "$0" .sh)
work=$(mktemp -d)
servers=()
# The verdict must reach the log even from inside $(...).
exec 9>&1

clean_up() {
    local pid
    for pid in "${servers[@]}"; do
        kill -KILL "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 143' TERM INT
trap 'die "line $LINENO: $BASH_COMMAND"' ERR

finish() {
    echo "ok $test_name ($*)"
    exit 0
}

die() {
    trap - ERR
    echo "not ok $test_name: $*" >&9
    exit 1
}

# on_sheaves PROGRAM ARGUMENTS: the statistics of the program itself go to $work/stats.
on_sheaves() {
    "$SHEAVES" run --stats=json --stats-file "$work/stats" -- "$@"
}

# The statistics of the last program, one object for each process of it, must show that it allocated
# from Sheaves: slabs were made and sheaves filled from them. Prints a fact for the verdict.
proof_of_sheaves() {
    local made engine
    [[ -s $work/stats ]] || die "no statistics: the program did not run on Sheaves to its end"
    made=$(sum_of slabs_made)
    ((made > 0)) || die "no slab was made: the program did not allocate from Sheaves"
    (($(sum_of refills) > 0)) || die "no refill: the program did not allocate from Sheaves"
    engine=$(grep -o '"engine":"[a-z]*"' "$work/stats" | cut -d '"' -f 4 | sort -u)
    echo "$made slabs made, engine $engine"
}

# The sum of one figure over all caches of the last statistics.
sum_of() {
    { grep -o "\"$1\":[0-9]*" "$work/stats" || true; } \
        | awk -F: '{ sum += $2 } END { print sum + 0 }'
}

# The maps of a running process must show the preload object.
check_maps() {
    grep -q libsheaves_preload "/proc/$1/maps" || die "process $1 has no preload object in its maps"
}

# Whether a process is in a sandbox: calls of it go through a filter (seccomp).
is_confined() {
    grep -q '^Seccomp:.2$' "/proc/$1/status" 2>/dev/null
}

# A TCP port on the loopback that nobody listens on, below those that the kernel gives to clients.
free_port() {
    local port
    for _ in {1..100}; do
        port=$((20000 + RANDOM % 12000))
        if ! (: </dev/tcp/127.0.0.1/$port) 2>/dev/null; then
            echo "$port"
            return
        fi
    done
    die "no free port"
}

# wait_until SECONDS COMMAND: repeats the command until it succeeds.
wait_until() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || die "waited in vain for: $*"
        sleep 0.05
    done
}

# compile NAME: the C program of this folder, as $work/NAME.
compile() {
    gcc -O1 -Wall -Wextra -pthread -o "$work/$1" "$PROGRAMS_DIR/$1.c"
}

same() {
    cmp -s "$1" "$2" || die "$3 differs from that without Sheaves"
}
