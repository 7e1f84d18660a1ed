//! Programs that run to their end: interpreters, a compiler, databases in a file, tools.

use std::process::Command;

use super::program::{Program, Result, Round, Sample, Work, nothing};
use super::usage::of_command;
use crate::repo;

pub(super) const PROGRAMS: [Program; 12] = [
    Program {
        name: "node",
        what: "buffers, strings and objects in five threads, runs",
        folder: "node",
        needs: &[("node", "nodejs")],
        set_up: nothing,
        run: node,
    },
    Program {
        name: "python",
        what: "PYTHONMALLOC=malloc, runs",
        folder: "python",
        needs: &[("python3", "python3")],
        set_up: nothing,
        run: python,
    },
    Program {
        name: "php",
        what: "USE_ZEND_ALLOC=0, runs",
        folder: "php",
        needs: &[
            ("php", "php-cli"),
            ("/var/lib/dpkg/info/php-mbstring.list", "php-mbstring"),
            ("/var/lib/dpkg/info/php-sqlite3.list", "php-sqlite3"),
        ],
        set_up: nothing,
        run: php,
    },
    Program {
        name: "g++",
        what: "a file of templates, runs",
        folder: "gcc",
        needs: &[("g++", "g++")],
        set_up: nothing,
        run: gcc,
    },
    Program {
        name: "sqlite",
        what: "a script in memory, runs",
        folder: "sqlite",
        needs: &[("sqlite3", "sqlite3")],
        set_up: nothing,
        run: sqlite,
    },
    Program {
        name: "git-repack",
        what: "1,000 commits, runs",
        folder: "git",
        needs: &[("git", "git")],
        set_up: set_up_git,
        run: git_repack,
    },
    Program {
        name: "ripgrep",
        what: "a regular expression over /usr, runs",
        folder: "rg",
        needs: &[("rg", "ripgrep")],
        set_up: nothing,
        run: ripgrep,
    },
    Program {
        name: "zstd",
        what: "120 MB with a window of 128 MiB, runs",
        folder: "zstd",
        needs: &[("zstd", "zstd")],
        set_up: set_up_zstd,
        run: zstd,
    },
    Program {
        name: "true",
        what: "runs",
        folder: "small",
        needs: &[],
        set_up: nothing,
        run: true_,
    },
    Program {
        name: "git-status",
        what: "runs",
        folder: "small",
        needs: &[("git", "git")],
        set_up: nothing,
        run: git_status,
    },
    Program {
        name: "python-pass",
        what: "runs",
        folder: "small",
        needs: &[("python3", "python3")],
        set_up: nothing,
        run: python_pass,
    },
    Program {
        name: "gcc-small",
        what: "gcc -c of a small file, runs",
        folder: "small",
        needs: &[("gcc", "gcc")],
        set_up: nothing,
        run: gcc_small,
    },
];

pub(super) fn run(round: &Round<'_>, name: &str, command: &Command) -> Result<Sample> {
    run_often(round, name, 1, command)
}

/// For commands that end at once.
fn run_often(round: &Round<'_>, name: &str, times: u32, command: &Command) -> Result<Sample> {
    Ok(Sample::run(of_command(&round.preload, &round.work.log(name), command, times)?))
}

pub(super) fn script(work: &Work, name: &str, text: &str) -> Result<String> {
    let path = work.folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path.display().to_string())
}

/// Dictionaries, lists and strings, without Python's own allocator.
const PYTHON: &str = "\
import json, random
random.seed(1)
held = {}
for round in range(300000):
    key = random.randrange(20000)
    kind = round % 4
    if kind == 0:
        held[key] = [str(round + i) for i in range(random.randrange(20))]
    elif kind == 1:
        held[key] = {'id': key, 'name': 'n' * random.randrange(200)}
    elif kind == 2:
        held[key] = json.loads(json.dumps({'a': [round] * 10, 'b': str(key)}))
    else:
        held.pop(key, None)
";

/// python3 with `PYTHONMALLOC=malloc`.
fn python(round: &Round<'_>) -> Result<Sample> {
    let script = script(round.work, "allocate.py", PYTHON)?;
    run(round, "python", Command::new("/usr/bin/python3").arg(script).env("PYTHONMALLOC", "malloc"))
}

/// php with `USE_ZEND_ALLOC=0`: the script of the tests.
fn php(round: &Round<'_>) -> Result<Sample> {
    let script = repo::root().join("tests/programs/allocate.php");
    run(round, "php", Command::new("php").arg(script).env("USE_ZEND_ALLOC", "0"))
}

/// node: the script of the tests, in five threads.
fn node(round: &Round<'_>) -> Result<Sample> {
    let script = repo::root().join("tests/programs/allocate.js");
    run(round, "node", Command::new("node").arg(script))
}

/// Instantiates much of the standard library.
const CPP: &str = "\
#include <bits/stdc++.h>
template <int N> struct Node {
    std::map<std::string, std::vector<Node<N - 1>>> children;
    std::unordered_map<int, std::function<int(std::string, int)>> calls;
    std::string walk(const std::regex &pattern) const {
        std::ostringstream out;
        for (const auto &[name, list] : children)
            if (std::regex_search(name, pattern))
                for (const auto &child : list) out << child.walk(pattern) << N;
        return out.str();
    }
};
template <> struct Node<0> {
    std::string walk(const std::regex &) const { return {}; }
};
int main(int argc, char **argv) {
    Node<60> root;
    std::vector<std::tuple<int, std::string, double>> rows(argc);
    std::sort(rows.begin(), rows.end());
    return static_cast<int>(root.walk(std::regex(argv[0])).size());
}
";

