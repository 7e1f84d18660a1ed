//! Tests of `src/header/pages.rs`.

use super::*;

#[test]
fn declarations_of_the_header_are_found() {
    let header = "\
/* About a size.
 *
 * More. */
SHEAVES_API SHEAVES_MUST_USE SHEAVES_MALLOC void *sheaves_malloc(size_t size);
#define SHEAVES_WITHOUT 1

// One of two.
#define SHEAVES_ONE 1
#define SHEAVES_TWO 2

// A call.
typedef void (*sheaves_call)(struct sheaves_head *head);

// A pair.
typedef struct sheaves_pair {
// First.
int one;
} sheaves_pair;

// Not for users.
extern int sheaves_hidden;

// With a call.
SHEAVES_API
int sheaves_both(int one,
             void (*call)(int, int));
";
    let items = items_of(header);
    let names: Vec<_> = items.iter().map(|item| item.names.join(" ")).collect();
    let wanted = [
        "sheaves_malloc",
        "SHEAVES_ONE SHEAVES_TWO",
        "sheaves_call",
        "sheaves_pair",
        "sheaves_both",
    ];
    assert_eq!(names, wanted);
    assert_eq!(items[0].words, ["About a size.", "", "More."]);
    assert_eq!(signature(&items[0]).unwrap(), ("void *".into(), vec!["size_t size".into()]));
    let arguments = vec!["int one".into(), "void (*call)(int, int)".into()];
    assert_eq!(signature(&items[4]).unwrap(), ("int".into(), arguments));
}

#[test]
fn text_is_escaped_for_roff() {
    assert_eq!(prose(&["A. B".into(), "".into(), ".c \\n".into()]), "A.\nB\n.Pp\n\\&.c \\en\n");
}
