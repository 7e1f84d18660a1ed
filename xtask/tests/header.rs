//! The committed C header is what the source makes.

use xtask::{header, repo};

#[test]
fn committed_header_is_not_stale() {
    header::run(repo::root(), true).unwrap();
}
