use super::*;

#[test]
fn lists_keep_their_order() {
    let mut heads = [const { Head::new() }; 6];
    let (mut list, mut rest) = (List::new(), List::new());
    for (number, head) in heads.iter_mut().enumerate() {
        assert!(head.claim(8));
        let list = if number < 3 { &mut list } else { &mut rest };
        // SAFETY: valid, claimed, on no list.
        unsafe { list.push(head, 1) };
    }
    list.append(List::new());
    list.append(rest);
    let mut all = List::new();
    all.append(list);
    assert_eq!((all.count, all.bytes), (6, 6));
    for head in &heads {
        assert_eq!(all.pop().map(|found| found.cast_const()), Some(&raw const *head));
    }
    assert!(all.is_empty() && all.pop().is_none());
}

#[test]
fn heads_are_linked_while_others_wait() {
    let mut heads = [const { Head::new() }; 8];
    let mut linked = Heads::new();
    for head in &mut heads {
        assert!(head.claim(8));
        // SAFETY: valid, claimed, on no list.
        let (cookie, ..) = unsafe { linked.push(head, 1) };
        // Other threads of this process may complete grace periods, too.
        cookie.start_expedited();
    }
    crate::synchronize().unwrap();
    assert!(linked.has_ready() && linked.counts() == (heads.len(), heads.len()));
    for head in &heads {
        let (found, bytes) = linked.pop_ready().unwrap();
        assert_eq!((found.cast_const(), bytes), (&raw const *head, 1));
    }
    assert!(!linked.has_ready() && linked.pop_ready().is_none());
    pressure::note_reclaimed(heads.len(), heads.len());
}
