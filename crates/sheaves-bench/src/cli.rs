//! The command line: what is asked for, and the run from the first check to the exit status.

use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use crate::child::{self, Children};
use crate::contender::{self, Kind, glibc};
use crate::failure::Failure;
use crate::measure::{self, Effort, Lane, Shuffle};
use crate::report::{Report, demonstration, text};
use crate::workload::name::{self, Request};
use crate::workload::{Job, Table};

/// Contenders of a quick run without a table: the result of 2011, before and after.
const BEFORE_AND_AFTER: [&str; 2] = ["cache", "locked"];
/// Steps of the progress bar for one workload.
const STEPS: u64 = 100;

/// Compares Sheaves with other ways to allocate.
///
/// Contenders take turns in random order, sample by sample, in one process. Printed are the median
/// and the 10th and 90th percentile.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct Args {
    /// pair, batch, slabtest, remote, replace, percpu, counter, readers, synchronize, map, dispose
    /// or bulk; or a part of one, as in batch/shuffled/64
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,

    /// Take fewer sizes and samples; without TABLE, show the result of 2011 in under a minute
    #[arg(long)]
    pub quick: bool,

    /// Threads of `replace`, `counter`, `concurrent`, `readers` and `map`, and on the side of
    /// `remote` that has many [default: 2]; for `synchronize` the most that register
    /// [default: 10000]
    #[arg(long, value_name = "N")]
    pub threads: Option<String>,

    /// Also write the report to FILE, as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<std::path::PathBuf>,

    /// Only these sizes, in bytes, separated by commas; for `percpu` numbers of filters, for `map`
    /// of entries
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub sizes: Option<Vec<String>>,

    /// Only these contenders, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub contenders: Option<Vec<String>>,

    /// Serve one mode of a contender to the process that started this one
    #[arg(long, hide = true, value_name = "MODE")]
    pub serve: Option<String>,
}

/// Does what the command line asks for. An error is one line on standard error, with exit status 2
/// if the command line is at fault and 1 otherwise.
pub fn run(args: &Args) -> ExitCode {
    match dispatch(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("sheaves-bench: {failure}");
            ExitCode::from(failure.status)
        }
    }
}

