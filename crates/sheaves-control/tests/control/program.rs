//! The programs that are asked. Each prints a line when it has begun, and ends when its standard
//! input does, or is killed.

use core::time::Duration;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The variable that says which program is to run.
pub(crate) const ROLE: &str = "SHEAVES_TEST_ROLE";

pub(crate) fn run(role: &str) {
    match role {
        "allocates" => {
            println!("begun");
            loop {
                allocate();
            }
        }
        "naps" => {
            println!("begun");
            nap_until_line();
        }
        "sleeps" => {
            println!("begun");
            allocate_for_a_second();
            wait_for_line();
        }
        "reads" => reads(),
        "forks_once" => forks_once(),
        "execs" => {
            println!("begun");
            nap_until_line();
            let error = Command::new("cat").exec();
            panic!("no exec: {error}");
        }
        "closes" => {
            println!("begun");
            nap_until_line();
            close_all();
            loop {
                // The library's thread finds out when it starts.
                start_thread();
                std::thread::sleep(Duration::from_millis(2500));
            }
        }
        "limits_descriptors" => {
            let limit = libc::rlimit { rlim_cur: 32, rlim_max: 32 };
            // SAFETY: the limit is valid.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
            // The page is made when a program is loaded.
            let own = std::env::current_exe().expect("a path");
            let error = Command::new(own).env(ROLE, "allocates").exec();
            panic!("no exec: {error}");
        }
        "sandboxes" => sandboxes(),
        "storm" => storm(),
        other => panic!("no program is named {other}"),
    }
}

/// Takes slow paths.
fn allocate() {
    let blocks: Vec<_> = (0..2000_usize).map(|size| vec![1_u8; 16 + size % 500]).collect();
    assert!(core::hint::black_box(blocks).iter().all(|block| block[0] == 1));
}

/// Something is deferred, for which the library has a thread.
fn start_thread() {
    sheaves::rcu::defer(|| ());
}

fn wait_for_line() {
    let mut byte = [0];
    let _ = std::io::stdin().read(&mut byte);
}

/// Allocates now and then.
fn nap_until_line() {
    let mut input = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    while unsafe { libc::poll(&raw mut input, 1, 5) } == 0 {
        allocate();
    }
}

fn allocate_for_a_second() {
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(1) {
        allocate();
    }
}

fn close_all() {
    // SAFETY: nothing of this program is open above standard error.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// A thread is in two sections, and the program naps.
fn reads() {
    let reader = || {
        let _sections = (sheaves::rcu::read(), sheaves::rcu::read());
        // SAFETY: no precondition.
        println!("{}", unsafe { libc::gettid() });
        loop {
            std::thread::park();
        }
    };
    std::thread::Builder::new().name("reader".into()).spawn(reader).expect("a thread");
    nap_until_line();
}

fn forks_once() {
    let parent = std::process::id();
    // SAFETY: there is one thread.
    let child = unsafe { libc::fork() };
    if child != 0 {
        println!("{child}");
    }
    // SAFETY: no precondition.
    while child != 0 || unsafe { libc::getppid() }.cast_unsigned() == parent {
        allocate();
    }
}

/// Makes `getpid` deadly, which an answer needs.
fn sandboxes() {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let code = |code: u32, if_true, if_false, k: u32| libc::sock_filter {
        code: code as u16,
        jt: if_true,
        jf: if_false,
        k,
    };
    let mut filter = [
        code(load, 0, 0, 0),
        code(equals, 0, 1, libc::SYS_getpid as u32),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        code(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (mode, program) = (libc::SECCOMP_MODE_FILTER, &raw const program);
    start_thread();
    sheaves::heap::before_sandbox();
    // SAFETY: integers only.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program is valid.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, program) }, 0);
    allocate_for_a_second();
    println!("alive");
    nap_until_line();
}

/// Eight threads allocate, and one forks.
fn storm() {
    for _ in 0..8 {
        std::thread::spawn(|| {
            loop {
                allocate();
            }
        });
    }
    std::thread::spawn(|| {
        loop {
            // SAFETY: the child calls what may be called in a process of one thread.
            let child = unsafe { libc::fork() };
            if child == 0 {
                allocate();
                // SAFETY: no precondition.
                unsafe { libc::_exit(0) };
            }
            // SAFETY: a null pointer asks for no status.
            unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    println!("begun");
    wait_for_line();
}
