#!/usr/bin/env bash
# Tools ask MariaDB under load, and an example that is linked to Sheaves.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

command -v mariadbd >/dev/null || finish "skipped: mariadb-server is not installed"
cd "$work"
mariadb-install-db --no-defaults --datadir="$work/data" --user="$(id -un)" --skip-test-db \
    --auth-root-authentication-method=normal >install.log 2>&1
"$SHEAVES" run -- mariadbd --no-defaults --datadir="$work/data" --socket="$work/socket" \
    --user="$(id -un)" --skip-networking >server.log 2>&1 &
# The command has become the server.
server=$!
servers+=("$server")
query() {
    mariadb --no-defaults --socket="$work/socket" -uroot -e "$1"
}
wait_until 60 query "SELECT 1"

profile() {
    "$SHEAVES" prof heap "$1" >"prof-$2" || die "prof of $2 failed"
    grep -q 'in use, estimated by one sample in ' "prof-$2" || die "prof of $2 printed no total"
    if grep -q ' objects of ' "prof-$2"; then
        profiles=$((profiles + 1))
    fi
}
profiles=0

# ask PID NAME: every tool, and what it prints.
ask() {
    "$SHEAVES" stat --json "$1" >"stat-$2" || die "stat of $2 failed"
    "$SHEAVES" top --once "$1" >"top-$2" || die "top of $2 failed"
    "$SHEAVES" rcu --seconds 0.2 "$1" >"rcu-$2" || die "rcu of $2 failed"
    "$SHEAVES" export "$1" >"export-$2" || die "export of $2 failed"
    grep -q "\"pid\":$1," "stat-$2" || die "stat of $2: $(head -c 200 "stat-$2")"
    grep -q '^ *malloc-' "top-$2" || die "top of $2 printed no cache"
    grep -q '^threads in a read section: ' "rcu-$2" || die "rcu of $2 printed no readers"
    grep -q "^sheaves_heap_used_bytes{pid=\"$1\"" "export-$2" || die "export of $2: no heap"
}

query "CREATE DATABASE d; CREATE TABLE d.t (i INT PRIMARY KEY AUTO_INCREMENT, t VARCHAR(200));
    INSERT INTO d.t (t) VALUES (REPEAT('a', 200));"
for _ in {1..14}; do
    query "INSERT INTO d.t (t) SELECT REVERSE(t) FROM d.t;"
done
(for _ in {1..20}; do query "SELECT COUNT(*), MAX(t) FROM d.t GROUP BY i % 100;"; done) \
    >load.log 2>&1 &
load=$!
"$SHEAVES" prof on --rate 4096 "$server" || die "prof on failed"
answers=0
while kill -0 "$load" 2>/dev/null; do
    ask "$server" mariadbd
    profile "$server" mariadbd
    answers=$((answers + 1))
done
wait "$load" || die "a query failed: $(tail -n 1 load.log)"
((answers > 0)) || die "the load was over before the first answer"
((profiles > 0)) || die "no profile had a site"
"$SHEAVES" prof off "$server" || die "prof off failed"
readers="$(grep '^threads in a read section' rcu-mariadbd)"

# hash_map has Sheaves as its global allocator, without a preload object.
(cd "$PROGRAMS_DIR/../.." && cargo build --release --quiet -p sheaves --example hash_map)
"${SHEAVES_PRELOAD%/*}/examples/hash_map" >example.log 2>&1 &
example=$!
servers+=("$example")
asked=0
while kill -0 "$example" 2>/dev/null; do
    if "$SHEAVES" stat "$example" >example.stat 2>example.err; then
        asked=$((asked + 1))
    fi
done
wait "$example" || die "the example failed: $(tail -n 1 example.log)"
finish "$answers answers of mariadbd ($readers), $profiles profiles, $asked of an example"
