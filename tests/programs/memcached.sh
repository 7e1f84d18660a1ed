#!/usr/bin/env bash
# memcached: threads and libevent. Its items lie in slabs of its own; connections and buffers come
# from malloc.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
port=$(free_port)
on_sheaves memcached -u "$(id -un)" -l 127.0.0.1 -p "$port" -U 0 -t 4 -m 256 -c 512 \
    >server.log 2>&1 &
servers+=($!)

# ask COMMAND: what the server answers, up to END.
ask() {
    # Bash says on stderr what it could not open, and a failed exec would go on.
    { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 1
    printf '%s\r\nquit\r\n' "$1" >&3
    tr -d '\r' <&3
    exec 3>&-
}

stat_of() {
    ask stats | awk -v key="$1" '$1 == "STAT" && $2 == key { print $3 }'
}

wait_until 10 ask version
server=$(stat_of pid)
servers+=("$server")
check_maps "$server"

# Contents of all sizes up to the limit of an item must come back as they went in.
head -c 1000000 /dev/urandom | base64 -w 0 >noise
files=60
bytes=0
for number in $(seq "$files"); do
    size=$((number * number * 270 + number))
    dd if=noise of="file$number" iflag=skip_bytes,count_bytes skip="$number" count="$size" \
        status=none
    bytes=$((bytes + size))
done
memccp --servers="127.0.0.1:$port" file*
for number in $(seq "$files"); do
    # memccat ends what it prints with a newline of its own.
    memccat --servers="127.0.0.1:$port" "file$number" | head -c -1 >back
    cmp -s "file$number" back || die "file$number came back different"
done
[[ $(stat_of curr_items) == "$files" ]] || die "$(stat_of curr_items) items of $files"

for kind in set get mget; do
    memcslap --servers="127.0.0.1:$port" --test="$kind" --concurrency=8 \
        --execute-number=5000 --initial-load=5000 >"slap.$kind" 2>&1 \
        || die "memcslap $kind: $(tail -n 1 "slap.$kind")"
    if grep -qiE 'fail|error' "slap.$kind"; then
        die "memcslap $kind: $(grep -iE -m 1 'fail|error' "slap.$kind")"
    fi
done
sets=$(stat_of cmd_set)
gets=$(stat_of cmd_get)
((sets >= 40000 && gets >= 40000)) || die "only $sets sets and $gets gets were served"

kill -TERM "$server"
wait_until 20 test -s "$work/stats"
wait_until 20 test ! -d "/proc/$server"
finish "$files files of $((bytes >> 10)) KiB equal, $sets sets, $gets gets, $(proof_of_sheaves)"
