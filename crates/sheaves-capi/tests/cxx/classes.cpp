// The classes of sheaves.hpp. The program is rcu.cpp.
#include <sheaves.hpp>

#include <list>
#include <map>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "check.hpp"

namespace {

struct counted {
    static inline std::atomic<int> alive{0};
    int value;

    explicit counted(int is = 0) : value(is)
    {
#if defined(__cpp_exceptions)
        if (is < 0)
            throw is;
#endif
        alive++;
    }
    counted(const counted &other) : value(other.value) { alive++; }
    ~counted() { alive--; }
};

struct alignas(256) aligned {
    char bytes[300];
};

void heap()
{
    {
        const auto made = sheaves::make<counted>(3);
        const auto wide = sheaves::make<aligned>();

        CHECK(made->value == 3 && counted::alive == 1);
        CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0);
    }
    CHECK(counted::alive == 0);
    sheaves::rcu_retire(sheaves::make<counted>().release(), sheaves::heap_delete<counted>());
    sheaves::rcu_retire(sheaves::make<long>().release(), sheaves::heap_delete<long>());
    sheaves::rcu_barrier();
    CHECK(counted::alive == 0);
}

template <class Container> void fill_and_empty(Container &&numbers)
{
    for (int i = 0; i < 1000; i++)
        numbers.insert({i, i * 7});
    for (int i = 0; i < 1000; i++)
        CHECK(numbers.at(i) == i * 7);
    for (int i = 0; i < 1000; i += 2)
        numbers.erase(i);
    CHECK(numbers.size() == 500);
}

void containers()
{
    using pair = std::pair<const int, int>;
    using allocator = sheaves::allocator<pair>;
    std::vector<aligned, sheaves::allocator<aligned>> wide(3);
    std::list<int, sheaves::allocator<int>> list(100, 1), other;

    fill_and_empty(std::map<int, int, std::less<int>, allocator>());
    fill_and_empty(std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, allocator>());
    CHECK(reinterpret_cast<std::uintptr_t>(&wide[1]) % 256 == 0);
    other = std::move(list);
    CHECK(other.size() == 100 && allocator() == sheaves::allocator<int>());
#if defined(__cpp_lib_memory_resource)
    sheaves::memory_resource resource;
    std::pmr::vector<std::pmr::string> texts(&resource);

    for (int i = 0; i < 100; i++)
        texts.emplace_back("a text that is too long to lie inside of the string itself");
    void *const block = resource.allocate(100, 1024);
    CHECK(reinterpret_cast<std::uintptr_t>(block) % 1024 == 0);
    resource.deallocate(block, 100, 1024);
    CHECK(resource.is_equal(resource) && !resource.is_equal(*std::pmr::new_delete_resource()));
#endif
}

void caches()
{
    {
        sheaves::cache<counted> cache("counted");
        counted *const one = cache.create(5);
        auto two = cache.make(6);

        CHECK(one->value == 5 && two->value == 6 && counted::alive == 2);
        cache.destroy(one);
        two.reset();
        cache.destroy(nullptr);
#if defined(__cpp_exceptions)
        try {
            (void)cache.create(-1);
            CHECK(false);
        } catch (int thrown) {
            CHECK(thrown == -1);
        }
#endif
        CHECK(counted::alive == 0);
        cache.retire(cache.create(7));
        sheaves::cache<counted> moved(std::move(cache));
        moved.retire(moved.create(8));
    }
    // The destructor has waited for both.
    CHECK(counted::alive == 0);
    {
        // It cannot wait here: the cache stays, for the deleter.
        const std::lock_guard<sheaves::rcu_domain> reading(sheaves::rcu_default_domain());
        sheaves::cache<counted> inside;
        inside.retire(inside.create(9));
    }
    sheaves::rcu_barrier();
    CHECK(counted::alive == 0);
    sheaves::cache<aligned> wide;
    aligned *const object = wide.create();
    CHECK(reinterpret_cast<std::uintptr_t>(object) % 256 == 0);
    {
        const std::lock_guard<sheaves::rcu_domain> reading(sheaves::rcu_default_domain());
        object->bytes[0] = 'x';
        wide.retire(object);
        CHECK(object->bytes[0] == 'x');
    }
}

