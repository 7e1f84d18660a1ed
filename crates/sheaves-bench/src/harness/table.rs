//! What the harness asks of a table.
//!
//! A [`Table`] lists its [`Case`]s. In a case contenders are measured in turn, and each sample has
//! one number for each [`Row`] of the case. A table makes its cases from types of its own: a
//! [`Contender`] has a closure that makes what takes its samples, and a row has one that compares
//! the figures. The harness calls these, and knows names only to print them.

use core::ops::RangeInclusive;

use super::{Effort, Failure, Judge, Report, Sampler, Shown};

/// A table of the benchmark: a folder under `tables/`, and a line in its list.
pub(crate) struct Table {
    /// As asked for on the command line.
    pub(crate) name: &'static str,
    /// What is measured, in a line of the help.
    pub(crate) about: &'static str,
    /// The cases that the options ask for, in the order in which they run.
    pub(crate) cases: fn(&Options) -> Vec<Case>,
    /// What `--sizes` can be; none: the table has no sizes.
    pub(crate) sizes: Option<Sizes>,
    /// What `--threads` can be.
    pub(crate) threads: Threads,
    /// The contenders that are Sheaves, which pictures highlight.
    pub(crate) ours: &'static [&'static str],
    /// How many rounds each case gets, for figures that are kept and for a first look.
    pub(crate) effort: [Effort; 2],
    /// Adds what is asked of several rows together. Called once, after all cases.
    pub(crate) finish: fn(&mut Report),
    /// Whether `--plot` can draw the memory of its contenders, which all run in child processes.
    pub(crate) has_plot: bool,
    /// What the text says behind the figures.
    pub(crate) remarks: fn(&Report) -> String,
}

