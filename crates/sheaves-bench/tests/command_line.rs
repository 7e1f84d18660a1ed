//! Runs the program as a user would: what it refuses and how, and what it leaves behind.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sheaves-bench")).args(args).output().unwrap()
}

/// Status and the only line on standard error.
fn refusal(args: &[&str]) -> (i32, String) {
    let output = bench(args);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "{args:?}");
    assert_eq!(error.lines().count(), 1, "{args:?}: {error}");
    (output.status.code().unwrap(), error)
}

#[test]
fn bad_input_is_one_line_and_a_status() {
    for args in [
        &["nonsense"][..],
        &[],
        &["pair/7"],
        &["pair", "--contenders", "fastmalloc"],
        &["replace", "--threads", "0"],
        &["percpu/nonsense"],
        &["tc", "--contenders", "cache"],
        &["pair", "--sizes", "0"],
        &["pair", "--sizes", "64,huge"],
        &["readers/enter-leave/3t"],
        &["synchronize", "--threads", "1"],
        &["synchronize", "--threads", "10001"],
        &["synchronize", "--contenders", "rcu"],
        &["dispose/3t"],
        &["dispose", "--contenders", "cache"],
        &["bulk", "--contenders", "floor"],
        &["pair", "--from", "report.json"],
        &["--quick", "--from", "report.json"],
    ] {
        assert_eq!(refusal(args).0, 2, "{args:?}");
    }
    for option in ["--json", "--html", "--from"] {
        let table: &[&str] = if option == "--from" { &[] } else { &["pair", "--quick"] };
        let (status, error) = refusal(&[table, &[option, "/proc/nonsense/report"]].concat());
        assert_eq!(status, 1);
        assert!(error.contains("/proc/nonsense/report"), "{error}");
    }
}

#[test]
fn what_is_no_report_is_refused_and_a_full_disk_is_told() {
    let file = std::env::temp_dir().join(format!("sheaves-bench-from-{}", std::process::id()));
    let path = file.to_str().unwrap();
    let report = r#"{"schema": "sheaves-bench/1", "table": "pair", "rows": []}"#;
    let older = report.replace("/1", "/0");
    for (text, part) in [("", "no report"), ("{}", "no report"), (&older, "sheaves-bench/0")] {
        std::fs::write(&file, text).unwrap();
        let (status, error) = refusal(&["--from", path]);
        assert!(status == 1 && error.contains(path) && error.contains(part), "{error}");
    }
    std::fs::write(&file, report).unwrap();
    // A report may replace itself.
    assert!(bench(&["--from", path, "--json", path]).status.success());
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"machine\""));
    let output = bench(&["--from", path, "--html", "/dev/full"]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "sheaves-bench: cannot write /dev/full: No space left on device (os error 28)\n"
    );
}

#[test]
fn a_run_prints_a_table_and_writes_the_file() {
    let file = std::env::temp_dir().join(format!("sheaves-bench-{}.json", std::process::id()));
    let path = file.to_str().unwrap();
    let page = file.with_extension("html");
    let args = ["pair/64", "--quick", "--contenders", "cache,locked,glibc", "--json", path];
    let output = bench(&[&args[..], &["--html", page.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("cache") && text.contains("glibc"), "{text}");

    let html = std::fs::read_to_string(&page).unwrap();
    assert_eq!(html.matches("<circle").count(), 3);
    // What was printed is there, too: bars and contenders that were left out.
    assert!(html.contains(text.lines().last().unwrap()), "{html}");

    let report = std::fs::read_to_string(&file).unwrap();
    [file, page].iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["schema"], "sheaves-bench/1");
    assert_eq!(report["table"], "pair/64");
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        assert_eq!(row["workload"], "pair/64");
        assert_eq!(row["is_ours"] == true, row["contender"] == "cache");
        assert_eq!(row["shown"]["size_unit"], "bytes");
        let [low, median, high] = ["low", "median", "high"].map(|key| row[key].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high);
        assert!(row["samples"].as_u64().unwrap() >= 5);
    }
    assert_eq!(report["ratios"].as_array().unwrap().len(), 2);
}

