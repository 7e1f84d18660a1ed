// The classes of sheaves.hpp: memory, caches, published pointers, and per-CPU numbers.
#include <sheaves.hpp>

#include <cassert>
#include <cstdio>
#include <list>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct request {
    int number;
    std::string path;

    request(int is, std::string to) : number(is), path(std::move(to)) {}
};

struct totals {
    std::uint64_t requests, bytes;
};

int main()
{
    // Containers on the heap of Sheaves, by an allocator or by a resource.
    std::list<int, sheaves::allocator<int>> numbers;
    for (int i = 0; i < 10000; i++)
        numbers.push_back(i);
    sheaves::memory_resource heap;
    std::pmr::unordered_map<int, std::pmr::string> texts(&heap);
    for (int i = 0; i < 1000; i++)
        texts.emplace(i, "a text that is too long to lie inside of the string itself");
    assert(numbers.size() == 10000 && texts.at(7).size() == 58);

    // Objects of one type, which statistics show by the name of their cache.
    sheaves::cache<request> requests("requests");
    const auto first = requests.make(1, "/index.html");
    assert(first->number == 1);

    // Readers without locks, and an owner that replaces what they read.
    sheaves::rcu_ptr<const std::string> banner(std::make_unique<const std::string>("welcome"));
    sheaves::counter seen;
    sheaves::per_cpu<totals> served;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; n++) {
                const auto text = banner.read();
                ++seen;
                served.add(&totals::requests, 1);
                served.add(&totals::bytes, text->size());
            }
        });
    for (int n = 0; n < 100; n++)
        banner.reset(std::make_unique<const std::string>("welcome back"));
    for (std::thread &thread : threads)
        thread.join();
    assert(seen.sum() == 4000 && served.sum(&totals::requests) == 4000);

    // A domain whose sections may sleep, and may end in another thread.
    sheaves::srcu domain;
    std::thread([section = domain.read()] { assert(section.owns_lock()); }).join();
    domain.synchronize();

    sheaves::rcu_barrier();
    std::puts("ok");
}
