//! `process`.

use sheaves_sys::process::*;

#[test]
#[cfg(target_env = "gnu")]
fn the_program_is_this_one() {
    let this = std::env::current_exe().unwrap();
    let program = std::path::PathBuf::from(program().unwrap().to_str().unwrap());
    assert_eq!(program.file_name(), this.file_name());
}

#[test]
fn kernel_files_are_read() {
    let mut buffer = [0_u8; 64];
    assert!(read_file(c"/proc/self/stat", &mut buffer).unwrap() > 0);
    assert!(read_file(c"/nowhere/at/all", &mut buffer).is_none());
    assert_ne!(random_seed(), 0);
}
