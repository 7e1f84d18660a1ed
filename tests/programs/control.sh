#!/usr/bin/env bash
# Tools ask a redis-server that was started without a setting: with a little to do, and under load.
# Nothing is left behind when it is killed.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
port=$(free_port)
"$SHEAVES" run -- redis-server --port "$port" --bind 127.0.0.1 --dir "$work" --save '' \
    --appendonly no --activedefrag no --daemonize no >server.log 2>&1 &
# The command has become the server.
server=$!
servers+=("$server")

cli() {
    redis-cli -h 127.0.0.1 -p "$port" "$@"
}

wait_until 10 cli ping

benchmark() {
    redis-benchmark -h 127.0.0.1 -p "$port" -n "$1" -r 100000 -q -t set,get,lpush
}

# A process starts the thread that answers when it allocates. So something goes on all the time.
redis-benchmark -h 127.0.0.1 -p "$port" -n 1000 -c 2 -r 1000 -q -l -t set >/dev/null 2>&1 &
servers+=($!)
"$SHEAVES" stat --json "$server" >stat.json || die "stat failed"
grep -q "^{\"schema\":2,\"pid\":$server," stat.json || die "stat: $(head -c 200 stat.json)"
"$SHEAVES" stat "$server" | grep -q '^total: ' || die "stat printed no total"

benchmark 200000 >load.log 2>&1 &
load=$!
answers=0
while kill -0 "$load" 2>/dev/null; do
    "$SHEAVES" top --once "$server" >top || die "top under load failed"
    "$SHEAVES" rcu --seconds 0.1 "$server" >rcu || die "rcu under load failed"
    answers=$((answers + 1))
done
wait "$load"
grep -q 'REFILL/s' top || die "top printed no table"
grep -q '^ *malloc-' top || die "top printed no cache"
grep -q '^threads in a read section: 0' rcu || die "rcu printed no readers"
"$SHEAVES" top --once | grep -q "^redis-server  *$server " || die "top does not show the server"

# A profile of what is allocated from now on.
status=0
"$SHEAVES" prof heap "$server" >profile 2>&1 || status=$?
((status == 69)) || die "status $status of a profile that was not turned on: $(cat profile)"
"$SHEAVES" prof on --rate 16384 "$server" || die "prof on failed"
benchmark 100000 >load.log 2>&1
"$SHEAVES" prof heap --output heap.pb.gz --svg heap.svg --text "$server" >profile \
    || die "prof heap failed"
grep -q 'in use, estimated by one sample in 16.0 KiB' profile || die "prof printed no total"
grep -q 'objects of malloc-' profile || die "prof printed no site"
gzip -t heap.pb.gz || die "the pprof file is damaged"
grep -q '<svg' heap.svg || die "there is no flame graph"
"$SHEAVES" prof leaks --seconds 1 "$server" >leaks || die "prof leaks failed"
"$SHEAVES" prof off "$server" || die "prof off failed"

"$SHEAVES" export redis-server >metrics || die "export failed"
grep -q "^sheaves_heap_used_bytes{pid=\"$server\",name=\"redis-server\"} " metrics \
    || die "export printed no heap"
[[ $(tail -n 1 metrics) == "# EOF" ]] || die "export is cut"
parser="not parsed: neither promtool nor prometheus_client"
if command -v promtool >/dev/null; then
    # It reads the older text format, which has no end mark.
    grep -v '^# \(EOF\|UNIT\)' metrics | promtool check metrics >promtool.log 2>&1 || {
        # Advice on names has status 3.
        (($? == 3)) || die "promtool: $(tail -n 3 promtool.log)"
    }
    parser="read by promtool"
elif /usr/bin/python3 -c 'import prometheus_client.openmetrics.parser' 2>/dev/null; then
    /usr/bin/python3 - <<'PYTHON' || die "the parser of prometheus_client refuses the metrics"
from prometheus_client.openmetrics.parser import text_string_to_metric_families
families = list(text_string_to_metric_families(open("metrics").read()))
assert len(families) > 20, families
PYTHON
    parser="read by prometheus_client"
fi

# A tool that is killed, or whose target is, leaves the other unharmed.
for _ in {1..20}; do
    "$SHEAVES" rcu --seconds 5 "$server" >killed.log 2>&1 &
    tool=$!
    sleep 0.02
    kill -KILL "$tool"
    wait "$tool" 2>/dev/null || true
done
"$SHEAVES" stat "$server" >/dev/null || die "a killed tool is in the way"
"$SHEAVES" rcu --seconds 20 "$server" >killed.log 2>&1 &
tool=$!
sleep 0.2
kill -KILL "$server"
status=0
wait "$tool" || status=$?
((status == 69)) || die "status $status when the server was killed: $(cat killed.log)"
(($(find /dev/shm -name '*sheaves*' 2>/dev/null | wc -l) == 0)) || die "something is in /dev/shm"
finish "$answers answers under load, metrics $parser"
