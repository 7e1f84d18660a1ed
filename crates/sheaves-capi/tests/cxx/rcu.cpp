// [saferecl.rcu] of C++26: each function is named by the paragraph that it tests. Then the classes.
// What must not compile is in mistakes.cpp. No test has a sentence that
// - says what RCU is for, or names something: general/1 and /2
// - lets the library do something: general/6, base/9, domain.members/6, domain.func/4 and /8
// - asks something of the program: base/2, base/8, domain.members/5, domain.func/7
// - says how long a domain lives, which has no members: domain.func/1, the first
// or is a note. Calls of lock and unlock by several threads (domain.members/2 and /8) are those of
// general/5, which ThreadSanitizer sees.
#include <sheaves/rcu>
#if defined(AS_STANDARD)
// The names come to std also where a header has included it before.
#define SHEAVES_RCU_IN_STD
#include <sheaves/rcu>
#include <sheaves/rcu>
namespace rcu = std;
#else
namespace rcu = sheaves;
#endif

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.hpp"

using rcu::rcu_barrier;
using rcu::rcu_default_domain;
using rcu::rcu_domain;
using rcu::rcu_obj_base;
using rcu::rcu_retire;
using rcu::rcu_synchronize;

namespace {

using region = std::scoped_lock<rcu_domain>;

struct node;
struct kill_node {
    std::atomic<int> *killed = nullptr;
    void operator()(node *n) const noexcept;
};
// Its storage stays: that it was reclaimed can be read.
struct node : rcu_obj_base<node, kill_node> {
    std::atomic<int> reclaimed{0};
    int value = 0;

