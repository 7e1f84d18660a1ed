//! `sheaves run` and `sheaves doctor` of programs that bring an allocator or a sanitizer, or whose
//! libraries do.

use std::path::PathBuf;
use std::process::Command;

use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::{contains, ends_with};
use tempfile::TempDir;

use crate::real_object::sheaves_as_installed;
use crate::refusals::{assert_names, directory, executable, one_line};
use crate::stand_in::{gcc, sheaves, sheaves_run};

/// A folder in which programs are built.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(directory())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Builds NAME.c, or NAME.cpp, as `name`; `None` where the compiler or the linker refuses.
    fn try_build(&self, name: &str, source: &str, flags: &[&str]) -> Option<String> {
        let file = self.path(if source.contains("operator new") { "main.cpp" } else { "main.c" });
        std::fs::write(&file, source).expect("written");
        let program = self.path(name);
        let mut arguments = vec!["-o", &program, "-O0", "-w", &file];
        arguments.extend(flags);
        gcc(arguments).then_some(program)
    }

    #[track_caller]
    fn build(&self, name: &str, source: &str, flags: &[&str]) -> String {
        self.try_build(name, source, flags).expect("compiles")
    }
}

/// A program that allocates; its exit status is 5.
const MAIN: &str = "#include <stdlib.h>\nint main(void) { free(malloc(10)); return 5; }\n";
/// A `malloc` that never frees.
const OWN_MALLOC: &str = "static char heap[1 << 20]; static unsigned long used;\n\
     void *malloc(unsigned long n) { n = (n + 31) / 16 * 16; return heap + (used += n) - n; }\n\
     void free(void *block) {}\nint main(void) { free(malloc(10)); return 5; }\n";

/// The line of a program's refusal. The doctor says the same.
#[track_caller]
fn refusal(program: &str) -> String {
    let line = one_line(&mut sheaves_run([program]), 126);
    let said = line.trim_start_matches("sheaves: ").trim_end().to_owned();
    let all = contains("FAIL  program").and(contains(said));
    sheaves().args(["doctor", program]).assert().code(1).stdout(all);
    line
}

/// The line that warns of a program, which runs all the same. The doctor says the same.
#[track_caller]
fn warning(program: &str) -> String {
    let line = one_line(&mut sheaves_run([program]), 5);
    let said = line.strip_prefix("sheaves: warning: ").expect("a warning");
    let (found, advice) = said.trim_end().rsplit_once(": ").expect("advice");
    let (found, advice) = (contains(found.split(": ").next().unwrap_or(found)), contains(advice));
    let all = contains("WARN  program").and(found).and(advice);
    sheaves().args(["doctor", program]).assert().success().stdout(all);
    line
}

#[track_caller]
fn runs_silently(program: &str) {
    sheaves_run([program]).assert().code(5).stdout("").stderr("");
    let fine = contains(format!("{program} can run on Sheaves"));
    sheaves().args(["doctor", program]).assert().success().stdout(fine);
}

const SANITIZERS: [(&str, &str, &str); 3] = [
    ("-fsanitize=address", "-static-libasan", "AddressSanitizer"),
    ("-fsanitize=leak", "-static-liblsan", "LeakSanitizer"),
    ("-fsanitize=thread", "-static-libtsan", "ThreadSanitizer"),
];

#[test]
fn sanitizers_are_refused() {
    let folder = Folder::new();
    for (kind, is_static, name) in SANITIZERS {
        for flags in [&[kind][..], &[kind, is_static], &[kind, is_static, "-s"]] {
            let Some(program) = folder.try_build("program", MAIN, flags) else {
                eprintln!("skipped: gcc has no runtime for {flags:?}");
                continue;
            };
            // Of one that is stripped it is known that it has one.
            let name = if flags.contains(&"-s") { "has a sanitizer" } else { name };
            let words = [program.as_str(), name, "start it without `sheaves run`", "-fsanitize"];
            assert_names(&refusal(&program), &words);
        }
    }
}

