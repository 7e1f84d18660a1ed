//! How installed files are replaced.

use std::fs::{self, File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use xtask::install::replace_all;

/// What a program sees of a file that it has open, or mapped, must stay: the kernel ends programs
/// whose mapped files become shorter.
#[test]
fn files_in_use_keep_what_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let write = |version: &str, names: &[&str]| {
        for name in names {
            let path = from.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(&path, format!("{version} {name}")).expect("written");
        }
    };
    let names = ["lib/sheaves/object.so", "bin/command", "lib/libx.so.0.1"];
    write("old, which is longer:", &names);
    let mode = |path: &Path| path.symlink_metadata().expect("there").permissions().mode() & 0o777;
    fs::set_permissions(from.join("bin/command"), Permissions::from_mode(0o751)).expect("changed");
    symlink("libx.so.0.0", from.join("lib/libx.so")).expect("linked");
    replace_all(&from, &to).expect("installed");
    assert_eq!(fs::read_link(to.join("lib/libx.so")).expect("a link"), Path::new("libx.so.0.0"));
    let other = to.join("lib/of-another-package");
    fs::write(&other, "kept").expect("written");

    let open = |name: &&str| File::open(to.join(name)).expect("opened");
    let held: Vec<File> = names.iter().map(open).collect();
    write("new:", &names);
    fs::remove_file(from.join("lib/libx.so")).expect("removed");
    symlink("libx.so.0.1", from.join("lib/libx.so")).expect("linked");
    replace_all(&from, &to).expect("installed again");

    for (name, mut file) in names.iter().zip(held) {
        let mut text = String::new();
        file.read_to_string(&mut text).expect("read");
        assert_eq!(text, format!("old, which is longer: {name}"));
        assert_eq!(fs::read_to_string(to.join(name)).expect("read"), format!("new: {name}"));
        assert_eq!(file.metadata().expect("open").nlink(), 0, "{name}");
    }
    assert_eq!(mode(&to.join("bin/command")), 0o751);
    assert_eq!(fs::read_link(to.join("lib/libx.so")).expect("a link"), Path::new("libx.so.0.1"));
    assert_eq!(fs::read_to_string(other).expect("read"), "kept");
    // Nothing else is left in any folder.
    let count = |name: &str| fs::read_dir(to.join(name)).expect("a folder").count();
    assert_eq!([count(""), count("bin"), count("lib"), count("lib/sheaves")], [2, 1, 4, 1]);
}

#[test]
fn what_cannot_be_replaced_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir_all(&from).expect("made");
    fs::create_dir_all(to.join("name/below")).expect("made");
    fs::write(from.join("name"), "a file").expect("written");
    let error = replace_all(&from, &to).expect_err("a folder has the name");
    assert!(error.to_string().ends_with("to/name"), "{error}");
    assert_eq!(fs::read_dir(&to).expect("a folder").count(), 1, "nothing new is left");
}
