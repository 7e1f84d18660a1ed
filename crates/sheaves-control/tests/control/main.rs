//! Tools ask programs that run on Sheaves. This file is the tests; `program.rs` the programs, which
//! are this very executable; `tool.rs` a tool.
//!
//! `cargo test -p sheaves-control --test control [WORD]` runs the tests whose names have the word.

mod program;
mod tool;

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Instant;

use sheaves_control::client::Failure;
use sheaves_control::layout::{
    ANSWERED, ANSWERING, BEGIN_GRACE_PERIOD, RCU, REQUESTED, STATISTICS, STATISTICS_TEXT,
};

use tool::{Program, wait_for};

#[global_allocator]
static HEAP: sheaves::Sheaves = sheaves::Sheaves::new();

type Test = (&'static str, fn());

const TESTS: [Test; 14] = [
    ("program_with_one_thread_answers", program_with_one_thread_answers),
    ("sleeping_program_answers", sleeping_program_answers),
    ("thread_that_answers_ends", thread_that_answers_ends),
    ("option_leaves_it_out", option_leaves_it_out),
    ("child_shares_the_page", child_shares_the_page),
    ("exec_leaves_no_page", exec_leaves_no_page),
    ("closed_descriptor_stays_closed", closed_descriptor_stays_closed),
    ("few_descriptors_suffice", few_descriptors_suffice),
    ("sandboxed_program_does_not_answer", sandboxed_program_does_not_answer),
    ("another_user_cannot_open_it", another_user_cannot_open_it),
    ("what_a_dead_tool_left_is_cleared", what_a_dead_tool_left_is_cleared),
    ("process_that_was_killed_silences_no_other", process_that_was_killed_silences_no_other),
    ("garbage_harms_nobody", garbage_harms_nobody),
    ("ten_thousand_times", ten_thousand_times),
];

fn main() {
    if let Some(role) = std::env::var_os(program::ROLE) {
        return program::run(role.to_str().expect("UTF-8"));
    }
    let words: Vec<_> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    for (name, test) in TESTS.iter().filter(|(name, _)| is_wanted(name)) {
        let begin = Instant::now();
        test();
        println!("{name} ... ok, {} ms", begin.elapsed().as_millis());
    }
}

#[track_caller]
fn assert_is_answer_of(text: &str, pid: u32) {
    assert!(text.contains(&format!("\"pid\":{pid},")), "{text}");
    assert!(text.starts_with('{') && text.ends_with("}\n"), "{text}");
}

fn program_with_one_thread_answers() {
    let program = Program::start("allocates");
    let mut tool = program.tool();
    let text = tool.ask(STATISTICS, 0).expect("an answer");
    assert_is_answer_of(&text, program.pid());
    for key in ["schema\":2", "uptime_ms", "keeper\":{", "limit\":{", "rcu\":{", "percpu", "caches"]
    {
        assert!(text.contains(key), "{key} is missing in {text}");
    }
    assert!(tool.ask(STATISTICS_TEXT, 0).expect("an answer").starts_with("sheaves statistics"));
    assert_is_answer_of(&tool.ask(RCU, 0).expect("an answer"), program.pid());
    assert_eq!(tool.ask(77, 0), Err(Failure::Refused(libc::EINVAL)));
    assert!(program.threads() <= 2, "one thread answers");
    assert_eq!(tool.blocks(), 8, "the answer leaves no memory");
}

fn sleeping_program_answers() {
    let program = Program::start("reads");
    let mut tool = program.tool();
    let text = tool.ask(RCU, BEGIN_GRACE_PERIOD).expect("an answer");
    assert_is_answer_of(&text, program.pid());
    assert!(text.contains("\"name\":\"reader\",\"nesting\":2"), "{text}");
    assert!(text.contains(&format!("\"tid\":{}", program.said())), "{text}");
    // The grace period that was begun waits for that section.
    wait_for("a grace period", || {
        let text = tool.ask(RCU, BEGIN_GRACE_PERIOD).expect("an answer");
        text.contains("\"under_way\":{\"number\"")
    });
}

fn thread_that_answers_ends() {
    let program = Program::start("sleeps");
    let mut tool = program.tool();
    assert_eq!(program.threads(), 1, "there is no thread before a tool asks");
    tool.ask(STATISTICS, 0).expect("an answer");
    assert_eq!(program.threads(), 2);
    wait_for("the end of the thread", || program.threads() == 1);
}

fn option_leaves_it_out() {
    for (value, pages) in [("0", 0), ("1", 1)] {
        let program = Program::start_with("allocates", &[("SHEAVES_CONTROL", value)]);
        assert_eq!(program.pages(), pages, "made when a program is loaded");
        assert!(program.is_alive());
    }
}

fn child_shares_the_page() {
    let program = Program::start("forks_once");
    let mut tool = program.tool();
    let child = Program::running(program.said().parse().expect("a number"));
    let mut of_child = child.tool();
    assert_eq!(of_child.inode(), tool.inode());
    for _ in 0..3 {
        assert_is_answer_of(&of_child.ask(STATISTICS, 0).expect("an answer"), child.pid());
        assert_is_answer_of(&tool.ask(STATISTICS, 0).expect("an answer"), program.pid());
    }
}

fn exec_leaves_no_page() {
    let program = Program::start("execs");
    let mut tool = program.tool();
    tool.ask(STATISTICS, 0).expect("an answer");
    program.say("exec");
    wait_for("exec", || program.name() == "cat");
    assert_eq!(program.pages(), 0);
    assert_eq!(tool.ask_for(STATISTICS, 0, 200), Err(Failure::Silent));
}

fn closed_descriptor_stays_closed() {
    let program = Program::start("closes");
    let mut tool = program.tool();
    program.say("close");
    wait_for("the call", || program.pages() == 0);
    // Its thread looks after what is unused meanwhile.
    for _ in 0..20 {
        let text = tool.ask(STATISTICS, 0).expect("an answer by the page that is open");
        assert_is_answer_of(&text, program.pid());
        std::thread::sleep(core::time::Duration::from_millis(50));
        assert_eq!(program.pages(), 0);
    }
}

fn few_descriptors_suffice() {
    let program = Program::start("limits_descriptors");
    let text = program.tool().ask(STATISTICS, 0).expect("an answer");
    assert_is_answer_of(&text, program.pid());
    assert!(program.page_number().expect("open") < 32);
}

fn sandboxed_program_does_not_answer() {
    let mut program = Program::start("sandboxes");
    assert_eq!((program.said(), program.threads()), ("alive", 1));
    assert_eq!(program.tool().ask_for(STATISTICS, 0, 300), Err(Failure::Silent));
    program.say("end");
    assert!(program.child.wait().expect("ended").success());
}

fn another_user_cannot_open_it() {
    let program = Program::start("allocates");
    let number = {
        program.tool();
        program.page_number().expect("open")
    };
    let path = format!("/proc/{}/fd/{number}", program.pid());
    let mut cat = Command::new("cat");
    if cat.arg(&path).uid(65534).gid(65534).output().is_ok_and(|output| output.status.success()) {
        panic!("nobody could read {path}");
    }
    // SAFETY: integers only.
    if unsafe { libc::getuid() } != 0 {
        eprintln!("skipped: only root can become another user");
    }
    assert!(Command::new("cat").arg(&path).output().expect("runs").status.success());
}

fn what_a_dead_tool_left_is_cleared() {
    let program = Program::start("naps");
    let mut tool = program.tool();
    for state in [REQUESTED, ANSWERED, 99] {
        tool.write_state(state);
        let text = tool.ask(STATISTICS, 0).expect("an answer");
        assert_is_answer_of(&text, program.pid());
    }
}

/// It was answering. A fork child that answers for longer is as good as killed.
fn process_that_was_killed_silences_no_other() {
    let program = Program::start("naps");
    let mut tool = program.tool();
    tool.write_process(program.pid() + 1);
    tool.write_state(ANSWERING);
    let text = tool.ask_for(STATISTICS, 0, 10_000).expect("an answer");
    assert_is_answer_of(&text, program.pid());
    // One that answers is waited for, and not asked again meanwhile.
    tool.write_state(ANSWERING);
    assert_eq!(tool.ask_for(STATISTICS, 0, 300), Err(Failure::Silent));
    assert_eq!(tool.state(), ANSWERING);
}

fn garbage_harms_nobody() {
    let program = Program::start("storm");
    let mut tool = program.tool();
    let mut word: u32 = 1;
    for _ in 0..100_000 {
        word = word.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        tool.write_word(word >> 20, word);
    }
    tool.write_state(77);
    assert!(matches!(
        tool.ask_for(STATISTICS, 0, 300),
        Err(Failure::Silent | Failure::Refused(_)) | Ok(_)
    ));
    tool.write_word(0, 0);
    assert!(matches!(program.attach(), Some(Err(Failure::Damaged))));
    assert!(program.is_alive());
}

/// Attaches and detaches while threads allocate and fork: nothing hangs, nothing is left.
fn ten_thousand_times() {
    let program = Program::start("storm");
    program.tool();
    let (descriptors, begin) = (tool::descriptors(std::process::id()), Instant::now());
    let in_target = tool::descriptors(program.pid());
    for round in 0..10_000 {
        let mut tool = program.tool();
        let command = if round % 10 == 0 { STATISTICS } else { RCU };
        let text = tool.ask(command, 0).expect("an answer");
        assert_is_answer_of(&text, program.pid());
    }
    println!("10,000 answers in {} ms", begin.elapsed().as_millis());
    assert_eq!(tool::descriptors(std::process::id()), descriptors);
    // The program's pipes to its children come and go.
    assert!(tool::descriptors(program.pid()) <= in_target + 2);
    assert_eq!(program.tool().blocks(), 8, "answers leave no memory");
    let shared = std::fs::read_dir("/dev/shm").map_or(0, |files| {
        files
            .flatten()
            .filter(|file| file.file_name().to_string_lossy().contains("sheaves"))
            .count()
    });
    assert_eq!(shared, 0);
}
