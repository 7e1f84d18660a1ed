//! Tests of `src/vm/cpio.rs`.

use std::fs;
use std::os::unix::fs::symlink;

use super::*;

/// Mode, name and contents of each entry, read as the kernel reads them.
fn entries(mut archive: &[u8]) -> Vec<(u32, String, Vec<u8>)> {
    let mut found = Vec::new();
    while !archive.is_empty() {
        let (header, rest) = archive.split_at(110);
        assert_eq!(&header[..6], b"070701");
        let field = |index: usize| {
            let digits = core::str::from_utf8(&header[6 + 8 * index..][..8]).unwrap();
            u32::from_str_radix(digits, 16).unwrap()
        };
        let (mode, bytes, name_bytes) = (field(1), field(6) as usize, field(11) as usize);
        let (name, rest) = rest.split_at(name_bytes + padding(110 + name_bytes));
        let (contents, rest) = rest.split_at(bytes + padding(bytes));
        assert!(name[name_bytes - 1..].iter().chain(&contents[bytes..]).all(|byte| *byte == 0));
        let name = String::from_utf8(name[..name_bytes - 1].to_vec()).unwrap();
        found.push((mode, name, contents[..bytes].to_vec()));
        archive = rest;
    }
    found
}

#[test]
fn folders_files_and_links_are_stored() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir(tree.path().join("bin")).unwrap();
    fs::write(tree.path().join("bin/one"), "12345").unwrap();
    symlink("one", tree.path().join("bin/two")).unwrap();
    let mut bytes = Vec::new();
    let mut archive = Archive::new(&mut bytes);
    archive.add_folder(tree.path(), tree.path()).unwrap();
    archive.add_program("init", b"#!/bin/sh\n").unwrap();
    archive.finish().unwrap();
    let found = entries(&bytes);
    let kinds: Vec<_> =
        found.iter().map(|(mode, name, _)| (mode & 0o170_000, name.as_str())).collect();
    let expected = [
        (IS_FOLDER, "bin"),
        (IS_FILE, "bin/one"),
        (IS_LINK, "bin/two"),
        (IS_FILE, "init"),
        (0, "TRAILER!!!"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!((found[1].2.as_slice(), found[2].2.as_slice()), (&b"12345"[..], &b"one"[..]));
    assert_eq!(found[3].0, IS_FILE | 0o755);
}
