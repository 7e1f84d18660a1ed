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
        let text = text.trim_end_matches('/');
        let (first, rest) = text.split_once('/').unwrap_or((text, ""));
        // Where rows do not begin with the name of their table, it may be given or not.
        let parts = |table: &Table| table.row_parts();
        if let Some(table) = Table::named(first).filter(|table| !parts(table).contains(&first)) {
            return Ok(Request { table, prefix: rest.to_owned() });
        }
        let Some(table) = Table::ALL.into_iter().find(|table| parts(table).contains(&first)) else {
            return Err(Failure::usage(format!(
                "unknown table '{text}' (there are: {})",
                tables()
            )));
        };
        Ok(Request { table, prefix: text.to_owned() })
    }

    /// Whether more than a table, or a pattern of one, is asked for.
    pub(crate) fn names_a_variant(&self) -> bool {
        self.prefix.contains('/')
    }

    /// Whether the workload of this name is asked for.
    pub(crate) fn admits(&self, name: &str) -> bool {
        self.prefix.is_empty()
            || name
                .strip_prefix(&self.prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
            ("tc", "64k-zeroed-8", Some(1_000_000)),
            ("concurrent", "2t", None),
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
    fn patterns_may_be_named_with_their_table_or_without() {
        for text in ["percpu/tc/64k", "tc/64k", "tc/64k/"] {
            let request = Request::parse(text).unwrap();
            assert_eq!(request.table, Table::Percpu);
            assert!(request.admits("tc/64k/1000") && !request.admits("tc/64k-zeroed-8/1000"));
        }
        let whole = Request::parse("percpu").unwrap();
        assert!(whole.admits("tc/64k/1000") && whole.admits("concurrent/2t"));
        assert!(!Request::parse("tc").unwrap().admits("tc-packed/64k/1000"));
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
