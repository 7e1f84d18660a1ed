//! The table, and what it has to show.

use std::process::ExitCode;

use crate::program::{self, Operation, Shape};
use crate::tracee::{Costs, Tracee};

/// The largest number of slots.
const SLOTS_MAX: usize = 64;
/// What twice as many slots may cost: twice as much, and what chance does.
const GROWTH_MAX: f64 = 2.1;
/// What 64 possible slots may cost where one is in use: as much as one, and a look at a few bits.
const POSSIBLE_MAX: f64 = 1.05;
/// The same for a refill: the more slots share a cache's objects, the less each of them takes at
/// once.
const POSSIBLE_REFILL_MAX: f64 = 1.5;

struct Row {
    shape: Shape,
    /// In the order of [`Operation::ALL`].
    costs: Vec<Costs>,
}

pub(crate) fn run() -> ExitCode {
    let (cpus, mut is_good) = (cpus(), true);
    // Steps are counted where they are executed: a second CPU would have to wake up for each.
    program::bind(0);
    for (is_rseq, most) in [(false, SLOTS_MAX), (true, cpus)] {
        let most = limit().unwrap_or(SLOTS_MAX).min(most);
        let numbers: Vec<usize> =
            (0..).map(|power| 1 << power).take_while(|slots| *slots <= most).collect();
        let engine = if is_rseq { "rseq" } else { "portable" };
        print_head(engine);
        let shapes = numbers.iter().map(|slots| Shape { is_rseq, possible: *slots, used: *slots });
        let used: Vec<Row> = shapes.map(count).collect();
        let one = count(Shape { is_rseq, possible: most, used: 1 });
        for finding in findings(&used, &one) {
            println!("costs: {engine}: {finding}");
            is_good = false;
        }
    }
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn limit() -> Option<usize> {
    let value = std::env::var("SHEAVES_TEST_COSTS_SLOTS").ok()?;
    Some(value.parse().expect("SHEAVES_TEST_COSTS_SLOTS is a number"))
}

/// Counts all operations of a process, and prints them.
fn count(shape: Shape) -> Row {
    let tracee = Tracee::start(shape.variables());
    let mut costs = Operation::ALL.map(|_| count_one(&tracee)).to_vec();
    let nothing = costs[0];
    for cost in &mut costs {
        cost.instructions -= nothing.instructions.min(cost.instructions);
        cost.system_calls -= nothing.system_calls.min(cost.system_calls);
    }
    let row = Row { shape, costs };
    print_row(&row);
    row
}

/// The second time of an operation. The process is at the begin of the first one, and then at the
/// begin of the next operation.
fn count_one(tracee: &Tracee) -> Costs {
    tracee.skip();
    tracee.skip();
    let costs = tracee.count();
    tracee.skip();
    costs
}

fn print_head(engine: &str) {
    print!("\n{:22}", format!("{engine}, slots"));
    for operation in &Operation::ALL[1..] {
        print!(" {:>14}", operation.name());
    }
    println!();
}

fn print_row(row: &Row) {
    let Shape { possible, used, .. } = row.shape;
    let slots =
        if used == possible { used.to_string() } else { format!("{possible}, {used} in use") };
    print!("{slots:22}");
    for costs in &row.costs[1..] {
        print!(" {:>14}", format!("{} + {}", costs.instructions, costs.system_calls));
    }
    println!();
}

/// What is not as it should be. `used`: rows with all slots in use, from one on. `one`: one of the
/// most.
fn findings(used: &[Row], one: &Row) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, operation) in Operation::ALL.iter().enumerate().skip(1) {
        let name = operation.name();
        let first = used[0].costs[index];
        for row in used.iter().chain([one]) {
            let (slots, costs) = (row.shape.possible, row.costs[index]);
            if costs.system_calls > first.system_calls {
                findings.push(format!("{name}: more system calls with {slots} slots"));
            }
            if operation.is_constant() && costs.instructions != first.instructions {
                findings.push(format!("{name}: other instructions with {slots} slots"));
            }
        }
        let instructions = |row: &Row| row.costs[index].instructions as f64;
        let possible = instructions(one) / instructions(&used[0]);
        let is_refill = *operation == Operation::Refill;
        if possible > if is_refill { POSSIBLE_REFILL_MAX } else { POSSIBLE_MAX } {
            findings.push(format!("{name}: {possible:.2} times as much if more are possible"));
        }
        for pair in used.windows(2) {
            let growth = instructions(&pair[1]) / instructions(&pair[0]);
            if growth > GROWTH_MAX {
                let slots = pair[1].shape.used;
                findings.push(format!("{name}: {growth:.2} times as much with {slots} slots"));
            }
        }
    }
    findings
}
