//! The work of a child: it uses everything, both what it inherited and new objects.

use core::sync::atomic::Ordering;

use sheaves::raw::Cache;
use sheaves::rcu::{Cookie, RcuBox, Srcu, defer, read};
use sheaves::{Counter, PerCpuRef, heap};

use crate::kinds::Kind;
use crate::memory;
use crate::watch::{self, enter, limit};
use crate::work::{self, Dice, Map, Own, check};
use crate::world::World;

/// State that the forking thread makes before it forks: parent and child each find it unchanged.
pub(crate) struct Inherited {
    blocks: Vec<Own>,
    objects: [Vec<Own>; 3],
    boxed: RcuBox<[u64; 4]>,
    count: PerCpuRef,
    cookie: Cookie,
    counter: Counter,
    map: Map,
}

impl Inherited {
    pub(crate) fn new(world: &World, dice: &mut Dice) -> Inherited {
        let inherited = Inherited {
            blocks: work::blocks(dice, 200),
            objects: [0, 1, 2].map(|cache| work::objects(&world.caches[cache], 100)),
            boxed: memory::unlimited(|| RcuBox::new([7; 4])),
            count: PerCpuRef::new(|| {}),
            cookie: Cookie::get(),
            counter: Counter::new(),
            map: Map::default(),
        };
        check(inherited.count.try_get());
        inherited.counter.add(5);
        memory::unlimited(|| {
            inherited.map.insert(1, 2, &read());
        });
        inherited
    }

    /// Checks everything and frees it.
    pub(crate) fn end(self, world: &World) {
        work::free_blocks(self.blocks);
        for (cache, objects) in self.objects.into_iter().enumerate() {
            work::free_objects(&world.caches[cache], objects);
        }
        check(*self.boxed == [7; 4]);
        check(self.count.kill() == Ok(true) && !self.count.is_released());
        self.count.put();
        check(self.count.is_released());
        check(self.counter.sum() == 5);
        self.counter.add(1);
        check(self.counter.sum() == 6);
        check(self.map.get(&1, &read()) == Some(&2));
        work::fill_and_empty(&self.map, 2, 500);
        check(self.cookie.wait().is_ok());
    }
}

/// Uses everything, and exits.
pub(crate) fn run(kind: Kind, world: &'static World, inherited: Inherited, dice: &mut Dice) -> ! {
    watch::begin_child();
    if !kind.has_handlers() {
        watch::may_be_refused();
    }
    if memory::may_fail() {
        enter(c"without memory");
        use_everything(world, dice);
        memory::succeed();
    }
    enter(c"inherited");
    inherited.end(world);
    enter(c"references");
    end_and_begin(kind, &world.lonely);
    if watch::generation() == 1 {
        destroy(&world.single);
        destroy(&world.doomed);
    }
    use_everything(world, dice);
    if watch::generation() == 1 {
        enter(c"child of the child");
        let inherited = Inherited::new(world, dice);
        let child = kind.fork();
        if child == 0 {
            run(kind, world, inherited, dice);
        }
        check(child > 0);
        match watch::wait_for(child, limit().mul_f64(0.6)) {
            Ok(()) => inherited.end(world),
            Err(why) => {
                eprintln!("the child of the child: {why}");
                check(false);
            }
        }
        if kind.has_handlers() {
            // They have the stacks of threads that are not in the child.
            enter(c"threads");
            use_threads();
            enter(c"futures");
            work::futures();
        }
    }
    destroy(&world.caches);
    enter(c"end");
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(0) };
}

/// Kills a count and reinitialises it. Where no handler has run, another thread may have been doing
/// that: then the count is left unchanged.
fn end_and_begin(kind: Kind, count: &PerCpuRef) {
    if kind.has_handlers() {
        return work::end_and_begin(count);
    }
    check(count.kill().is_ok());
    let has_begun = count.reinit().is_ok();
    check(!has_begun || count.try_get_live());
    if has_begun {
        count.put();
        work::end_and_begin(count);
    }
}

fn use_everything(world: &World, dice: &mut Dice) {
    // Many caches: one of them gets the number of a cache that another thread was destroying.
    enter(c"caches");
    work::caches(dice, 24);
    enter(c"per-CPU objects");
    work::percpu(300);
    work::handles(dice, 40);
    enter(c"the heap");
    work::heap(dice, 2000);
    enter(c"inherited caches");
    for cache in &world.caches {
        let objects = work::objects(cache, 500);
        work::free_objects(cache, objects);
        let _ = (cache.shrink(), cache.stats());
    }
    enter(c"defer");
    work::defers(300);
    defer::flush();
    defer::reclaim();
    enter(c"grace periods");
    work::waits();
    enter(c"futures");
    work::futures();
    enter(c"SRCU");
    work::domain(&world.domain);
    if let Some(domain) = work::got(Srcu::new().ok()) {
        work::domain(&domain);
    }
    enter(c"references");
    work::references();
    if world.shared.try_get_live() {
        world.shared.put();
    }
    check(world.shared.kill().is_ok());
    enter(c"counters");
    work::counter(&world.counter);
    check(world.counter.sum().abs() < i64::MAX / 2);
    // Relaxed: a count.
    world.value.get()[1].fetch_add(1, Ordering::Relaxed);
    enter(c"a map");
    work::fill_and_empty(&Map::default(), 0, 500);
    // Other threads were changing it, with these keys.
    work::fill_and_empty(&world.map, 900, 2500);
    world.map.retain(|key, _| key % 2 == 0);
    check(world.map.iter(&read()).all(|(key, value)| key % 2 == 0 && *value == !key));
    world.map.clear();
    check(world.map.iter(&read()).count() == 0);
    let _ = world.option.load(&read());
    drop(world.option.store(3));
    enter(c"trim");
    work::trims();
    enter(c"the heap, again");
    work::heap(dice, 500);
}

/// Destroys caches that other threads were using: objects that these held stay allocated for ever.
fn destroy(caches: &[Cache]) {
    enter(c"destroy");
    for cache in caches {
        // SAFETY: a copy of the handle; this process does not use the other one any more.
        let handle = unsafe { core::ptr::from_ref(cache).read() };
        // An error has the cache, which is leaked with it.
        drop(handle.destroy());
    }
}

fn use_threads() {
    work::in_threads(3, |seed| {
        let mut dice = Dice::new(seed);
        work::heap(&mut dice, 300);
        work::caches(&mut dice, 4);
        work::defers(50);
        work::waits();
        work::percpu(20);
    });
    heap::trim(0);
}
