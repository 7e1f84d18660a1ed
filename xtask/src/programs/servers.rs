//! Servers under load: MariaDB, PostgreSQL, Redis, memcached, node, nginx.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::program::{Program, Result, Round, Sample, Work, nothing};
use super::server::{Server, client, number_after};
use crate::repo;

const MARIADB: (&str, &str) = ("mariadbd", "mariadb-server");
const SYSBENCH: (&str, &str) = ("sysbench", "sysbench");
const POSTGRES: (&str, &str) = ("psql", "postgresql");
const REDIS: (&str, &str) = ("redis-server", "redis-server");

pub(super) const PROGRAMS: [Program; 10] = [
    Program {
        name: "mariadb-rw",
        what: "sysbench oltp_read_write, transactions",
        folder: "mariadb",
        needs: &[MARIADB, SYSBENCH],
        set_up: set_up_mariadb,
        run: mariadb_read_write,
    },
    Program {
        name: "mariadb-point",
        what: "sysbench oltp_point_select, queries",
        folder: "mariadb",
        needs: &[MARIADB, SYSBENCH],
        set_up: set_up_mariadb,
        run: mariadb_point_select,
    },
    Program {
        name: "postgres-rw",
        what: "pgbench, transactions",
        folder: "postgres",
        needs: &[POSTGRES],
        set_up: set_up_postgres,
        run: postgres_read_write,
    },
    Program {
        name: "postgres-select",
        what: "pgbench -S, queries",
        folder: "postgres",
        needs: &[POSTGRES],
        set_up: set_up_postgres,
        run: postgres_select,
    },
    Program {
        name: "redis-lpush",
        what: "LPUSH of 200 bytes, 16 in a pipeline",
        folder: "redis",
        needs: &[REDIS],
        set_up: nothing,
        run: redis_lpush,
    },
    Program {
        name: "redis-set",
        what: "SET of 200 bytes, 16 in a pipeline",
        folder: "redis",
        needs: &[REDIS],
        set_up: nothing,
        run: redis_set,
    },
    Program {
        name: "redis-single",
        what: "SET of 200 bytes one by one",
        folder: "redis",
        needs: &[REDIS],
        set_up: nothing,
        run: redis_unpipelined,
    },
    Program {
        name: "memcached",
        what: "memcslap, sets and gets",
        folder: "memcached",
        needs: &[("memcached", "memcached"), ("memcslap", "libmemcached-tools")],
        set_up: nothing,
        run: memcached,
    },
    Program {
        name: "node-json",
        what: "a server of JSON, requests",
        folder: "node",
        needs: &[("node", "nodejs"), ("wrk", "wrk")],
        set_up: nothing,
        run: node_json,
    },
    Program {
        name: "nginx",
        what: "pages compressed as they are sent, requests",
        folder: "nginx",
        needs: &[("nginx", "nginx-light"), ("wrk", "wrk")],
        set_up: set_up_nginx,
        run: nginx,
    },
];

const MARIADB_TABLES: [&str; 2] = ["--tables=4", "--table-size=25000"];

/// Makes a database for sysbench.
fn set_up_mariadb(work: &Work) -> Result<()> {
    let data = work.folder.join("data");
    let mut install = Command::new("mariadb-install-db");
    install.arg(format!("--datadir={}", data.display())).args(["--user=root", "--skip-test-db"]);
    repo::output_of(install.arg("--auth-root-authentication-method=normal"))?;
    let server = mariadb(work, &work.base)?;
    let mut create = Command::new("mariadb");
    create.arg(format!("--socket={}", mariadb_socket(work).display()));
    client(create.args(["-uroot", "-e", "CREATE DATABASE sbtest"]))?;
    client(sysbench(work, "oltp_read_write").args(MARIADB_TABLES).arg("prepare"))?;
    drop(server);
    Ok(())
}

fn mariadb_socket(work: &Work) -> PathBuf {
    work.folder.join("socket")
}

fn mariadb(work: &Work, preload: &Path) -> Result<Server> {
    let mut command = Command::new("mariadbd");
    let (data, socket) = (work.folder.join("data"), mariadb_socket(work));
    command.arg("--no-defaults").arg(format!("--datadir={}", data.display()));
    command.arg(format!("--socket={}", socket.display())).args([
        "--user=root",
        "--skip-networking",
        "--innodb-buffer-pool-size=512M",
        "--innodb-flush-log-at-trx-commit=0",
        "--performance-schema=OFF",
    ]);
    let mut ping = Command::new("mariadb-admin");
    ping.arg(format!("--socket={}", socket.display())).args(["-uroot", "ping"]);
    Server::start(preload, &work.log("mariadbd"), &mut command, || client(&mut ping).is_ok())
}

fn sysbench(work: &Work, script: &str) -> Command {
    let mut command = Command::new("sysbench");
    command.arg(script).arg(format!("--mysql-socket={}", mariadb_socket(work).display()));
    command.args(["--mysql-user=root", "--mysql-db=sbtest"]);
    command
}