    node() = default;
    node(const node &other) : rcu_obj_base(other), value(other.value) {}
    node &operator=(const node &other)
    {
        rcu_obj_base::operator=(other);
        return *this;
    }
};
void kill_node::operator()(node *n) const noexcept
{
    n->reclaimed++;
    if (killed)
        ++*killed;
}

// A function of the program's own, which argument-dependent lookup finds for its types.
template <class T> int base_of(T *);

struct plain : rcu_obj_base<plain> {
    static inline std::atomic<int> destroyed{0};
    ~plain() { destroyed++; }
};

void nap()
{
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

// The process ends by std::terminate in what is called.
template <class F> bool terminates(F f)
{
#if defined(IS_SANITIZED)
    (void)f;
    return true;
#else
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        const rlimit none{0, 0};
        setrlimit(RLIMIT_CORE, &none);
        std::set_terminate([] { std::_Exit(42); });
        alarm(20);
        f();
        std::_Exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 42;
#endif
}

// RCU does not provide mutual exclusion.
void general_1_regions_exclude_no_other()
{
    const region r(rcu_default_domain());

    std::thread([] { const region other(rcu_default_domain()); }).join();
}

// Nested locks and unlocks are paired: only the outermost unlock ends the outer region. A call of
// try_lock opens a region, too.
void general_3_and_4_and_domain_members_1_to_6_regions_nest(bool tries)
{
    std::atomic<int> killed{0};
    node n;

    if (tries)
        CHECK(rcu_default_domain().try_lock());
    else
        rcu_default_domain().lock();
    rcu_default_domain().lock();
    std::thread([&] { n.retire(kill_node{&killed}); }).join();
    rcu_default_domain().unlock();
    nap();
    CHECK(killed == 0);
    rcu_default_domain().unlock();
    rcu_barrier();
    CHECK(killed == 1);
}

// The end of a region that did not begin after the retirement comes before the evaluation.
void general_5_region_ends_before_evaluation()
{
    std::atomic<node *> current{new node};
    std::atomic<bool> is_over{false};
    std::atomic<long> reads{0};
    std::vector<std::thread> readers;
    std::vector<node *> all{current.load()};

    for (int i = 0; i < 2; i++)
        readers.emplace_back([&] {
            do {
                const region r(rcu_default_domain());
                const node *const n = current.load(std::memory_order_acquire);
                CHECK(n->reclaimed == 0);
                const int value = n->value;
                std::this_thread::yield();
                CHECK(n->reclaimed == 0 && n->value == value);
                reads++;
            } while (!is_over);
        });
    for (int i = 1; i <= 2000 || reads < 100; i++) {
        node *const made = new node;

        made->value = i;
        all.push_back(made);
        current.exchange(made)->retire();
    }
    is_over = true;
    for (std::thread &reader : readers)
        reader.join();
    rcu_barrier();
    for (const node *n : all) {
        CHECK(n->reclaimed == (n == current.load() ? 0 : 1));
        delete n;
    }
}

// Each scheduled evaluation is evaluated at most once, and may schedule another one.
void general_6_evaluations_happen_once()
{
    static std::atomic<int> calls;
    static node nodes[300];
    struct again {
        void operator()(int *left) const
        {
            calls++;
            if (--*left > 0)
                rcu_retire(left, again());
        }
    };
    std::atomic<int> killed{0};
    int left = 5;

    for (node &n : nodes)
        n.retire(kill_node{&killed});
    rcu_retire(&left, again());
    for (int i = 0; i < 6; i++)
        rcu_barrier();
    CHECK(killed == 300 && calls == 5);
    for (const node &n : nodes)
        CHECK(n.reclaimed == 1);
}

void syn_signatures_are_the_standard_ones()
{
    rcu_domain &(*domain)() noexcept = rcu_default_domain;
    void (*synchronize)(rcu_domain &) noexcept = rcu_synchronize;
    void (*barrier)(rcu_domain &) noexcept = rcu_barrier;
    void (*retire)(int *, std::default_delete<int>, rcu_domain &) = rcu_retire<int>;
    void (plain::*method)(std::default_delete<plain>, rcu_domain &) noexcept = &plain::retire;

    static_assert(!noexcept(rcu_retire(static_cast<int *>(nullptr))));
    CHECK(domain && synchronize && barrier && retire && method);
}

// Members of base/1.
static_assert(std::is_same_v<rcu_obj_base<plain>, rcu_obj_base<plain, std::default_delete<plain>>>);
static_assert(!std::is_default_constructible_v<rcu_obj_base<plain>>);
static_assert(!std::is_destructible_v<rcu_obj_base<plain>>);
static_assert(!std::is_copy_assignable_v<rcu_obj_base<plain>>);
static_assert(!std::is_move_assignable_v<rcu_obj_base<plain>>);
static_assert(std::is_default_constructible_v<plain> && std::is_copy_constructible_v<plain>);
static_assert(std::is_copy_assignable_v<plain> && std::is_move_assignable_v<plain>);

struct incomplete;
using base_of_incomplete = rcu_obj_base<incomplete>;
// T may be incomplete until a member is used.
struct incomplete : base_of_incomplete {
    static inline std::atomic<int> destroyed{0};
    ~incomplete() { destroyed++; }
};

void base_3_type_may_be_incomplete()
{
    (new incomplete)->retire();
    rcu_barrier();
    CHECK(incomplete::destroyed == 1);
}

struct by_pointer : rcu_obj_base<by_pointer, void (*)(by_pointer *)> {
    int left = 1;
};
struct by_function : rcu_obj_base<by_function, std::function<void(by_function *)>> {};
struct by_final;
struct final_deleter final {
    static inline std::atomic<int> calls{0};
    void operator()(by_final *) const { calls++; }
};
struct by_final : rcu_obj_base<by_final, final_deleter> {};
struct by_assigned;
// It cannot be copied, nor moved into a new one.
struct assigned {
    std::atomic<int> *calls = nullptr;

    assigned() = default;
    explicit assigned(std::atomic<int> *is) : calls(is) {}
    assigned &operator=(assigned &&other) noexcept
    {
        calls = std::exchange(other.calls, nullptr);
        return *this;
    }
    void operator()(by_assigned *) const { ++*calls; }
};
struct by_assigned : rcu_obj_base<by_assigned, assigned> {};

// Any function object is a deleter, also one that ends with the object.
void base_4_and_5_deleters_are_function_objects()
{
    static by_pointer with_pointer;
    static by_final with_final;
    static by_assigned with_assigned;
    std::atomic<int> calls{0};

    with_pointer.retire([](by_pointer *is) { is->left = 0; });
    with_final.retire();
    with_assigned.retire(assigned(&calls));
    (new by_function)->retire([&calls, guard = std::vector<int>(100, 7)](by_function *is) {
        delete is;
        calls += guard[99];
    });
    rcu_barrier();
    CHECK(with_pointer.left == 0 && final_deleter::calls == 1 && calls == 8);
}

static_assert(std::is_trivially_copyable_v<rcu_obj_base<plain>>);
static_assert(std::is_trivially_copyable_v<rcu_obj_base<node, kill_node>>);
static_assert(!std::is_trivially_copyable_v<rcu_obj_base<by_function,
                                                         std::function<void(by_function *)>>>);

struct copied : rcu_obj_base<copied> {
    int value = 3;
};
static_assert(std::is_trivially_copyable_v<copied> && sizeof(copied) <= 24);

// What was copied from a retired object is an object that was not retired.
void base_6_copies_may_be_retired()
{
    std::atomic<int> killed{0};
    node first;

    first.retire(kill_node{&killed});
    node second(first);
    second.retire(kill_node{&killed});
    rcu_barrier();
    node third(first), fourth;
    third.retire(kill_node{&killed});
    fourth = first;
    fourth.retire(kill_node{&killed});
    rcu_barrier();
    CHECK(killed == 4 && first.reclaimed == 1 && second.reclaimed == 1 && fourth.reclaimed == 1);
}

struct first_base {
    long before[3] = {};
    virtual ~first_base() = default;
};
struct derived;
struct kill_derived {
    derived **seen = nullptr;
    void operator()(derived *is) const;
};
struct derived : first_base, rcu_obj_base<derived, kill_derived> {
    derived *operator&() = delete;
};
void kill_derived::operator()(derived *is) const
{
    *seen = is;
}

// deleter = std::move(d); then deleter(addressof(x)), which is a T.
void base_9_deleter_takes_the_address_of_the_object()
{
    derived *seen = nullptr;
    const std::unique_ptr<derived> is(new derived);

    is->retire(kill_derived{&seen}, rcu_default_domain());
    rcu_barrier();
    CHECK(seen == is.get());
}

static_assert(!std::is_default_constructible_v<rcu_domain>);
static_assert(!std::is_copy_constructible_v<rcu_domain>);
static_assert(!std::is_move_constructible_v<rcu_domain>);
static_assert(!std::is_copy_assignable_v<rcu_domain>);
static_assert(!std::is_move_assignable_v<rcu_domain>);
static_assert(noexcept(rcu_default_domain().lock()) && noexcept(rcu_default_domain().try_lock())
              && noexcept(rcu_default_domain().unlock()));
static_assert(std::is_same_v<decltype(rcu_default_domain().try_lock()), bool>);

void domain_general_1_is_lockable()
{
    std::mutex other;
    const std::scoped_lock both(rcu_default_domain(), other);
    std::unique_lock<rcu_domain> lock(rcu_default_domain(), std::try_to_lock);

    CHECK(lock.owns_lock());
    lock.unlock();
    lock.lock();
}

void domain_members_4_try_lock_never_fails()
{
    for (int i = 0; i < 1000; i++)
        CHECK(rcu_default_domain().try_lock());
    for (int i = 0; i < 1000; i++)
        rcu_default_domain().unlock();
    rcu_synchronize();
}

void domain_func_1_domain_is_one()
{
    rcu_domain *other = nullptr;

    std::thread([&] { other = &rcu_default_domain(); }).join();
    CHECK(other == &rcu_default_domain());
}

void domain_func_2_and_3_synchronize_waits_for_regions()
{
    int closed = 0;
    std::atomic<bool> is_open{false}, is_waiting{false};
    std::thread reader([&] {
        const region r(rcu_default_domain());
        is_open = true;
        while (!is_waiting)
            std::this_thread::yield();
        nap();
        closed = 1;
    });

    while (!is_open)
        std::this_thread::yield();
    is_waiting = true;
    rcu_synchronize();
    // Not atomic: the unlock happens before the return.
    CHECK(closed == 1);
    reader.join();
    CHECK(terminates([] {
        const region r(rcu_default_domain());
        rcu_synchronize();
    }));
}

void domain_func_4_and_5_barrier_waits_for_evaluations()
{
    int seen = 0;

    for (int i = 0; i < 100; i++) {
        rcu_retire(&seen, [](int *is) { ++*is; });
        if (i % 10 == 0)
            std::thread([&] { rcu_retire(&seen, [](int *is) { ++*is; }, rcu_default_domain()); })
                .join();
    }
    rcu_barrier();
    CHECK(seen == 110);
    CHECK(terminates([] {
        static node n;
        const region r(rcu_default_domain());
        n.retire();
        rcu_barrier();
    }));
}

struct move_only {
    int *calls;
    explicit move_only(int *is) : calls(is) {}
    move_only(move_only &&other) noexcept : calls(std::exchange(other.calls, nullptr)) {}
    ~move_only() { calls = nullptr; }
    void operator()(const int *object) const { *calls += *object; }
};

struct counted_deleter {
    static inline std::atomic<int> alive{0};
    counted_deleter() { alive++; }
    counted_deleter(const counted_deleter &) { alive++; }
    ~counted_deleter() { alive--; }
    void operator()(long *is) const { delete is; }
};

// Only the deleter knows what it is: this file never does.
struct hidden;
struct close_hidden {
    void operator()(hidden *is) const { ++*reinterpret_cast<std::atomic<int> *>(is); }
};

void domain_func_6_type_may_be_incomplete()
{
    std::atomic<int> closed{0};

    rcu_retire(reinterpret_cast<hidden *>(&closed), close_hidden());
    rcu_barrier();
    CHECK(closed == 1);
}

void domain_func_8_retire_initialises_a_deleter()
{
    int calls = 0;
    static const int object = 5;

    rcu_retire(&object, move_only(&calls));
    rcu_retire(new long(3), counted_deleter());
    // A null pointer is a pointer.
    rcu_retire(static_cast<long *>(nullptr));
    rcu_barrier();
    CHECK(calls == 5 && counted_deleter::alive == 0);
    {
        const region r(rcu_default_domain());
        rcu_retire(new plain);
    }
    rcu_barrier();
}

#if defined(__cpp_exceptions)
struct throws_when_moved {
    int moves_left;
    explicit throws_when_moved(int left) : moves_left(left) {}
    throws_when_moved(throws_when_moved &&other) : moves_left(other.moves_left - 1)
    {
        if (moves_left < 0)
            throw 7;
    }
    void operator()(int *is) const { ++*is; }
};

struct thrown_by;
struct throws_when_called {
    template <class T> void operator()(T *) const { throw 7; }
};
struct thrown_by : rcu_obj_base<thrown_by, throws_when_called> {};

// Undefined, and the end of the program.
void base_9_and_domain_func_8_evaluations_that_throw()
{
    static thrown_by object;

    CHECK(terminates([] {
        object.retire();
        rcu_barrier();
    }));
    CHECK(terminates([] {
        rcu_retire(&object, throws_when_called());
        rcu_barrier();
    }));
}

// On an exception no evaluation is scheduled.
void domain_func_9_retire_throws()
{
    int calls = 0, caught = 0;

    for (int left = 0; left < 3; left++) {
        try {
            rcu_retire(&calls, throws_when_moved(left));
        } catch (int thrown) {
            CHECK(thrown == 7);
            caught++;
        }
    }
    rcu_barrier();
    CHECK(caught >= 1 && calls == 3 - caught);
}

void domain_func_9_retire_throws_bad_alloc()
{
#if !defined(IS_SANITIZED) && !defined(__SANITIZE_ADDRESS__)
    // valgrind needs memory of its own there.
    if (std::getenv("ON_VALGRIND") != nullptr)
        return;
    const pid_t child = fork();
    int status = 0;

    if (child == 0) {
        static int calls;
        const rlimit limit{4096, RLIM_INFINITY};
        int scheduled = 0;

        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        // Readers keep the evaluations from giving back their memory.
        rcu_default_domain().lock();
        for (bool is_full = false; !is_full && scheduled < 100'000'000;) {
            try {
                rcu_retire(&calls, [](int *is) { ++*is; });
                scheduled++;
            } catch (const std::bad_alloc &) {
                is_full = true;
            }
        }
        rcu_default_domain().unlock();
        rcu_barrier();
        std::_Exit(calls == scheduled ? 42 : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
#endif
}
#endif

} // namespace

// In the same program, because compilers take longest to read the standard library's headers.
#include "classes.cpp"

int main()
{
    classes();
    general_1_regions_exclude_no_other();
    general_3_and_4_and_domain_members_1_to_6_regions_nest(false);
    general_3_and_4_and_domain_members_1_to_6_regions_nest(true);
    general_5_region_ends_before_evaluation();
    general_6_evaluations_happen_once();
    syn_signatures_are_the_standard_ones();
    base_3_type_may_be_incomplete();
    base_4_and_5_deleters_are_function_objects();
    base_6_copies_may_be_retired();
    base_9_deleter_takes_the_address_of_the_object();
    domain_general_1_is_lockable();
    domain_members_4_try_lock_never_fails();
    domain_func_1_domain_is_one();
    domain_func_2_and_3_synchronize_waits_for_regions();
    domain_func_4_and_5_barrier_waits_for_evaluations();
    domain_func_6_type_may_be_incomplete();
    domain_func_8_retire_initialises_a_deleter();
#if defined(__cpp_exceptions)
    base_9_and_domain_func_8_evaluations_that_throw();
    domain_func_9_retire_throws();
    domain_func_9_retire_throws_bad_alloc();
#endif
    std::puts("ok");
}
