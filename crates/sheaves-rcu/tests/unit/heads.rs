//! Tests of private items of `heads`.

use super::*;
use crate::Cookie;

#[test]
fn a_head_is_queued_once() {
    let head = Head::new();
    assert!(head.claim(16));
    assert!(!head.claim(16) && is_queued(&head));
    assert_eq!(head.finish(), Some(16));
    assert!(!is_queued(&head));
    assert_eq!(head.finish(), None);
    assert!(head.claim(32));
}

fn push(list: &mut Heads, heads: &mut [Head], bytes: usize) {
    for head in heads {
        assert!(head.claim(8));
        let cookie = Cookie::get();
        // SAFETY: valid, claimed, on no list.
        unsafe { list.push(head, bytes, cookie.to_bits(), completed()) };
        // Other threads of this process may complete grace periods, too.
        cookie.start_expedited();
    }
}

fn completed() -> u64 {
    Cookie::passed().to_bits()
}

fn pop(list: &mut Heads, heads: &[Head], bytes: usize) {
    for head in heads {
        let (found, share) = list.pop_ready(completed()).unwrap();
        assert_eq!((found.cast_const(), share), (&raw const *head, bytes));
    }
}

/// All heads, and their bytes.
fn counts(list: &Heads) -> (usize, usize) {
    let all = || list.waiting.iter().chain([&list.ready]);
    (all().map(|count| count.heads).sum(), all().map(|count| count.bytes).sum())
}

#[test]
fn lists_keep_their_order() {
    let mut heads = [const { Head::new() }; 6];
    let mut list = Heads::new();
    assert!(list.ready(completed()) == 0 && list.pop_ready(completed()).is_none());
    let (first, rest) = heads.split_at_mut(3);
    push(&mut list, first, 4);
    crate::synchronize().unwrap();
    assert_eq!(list.ready(completed()), 3);
    pop(&mut list, &first[..1], 4);
    push(&mut list, rest, 4);
    assert_eq!(counts(&list), (5, 20));
    crate::synchronize().unwrap();
    pop(&mut list, &heads[1..], 4);
    assert!(list.ready(completed()) == 0 && list.pop_ready(completed()).is_none());
    assert!(list.first.is_null() && list.last.is_null());
    assert_eq!(counts(&list), (0, 0));
}

#[test]
fn heads_are_linked_while_others_wait() {
    let mut heads = [const { Head::new() }; 8];
    let mut linked = Heads::new();
    push(&mut linked, &mut heads, 1);
    crate::synchronize().unwrap();
    assert!(
        linked.ready(completed()) == heads.len() && counts(&linked) == (heads.len(), heads.len())
    );
    pop(&mut linked, &heads, 1);
    assert!(linked.ready(completed()) == 0 && linked.pop_ready(completed()).is_none());
}