fn run_sysbench(round: &Round<'_>, script: &str) -> Result<Sample> {
    let mut server = mariadb(round.work, &round.preload)?;
    let load = |seconds: u32| {
        let mut bench = sysbench(round.work, script);
        bench.args(MARIADB_TABLES).args(["--threads=8", "--events=0"]);
        client(bench.arg(format!("--time={seconds}")).arg("run"))
    };
    load(2)?;
    server.begin()?;
    let printed = load(round.work.seconds)?;
    let per_second = number_after(&printed, "transactions:")? / f64::from(round.work.seconds);
    Ok(Sample::rate(per_second, server.end()?))
}

/// sysbench `oltp_read_write`, in transactions per second.
fn mariadb_read_write(round: &Round<'_>) -> Result<Sample> {
    run_sysbench(round, "oltp_read_write")
}

/// sysbench `oltp_point_select`, in queries per second.
fn mariadb_point_select(round: &Round<'_>) -> Result<Sample> {
    run_sysbench(round, "oltp_point_select")
}

/// A program of PostgreSQL's, as the user `postgres`, for its server refuses root.
fn postgres_command(program: &str) -> Result<Command> {
    let folders = std::fs::read_dir("/usr/lib/postgresql").context("PostgreSQL's programs")?;
    let newest = folders.filter_map(|folder| Some(folder.ok()?.path())).max();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    command.arg(newest.context("no version of PostgreSQL")?.join("bin").join(program));
    Ok(command)
}

/// Makes a database for pgbench.
fn set_up_postgres(work: &Work) -> Result<()> {
    std::fs::set_permissions(&work.folder, std::fs::Permissions::from_mode(0o777))?;
    let data = work.folder.join("data");
    repo::output_of(postgres_command("initdb")?.args(["-A", "trust", "-D"]).arg(&data))?;
    let server = postgres(work, &work.base)?;
    client(pgbench(work)?.args(["-i", "-q", "-s", "10", "postgres"]))?;
    drop(server);
    Ok(())
}

fn postgres(work: &Work, preload: &Path) -> Result<Server> {
    let mut command = postgres_command("postgres")?;
    command.arg("-D").arg(work.folder.join("data")).arg("-k").arg(&work.folder);
    command.args(["-h", "", "-c", "fsync=off", "-c", "shared_buffers=256MB"]);
    let mut ask = postgres_command("psql")?;
    ask.arg("-h").arg(&work.folder).args(["-c", "SELECT 1", "postgres"]);
    Server::start(preload, &work.log("postgres"), &mut command, || client(&mut ask).is_ok())
}

fn pgbench(work: &Work) -> Result<Command> {
    let mut command = postgres_command("pgbench")?;
    command.arg("-h").arg(&work.folder);
    Ok(command)
}

fn run_pgbench(round: &Round<'_>, flags: &[&str]) -> Result<Sample> {
    let mut server = postgres(round.work, &round.preload)?;
    server.begin()?;
    let mut bench = pgbench(round.work)?;
    bench.args(flags).args(["-c", "8", "-j", "2", "-T"]).arg(round.work.seconds.to_string());
    let printed = client(bench.arg("postgres"))?;
    Ok(Sample::rate(number_after(&printed, "tps =")?, server.end()?))
}

/// pgbench's TPC-B-like transactions per second.
fn postgres_read_write(round: &Round<'_>) -> Result<Sample> {
    run_pgbench(round, &["-n"])
}

/// pgbench's selects per second.
fn postgres_select(round: &Round<'_>) -> Result<Sample> {
    run_pgbench(round, &["-n", "-S"])
}

const REDIS_PORT: &str = "7379";

