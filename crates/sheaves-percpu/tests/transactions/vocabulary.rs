//! Each transaction separately: its effect, when it fails, and what it leaves unchanged.

use sheaves_percpu::internal::slots::{ALL, attach, prepare, set_source, take};
use sheaves_percpu::internal::{Cursor, EngineMode, Region, Word, mode, push_slow};
use sheaves_sys::membarrier::Reach;

use crate::fast;
use crate::numbers::{cmp_store, drain, is_sentinel, load, observe, pop_slow, vacant};
use crate::one_slot::{alone, on_one_slot};
use crate::sheaves::{ENTRIES, OBJECTS_MAX, Sheaf};

/// Stores `cursor` in the vacant word of the current slot.
fn install(word: Word, cursor: usize) -> bool {
    // SAFETY: VACANT is not the bootstrap cursor, and the test owns the sheaf.
    unsafe { cmp_store(word, vacant(), cursor) }
}

fn give(word: Word, object: usize) -> bool {
    // SAFETY: objects are plain numbers here.
    unsafe { push_slow(word, object) }
}

/// Empties a word in every slot; returns the values that it held.
fn taken(word: Word) -> Vec<usize> {
    let mut values = Vec::with_capacity(8192);
    assert!(drain(&[word], &mut |index, value| {
        assert_eq!(index, 0);
        values.push(value);
    }));
    values
}

#[test]
fn objects_come_back_in_reverse_order() {
    let _alone = alone();
    let word = Word::new(2);
    let (installed, pushed, popped) = on_one_slot(|| {
        taken(word);
        let installed = install(word, Sheaf::make());
        let pushed: Vec<_> = (1..=5).map(|number| give(word, 2 * number)).collect();
        let popped: Vec<_> = (0..6).map(|_| pop_slow(word)).collect();
        (installed, pushed, popped)
    });
    assert!(installed);
    assert_eq!(pushed, [true; 5]);
    assert_eq!(popped[..5], [10, 8, 6, 4, 2]);
    assert!(is_sentinel(popped[5]));
    taken(word);
}

#[test]
fn full_and_empty_sheaves_refuse_and_stay_as_they_are() {
    let _alone = alone();
    let word = Word::new(3);
    let (sheaf, pushed, full, after, popped, left) = on_one_slot(|| {
        taken(word);
        let sheaf = Sheaf::make();
        install(word, sheaf);
        let pushed = (1..ENTRIES).filter(|number| give(word, 2 * number)).count();
        let full = load(word);
        let after = (give(word, 4000), load(word));
        let popped: Vec<_> = (0..OBJECTS_MAX).map(|_| pop_slow(word)).collect();
        let refused = (pop_slow(word), pop_slow(word));
        (sheaf, pushed, full, after, popped, (refused, load(word)))
    });
    assert_eq!(pushed, OBJECTS_MAX);
    assert_eq!((full + 8) % 1024, 0);
    assert_eq!(after, (false, full));
    assert_eq!(popped, (1..ENTRIES).rev().map(|number| 2 * number).collect::<Vec<_>>());
    assert!(is_sentinel(left.0.0) && is_sentinel(left.0.1));
    assert_eq!(left.1, sheaf);
    taken(word);
}

#[test]
fn vacant_word_is_empty_and_full() {
    let _alone = alone();
    let word = Word::new(4);
    let (before, popped, pushed, after) = on_one_slot(|| {
        taken(word);
        (load(word), pop_slow(word), give(word, 2), load(word))
    });
    assert_eq!((before, after), (vacant(), vacant()));
    assert!(is_sentinel(popped));
    assert!(!pushed);
}

#[test]
fn fast_and_slow_forms_work_on_the_same_sheaf() {
    let _alone = alone();
    let word = Word::new(5);
    let (fast, slow, popped) = on_one_slot(|| {
        taken(word);
        install(word, Sheaf::make());
        // SAFETY: objects are plain numbers here.
        let fast = unsafe { fast::push(word, 2) };
        (fast, give(word, 4), [fast::pop(word), pop_slow(word), pop_slow(word)])
    });
    assert!(slow);
    if fast {
        assert_eq!(popped[..2], [4, 2]);
    } else {
        // The portable engine has no fast form: it always fails.
        assert!(is_sentinel(popped[0]));
        assert_eq!(popped[1], 4);
    }
    assert!(is_sentinel(popped[2]));
    taken(word);
}