#[test]
fn sanitizers_without_a_malloc_are_none_of_them() {
    let folder = Folder::new();
    for flags in [&["-fsanitize=undefined"][..], &["-fsanitize=undefined", "-static-libubsan"]] {
        match folder.try_build("program", MAIN, flags) {
            Some(program) => runs_silently(&program),
            None => eprintln!("skipped: gcc has no runtime for {flags:?}"),
        }
    }
}

#[test]
fn sanitizer_that_is_preloaded_is_refused() {
    let output = Command::new("gcc").arg("-print-file-name=libasan.so").output().expect("gcc runs");
    let library = PathBuf::from(String::from_utf8(output.stdout).expect("UTF-8").trim());
    if !library.is_file() {
        eprintln!("skipped: gcc has no runtime of AddressSanitizer");
        return;
    }
    let line = one_line(sheaves_run(["true"]).env("LD_PRELOAD", &library), 126);
    assert_names(&line, &["AddressSanitizer", "libasan.so"]);
}

#[test]
fn programs_with_their_own_malloc_keep_it_and_say_so() {
    let folder = Folder::new();
    // Exported, since libc defines it, too.
    let own = folder.build("own", OWN_MALLOC, &[]);
    assert_names(&warning(&own), &["own does not run on Sheaves: it has its own malloc and free"]);
    let named = folder.build("named", &(OWN_MALLOC.to_owned() + "void mallocx(void) {}"), &[]);
    assert_names(&warning(&named), &["malloc and free (jemalloc)"]);
    // A wrapper of libc's: its blocks come from the heap of Sheaves in the end.
    let wraps = "void *__libc_malloc(unsigned long);\n\
                 void *malloc(unsigned long n) { return __libc_malloc(n); }\n\
                 void free(void *);\nint main(void) { free(malloc(10)); return 5; }\n";
    assert_names(&warning(&folder.build("wraps", wraps, &[])), &["takes free from Sheaves"]);
    // The greeting of the real object does not claim otherwise.
    let mut run = sheaves_as_installed();
    let said = contains("sheaves: own does not run on Sheaves 0.1.0 (engine ")
        .and(ends_with("); malloc is that of own; free is that of own\n"));
    run.args(["run", "--verbose", &own]).assert().code(5).stderr(said);
}

#[test]
fn malloc_that_a_program_keeps_to_itself_is_found() {
    let folder = Folder::new();
    let hidden = ["-fvisibility=hidden"];
    let line = warning(&folder.build("hidden", OWN_MALLOC, &hidden));
    assert_names(&line, &["hidden has a malloc of its own linked into it", "frees blocks of one"]);
    let jemalloc = "void *_rjem_malloc(unsigned long n) { return 0; }\nint main() { return 5; }";
    for flags in [&[][..], &hidden, &["-rdynamic"]] {
        let line = warning(&folder.build("rjem", jemalloc, flags));
        assert_names(&line, &["has jemalloc linked into it", "malloc and free are Sheaves'"]);
    }
}

#[test]
fn operator_new_of_a_program_is_named_by_the_greeting() {
    let folder = Folder::new();
    let source = "#include <cstdlib>\n#include <new>\n\
                  void *operator new(std::size_t n) { return malloc(n); }\n\
                  void operator delete(void *block) noexcept { free(block); }\n\
                  int main() { delete new int; return 5; }\n";
    let program = folder.build("news", source, &["-lstdc++"]);
    runs_silently(&program);
    let said = contains("sheaves: news runs on Sheaves 0.1.0 (engine ")
        .and(ends_with("); operator new is that of news\n"));
    let mut run = sheaves_as_installed();
    run.args(["run", "--verbose", &program]).assert().code(5).stderr(said);
}