impl Table {
    /// A table without sizes and remarks, of short samples.
    pub(crate) const fn new(
        name: &'static str,
        about: &'static str,
        cases: fn(&Options) -> Vec<Case>,
    ) -> Table {
        Table {
            name,
            about,
            cases,
            sizes: None,
            threads: Threads { usual: 2, range: 1..=1024 },
            ours: &[],
            effort: Effort::SHORT,
            finish: |_| {},
            has_plot: false,
            remarks: |_| String::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// In ascending order.
    pub(crate) sizes: Vec<usize>,
    pub(crate) threads: usize,
    /// A first look, which leaves some cases out.
    pub(crate) few: bool,
    /// A first look, which takes less time for each case.
    pub(crate) quick: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(crate) full: &'static [usize],
    pub(crate) quick: &'static [usize],
    /// Those that can be asked for.
    pub(crate) range: RangeInclusive<usize>,
    /// What they are, in the plural.
    pub(crate) unit: &'static str,
}

impl Sizes {
    /// Whether these are the sizes of a run that asks for none.
    pub(crate) fn are_usual(&self, sizes: &[usize]) -> bool {
        sizes == self.full || sizes == self.quick
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Threads {
    pub(crate) usual: usize,
    /// Those that can be asked for.
    pub(crate) range: RangeInclusive<usize>,
}

pub(crate) struct Case {
    /// The first one's name is that of the case.
    pub(crate) rows: Vec<Row>,
    /// In the order of the printed table.
    pub(crate) contenders: Vec<Contender>,
    /// How many rounds it gets where that differs from the other cases of its table.
    pub(crate) effort: Option<Effort>,
}

impl Case {
    pub(crate) fn new(rows: Vec<Row>, contenders: Vec<Contender>) -> Case {
        Case { rows, contenders, effort: None }
    }

    pub(crate) fn name(&self) -> &str {
        self.rows.first().map_or("", |row| &row.name)
    }
}

type Compare = Box<dyn Fn(&mut Judge<'_>)>;

pub(crate) struct Row {
    /// The name, unique in all tables: `pair/64`, `batch-alloc/inorder/64`.
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// Where the text has it.
    pub(crate) shown: Shown,
    compare: Compare,
}

impl Row {
    /// Nanoseconds per operation, in a printed table of its own.
    pub(crate) fn new(name: String) -> Row {
        let shown = Shown {
            heading: name.clone(),
            column: "ns".into(),
            size: None,
            size_unit: None,
            divisor: 1.0,
        };
        Row { name, unit: "ns/op", shown, compare: Box::new(|_| {}) }
    }

    /// Nanoseconds per operation, in a printed table that has a column for each size.
    pub(crate) fn sized(heading: &str, size: usize) -> Row {
        let (column, heading) = (size.to_string(), heading.to_owned());
        let shown = Shown { heading, column, size: Some(size), size_unit: None, divisor: 1.0 };
        Row { name: format!("{}/{size}", shown.heading), shown, ..Row::new(String::new()) }
    }

    pub(crate) fn compared(self, compare: impl Fn(&mut Judge<'_>) + 'static) -> Row {
        Row { compare: Box::new(compare), ..self }
    }

    pub(crate) fn compare(&self, judge: &mut Judge<'_>) {
        (self.compare)(judge);
    }
}

/// One of several things that are measured of a case: what is added to the first part of the case's
/// name, the unit, the head of its column in the text, and what figures are divided by there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure(
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) &'static str,
    pub(crate) f64,
);

impl Measure {
    /// The rows of the case `part/rest`, in the printed table `heading`. What compares figures is
    /// told the suffix.
    pub(crate) fn rows(
        measures: &[Measure],
        (part, rest): (&str, &str),
        heading: &str,
        compare: impl Fn(&mut Judge<'_>, &str) + Copy + 'static,
    ) -> Vec<Row> {
        let row = |measure: &Measure| {
            let Measure(suffix, unit, column, divisor) = *measure;
            let (column, heading) = (column.to_owned(), heading.to_owned());
            let shown = Shown { heading, column, size: None, size_unit: None, divisor };
            let separator = if rest.is_empty() { "" } else { "/" };
            let row = Row::new(format!("{part}{suffix}{separator}{rest}"));
            Row { unit, shown, ..row }.compared(move |row| compare(row, suffix))
        };
        measures.iter().map(row).collect()
    }
}

type Make = Box<dyn Fn() -> Result<Sampler, Failure>>;

pub(crate) struct Contender {
    /// As asked for by `--contenders`.
    pub(crate) family: &'static str,
    /// The child process that it runs in, if it needs one. Of two modes of a family the better one
    /// is compared with others.
    pub(crate) mode: Option<Mode>,
    pub(crate) part: Part,
}

pub(crate) enum Part {
    Takes(Make),
    /// Why it does not, as the end of a sentence.
    LeftOut(String),
}

impl Contender {
    pub(crate) fn new(
        family: &'static str,
        make: impl Fn() -> Result<Sampler, Failure> + 'static,
    ) -> Contender {
        Contender { family, mode: None, part: Part::Takes(Box::new(make)) }
    }

    pub(crate) fn in_child(self, mode: Mode) -> Contender {
        Contender { mode: Some(mode), ..self }
    }

    /// In a process of its own for each case, with what its mode needs.
    pub(crate) fn in_fresh_child(self, name: &'static str) -> Contender {
        let environment = self.mode.map_or(Vec::new as fn() -> _, |mode| mode.environment);
        self.in_child(Mode { name, environment, is_fresh: true })
    }

    /// A contender that this case has to do without.
    pub(crate) fn left_out(family: &'static str, reason: String) -> Contender {
        Contender { family, mode: None, part: Part::LeftOut(reason) }
    }

    /// Whether this is one of several modes: that of a contender which has but one is called as it.
    pub(crate) fn is_mode(&self) -> bool {
        self.mode.is_some_and(|mode| mode.name != self.family)
    }

    /// The name in rows: the family, and the mode behind `@`.
    pub(crate) fn name(&self) -> String {
        match self.mode.filter(|_| self.is_mode()) {
            Some(mode) => format!("{}@{}", self.family, mode.name),
            None => self.family.to_owned(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    pub(crate) environment: fn() -> Vec<(&'static str, String)>,
    /// Whether each case has a process of its own, which starts with one thread.
    pub(crate) is_fresh: bool,
}
