//! The exported symbols: the malloc family, `dlopen`, the registration of fork handlers, the ways
//! into a sandbox, the mark of the object, and nothing else.

use std::collections::BTreeSet;
use std::process::Command;

/// ISO C, POSIX and glibc.
const C: &str = "malloc free calloc realloc reallocarray posix_memalign aligned_alloc memalign \
                 valloc pvalloc malloc_usable_size malloc_trim malloc_stats malloc_info mallopt \
                 mallinfo mallinfo2 cfree free_sized free_aligned_sized malloc_size \
                 nallocx sdallocx";

/// glibc's second names.
const LIBC: &str = "__libc_malloc __libc_free __libc_cfree __libc_calloc __libc_realloc \
                    __libc_memalign __libc_valloc __libc_pvalloc __libc_mallinfo __libc_mallopt \
                    __posix_memalign";

/// `operator new` and `operator delete` in all forms.
const CXX: &str = "_Znwm _Znam _ZnwmRKSt9nothrow_t _ZnamRKSt9nothrow_t _ZnwmSt11align_val_t \
                   _ZnamSt11align_val_t _ZnwmSt11align_val_tRKSt9nothrow_t \
                   _ZnamSt11align_val_tRKSt9nothrow_t _ZdlPv _ZdaPv _ZdlPvm _ZdaPvm \
                   _ZdlPvRKSt9nothrow_t _ZdaPvRKSt9nothrow_t _ZdlPvSt11align_val_t \
                   _ZdaPvSt11align_val_t _ZdlPvmSt11align_val_t _ZdaPvmSt11align_val_t \
                   _ZdlPvSt11align_val_tRKSt9nothrow_t _ZdaPvSt11align_val_tRKSt9nothrow_t";

/// Symbols of the loader.
const LOADER: &str = "dlopen";

/// The function behind `pthread_atfork`.
const FORK: &str = "__register_atfork";

/// The functions by which a program enters a sandbox.
const SANDBOX: &str = "prctl syscall";

/// By this other copies of the library find the object.
const MARK: &str = "sheaves_preload_copy";

/// Output of `nm -D` with these options.
fn nm(options: &[&str]) -> String {
    let output = Command::new("nm").arg("-D").args(options).arg(crate::object()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn exactly_the_documented_symbols_are_exported() {
    let text = nm(&["--defined-only"]);
    let found: BTreeSet<&str> =
        text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let expected: BTreeSet<&str> = [C, LIBC, CXX, LOADER, FORK, SANDBOX, MARK]
        .iter()
        .flat_map(|names| names.split_whitespace())
        .collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let surplus: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing {missing:?}, surplus {surplus:?}");
}

/// The object must not call malloc through the dynamic linker, which would lead to itself.
#[test]
fn none_of_the_family_is_imported() {
    let text = nm(&["--undefined-only"]);
    let family: BTreeSet<&str> =
        [C, LIBC, CXX].iter().flat_map(|names| names.split_whitespace()).collect();
    for line in text.lines() {
        let name = line.split_whitespace().last().unwrap_or("");
        let name = name.split('@').next().unwrap_or("");
        assert!(!family.contains(name), "{name} is imported");
    }
}

/// Every operator that the C++ library defines must be defined here, too.
#[test]
fn every_operator_of_the_c_plus_plus_library_is_replaced() {
    let output = Command::new("g++").arg("-print-file-name=libstdc++.so.6").output();
    let Ok(output) = output else {
        println!("g++ is not here");
        return;
    };
    let library = String::from_utf8(output.stdout).unwrap();
    let output = Command::new("nm").args(["-D", "--defined-only", library.trim()]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let expected: BTreeSet<&str> = CXX.split_whitespace().collect();
    for line in text.lines() {
        let name = line.split_whitespace().nth(2).unwrap_or("").split('@').next().unwrap_or("");
        let is_operator = ["_Znw", "_Zna", "_ZdlPv", "_ZdaPv"];
        if is_operator.iter().any(|prefix| name.starts_with(prefix)) {
            assert!(expected.contains(name), "{name} is not replaced");
        }
    }
}