/// A program at fixed addresses that takes the address of `malloc` has a stub of that name.
#[test]
fn stub_of_a_program_is_not_its_own_malloc() {
    let folder = Folder::new();
    let source = "#include <stdlib.h>\nint main(void) {\n\
                  void *(*volatile alloc)(size_t) = malloc; void (*volatile drop)(void *) = free;\n\
                  drop(alloc(10)); return 5; }\n";
    let program = folder.build("stub", source, &["-no-pie", "-fno-pic"]);
    runs_silently(&program);
    let said = contains("sheaves: stub runs on Sheaves").and(ends_with(")\n"));
    let mut run = sheaves_as_installed();
    run.args(["run", "--verbose", &program]).assert().code(5).stderr(said);
}

/// The search finds libraries as the dynamic linker does: in a folder that only the program, or
/// only the library between them, or only the environment names.
#[test]
fn libraries_are_looked_at() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("lib")).expect("made");
    let shared = ["-shared", "-fPIC"];
    let asan = OWN_MALLOC.replace("int main(", "int __asan_init(");
    let lib = folder.path("lib");
    folder.build("lib/libruntime.so", &asan, &shared);
    let (search, deep) = (format!("-L{lib}"), "-Wl,-rpath,$ORIGIN");
    let between = "int __asan_init(void);\nint between(void) { return __asan_init(); }\n";
    folder.build("lib/libdeep.so", between, &["-shared", "-fPIC", &search, "-lruntime", deep]);
    folder.build("lib/libplain.so", between, &["-shared", "-fPIC", &search, "-lruntime"]);
    let main = "int between(void);\nint main(void) { return between(); }\n";
    let build = |name: &str, library: &str, rpath: &[&str]| {
        let mut flags = vec![search.as_str(), library, "-Wl,--allow-shlib-undefined"];
        flags.extend(rpath);
        folder.build(name, main, &flags)
    };
    let runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib";
    let rpath = "-Wl,--disable-new-dtags,-rpath,$ORIGIN/lib";
    let words = ["has AddressSanitizer", "lib/libruntime.so"];
    assert_names(&refusal(&build("runpath", "-ldeep", &[runpath])), &words);
    // The older kind of path holds for libraries of libraries, too.
    assert_names(&refusal(&build("rpath", "-lplain", &[rpath])), &words);
    let nowhere = build("nowhere", "-lplain", &[runpath]);
    let without = sheaves_run([&nowhere]).output().expect("runs");
    assert_eq!(without.status.code(), Some(127), "the dynamic linker does not find it");
    let line = one_line(sheaves_run([&nowhere]).env("LD_LIBRARY_PATH", &lib), 126);
    assert_names(&line, &words);
    // Under another name, and by a script.
    let script = executable(&folder.0, "script", &format!("#!{}\n", folder.path("runpath")));
    assert_names(&refusal(&script), &words);
}

#[test]
fn malloc_of_a_library_is_not_used() {
    let folder = Folder::new();
    let own = OWN_MALLOC.replace("int main(", "int other(");
    let (shared, here) = (["-shared", "-fPIC"], format!("-L{}", folder.0.path().display()));
    folder.build("libown.so", &own, &shared);
    folder.build("libje.so", &(own + "void *mallocx(long n) { return heap; }\n"), &shared);
    let flags = |name: &'static str| {
        ["-Wl,--no-as-needed,-rpath,$ORIGIN", &here, name].map(|flag| flag.to_owned())
    };
    let build = |name: &str, source: &str, library: &'static str| {
        let flags = flags(library);
        folder.build(name, source, &flags.each_ref().map(String::as_str))
    };
    let program = build("program", MAIN, "-lown");
    runs_silently(&program);
    runs_silently(&build("links", MAIN, "-lje"));
    let said = contains("sheaves: program runs on Sheaves").and(ends_with(")\n"));
    let mut run = sheaves_as_installed();
    run.args(["run", "--verbose", &program]).assert().code(5).stderr(said);
    let uses = MAIN.replace("return 5", "mallocx(10); return 5");
    let line = warning(&build("uses", &uses, "-lje"));
    assert_names(&line, &["uses the heap of", "libje.so (mallocx)", "frees blocks of one"]);
}
