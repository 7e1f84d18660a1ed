//! The program whose steps are counted.

use core::ptr::NonNull;
use std::sync::{Arc, Barrier};
use std::thread;

use sheaves::raw::{Cache, Options};
use sheaves::{Counter, rcu};

/// What is counted, in the order in which the program executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// What counting itself costs, which is subtracted from the others.
    Nothing,
    Alloc,
    Free,
    Add,
    Refill,
    Seal,
    Drain,
    GracePeriod,
}

impl Operation {
    pub(crate) const ALL: [Operation; 8] = [
        Operation::Nothing,
        Operation::Alloc,
        Operation::Free,
        Operation::Add,
        Operation::Refill,
        Operation::Seal,
        Operation::Drain,
        Operation::GracePeriod,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::Nothing => "nothing",
            Operation::Alloc => "alloc",
            Operation::Free => "free",
            Operation::Add => "add",
            Operation::Refill => "refill",
            Operation::Seal => "seal",
            Operation::Drain => "drain",
            Operation::GracePeriod => "grace period",
        }
    }

    /// It does the same with any number of slots.
    pub(crate) fn is_constant(self) -> bool {
        matches!(self, Operation::Alloc | Operation::Free | Operation::Add)
    }
}

/// The number of slots of a process, and its engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) is_rseq: bool,
    pub(crate) possible: usize,
    pub(crate) used: usize,
}

/// Tells a process that it is one of these: `rseq 1` and so on, with the number of slots in use.
const ROLE: &str = "SHEAVES_TEST_COSTS_ROLE";

impl Shape {
    pub(crate) fn of_environment() -> Option<Shape> {
        let role = std::env::var(ROLE).ok()?;
        let (engine, used) = role.split_once(' ')?;
        Some(Shape { is_rseq: engine == "rseq", possible: 0, used: used.parse().ok()? })
    }

    pub(crate) fn engine(self) -> &'static str {
        if self.is_rseq { "rseq" } else { "portable" }
    }

    /// The environment of the process.
    pub(crate) fn variables(self) -> [(&'static str, String); 6] {
        [
            (ROLE, format!("{} {}", self.engine(), self.used)),
            ("SHEAVES_ENGINE", if self.is_rseq { "rseq-cpu" } else { "portable" }.into()),
            ("SHEAVES_SLOTS", self.possible.to_string()),
            // A hardened process takes slow paths, which are not what is counted here.
            ("SHEAVES_HARDEN", "0".into()),
            // No threads of the library, which would take steps of an operation or add some.
            ("SHEAVES_RCU_RECLAIMERS", "0".into()),
            ("SHEAVES_DECAY_MS", "-1".into()),
        ]
    }
}

static COUNTER: Counter = Counter::new();

/// More than two sheaves hold.
const OBJECTS: usize = 80;
/// What each thread allocates and frees, so that its slot holds a sheaf when it is drained.
const HELD: usize = 4;

/// Executes all operations, each one twice. It gives the turn to the process that counts before and
/// after each one, and at the end.
pub(crate) fn run(shape: Shape) {
    let cache = Arc::new(Cache::new("costs", layout(), Options::default()).expect("a cache"));
    let turn = Arc::new(Barrier::new(shape.used));
    // The first slot is this thread's.
    use_slot(shape, 0, &cache);
    for slot in 1..shape.used {
        let (cache, turn) = (Arc::clone(&cache), Arc::clone(&turn));
        thread::spawn(move || {
            loop {
                turn.wait();
                use_slot(shape, slot, &cache);
                turn.wait();
            }
        });
    }
    let mut world = World { shape, cache, turn, objects: Vec::with_capacity(OBJECTS) };
    for operation in Operation::ALL {
        // The first time is not counted: it finds what is used for the first time.
        for _ in 0..2 {
            world.prepare(operation);
            pause();
            world.execute(operation);
            pause();
            world.clear();
        }
    }
    pause();
}

fn layout() -> core::alloc::Layout {
    core::alloc::Layout::new::<[u8; 512]>()
}

fn pause() {
    // SAFETY: stops this process, which its tracer continues.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Uses a slot by the calling thread, which leaves free objects there, and a reader's record.
fn use_slot(shape: Shape, slot: usize, cache: &Cache) {
    if shape.is_rseq {
        bind(slot);
    }
    let objects: Vec<_> = (0..HELD).map(|_| cache.alloc().expect("memory")).collect();
    for object in objects {
        // SAFETY: allocated above, and not used.
        unsafe { cache.free(object) };
    }
    COUNTER.add(1);
    drop(rcu::read());
}

/// Binds the calling thread to a CPU.
pub(crate) fn bind(cpu: usize) {
    // SAFETY: an all-zero set is valid and empty.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: the caller's number is that of a CPU.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid for reads of its size.
    let status = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    assert_eq!(status, 0, "CPU {cpu}");
}

struct World {
    shape: Shape,
    cache: Arc<Cache>,
    turn: Arc<Barrier>,
    objects: Vec<NonNull<u8>>,
}

impl World {
    fn prepare(&mut self, operation: Operation) {
        match operation {
            Operation::Alloc => {
                // There is an object in the slot's sheaf.
                self.alloc(1);
                self.clear();
            }
            // There is room in the slot's sheaf.
            Operation::Free => self.alloc(2),
            Operation::Refill => {
                self.cache.shrink();
            }
            Operation::Seal => self.alloc(OBJECTS),
            Operation::Drain => {
                // Only the slots have objects then.
                assert!(self.cache.shrink());
                self.turn.wait();
                use_slot(self.shape, 0, &self.cache);
                self.turn.wait();
            }
            Operation::Nothing | Operation::Add | Operation::GracePeriod => {}
        }
    }

    fn execute(&mut self, operation: Operation) {
        match operation {
            Operation::Nothing => {}
            Operation::Alloc => self.alloc(1),
            Operation::Free => {
                let object = self.objects.pop().expect("prepared");
                // SAFETY: allocated by `alloc`, and not used.
                unsafe { self.cache.free(object) };
            }
            Operation::Add => COUNTER.add(1),
            Operation::Refill => self.alloc(OBJECTS),
            Operation::Seal => {
                for object in self.objects.drain(..) {
                    // SAFETY: as above.
                    unsafe { self.cache.free_rcu(object) };
                }
            }
            Operation::Drain => assert!(self.cache.shrink()),
            Operation::GracePeriod => rcu::synchronize().expect("outside of sections"),
        }
    }

    fn alloc(&mut self, count: usize) {
        self.objects.extend((0..count).map(|_| self.cache.alloc().expect("memory")));
    }

    fn clear(&mut self) {
        for object in self.objects.drain(..) {
            // SAFETY: as above.
            unsafe { self.cache.free(object) };
        }
    }
}
