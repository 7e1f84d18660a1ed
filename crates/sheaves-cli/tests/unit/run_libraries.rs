//! Tests of `src/run/libraries.rs`.

use super::*;

#[test]
fn lists_of_folders_have_an_origin_and_may_have_empty_words() {
    let list = |text: &str| folders(OsStr::new(text), b":", Some(Path::new("/opt/x/bin")));
    assert_eq!(list(""), Vec::<PathBuf>::new());
    let paths = ["/opt/x/bin/../lib", "/opt/x/bin", "/usr/lib", "."].map(PathBuf::from);
    assert_eq!(list("$ORIGIN/../lib:${ORIGIN}:/usr/lib:"), paths);
}

#[test]
fn cache_of_this_machine_knows_libc() {
    let Ok(bytes) = fs::read(CACHE) else {
        eprintln!("skipped: there is no {CACHE}");
        return;
    };
    let files = cached(&bytes);
    let libc = files.get(&b"libc.so.6"[..]).expect("known");
    assert!(libc.iter().any(|path| path.is_file()), "{libc:?}");
}

#[test]
fn damaged_cache_is_no_panic() {
    let Ok(bytes) = fs::read(CACHE) else { return };
    for length in (0..bytes.len().min(400)).chain([bytes.len() / 2]) {
        cached(&bytes[..length]);
    }
    for at in 0..bytes.len().min(400) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xff;
        cached(&bytes);
    }
}

#[test]
fn libraries_of_this_test_are_found_once_in_the_order_of_search() {
    let path = env::current_exe().expect("a path");
    let facts = Facts::read(&path).expect("an ELF file");
    let mut start = [0; 64];
    File::open(&path).expect("opened").read_exact(&mut start).expect("read");
    let target = Target::of_start(&start).expect("ELF");
    let objects = of(&path, facts, target, OsStr::new("libm.so.6:/nonexistent/x.so"));
    let names = objects.iter().filter_map(|object| object.path.file_name()?.to_str());
    let names: Vec<_> = names.collect();
    assert!(names[1].starts_with("libm"), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("libc.so")).count(), 1, "{names:?}");
}