void pointers()
{
    sheaves::rcu_ptr<counted> current, none;
    std::atomic<bool> is_over{false};

    CHECK(!current.read());
    current.reset(std::make_unique<counted>(1));
    std::thread reader([&] {
        int last = 0;

        while (!is_over) {
            const auto seen = current.read();
            CHECK(seen && seen->value >= last);
            last = (*seen).value;
        }
    });
    const auto raise = [](const counted *old) { return std::make_unique<counted>(old->value + 1); };
    std::thread other([&] {
        for (int i = 0; i < 500; i++)
            current.update(raise);
    });
    for (int i = 0; i < 500; i++)
        current.update(raise);
    other.join();
    is_over = true;
    reader.join();
    CHECK(current.read()->value == 1001);
    current.reset();
    sheaves::rcu_barrier();
    CHECK(counted::alive == 0);
}

// The macros of C convert as an assignment does: to a base that is not at the beginning.
void macros()
{
    struct first {
        int one = 1;
    };
    struct second {
        int two = 2;
    };
    struct both : first, second {};
    both object;
    second *published = nullptr;
    const second *constant = nullptr;

    sheaves_rcu_assign_pointer(published, &object);
    sheaves_rcu_assign_pointer(constant, &object);
    CHECK(sheaves_rcu_dereference(published) == &object);
    CHECK(sheaves_rcu_dereference(constant)->two == 2);
    sheaves_rcu_assign_pointer(published, nullptr);
    CHECK(!sheaves_rcu_dereference(published));
}

void srcu()
{
    sheaves::srcu domain;
    int closed = 0;
    auto section = domain.read();
    std::thread other([&closed, moved = std::move(section)]() mutable {
        CHECK(moved.owns_lock());
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        closed = 1;
        moved.unlock();
    });

    CHECK(!section.owns_lock());
    domain.synchronize();
    CHECK(closed == 1);
    other.join();
    sheaves::srcu::section again(domain, std::defer_lock);
    std::unique_lock<sheaves::srcu::section> lock(again);
    CHECK(again.owns_lock() && !again.try_lock());
}

void srcu_callbacks()
{
    std::atomic<int> ran{0};
    std::unique_ptr<int> owned(new int(5));
    {
        sheaves::srcu domain;
        auto reading = domain.read();

        domain.retire(new counted(1));
        domain.retire(sheaves::make<counted>(2).release(), sheaves::heap_delete<counted>());
        domain.call([&ran, owned = std::move(owned)] { ran += *owned; });
        sheaves::rcu_barrier();
        CHECK(counted::alive == 2 && ran == 0);
        reading.unlock();
        domain.barrier();
        CHECK(counted::alive == 0 && ran == 5);
        domain.retire(new counted(3));
        domain.call([&] { domain.call([&ran] { ran++; }); });
    }
    // The destructor has waited for both, and for what the first has called.
    CHECK(counted::alive == 0 && ran == 6);
}

struct row {
    std::uint64_t hits;
    std::int64_t balance;
};

void per_cpu()
{
    static sheaves::counter counter;
    sheaves::per_cpu<row> rows;
    std::vector<std::thread> threads;

    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; n++) {
                counter += 3;
                --counter;
                rows.add(&row::hits, 1);
                rows.add(&row::balance, -2);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    CHECK(counter.sum() == 8000 && counter.approximate() <= 8000);
    CHECK(rows.sum(&row::hits) == 4000 && rows.sum(&row::balance) == -8000);
    std::uint64_t hits = 0;
    for (std::size_t slot = 0; slot < rows.slots(); slot++)
        hits += rows.address(slot)->hits;
    CHECK(hits == 4000);
    const auto moved = std::move(rows);
    CHECK(moved.sum(&row::hits) == 4000 && moved.load(&row::hits) <= 4000);
    sheaves::per_cpu<row> fresh;
    while (!fresh.compare_store(&row::hits, 0, 9))
        ;
    CHECK(fresh.sum(&row::hits) >= 9);
}

void classes()
{
    heap();
    containers();
    caches();
    pointers();
    macros();
    srcu();
    srcu_callbacks();
    per_cpu();
}

} // namespace