fn dispatch(args: &Args) -> Result<(), Failure> {
    if let Some(mode) = &args.serve {
        return child::serve(mode);
    }
    let plan = Plan::from(args)?;
    glibc::check_origin()?;
    // Opened before the run, so that a long one is not lost to a name that cannot be written.
    let file = args.json.as_ref().map(|path| create(path)).transpose()?;
    let report = measure_all(&plan)?;
    let render = if plan.demonstration { demonstration::render } else { text::render };
    print_out(&render(&report))?;
    if let (Some(mut file), Some(path)) = (file, &args.json) {
        let written = file.write_all(report.to_json()?.as_bytes());
        written.map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

fn create(path: &std::path::Path) -> Result<File, Failure> {
    File::create(path).map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Failure {
    Failure::run(format!("cannot write {}: {error}", path.display()))
}

/// Prints; a closed pipe at the other end is no error.
fn print_out(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::run(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The command line after all checks.
#[derive(Clone, Debug)]
struct Plan {
    title: String,
    jobs: Vec<Job>,
    kinds: Vec<Kind>,
    effort: Effort,
    /// Before and after in brief, instead of everything.
    demonstration: bool,
}

impl Plan {
    fn from(args: &Args) -> Result<Plan, Failure> {
        let demonstration = args.table.is_none() && args.quick && args.contenders.is_none();
        let request = match &args.table {
            Some(table) => Request::parse(table)?,
            None if args.quick => Request::parse(Table::Slabtest.name())?,
            None => {
                let tables = name::tables();
                return Err(Failure::usage(format!("no table given (there are: {tables})")));
            }
        };
        let threads = parse_threads(args.threads.as_deref(), request.table)?;
        let usual = request.table.sizes(args.quick && !demonstration);
        let asked =
            args.sizes.as_deref().map(|list| parse_sizes(list, request.table)).transpose()?;
        // A size in the request itself is meant, whether it is one of the usual ones or not.
        let named = args.table.as_deref().and_then(|table| name::Name::parse(table).size);
        let (range, _) = request.table.size_range();
        let named = named.filter(|size| range.contains(size)).map(|size| vec![size]);
        let sizes = asked.or(named).unwrap_or_else(|| usual.to_vec());
        let few = args.quick && !request.names_a_variant();
        let mut jobs = request.table.jobs(&sizes, threads, few);
        jobs.retain(|job| job.rows().iter().any(|row| request.admits(row)));
        if jobs.is_empty() {
            let table = args.table.as_deref().unwrap_or_default();
            return Err(Failure::usage(format!("no workload is called '{table}'")));
        }
        let reduced = demonstration.then(|| BEFORE_AND_AFTER.map(str::to_owned).to_vec());
        let list = args.contenders.as_deref().or(reduced.as_deref());
        let mut kinds = contender::select(list)?;
        kinds.retain(|kind| kind.is_available() && request.table.admits(*kind));
        if kinds.is_empty() {
            return Err(Failure::usage("none of these contenders takes part in this table"));
        }
        let effort = request.table.effort(args.quick);
        let title = args.table.clone().unwrap_or_else(|| request.table.name().to_owned());
        Ok(Plan { title, jobs, kinds, effort, demonstration })
    }
}

fn parse_threads(text: Option<&str>, table: Table) -> Result<usize, Failure> {
    let (usual, range) = table.threads();
    let Some(text) = text else { return Ok(usual) };
    match text.parse() {
        Ok(threads) if range.contains(&threads) => Ok(threads),
        _ => {
            let (low, high) = (range.start(), range.end());
            Err(Failure::usage(format!("--threads {text}: expected {low} to {high}")))
        }
    }
}

fn parse_sizes(list: &[String], table: Table) -> Result<Vec<usize>, Failure> {
    let (range, unit) = table.size_range();
    let parse = |text: &String| match text.trim().parse() {
        Ok(size) if range.contains(&size) => Ok(size),
        _ => {
            let (low, high) = (range.start(), range.end());
            Err(Failure::usage(format!("--sizes {text}: expected {low} to {high} {unit}")))
        }
    };
    let mut sizes: Vec<usize> = list.iter().map(parse).collect::<Result<_, _>>()?;
    sizes.sort_unstable();
    sizes.dedup();
    Ok(sizes)
}

fn measure_all(plan: &Plan) -> Result<Report, Failure> {
    measure::become_threaded();
    let mut children = Children::new();
    let mut report = Report::new(&plan.title);
    let mut shuffle = Shuffle::new(2011);
    let bar = progress_bar(plan.jobs.len() as u64);
    for (index, job) in plan.jobs.iter().enumerate() {
        bar.set_message(job.name());
        let mut kinds = plan.kinds.clone();
        kinds.retain(|kind| job.admits(*kind) && report.admit(job, *kind));
        let lane = |kind: &Kind| -> Result<Lane, Failure> {
            let sampler = match kind.mode() {
                Some(mode) => children.sampler(mode, job, *kind)?,
                None => job.sampler(*kind)?,
            };
            Ok(Lane { kind: *kind, sampler })
        };
        let mut lanes: Vec<Lane> =
            kinds.iter().map(lane).collect::<Result<_, _>>().inspect_err(|_| bar.abandon())?;
        let done = index as u64 * STEPS;
        let tick = |share: f64| bar.set_position(done + (share * STEPS as f64) as u64);
        let series = measure::run(&mut lanes, plan.effort, &mut shuffle, tick)?;
        report.add(&job.rows(), &kinds, &series);
        for lane in &lanes {
            report.add_work(&job.rows(), lane.kind, lane.sampler.work());
        }
    }
    bar.finish_and_clear();
    report.finish();
    Ok(report)
}

/// The bar is drawn on standard error, only if that is a terminal, and only between rounds.
fn progress_bar(jobs: u64) -> ProgressBar {
    let bar = ProgressBar::new(jobs * STEPS);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {elapsed} {msg}");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(table: &str) -> Args {
        Args { table: Some(table.to_owned()), ..Args::default() }
    }

    fn status_of(args: &Args) -> u8 {
        let failure = Plan::from(args).unwrap_err();
        assert!(!failure.message.contains('\n'));
        failure.status
    }

    #[test]
    fn bad_input_is_refused() {
        assert_eq!(status_of(&args("nonsense")), 2);
        assert_eq!(status_of(&args("batch/sideways")), 2);
        assert_eq!(status_of(&args("pair/7")), 2);
        assert_eq!(status_of(&Args::default()), 2);
        for threads in ["0", "-1", "many", "100000", ""] {
            let args = Args { threads: Some(threads.to_owned()), ..args("replace") };
            assert_eq!(status_of(&args), 2, "{threads}");
        }
        for sizes in ["0", "7", "16385", "big", ""] {
            let args = Args { sizes: Some(vec![sizes.to_owned()]), ..args("pair") };
            assert_eq!(status_of(&args), 2, "{sizes}");
        }
        let few = Args { sizes: Some(vec!["10".to_owned()]), ..args("percpu") };
        assert!(Plan::from(&few).unwrap_err().message.contains("4000000 filters"));
        for contenders in ["fastmalloc", "", "floor"] {
            let args = Args { contenders: Some(vec![contenders.to_owned()]), ..args("pair") };
            assert_eq!(status_of(&args), 2, "{contenders}");
        }
    }

    #[test]
    fn an_unwritable_file_is_found_before_the_run() {
        let failure = create(std::path::Path::new("/proc/nonsense/report.json")).unwrap_err();
        assert_eq!(failure.status, 1);
        assert!(failure.message.contains("/proc/nonsense/report.json"));
    }

    #[test]
    fn a_quick_run_without_a_table_shows_before_and_after() {
        let plan = Plan::from(&Args { quick: true, ..Args::default() }).unwrap();
        assert!(plan.jobs.iter().all(|job| job.table == Table::Slabtest));
        let names: Vec<_> = plan.kinds.iter().map(|kind| kind.name()).collect();
        assert!(names.contains(&"cache") && names.contains(&"locked"));
        assert!(!names.contains(&"glibc"));
        let spent = plan.effort.time_max * plan.jobs.len() as u32;
        assert!(spent.as_secs() < 40, "{spent:?} of a minute");
    }

    #[test]
    fn a_part_of_a_table_can_be_asked_for() {
        let plan = Plan::from(&args("batch/shuffled/100")).unwrap();
        assert_eq!(plan.jobs.len(), 1);
        assert_eq!(plan.jobs[0].size, Some(100));
        let sizes = Some(vec!["64".to_owned(), "1024".to_owned(), "64".to_owned()]);
        let plan = Plan::from(&Args { sizes, ..args("pair") }).unwrap();
        assert_eq!(plan.jobs.len(), 2);
    }

    #[test]
    fn tables_have_contenders_of_their_own() {
        let names = |table: &str| -> Vec<_> {
            Plan::from(&args(table)).unwrap().kinds.iter().map(|kind| kind.name()).collect()
        };
        let percpu = names("percpu");
        assert!(percpu.contains(&"V50") && percpu.contains(&"padded-box"));
        assert!(!percpu.contains(&"cache") && !percpu.contains(&"atomic"));
        assert!(names("counter").contains(&"atomic"));
        assert!(!names("pair").contains(&"V50"));
        let plan = Plan::from(&args("tc/64k/5000")).unwrap();
        assert_eq!(plan.jobs.iter().map(Job::name).collect::<Vec<_>>(), ["tc/64k/5000"]);
    }
}
