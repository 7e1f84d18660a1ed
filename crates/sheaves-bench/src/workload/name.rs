//! Names of workloads: `TABLE/SIZE`, with a variant before the size (`batch/shuffled/64`), and
//! without a size where sizes are mixed (`replace/2t`).

use super::Table;
use crate::failure::Failure;

/// Puts a name together.
pub(crate) fn join(part: &str, variant: &str, size: Option<usize>) -> String {
    let mut name = part.to_owned();
    if !variant.is_empty() {
        name.push('/');
        name.push_str(variant);
    }
    if let Some(size) = size {
        name.push('/');
        name.push_str(&size.to_string());
    }
    name
}

/// A name taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// The part before the first slash: a table, or a timed part of one (`batch-alloc`).
    pub(crate) part: String,
    /// What stands between part and size; empty if nothing does.
    pub(crate) variant: String,
    /// The size in bytes.
    pub(crate) size: Option<usize>,
}

impl Name {
    /// Takes a name apart.
    pub(crate) fn parse(name: &str) -> Name {
        let (part, rest) = name.split_once('/').unwrap_or((name, ""));
        let (variant, last) = rest.rsplit_once('/').unwrap_or(("", rest));
        // A slabtest variant may be a bare number as well, but then a size follows it.
        match last.parse() {
            Ok(size) => Name { part: part.into(), variant: variant.into(), size: Some(size) },
            Err(_) => Name { part: part.into(), variant: rest.into(), size: None },
        }
    }
}

/// What the command line asks for: a whole table, one variant, or one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// The table.
    pub(crate) table: Table,
    /// Only workloads whose name starts with these parts.
    prefix: String,
}

impl Request {
    /// Reads `TABLE`, `TABLE/VARIANT` or `TABLE/VARIANT/SIZE`.
    pub(crate) fn parse(text: &str) -> Result<Request, Failure> {
        let first = text.split('/').next().unwrap_or(text);
        let Some(table) = Table::named(first) else {
            return Err(Failure::usage(format!(
                "unknown table '{text}' (there are: {})",
                tables()
            )));
        };
        Ok(Request { table, prefix: text.trim_end_matches('/').to_owned() })
    }

    /// Whether the workload of this name is asked for.
    pub(crate) fn admits(&self, name: &str) -> bool {
        name.strip_prefix(&self.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// The names of all tables, for messages.
pub(crate) fn tables() -> String {
    Table::ALL.map(Table::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_apart_as_they_were_joined() {
        for (part, variant, size) in [
            ("pair", "", Some(64)),
            ("batch", "shuffled", Some(64)),
            ("remote", "1to1", Some(16384)),
            ("replace", "2t", None),
            ("slabtest", "2", Some(64)),
            ("slabtest", "1-alloc", Some(8)),
        ] {
            let name = Name { part: part.into(), variant: variant.into(), size };
            assert_eq!(Name::parse(&join(part, variant, size)), name);
        }
        assert_eq!(Name::parse("pair").size, None);
    }

    #[test]
    fn requests_may_name_a_part_of_a_table() {
        let whole = Request::parse("batch").unwrap();
        assert!(whole.admits("batch/shuffled/64"));
        let variant = Request::parse("batch/shuffled").unwrap();
        assert!(variant.admits("batch/shuffled/64") && !variant.admits("batch/inorder/64"));
        let single = Request::parse("pair/8").unwrap();
        assert!(single.admits("pair/8") && !single.admits("pair/8192"));
    }

    #[test]
    fn an_unknown_table_is_a_usage_error() {
        for text in ["nonsense", "", "/", "pairs/64"] {
            let failure = Request::parse(text).unwrap_err();
            assert_eq!(failure.status, 2);
            assert!(failure.message.contains("slabtest") && !failure.message.contains('\n'));
        }
    }
}
