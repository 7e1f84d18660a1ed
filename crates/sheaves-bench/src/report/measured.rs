//! The tables of workloads that are measured in several ways at once: one for each workload, a line
//! for each contender, a column for each measure.

use super::text::{align_numbers, new_table, number};
use super::{Report, Row};
use crate::workload::measures::Measured;

/// How a measure is printed: the head of its column, and what the figure is divided by.
pub(super) type Column = (&'static str, f64);

/// One of the tables: rows, each with the place of its measure.
struct Own<'report> {
    workload: String,
    columns: Vec<Column>,
    rows: Vec<(&'report Row, usize)>,
}

/// The tables of the workloads whose rows `find` knows, with what follows the name of each.
pub(super) fn tables(
    report: &Report,
    find: impl Fn(&str) -> Option<(Measured, Vec<Column>)>,
    label: impl Fn(&str) -> String,
) -> String {
    let mut tables: Vec<Own<'_>> = Vec::new();
    for row in &report.rows {
        let Some((of, columns)) = find(&row.workload) else { continue };
        let own = (row, of.index);
        match tables.iter_mut().find(|table| table.workload == of.workload) {
            Some(table) => table.rows.push(own),
            None => tables.push(Own { workload: of.workload, columns, rows: vec![own] }),
        }
    }
    let text = |Own { workload, columns, rows }: &Own<'_>| {
        format!("\n{workload}{}\n{}\n", label(workload), table_of(rows, columns))
    };
    tables.iter().map(text).collect()
}

fn table_of(rows: &[(&Row, usize)], columns: &[Column]) -> comfy_table::Table {
    let mut contenders: Vec<&str> = Vec::new();
    for (row, _) in rows {
        if !contenders.contains(&row.contender.as_str()) {
            contenders.push(&row.contender);
        }
    }
    let mut table = new_table();
    let heads = columns.iter().map(|(head, _)| *head);
    table.set_header(core::iter::once("").chain(heads).collect::<Vec<_>>());
    for contender in contenders {
        let cell = |(index, (_, scale)): (usize, &Column)| {
            let own = |(row, at): &&(&Row, usize)| row.contender == contender && *at == index;
            rows.iter().find(own).map_or("-".to_owned(), |(row, _)| number(row.median / scale))
        };
        let cells = columns.iter().enumerate().map(cell);
        table.add_row(core::iter::once(contender.to_owned()).chain(cells).collect::<Vec<_>>());
    }
    align_numbers(&mut table, 1);
    table
}