#[test]
fn the_queue_is_measured_alone_too() {
    let args = ["remote/1to1/64", "--quick", "--contenders", "malloc,floor"];
    let output = bench(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8(output.stdout).unwrap().contains("floor"));
}

#[test]
fn per_cpu_memory_is_counted_and_judged() {
    let args = ["tc/64k-zeroed-8/2000", "--quick", "--json", "/dev/stdout"];
    let output = bench(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, report) = text.split_once("\n{").unwrap();
    assert!(text.contains("what was done") && text.contains("FIXED+caches is left out"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&format!("{{{report}")).unwrap();
    let work = |contender: &str| {
        let rows = report["rows"].as_array().unwrap();
        rows.iter().find(|row| row["contender"] == contender).unwrap()["work"].clone()
    };
    // Two chunks of 1024 filters: half of the requests go past a full one.
    assert!(work("V50")["chunks_tested"].as_f64().unwrap() > 1.4);
    assert!(work("FIXED")["chunks_tested"].as_f64().unwrap() <= 1.01);
    assert_eq!(work("FIXED")["bytes_ideal"], 128_000);
    assert!(work("mutex-pool")["chunks_tested"].is_null());
    assert_eq!(report["left_out"][0]["contender"], "FIXED+caches");
}

#[test]
fn counters_are_added_to_and_summed_up() {
    let output = bench(&["counter", "--quick", "--threads", "1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["counter/1t", "counter/sum", "thread-local", "<= 1.50"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn readers_are_timed_and_their_updater() {
    let output = bench(&["load-1", "--quick", "--threads", "1", "--json", "/dev/stdout"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["load-1/1t", "load-1-replace/1t", "crossbeam-epoch", "haphazard", "rwlock"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("increments"), "{text}");
    let output = bench(&["readers/enter-leave", "--quick", "--threads", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["increments", "<= 0.35"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn waits_are_counted_and_judged() {
    let args = ["10x1000+flood", "--quick", "--json", "/dev/stdout"];
    let output = bench(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, report) = text.split_once("\n{").unwrap();
    assert!(text.contains("membarriers") && text.contains("prototype"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&format!("{{{report}")).unwrap();
    let row = |workload: &str| {
        let rows = report["rows"].as_array().unwrap();
        let own =
            |row: &&serde_json::Value| row["workload"] == workload && row["contender"] == "direct";
        rows.iter().find(own).unwrap().clone()
    };
    assert_eq!(row("10x1000+flood-total")["unit"], "ns");
    assert_eq!(row("10x1000+flood-spread")["unit"], "%");
    // Each of a thousand calls in a row needs a grace period of its own.
    assert!(row("10x1000+flood-periods")["median"].as_f64().unwrap() >= 1000.0);
    let bars = report["bars"].as_array().unwrap();
    let judged = |bar: &&serde_json::Value| bar["at_most"].is_number();
    assert!(bars.iter().filter(judged).any(|bar| bar["versus"] == "callback"));
}

fn report_of(args: &[&str]) -> (String, serde_json::Value) {
    let output = bench(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, report) = text.split_once("\n{").unwrap();
    (text.to_owned(), serde_json::from_str(&format!("{{{report}")).unwrap())
}

fn row(report: &serde_json::Value, workload: &str, contender: &str) -> serde_json::Value {
    let rows = report["rows"].as_array().unwrap();
    let is_it =
        |row: &&serde_json::Value| row["workload"] == workload && row["contender"] == contender;
    rows.iter().find(is_it).unwrap().clone()
}

#[test]
fn deferred_frees_are_timed_and_what_they_leave_behind() {
    let list = "sheaves,floor,before,after,crossbeam-epoch,seize,haphazard";
    let args = ["dispose/1t", "--quick", "--contenders", list, "--json", "/dev/stdout"];
    let (text, report) = report_of(&args);
    for part in ["deferred, KiB", "<= 2.00"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    for contender in list.split(',') {
        assert!(row(&report, "dispose/1t", contender)["median"].as_f64().unwrap() > 0.0);
    }
    assert_eq!(row(&report, "dispose-outstanding/1t", "seize")["unit"], "bytes");
    assert_eq!(row(&report, "dispose-settled/1t", "after")["unit"], "ns");
    // Memory comes back while the clock runs.
    assert!(row(&report, "dispose-periods/1t", "sheaves")["low"].as_f64().unwrap() >= 1.0);
    let bars = report["bars"].as_array().unwrap();
    let judged = |bar: &&serde_json::Value| bar["at_most"].is_number();
    let versus: Vec<_> = bars.iter().filter(judged).map(|bar| bar["versus"].clone()).collect();
    assert_eq!(versus, ["floor", "before"]);
}

/// In a process of its own, where nothing else is freed meanwhile.
#[test]
fn memory_of_entries_is_at_least_theirs() {
    let args = ["map/memory", "--quick", "--sizes", "200000", "--contenders", "dashmap"];
    let (_, report) = report_of(&[&args[..], &["--json", "/dev/stdout"]].concat());
    let figure = row(&report, "map/memory/1t/200000", "dashmap")["median"].as_f64().unwrap();
    assert!(figure >= 8.0, "{figure}");
}

#[test]
fn bulk_has_footprints() {
    let (text, report) = report_of(&["bulk/1t", "--quick", "--json", "/dev/stdout"]);
    for part in ["footprint, KiB", "resident, KiB", "per-object+glibc", "<= 0.66"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // What is collected for 20 ms is more than any sheaf holds.
    let bytes = |of: &str| row(&report, "bulk-footprint/1t", of)["median"].as_f64().unwrap();
    assert!(bytes("per-object") > 1e6 && bytes("bulk") > 1e6);
    assert!(row(&report, "bulk-resident/1t", "sheaves")["median"].as_f64().unwrap() >= 0.0);
}

#[cfg(feature = "peers")]
#[test]
fn liburcu_takes_objects_back_in_both_ways() {
    let list = "sheaves,liburcu-call_rcu,liburcu-defer_rcu+mimalloc,crossbeam-epoch+mimalloc";
    let args = ["dispose/2t", "--quick", "--contenders", list, "--json", "/dev/stdout"];
    let (_, report) = report_of(&args);
    for contender in list.split(',') {
        assert!(row(&report, "dispose-settled/2t", contender)["median"].as_f64().unwrap() > 0.0);
    }
}

#[cfg(feature = "peers")]
#[test]
fn liburcu_takes_its_turn() {
    let args = ["registered", "--quick", "--threads", "100"];
    let output = bench(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for flavour in ["memb", "mb", "bp", "qsbr"] {
        assert!(text.contains(&format!("liburcu-{flavour}")), "{flavour} is missing in\n{text}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn tcmalloc_takes_its_turn_in_both_modes() {
    let args = ["pair/64", "--quick", "--contenders", "malloc,tcmalloc", "--json", "/dev/stdout"];
    let output = bench(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("tcmalloc@percpu") && text.contains("tcmalloc@perthread"), "{text}");
}

#[cfg(feature = "peers")]
#[test]
fn a_foreign_malloc_is_noticed() {
    // Any preloaded object that has a malloc will do; without one at hand there is no test.
    let names = ["/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib64/libjemalloc.so.2"];
    let Some(object) = names.iter().find(|name| std::path::Path::new(name).exists()) else {
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_sheaves-bench"))
        .args(["pair/64", "--quick"])
        .env("LD_PRELOAD", object)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("instead of glibc"));
}
