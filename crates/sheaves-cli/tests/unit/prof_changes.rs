//! Tests of `src/prof/changes.rs`.

use super::*;
use crate::prof::dump::Dump;
use crate::prof::symbols::Symbols;

fn profile(sites: &str) -> Profile {
    let text = format!("sheaves heap profile 1\n{sites}end\n");
    Profile::of(Dump::parse(&text).unwrap(), Symbols::new(Vec::new()), "x".to_owned())
}

#[test]
fn leaks_have_grown_and_nothing_was_freed() {
    let before = profile(
        "site live malloc a 1 10 100 10 100 1\nsite live malloc b 1 10 100 10 100 2\n\
         site live malloc c 1 10 100 10 100 3\n",
    );
    let after = profile(
        "site live malloc a 1 15 150 15 150 1\nsite live malloc b 1 15 150 20 200 2\n\
         site live malloc c 1 5 50 10 100 3\nsite live large large 1 1 4000 1 4000 4\n",
    );
    let changes = Changes::between(&before, &after);
    let text = changes.text();
    assert!(text.starts_with("+4.0 KiB in all"), "{text}");
    assert!(text.contains("-50 B") && text.contains("-5 objects of c"), "{text}");
    assert!(text.contains("+1 object of large"), "{text}");
    let svg = String::from_utf8(changes.graph().unwrap()).unwrap();
    assert!(svg.contains("x: +4.0 KiB") && svg.contains("red has grown"), "{svg}");
    let leaks = changes.grown_and_never_freed();
    let found: Vec<_> = leaks.sites.iter().map(|(what, ..)| what.as_str()).collect();
    assert_eq!(found, ["large", "a"]);
    let svg = String::from_utf8(leaks.graph_of_growth().unwrap()).unwrap();
    assert!(svg.contains("[large]") && !svg.contains("[b]"), "{svg}");
}
