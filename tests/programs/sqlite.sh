#!/usr/bin/env bash
# sqlite3 builds a database of 100 MB twice, on Sheaves and without. Contents come from a generator
# with a fixed seed, so that both databases must be the same.
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "$0")/common.sh"

cd "$work"
cat >build.sql <<'SQL'
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -65536;
CREATE TABLE item (id INTEGER PRIMARY KEY, seed INTEGER, content BLOB);
BEGIN;
WITH RECURSIVE item_of (id, seed) AS (
    SELECT 1, 20251
    UNION ALL
    SELECT id + 1, (seed * 1103515245 + 12345) & 2147483647 FROM item_of WHERE id < 30000
)
INSERT INTO item
SELECT id, seed, CAST(substr(replace(hex(zeroblob(225)), '00', printf('%08x', seed)),
                             1, 100 + seed / 65536 % 1700) AS BLOB)
FROM item_of;
COMMIT;
CREATE INDEX item_by_seed ON item (seed, content);
SQL
cat >check.sql <<'SQL'
PRAGMA integrity_check;
SELECT count(*), sum(seed), sum(length(content)) FROM item;
SELECT count(DISTINCT seed), max(content) FROM item INDEXED BY item_by_seed;
.sha3sum
SQL

on_sheaves sqlite3 db <build.sql >build.log
on_sheaves sqlite3 db <check.sql >check.log
proof=$(proof_of_sheaves)
sqlite3 plain <build.sql >build.plain
sqlite3 plain <check.sql >check.plain
bytes=$(stat -c %s db)
[[ $(head -n 1 check.log) == ok ]] || die "integrity_check: $(head -n 1 check.log)"
[[ $(sed -n 2p check.log) == 30000\|* ]] || die "rows: $(sed -n 2p check.log)"
((bytes >= 100000000)) || die "the database has only $bytes bytes"
same check.plain check.log "the checksum"
same plain db "the file"
finish "$((bytes / 1000000)) MB, 30000 rows, integrity ok, file equal, $proof"
