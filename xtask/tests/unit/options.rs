//! Tests of `src/options.rs`.

use super::*;

const TEXT: &str = "\
| variable | values | default | of | meaning |
|---|---|---|---|---|
| `SHEAVES_ONE` | `0`, `1` | `0` | memory | With `1` one thing. Otherwise none. |
| `SHEAVES_LONGER` | a path | none | preload | A file. |
| `SHEAVES_HIDDEN` | a number | none | internal | A number. |
";

#[test]
fn every_form_has_what_it_is_about() {
    let options = parse(TEXT).unwrap();
    let names: Vec<_> = options.iter().map(|option| option.name.as_str()).collect();
    assert_eq!(names, ["SHEAVES_ONE", "SHEAVES_LONGER", "SHEAVES_HIDDEN"]);
    let row = "| `SHEAVES_ONE` | `0`, `1` | `0` | all programs | With `1` one thing. \
               Otherwise none. |\n";
    let other = "| `SHEAVES_LONGER` | a path | none | the preload object | A file. |\n";
    let table = markdown(&options);
    assert!(table.contains(row) && table.contains(other), "{table}");
    assert!(!table.contains("HIDDEN"), "{table}");
    let wanted = ".Bl -tag -width SHEAVES_ONE\n.It Ev SHEAVES_ONE\nWith 1 one thing.\n\
                  Otherwise none.\nValues: 0, 1; default: 0.\n.El\n";
    assert_eq!(mdoc(&options, MEMORY), wanted);
    let wanted = " *   SHEAVES_ONE: 0, 1; default: 0\n *       With 1 one thing. Otherwise \
                  none.\n";
    assert_eq!(comment(&options), wanted);
    let page = command_page(&options);
    assert!(page.contains(".TP\n\\fBSHEAVES_LONGER\\fR\nA file.\n"), "{page}");
}

#[test]
fn a_row_that_is_not_one_is_refused() {
    assert!(parse("| `SHEAVES_ONE` | `0` | `0` | memory |\n").is_err());
    assert!(parse("| `SHEAVES_ONE` | `0` | `0` | nothing | A thing. |\n").is_err());
}
