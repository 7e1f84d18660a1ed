//! Workloads that are measured in several ways at once: a row for each measure, named by what is
//! added to the first part of the workload's name.

use super::{Job, bulk, dispose, name, synchronize};

/// What is added to the first part of the name, and the unit.
pub(crate) type Measure = (&'static str, &'static str);

/// A row of such a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Measured {
    /// The workload.
    pub(crate) workload: String,
    /// Place of the measure among those of the table.
    pub(crate) index: usize,
    /// Its unit.
    pub(crate) unit: &'static str,
}

/// The workload and the measure of a row, if it is one of these.
pub(crate) fn of_row(row: &str) -> Option<Measured> {
    synchronize::measured(row)
        .or_else(|| find(row, &[dispose::PART], &dispose::MEASURES))
        .or_else(|| find(row, &[bulk::PART], &bulk::MEASURES))
}

/// The same in one table, whose workloads begin with one of `parts`.
pub(crate) fn find(row: &str, parts: &[&str], measures: &[Measure]) -> Option<Measured> {
    let (first, rest) = row.split_once('/').map_or((row, None), |(part, rest)| (part, Some(rest)));
    let mut places = measures.iter().enumerate();
    places.find_map(|(index, (suffix, unit))| {
        let part = first.strip_suffix(suffix).filter(|part| parts.contains(part))?;
        let workload = rest.map_or(part.to_owned(), |rest| format!("{part}/{rest}"));
        Some(Measured { workload, index, unit })
    })
}

/// The rows of a job whose variant stands behind the first part.
pub(crate) fn rows(part: &str, job: &Job, measures: &[Measure]) -> Vec<String> {
    let row = |(suffix, _): &Measure| name::join(&format!("{part}{suffix}"), &job.variant, None);
    measures.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Table;

    #[test]
    fn rows_lead_back_to_their_workload() {
        for table in [Table::Dispose, Table::Bulk, Table::Synchronize] {
            for job in table.jobs(&[], 2, true) {
                for (index, row) in job.rows().iter().enumerate() {
                    let measured = of_row(row).unwrap();
                    assert_eq!((measured.workload, measured.index), (job.name(), index));
                }
            }
        }
        assert_eq!(of_row("dispose-settled/1t").map(|row| row.unit), Some("ns"));
        assert_eq!(of_row("pair/64"), None);
    }
}
