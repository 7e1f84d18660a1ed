//! Invalid values of options: one line, and the default.

use sheaves_heap::{free, malloc, report};
use sheaves_percpu::internal::{EngineMode, facts, mode};

use crate::End::GoesOn;

const PORTABLE: (&str, &str) = ("SHEAVES_ENGINE", "portable");

/// The heap works, and debug mode is off.
fn works() {
    let blocks: Vec<_> = (0..1000).map(|size| malloc(size)).collect();
    for block in blocks {
        assert!(!block.is_null());
        // SAFETY: from this heap.
        unsafe { free(block) };
    }
    let block = malloc(17);
    // SAFETY: from this heap. Only debug mode reports exactly the requested size.
    assert_eq!(unsafe { sheaves_heap::usable_size(block) }, 32);
    // SAFETY: from this heap.
    unsafe { free(block) };
    assert_eq!(report::totals().used_bytes, 0);
}

crate::cases! {
    engine_unknown [("SHEAVES_ENGINE", "warp")],
    GoesOn(&["SHEAVES_ENGINE=warp is ignored: expected one of "]) => {
        works();
    }
    engine_empty [("SHEAVES_ENGINE", "")], GoesOn(&[]) => {
        works();
    }
    engine_in_capitals [("SHEAVES_ENGINE", "PORTABLE")],
    GoesOn(&["SHEAVES_ENGINE=PORTABLE is ignored"]) => {
        works();
    }
    slots_none [PORTABLE, ("SHEAVES_SLOTS", "0")],
    GoesOn(&["SHEAVES_SLOTS=0 is ignored: expected a number from 1 to 8192"]) => {
        works();
        assert!(facts().slots >= 1);
    }
    slots_negative [PORTABLE, ("SHEAVES_SLOTS", "-1")],
    GoesOn(&["SHEAVES_SLOTS=-1 is ignored: expected a number from 1 to 8192"]) => {
        works();
    }
    slots_too_many [PORTABLE, ("SHEAVES_SLOTS", "8193")],
    GoesOn(&["SHEAVES_SLOTS=8193 is ignored: expected a number from 1 to 8192"]) => {
        works();
    }
    slots_beyond_numbers [PORTABLE, ("SHEAVES_SLOTS", "99999999999999999999999")],
    GoesOn(&["SHEAVES_SLOTS=99999999999999999999999 is ignored"]) => {
        works();
    }
    slots_a_word [PORTABLE, ("SHEAVES_SLOTS", "many")], GoesOn(&["SHEAVES_SLOTS=many is"]) => {
        works();
    }
    debug_unknown [("SHEAVES_DEBUG", "perhaps")],
    GoesOn(&["SHEAVES_DEBUG=perhaps is ignored: expected one of 1, true, "]) => {
        works();
    }
    limit_a_word [("SHEAVES_LIMIT", "lots")],
    GoesOn(&["SHEAVES_LIMIT=lots is ignored: expected auto, bytes such as 512M "]) => {
        works();
    }
    limit_too_small [("SHEAVES_LIMIT", "4096")], GoesOn(&["SHEAVES_LIMIT=4096 is ignored"]) => {
        works();
    }
    decay_negative [("SHEAVES_DECAY_MS", "-2")],
    GoesOn(&["SHEAVES_DECAY_MS=-2 is ignored: expected a number from 0 to 3600000, or -1"]) => {
        works();
    }
    /// A long value is truncated, so that the message stays one line.
    engine_very_long [("SHEAVES_ENGINE", LONG)], GoesOn(&["is ignored"]) => {
        works();
    }
    all_at_once [("SHEAVES_ENGINE", "x"), ("SHEAVES_RCU", "y"), ("SHEAVES_DEBUG", "z")],
    GoesOn(&["SHEAVES_DEBUG=z is", "SHEAVES_ENGINE=x is", "SHEAVES_RCU=y is"]) => {
        works();
    }
    /// Valid values print nothing.
    sensible [PORTABLE, ("SHEAVES_SLOTS", "8192"), ("SHEAVES_DEBUG", "off")], GoesOn(&[]) => {
        works();
        assert_eq!((mode(), facts().slots), (EngineMode::Portable, 8192));
    }
}

const LONG: &str = {
    static BYTES: [u8; 20_000] = [b'a'; 20_000];
    match core::str::from_utf8(&BYTES) {
        Ok(text) => text,
        Err(_) => "",
    }
};
