<?php
// Arrays, strings, JSON and a database in memory, by modules that php loads with RTLD_DEEPBIND.
// Prints one digest.
ini_set('memory_limit', '-1');
foreach (['pdo_sqlite', 'mbstring', 'json'] as $module) {
    if (!extension_loaded($module)) {
        fwrite(STDERR, "no module $module\n");
        exit(1);
    }
}

$digest = hash_init('sha256');

// 100 MB in arrays.
$rows = [];
for ($i = 0; $i < 250000; $i++) {
    $rows[] = ['id' => $i, 'name' => str_repeat(chr(97 + $i % 26), 40 + $i % 60), 'odd' => $i % 2];
}
// Without its own allocator php counts nothing.
if (getenv('USE_ZEND_ALLOC') !== '0' && memory_get_usage() < 100000000) {
    fwrite(STDERR, 'only ' . memory_get_usage() . " bytes in use\n");
    exit(1);
}
foreach ($rows as $row) hash_update($digest, $row['id'] . $row['name']);

for ($round = 0; $round < 5; $round++) {
    $text = json_encode(array_slice($rows, $round * 1000, 20000));
    hash_update($digest, $text);
    if (json_decode($text, true) !== array_slice($rows, $round * 1000, 20000)) exit(1);
}

for ($i = 0; $i < 20000; $i++) {
    $text = mb_convert_case("gr\u{fc}\u{df}e $i \u{3b1}\u{3b2}", MB_CASE_UPPER, 'UTF-8');
    hash_update($digest, mb_convert_encoding($text, 'UTF-16', 'UTF-8'));
}

$database = new PDO('sqlite::memory:');
$database->exec('CREATE TABLE t (id INTEGER, name TEXT)');
$insert = $database->prepare('INSERT INTO t VALUES (?, ?)');
foreach (array_slice($rows, 0, 20000) as $row) $insert->execute([$row['id'], $row['name']]);
foreach ($database->query('SELECT name, count(*), max(id) FROM t GROUP BY name ORDER BY name') as $row) {
    hash_update($digest, implode(',', $row));
}

echo hash_final($digest), "\n";
