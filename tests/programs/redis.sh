#!/usr/bin/env bash
# redis-server: many small sizes, and a fork that saves while requests go on. Debian's is linked to
# libjemalloc; the preload object must win nevertheless.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
known=20000
requests=100000

# start NAME COMMAND: a server in a directory of its own; sets $port and $server.
start() {
    local name=$1
    shift
    port=$(free_port)
    mkdir -p "$name"
    "$@" redis-server --port "$port" --bind 127.0.0.1 --dir "$work/$name" --save '' \
        --appendonly no --activedefrag no --enable-debug-command local --daemonize no \
        >"$name.log" 2>&1 &
    server=$!
    servers+=("$server")
    wait_until 10 answers
}

# While a server loads its dump, `ping` succeeds with another answer.
# shellcheck disable=SC2317 # wait_until calls it
answers() {
    [[ $(cli ping) == PONG ]]
}

cli() {
    redis-cli -h 127.0.0.1 -p "$port" "$@"
}

info() {
    cli info "$1" | tr -d '\r' | awk -F: -v key="$2" '$1 == key { print $2 }'
}

# shellcheck disable=SC2317 # wait_until calls it
saved() {
    [[ $(info persistence rdb_bgsave_in_progress) == 0 ]]
}

bgsave() {
    cli bgsave >/dev/null
    wait_until 60 saved
    [[ $(info persistence rdb_last_bgsave_status) == ok ]] || die "BGSAVE failed"
}

benchmark() {
    redis-benchmark -h 127.0.0.1 -p "$port" -n "$requests" -r 100000 -q "$@" \
        -t set,get,lpush,lrange_100
}

# Keys of every type whose values follow from their number.
commands() {
    awk -v known="$known" 'BEGIN {
        for (i = 0; i < known; i++) {
            printf "SET known:%d value-%d-%0*d\n", i, i, i % 500, i
            if (i % 20 == 0) {
                printf "HSET hash:%d a %d b %d\nSADD set:%d %d x\n", i, i, i * 7, i, i
                printf "ZADD zset:%d %d m%d\nRPUSH list:%d 1 2 %d\n", i, i, i, i, i
            }
        }
    }'
}

start first "$SHEAVES" run --stats=json --stats-file "$work/stats" --
allocator=$(ldd "$(command -v redis-server)" | grep -o 'libjemalloc[^ ]*' | head -n 1 || true)
check_maps "$server"

commands | cli --pipe >pipe.log
grep -q 'errors: 0' pipe.log || die "loading the known keys failed: $(tail -n 1 pipe.log)"
loaded=$((known + 4 * known / 20))
[[ $(cli dbsize) == "$loaded" ]] || die "DBSIZE $(cli dbsize) after loading $loaded keys"

benchmark >plain.log 2>&1 &
load=$!
sleep 1
bgsave
kill -0 "$load" 2>/dev/null || die "the load ended before the BGSAVE in its middle"
redis-check-rdb first/dump.rdb >check.log || die "the dump taken under load is damaged"
wait "$load"
benchmark -P 16 >pipelined.log 2>&1
for name in SET GET LPUSH LRANGE_100; do
    grep -q "^${name}.*requests per second" <(tr '\r' '\n' <plain.log) || die "$name did not run"
    grep -q "^${name}.*requests per second" <(tr '\r' '\n' <pipelined.log) \
        || die "$name did not run pipelined"
done

# What was loaded is what is there, and the count is that of the keys themselves.
seq 0 $((known - 1)) | sed 's/.*/GET known:&/' | cli >values
awk -v known="$known" 'BEGIN {
    for (i = 0; i < known; i++) printf "value-%d-%0*d\n", i, i % 500, i
}' | same /dev/stdin values "the values"
size=$(cli dbsize)
cli --scan | sort -u >keys
[[ $(wc -l <keys) == "$size" ]] || die "DBSIZE $size, but $(wc -l <keys) keys"
[[ $(grep -cvE '^(key:|mylist$)' keys) == "$loaded" ]] || die "known keys got lost"

bgsave
digest=$(cli debug digest)
[[ $digest =~ ^[0-9a-f]{40}$ ]] || die "no digest: $digest"
commands_served=$(info stats total_commands_processed)
mkdir second
cp first/dump.rdb second/
cli shutdown nosave
wait_until 20 test ! -d "/proc/$server"
wait_until 20 test -s "$work/stats"
proof=$(proof_of_sheaves)
(($(sum_of objects_out) > loaded)) || die "the keys are not in memory of Sheaves"

# The judge of the dump is a server that knows nothing of Sheaves.
start second env
[[ $(cli dbsize) == "$size" ]] || die "the dump holds $(cli dbsize) keys, not $size"
[[ $(cli debug digest) == "$digest" ]] || die "the dump has another digest"
finish "$commands_served commands, $size keys, digest equal after BGSAVE and load," \
    "linked to ${allocator:-no libjemalloc}, $proof"
