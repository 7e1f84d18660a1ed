use super::*;

#[test]
fn layouts_get_aligned_classes() {
    for shift in 0..=15 {
        for size in (0..=SMALL_BYTES_MAX).step_by(7) {
            let class = of_layout(size, 1 << shift).unwrap();
            let bytes = SIZES[class] as usize;
            assert!(bytes >= size && is_aligned(class, 1 << shift));
        }
    }
    assert!(of_layout(1, 1 << 16).is_none());
    assert!(of_layout(SMALL_BYTES_MAX + 1, 8).is_none());
}

#[test]
fn the_smallest_class_that_fits_is_taken() {
    let sizes = (0..SMALL_BYTES_MAX).step_by(7).chain((0..=MIDDLE_BYTES_MAX + 1).step_by(997));
    for (size, shift) in sizes.flat_map(|size| (0..=21).map(move |shift| (size, shift))) {
        let fits = |class: &usize| SIZES[*class] as usize >= size && is_aligned(*class, 1 << shift);
        let smallest = (0..CLASSES).filter(fits).min_by_key(|class| SIZES[*class]);
        let bytes = |class: usize| SIZES[class];
        let align = 1 << shift;
        let class = of_layout(size, align).or_else(|| of_middle(size, align));
        assert_eq!(class.map(bytes), smallest.map(bytes), "{size} {shift}");
    }
}

/// As a tool closes them. Without options, which would leave one closed.
#[test]
fn fast_paths_are_opened_by_the_next_call() {
    let layout = core::alloc::Layout::new::<u64>();
    let use_one = || {
        let block = crate::malloc::alloc_layout(layout);
        // SAFETY: from this heap with this layout, and not used after.
        unsafe { crate::malloc::dealloc_layout(block, layout) };
    };
    let limits = || {
        let [of_malloc, of_layouts] = [&TABLE.fast_bytes_end, &TABLE.layout_bytes_end];
        [of_malloc, of_layouts].map(|limit| limit.load(Ordering::SeqCst))
    };
    use_one();
    if checking::is_hardened() {
        assert_eq!(limits()[1], 0);
        return;
    }
    let open = [SMALL_BYTES_MAX + 1; 2];
    assert_eq!(limits(), open);
    TABLE.fast_bytes_end.store(0, Ordering::SeqCst);
    TABLE.layout_bytes_end.store(0, Ordering::SeqCst);
    use_one();
    assert_eq!(limits(), open);
    assert_eq!(closing_words() + 8, (&raw const TABLE.layout_bytes_end).addr());
}

#[test]
fn closing_words_are_behind_a_mark() {
    let begin = closing_words() + 16 - size_of_val(&CLOSING_WORDS_IN_FILE);
    let mark = core::ptr::with_exposed_provenance::<u64>(begin);
    (&raw const TABLE).expose_provenance();
    // SAFETY: in the static that has the words, constant, and aligned as they are.
    assert_eq!(unsafe { mark.read() }, CLOSING_WORDS_IN_FILE[0]);
}