/// Also after a drain, which stores the blocks again.
#[test]
fn source_is_the_first_word_or_the_second() {
    let _alone = alone();
    let words = [Word::new(8), Word::new(9)];
    let popped = on_one_slot(|| {
        words.iter().for_each(|word| drop(taken(*word)));
        assert!(words.iter().all(|word| install(*word, Sheaf::make())));
        assert!([10, 12, 14].iter().all(|one| give(words[0], *one) && give(words[1], one + 10)));
        let pop = |is_second| {
            set_source(is_second);
            let before = fast::pop_source(words[0]);
            taken(Word::new(10));
            [before, fast::pop_source(words[0]), fast::pop(words[0])]
        };
        [pop(true), pop(false)]
    });
    if mode() == EngineMode::Rseq {
        assert_eq!(popped, [[24, 22, 14], [12, 10, 1]]);
    } else {
        // The fast forms always fail.
        assert_eq!(popped, [[1; 3]; 2]);
    }
    words.iter().for_each(|word| drop(taken(*word)));
}

#[test]
fn exchange_compares_first() {
    let _alone = alone();
    let word = Word::new(6);
    let (refused, kept, done, now) = on_one_slot(|| {
        taken(word);
        install(word, 100);
        // SAFETY: the word holds numbers.
        let refused = unsafe { cmp_store(word, 102, 104) };
        let kept = load(word);
        // SAFETY: as above.
        (refused, kept, unsafe { cmp_store(word, 100, 104) }, load(word))
    });
    assert_eq!((refused, kept, done, now), (false, 100, true, 104));
    taken(word);
}

#[test]
fn words_do_not_touch_each_other() {
    let _alone = alone();
    let words = [20, 21, 22].map(Word::new);
    let (stored, seen) = on_one_slot(|| {
        words.iter().for_each(|word| {
            taken(*word);
        });
        install(words[0], 100);
        install(words[1], Sheaf::make());
        install(words[2], 300);
        give(words[1], 2);
        // SAFETY: the word holds a number, not the bootstrap cursor.
        (unsafe { cmp_store(words[2], 300, 301) }, words.map(load))
    });
    assert!(stored);
    assert_eq!((seen[0], seen[2]), (100, 301));
    assert_eq!(Sheaf::objects(seen[1]), [2]);
    words.iter().for_each(|word| assert_eq!(taken(*word).len(), 1));
}

#[test]
fn observing_takes_nothing() {
    let _alone = alone();
    let words = [8, 9].map(Word::new);
    let seen = on_one_slot(|| {
        words.iter().for_each(|word| {
            taken(*word);
        });
        install(words[1], 100);
        let mut seen = Vec::with_capacity(8192);
        for _ in 0..2 {
            observe(&words, &mut |index, value| seen.push((index, value)));
        }
        seen
    });
    assert_eq!(seen, [(1, 100), (1, 100)]);
    assert_eq!(taken(words[1]), [100]);
    assert_eq!(taken(words[1]), []);
}

#[test]
fn drained_sheaves_keep_their_words_and_cursors() {
    let _alone = alone();
    let words = [10, 11, 12].map(Word::new);
    let cursors = on_one_slot(|| {
        words.iter().for_each(|word| {
            taken(*word);
        });
        words.map(|word| (install(word, Sheaf::make()), give(word, 2), load(word)).2)
    });
    let (taken, is_complete) = take(&words, Reach::Interrupts, ALL);
    let mut found: Vec<_> = taken.map(|(index, cursor)| (index, cursor.bits())).collect();
    found.sort_unstable();
    assert!(is_complete);
    assert_eq!(found, cursors.into_iter().enumerate().collect::<Vec<_>>());
    assert_eq!(Sheaf::objects(found[2].1), [2]);
}

#[test]
fn prepared_words_begin_vacant() {
    let _alone = alone();
    assert!(attach());
    let region = Region::CACHES;
    prepare(region, 300);
    prepare(region, 10);
    prepare(Region::DEFERRED, 200);
    let deferred = (190..200).map(|index| Region::DEFERRED.word(index));
    for word in (256..300).map(|index| region.word(index)).chain(deferred) {
        let (before, installed) = on_one_slot(|| {
            taken(word);
            (load(word), install(word, 100))
        });
        assert_eq!((before, installed), (vacant(), true));
        assert_eq!(taken(word), [100]);
    }
    assert_ne!(Cursor::VACANT, Cursor::BOOTSTRAP);
}

#[test]
#[should_panic(expected = "1921 words of 1920")]
fn more_words_than_a_region_has_are_refused() {
    prepare(Region::CACHES, Region::CACHES.words() + 1);
}
