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