/// redis-benchmark in a fresh server, in requests per second.
fn run_redis(round: &Round<'_>, arguments: &[&str], quick: &str, full: &str) -> Result<Sample> {
    let mut command = Command::new("redis-server");
    command.args(["--port", REDIS_PORT, "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(&round.work.folder);
    let mut ping = Command::new("redis-cli");
    ping.args(["-p", REDIS_PORT, "ping"]);
    let log = round.work.log("redis-server");
    let mut server = Server::start(&round.preload, &log, &mut command, || {
        client(&mut ping).is_ok_and(|answer| answer.contains("PONG"))
    })?;
    server.begin()?;
    let mut bench = Command::new("redis-benchmark");
    bench.args(["-p", REDIS_PORT, "--csv", "-n", if round.work.is_quick { quick } else { full }]);
    let printed = client(bench.args(arguments))?;
    let usage = server.end()?;
    let row = printed.lines().last().context("redis-benchmark printed nothing")?;
    Ok(Sample::rate(number_after(row, "\",\"")?, usage))
}

/// `LPUSH` of 200 bytes, 16 in a pipeline.
fn redis_lpush(round: &Round<'_>) -> Result<Sample> {
    run_redis(round, &["-P", "16", "-d", "200", "-t", "lpush"], "300000", "1000000")
}

/// `SET` of 200 bytes at random keys, 16 in a pipeline.
fn redis_set(round: &Round<'_>) -> Result<Sample> {
    let arguments = ["-P", "16", "-d", "200", "-r", "1000000", "-t", "set"];
    run_redis(round, &arguments, "300000", "1000000")
}

/// `SET` one after the other.
fn redis_unpipelined(round: &Round<'_>) -> Result<Sample> {
    run_redis(round, &["-d", "200", "-r", "1000000", "-t", "set"], "100000", "300000")
}

const MEMCACHED_PORT: &str = "7311";

/// memcslap's sets and gets per second.
fn memcached(round: &Round<'_>) -> Result<Sample> {
    let mut command = Command::new("memcached");
    command.args(["-u", "root", "-l", "127.0.0.1", "-p", MEMCACHED_PORT, "-U", "0"]);
    command.args(["-t", "2", "-m", "256"]);
    let server = format!("--servers=127.0.0.1:{MEMCACHED_PORT}");
    let log = round.work.log("memcached");
    let mut running = Server::start(&round.preload, &log, &mut command, || {
        client(Command::new("memcping").arg(&server)).is_ok()
    })?;
    running.begin()?;
    let calls = if round.work.is_quick { 10_000 } else { 40_000 };
    for test in ["--test=set", "--test=get"] {
        let mut slap = Command::new("memcslap");
        slap.arg(&server).args([test, "--concurrency=8"]);
        let printed = client(slap.arg(format!("--execute-number={calls}")))?;
        ensure!(!printed.to_lowercase().contains("fail"), "memcslap: {printed}");
    }
    let usage = running.end()?;
    Ok(Sample::rate(f64::from(2 * 8 * calls) / usage.seconds, usage))
}

const NODE_PORT: &str = "7312";
/// Parses and makes JSON for each request.
const NODE_SERVER: &str = "\
const list = Array.from({ length: 200 }, (_, id) => ({ id, name: 'item ' + id, tags: [id, 'x'] }));
const text = JSON.stringify(list);
require('http').createServer((request, answer) => {
  const held = JSON.parse(text).map((item) => ({ ...item, body: Buffer.alloc(2048, item.id) }));
  answer.end(JSON.stringify({ count: held.length, list: held.slice(0, 20).map((i) => i.name) }));
}).listen(Number(process.argv[2]), '127.0.0.1');
";

/// Requests per second to a server of JSON.
fn node_json(round: &Round<'_>) -> Result<Sample> {
    let script = round.work.folder.join("server.js");
    std::fs::write(&script, NODE_SERVER)?;
    let mut command = Command::new("node");
    run_wrk(round, command.arg(&script).arg(NODE_PORT), NODE_PORT, "")
}

/// wrk's requests per second to a server at `port`.
fn run_wrk(round: &Round<'_>, command: &mut Command, port: &str, page: &str) -> Result<Sample> {
    let address = format!("127.0.0.1:{port}");
    let url = format!("http://{address}/{page}");
    let wrk = |seconds: &str| {
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", "-c16", "-H", "Accept-Encoding: gzip", seconds]);
        client(wrk.arg(&url))
    };
    let mut server = Server::start(&round.preload, &round.work.log("server"), command, || {
        std::net::TcpStream::connect(&address).is_ok()
    })?;
    wrk("-d1")?;
    server.begin()?;
    let printed = wrk(&format!("-d{}", round.work.seconds))?;
    ensure!(!printed.contains("Non-2xx") && !printed.contains("Socket errors"), "{printed}");
    Ok(Sample::rate(number_after(&printed, "Requests/sec:")?, server.end()?))
}

const NGINX_PORT: &str = "7313";

/// A page of text, and a configuration without a file outside of the folder.
fn set_up_nginx(work: &Work) -> Result<()> {
    let folder = work.folder.display();
    let log = work.folder.join("error.log");
    let log = log.display();
    let configuration = format!(
        "worker_processes 2; daemon off; user root; pid {folder}/pid; error_log {log};\n\
         events {{ }}\n\
         http {{\n\
             access_log off; gzip on; gzip_types text/plain; default_type text/plain;\n\
             client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n\
             fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;\n\
             scgi_temp_path {folder}/scgi;\n\
             server {{ listen 127.0.0.1:{NGINX_PORT}; root {folder}; }}\n\
         }}\n"
    );
    std::fs::write(work.folder.join("nginx.conf"), configuration)?;
    let lines = (0..200).map(|line| format!("line {line}: {}\n", line * 7919 % 977));
    std::fs::write(work.folder.join("page.txt"), lines.collect::<String>())?;
    Ok(())
}

/// nginx with two workers.
fn nginx(round: &Round<'_>) -> Result<Sample> {
    let mut command = Command::new("nginx");
    command.arg("-e").arg(round.work.folder.join("error.log"));
    command.arg("-c").arg(round.work.folder.join("nginx.conf"));
    run_wrk(round, &mut command, NGINX_PORT, "page.txt")
}
