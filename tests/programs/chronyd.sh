#!/usr/bin/env bash
# chronyd: a server and clients, each in a sandbox of libseccomp that kills. None touches the clock.
# The server looks a name up in a thread that it starts there.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

[[ $(id -u) == 0 ]] || finish "skipped: not root"
cd "$work"
# A user without rights must reach them.
chmod 711 "$work"
mkdir run
user=_chrony
chown "$user:$user" run
chmod 750 run
port=$(free_port)
cat >config <<END
port $port
bindaddress 127.0.0.1
allow 127.0.0.1
local stratum 10
cmdport 0
bindcmdaddress $work/run/socket
pidfile $work/run/pid
user $user
END
# -F 1: the filter kills; -x: the clock stays as it is; -d: in the foreground.
"$SHEAVES" run --verbose -- chronyd -F 1 -x -d -f "$work/config" >log 2>&1 &
server=$!
servers+=("$server")

ask() {
    chronyc -n -h "$work/run/socket" "$@"
}

wait_until 10 ask tracking
grep -q 'runs on Sheaves' log || die "it does not run on Sheaves: $(head -n 1 log)"
check_maps "$server"
is_confined "$server" || die "it is in no sandbox: $(tail -n 1 log)"
ask add server localhost port "$port" | grep -qx '200 OK' || die "a source is not added"

# Longer than unused memory and the library's thread stay.
for ((begin = SECONDS; SECONDS - begin < 4;)); do
    ask -c sources >sources || die "no answer: $(tail -n 1 log)"
    "$SHEAVES" run -- chronyd -F 1 -Q -d "user $user" "pidfile $work/run/client" \
        "server 127.0.0.1 port $port iburst maxsamples 1" >client.log 2>&1 \
        || die "a client ended with status $?: $(tail -n 1 client.log)"
    grep -q 'System clock wrong by [-0-9.]* seconds (ignored)' client.log \
        || die "a client did not learn the time: $(tail -n 1 client.log)"
    clients=$((${clients:-0} + 1))
done
# Its own address, by its name.
grep -q ',127.0.0.1,' sources || die "the name of a source was not looked up: $(<sources)"
served=$(ask -c serverstats | cut -d , -f 1)
((served >= clients)) || die "$served packets served for $clients clients"

kill -TERM "$server"
status=0
wait "$server" || status=$?
((status == 0)) || die "it ended with status $status: $(tail -n 1 log)"
grep -q 'chronyd exiting' log || die "it did not end by itself: $(tail -n 1 log)"
finish "$clients clients, $served packets served"
