#!/usr/bin/env bash
# sshd: the process that speaks with a client before its login is in a sandbox (seccomp) that kills.
# Logins that are soon over, and logins whose messages come late, so that the library has time to
# return what is unused.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

[[ $(id -u) == 0 ]] || finish "skipped: not root"
cd "$work"
fast=20
slow=6
# The root directory of the sandbox.
mkdir -p /run/sshd
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f client
port=$(free_port)
late_port=$(free_port)
# StrictModes: the folder above this one is everybody's.
cat >config <<END
ListenAddress 127.0.0.1:$port
HostKey $work/host
PidFile none
AuthorizedKeysFile $work/client.pub
StrictModes no
PermitRootLogin prohibit-password
AuthenticationMethods publickey
UsePAM no
MaxStartups 100
LogLevel VERBOSE
END
"$SHEAVES" run -- /usr/sbin/sshd -D -f "$work/config" -E "$work/log" &
server=$!
servers+=("$server")
/usr/bin/python3 "$PROGRAMS_DIR/delay.py" "$late_port" "$port" 0.6 &
servers+=($!)
wait_until 10 grep -q 'Server listening' log
wait_until 10 bash -c ": </dev/tcp/127.0.0.1/$late_port"
check_maps "$server"

# login PORT NUMBER: a session with a command whose output is known.
login() {
    local sum="seq -s + $2 $(($2 + 999))"
    ssh -F none -i client -p "$1" -o BatchMode=yes -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR root@127.0.0.1 "$sum" \
        >"output.$2" 2>"errors.$2" </dev/null && $sum | cmp -s "output.$2"
}

# A process of the server is in a sandbox, on Sheaves.
# shellcheck disable=SC2317 # wait_until calls it
one_is_confined() {
    local monitor pid
    for monitor in $(<"/proc/$server/task/$server/children"); do
        for pid in $(<"/proc/$monitor/task/$monitor/children"); do
            if is_confined "$pid" && grep -q libsheaves_preload "/proc/$pid/maps"; then
                return
            fi
        done
    done
    return 1
}

begin=$SECONDS
logins=()
for number in $(seq "$slow"); do
    login "$late_port" "$((fast + number))" &
    logins+=($!)
done
wait_until 20 one_is_confined
for number in $(seq "$fast"); do
    login "$port" "$number" \
        || die "fast login $number of $fast failed: $(tail -n 1 "errors.$number")"
done
failed=0
for pid in "${logins[@]}"; do
    wait "$pid" || failed=$((failed + 1))
done
((failed == 0)) || die "$failed of $slow slow logins failed: $(tail -n 1 log)"
duration=$((SECONDS - begin))
((duration > 2)) || die "the slow logins took $duration s"
if grep -qE 'SIGSYS|terminated by signal|fatal' log; then
    die "$(grep -E -m 1 'SIGSYS|terminated by signal|fatal' log)"
fi
accepted=$(grep -c '^Accepted publickey' log)
((accepted == fast + slow)) || die "$accepted logins of $((fast + slow)) are in the log"
kill -TERM "$server"
status=0
wait "$server" || status=$?
((status == 0)) || die "it ended with status $status"
finish "$fast fast logins, $slow slow ones in $duration s"
