//! Tests of `src/ci.rs`.

use super::*;

#[test]
fn first_failure_ends_the_run_and_is_named() {
    let passes = Step { name: "passes", action: |_| Ok(Outcome::Passed) };
    let skips = Step { name: "skips", action: |_| Ok(Outcome::Skipped("no reason".into())) };
    let fails = Step { name: "fails", action: |root| run_to_end(&mut failing(root)) };
    let never = Step { name: "never", action: |_| unreachable!("the run has ended") };
    let root = repo::root();
    assert!(run_steps(root, &[passes, skips]).is_ok());
    let error = run_steps(root, &[fails, never]).expect_err("a step fails");
    assert_eq!(error.to_string(), "step `fails` failed");
}

fn failing(root: &Path) -> Command {
    let mut command = repo::cargo(root);
    command.arg("--no-such-option");
    command
}

#[test]
fn command_that_hangs_is_ended_with_its_children() {
    let mut hangs = Command::new("sh");
    hangs.args(["-c", "sleep 600 & wait"]);
    let begin = Instant::now();
    let error = run_within(&hangs, 1).expect_err("it hangs");
    assert_eq!(error.to_string(), "sh was still running after 1 s");
    assert!(begin.elapsed() < Duration::from_secs(60));
}
