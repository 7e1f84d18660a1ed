//! The page about the fast paths: cutting, counting, and what is the same in every build.

use std::path::Path;
use std::process::Command;

use xtask::disasm::fast_path::FAST_PATHS;
use xtask::disasm::hot_path::{End, HotPath};
use xtask::disasm::listing::Function;
use xtask::disasm::{cut_out, page};

/// Output of `objdump` for a pop with a slow path, a loop and padding.
const LISTING: &str = "\
Disassembly of section .text:

0000000000001000 <other>:
    1000:\tret

0000000000001010 <pop>:
    1010:\tmov    rcx,QWORD PTR fs:0xffffffffffffffe0
    1019:\tlea    rax,[rip+0x3b4c9]        # 42f10 <table+0x40>
    1020:\tmov    rax,QWORD PTR [rip+0x1000]        # 2000 <cell::h0123456789abcdef>
    1027:\ttest   al,0x1
    1029:\tjne    1040 <pop+0x30>
    102b:\tjmp    1030 <pop+0x20>
    102d:\tud2
    1030:\tlock cmpxchg QWORD PTR [rdi],rax
    1035:\tje     1050 <pop+0x40>
    1037:\tcall   3000 <slow::h0123456789abcdef>
    103c:\tjmp    1010 <pop>
    1040:\tjmp    3000 <slow::h0123456789abcdef>
    1050:\tret
    1051:\tnop
    1052:\txchg   ax,ax

0000000000001060 <forward>:
    1060:\tmov    edi,0x1
    1065:\tjmp    3000 <slow::h0123456789abcdef>
";

#[test]
fn hot_path_takes_the_side_that_returns() {
    let function = Function::find(LISTING, "pop").expect("pop is in the listing");
    assert_eq!(function.instructions.len(), 13, "padding is cut");
    let path = HotPath::of(&function);
    assert_eq!(path.end, End::Return);
    // The first jump falls through; below the second there is only a call.
    assert_eq!(path.indexes, [0, 1, 2, 3, 4, 5, 7, 8, 12]);
    let counts = path.counts(&function);
    assert_eq!(counts.instructions, 9);
    assert_eq!(counts.memory, 3, "two loads and the exchange; lea is no access");
    assert_eq!((counts.branches, counts.calls, counts.locked), (2, 0, 1));
}

#[test]
fn function_without_a_return_is_counted_to_its_end() {
    let function = Function::find(LISTING, "forward").expect("forward is in the listing");
    let path = HotPath::of(&function);
    assert_eq!((path.end.clone(), path.indexes.len()), (End::Elsewhere, 2));
    assert_eq!(path.counts(&function).calls, 1);
}

#[test]
fn text_holds_no_address() {
    let function = Function::find(LISTING, "pop").expect("pop is in the listing");
    let text: Vec<_> = function.instructions.iter().map(|one| one.text()).collect();
    assert_eq!(text[0], "mov     rcx,QWORD PTR fs:[thread-local]");
    assert_eq!(text[1], "lea     rax,[static]");
    assert_eq!(text[2], "mov     rax,QWORD PTR [cell]");
    assert_eq!(text[4], "jne     .3");
    assert_eq!(text[7], "lock cmpxchg QWORD PTR [rdi],rax");
    assert_eq!(text[9], "call    slow");
    assert_eq!(text[11], "jmp     slow");
}

#[test]
fn missing_function_is_an_error() {
    let error = cut_out(LISTING).expect_err("the listing has no fast path").to_string();
    assert!(error.contains(FAST_PATHS[0].symbol), "{error}");
}

#[test]
fn stale_counts_are_reported() {
    let function = Function::find(LISTING, "pop").expect("pop is in the listing");
    let page_of = |function: &Function, toolchain: &str| {
        page::write(&[(FAST_PATHS[0], function.clone())], toolchain)
    };
    let fresh = page_of(&function, "rustc 2");
    assert!(page::stale_rows(&page_of(&function, "rustc 1"), &fresh).is_empty());
    let mut longer = function.clone();
    longer.instructions.insert(1, longer.instructions[1].clone());
    let stale = page::stale_rows(&page_of(&longer, "rustc 2"), &fresh);
    assert_eq!(stale.len(), 2, "{stale:?}");
    assert!(stale[0].starts_with("the page says") && stale[1].starts_with("the build has"));
    assert_eq!(page::stale_rows("", &fresh).len(), 3, "an empty page is stale");
}

/// A replacement for the example: six functions with the symbols of the fast paths.
fn stand_in() -> String {
    let mut source = String::from("use std::hint::black_box;\nstatic mut WORD: u64 = 7;\n");
    let mut calls = String::new();
    // A different constant keeps the compiler from merging them.
    for (path, number) in FAST_PATHS.into_iter().zip(1..) {
        let name = path.symbol;
        source.push_str(&format!(
            "#[inline(never)]\n#[unsafe(no_mangle)]\n\
             pub extern \"C\" fn {name}(a: u64) -> u64 {{\n    \
             let word = unsafe {{ WORD }};\n    if word & 1 == 0 {{ return slow(a); }}\n    \
             word + a + {number}\n}}\n"
        ));
        calls.push_str(&format!("    black_box({name} as extern \"C\" fn(u64) -> u64);\n"));
    }
    source.push_str("#[cold]\n#[inline(never)]\nfn slow(a: u64) -> u64 { black_box(a) / 3 }\n");
    source.push_str(&format!("fn main() {{\n    unsafe {{ WORD = black_box(1) }};\n{calls}}}\n"));
    source
}

#[test]
fn page_of_a_real_executable() {
    if Command::new("objdump").arg("--version").output().is_err() || !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: needs objdump for x86-64");
        return;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, executable) = (folder.join("fast_paths.rs"), folder.join("fast_paths"));
    std::fs::write(&source, stand_in()).expect("source is written");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let arguments = ["--edition=2024", "-O", "-o"];
    let status = Command::new(rustc).args(arguments).arg(&executable).arg(&source).status();
    assert!(status.expect("rustc runs").success());

    let root = folder.join("root");
    std::fs::create_dir_all(root.join("docs")).expect("folder is made");
    let run = |check| xtask::disasm::run(&root, check, Some(executable.clone()));
    run(false).expect("the page is written");
    let page = std::fs::read_to_string(root.join(xtask::disasm::PAGE)).expect("the page is there");
    for path in FAST_PATHS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}`", path.symbol)));
        let row = row.expect("each fast path has a row");
        // Load, test, jump, add, return, give or take one move; no call and no lock.
        let counts: Vec<usize> =
            row.split('|').filter_map(|cell| cell.trim().parse().ok()).collect();
        assert!((4..=7).contains(&counts[0]), "{row}");
        assert_eq!(counts[1..], [1, 1, 0, 0], "{row}");
    }
    run(true).expect("a page just written is fresh");
    let stale = page.replace("| 1 | 1 | 0 | 0 |", "| 1 | 2 | 0 | 0 |");
    std::fs::write(root.join(xtask::disasm::PAGE), stale).expect("the page is written");
    run(true).expect_err("a changed count is stale");
}