/// g++ on a file of templates.
fn gcc(round: &Round<'_>) -> Result<Sample> {
    let source = script(round.work, "templates.cc", CPP)?;
    let object = round.work.folder.join("templates.o");
    run(round, "g++", Command::new("g++").args(["-O1", "-c", &source, "-o"]).arg(object))
}

/// Inserts, updates, index look-ups and sorts, as sqlite's `speedtest1` does.
const SQL: &str = "\
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
BEGIN;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
INSERT INTO t SELECT i, (i * 7919) % 300007, printf('%08d text %d', i, i * i) FROM n;
COMMIT;
CREATE INDEX t_a ON t (a);
SELECT count(*), sum(length(b)) FROM t WHERE a BETWEEN 1000 AND 200000;
UPDATE t SET b = b || ' more' WHERE a % 3 = 0;
SELECT b, count(*) FROM t GROUP BY substr(b, 1, 5) ORDER BY 2 DESC LIMIT 10;
SELECT group_concat(b) FROM (SELECT b FROM t ORDER BY b LIMIT 50000);
SELECT count(*) FROM t AS x JOIN t AS y ON x.a = y.id WHERE x.id < 100000;
DELETE FROM t WHERE a % 5 = 0;
";

/// sqlite3 in memory.
fn sqlite(round: &Round<'_>) -> Result<Sample> {
    let sql = script(round.work, "speed.sql", SQL)?;
    run(round, "sqlite3", Command::new("sqlite3").args([":memory:", &format!(".read {sql}")]))
}

/// A repository of a thousand commits to pack, from a stream for `git fast-import`.
fn set_up_git(work: &Work) -> Result<()> {
    use core::fmt::Write as _;
    let mut stream = String::new();
    let mut state = 1_u32;
    for commit in 1..=1000 {
        write!(
            stream,
            "commit refs/heads/main\nmark :{commit}\ncommitter a <a@b> {commit} +0000\n"
        )?;
        stream.push_str("data 2\nm\n");
        for _ in 0..6 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut text = String::new();
            for line in 0..state % 600 {
                writeln!(text, "line {line} of {}", (state >> 8) % 40 * line % 977)?;
            }
            let file = (state >> 16) % 300;
            write!(stream, "M 100644 inline file{file}\ndata {}\n{text}\n", text.len())?;
        }
    }
    let input = work.folder.join("stream");
    std::fs::write(&input, stream)?;
    let git = || {
        let mut git = Command::new("git");
        git.arg("-C").arg(&work.folder);
        git
    };
    repo::output_of(git().args(["init", "-q", "repository"]))?;
    let mut import = git();
    import.args(["-C", "repository", "fast-import", "--quiet"]);
    repo::output_of(import.stdin(std::fs::File::open(input)?))?;
    Ok(())
}

/// git: packs all objects anew, in two threads.
fn git_repack(round: &Round<'_>) -> Result<Sample> {
    let mut git = Command::new("git");
    git.arg("-C").arg(round.work.folder.join("repository"));
    run(round, "git", git.args(["repack", "-q", "-a", "-d", "-f", "--threads=2", "--window=50"]))
}

/// ripgrep: a regular expression over headers and Python's library, in two threads.
fn ripgrep(round: &Round<'_>) -> Result<Sample> {
    let mut rg = Command::new("rg");
    rg.args(["-j2", "--no-ignore", "--multiline", "-o", r"\b(\w+)\s*\(\s*(self|void)[^)]*\)"]);
    run(round, "rg", rg.args(["/usr/include", "/usr/lib/python3", "/usr/share/perl"]))
}

/// Something to compress: the compiler's own program and libraries.
fn set_up_zstd(work: &Work) -> Result<()> {
    let list =
        "find /usr/lib/gcc /usr/lib/x86_64-linux-gnu -type f -size +500k | sort | head -n 60";
    let command = format!("cat $({list}) | head -c 120000000 > {}/input", work.folder.display());
    repo::output_of(Command::new("sh").args(["-c", &command]))?;
    Ok(())
}

/// zstd with a window of 128 MiB, in two threads.
fn zstd(round: &Round<'_>) -> Result<Sample> {
    let mut zstd = Command::new("zstd");
    zstd.args(["-q", "-f", "-T2", "--long=27", "-8"]).arg(round.work.folder.join("input"));
    run(round, "zstd", zstd.arg("-o").arg(round.work.folder.join("output")))
}

/// Starts and ends.
fn true_(round: &Round<'_>) -> Result<Sample> {
    run_often(round, "true", 200, &Command::new("/bin/true"))
}

/// `git status` of this repository.
fn git_status(round: &Round<'_>) -> Result<Sample> {
    run_often(
        round,
        "status",
        50,
        Command::new("git").args(["status", "--short"]).current_dir(repo::root()),
    )
}

/// `python3 -c pass`.
fn python_pass(round: &Round<'_>) -> Result<Sample> {
    run_often(round, "pass", 50, Command::new("/usr/bin/python3").args(["-c", "pass"]))
}

/// `gcc -c` of a small file.
fn gcc_small(round: &Round<'_>) -> Result<Sample> {
    let source = script(
        round.work,
        "small.c",
        "#include <stdio.h>\nint main(void) { return puts(\"\"); }\n",
    )?;
    let object = round.work.folder.join("small.o");
    run_often(round, "gcc", 20, Command::new("gcc").args(["-c", &source, "-o"]).arg(object))
}
