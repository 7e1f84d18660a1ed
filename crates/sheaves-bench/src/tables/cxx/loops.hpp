// What the contenders of `cxx` do, how long that takes, and how a program answers with it: for
// those on Sheaves and for peers.
#ifndef SHEAVES_BENCH_CXX_LOOPS
#define SHEAVES_BENCH_CXX_LOOPS

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <map>
#include <unordered_map>
#include <vector>

namespace loops {

// Nodes of a container at any time.
constexpr std::size_t LIVE = 1000;
// Operations between two looks at the clock.
constexpr std::size_t CHUNK = 4096;
constexpr std::chrono::milliseconds SAMPLE(20), WARM_UP(2);

struct contender {
    const char *row, *name;
    void (*run)(std::size_t count);
    // Until all is free; null if nothing is deferred.
    void (*finish)();
};

inline std::uint64_t random() // xorshift64
{
    static std::uint64_t state = 2011;

    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

template <template <class> class A> void replace_in_list(std::size_t count)
{
    static std::list<std::uint64_t, A<std::uint64_t>> list;
    static std::vector<decltype(list.begin())> nodes;

    while (nodes.size() < LIVE)
        nodes.push_back(list.insert(list.end(), random()));
    while (count--) {
        auto &node = nodes[random() % LIVE];

        list.erase(node);
        list.push_front(count);
        node = list.begin();
    }
}

template <class Map> void replace_in(std::size_t count)
{
    static Map map;
    static std::vector<std::uint64_t> keys;

    while (keys.size() < LIVE) {
        keys.push_back(random());
        map.emplace(keys.back(), keys.size());
    }
    while (count--) {
        std::uint64_t &key = keys[random() % LIVE];

        map.erase(key);
        key = random();
        map.emplace(key, count);
    }
}

template <template <class> class A> using pair_allocator =
    A<std::pair<const std::uint64_t, std::uint64_t>>;
template <template <class> class A> using tree =
    std::map<std::uint64_t, std::uint64_t, std::less<>, pair_allocator<A>>;
template <template <class> class A> using table =
    std::unordered_map<std::uint64_t, std::uint64_t, std::hash<std::uint64_t>, std::equal_to<>,
                       pair_allocator<A>>;

// The rows of an allocator.
template <template <class> class A>
void add_containers(std::vector<contender> &to, const char *name)
{
    to.push_back({"list", name, replace_in_list<A>, nullptr});
    to.push_back({"map", name, replace_in<tree<A>>, nullptr});
    to.push_back({"unordered_map", name, replace_in<table<A>>, nullptr});
}

inline const contender *find(const std::vector<contender> &all, const char *row, const char *name)
{
    for (const contender &one : all)
        if (!std::strcmp(one.row, row) && !std::strcmp(one.name, name))
            return &one;
    return nullptr;
}

// Nanoseconds for each operation.
inline double run_for(const contender &of, std::chrono::nanoseconds time)
{
    const auto begin = std::chrono::steady_clock::now();
    std::chrono::nanoseconds took;
    std::size_t count = 0;

    do {
        of.run(CHUNK);
        count += CHUNK;
        took = std::chrono::steady_clock::now() - begin;
    } while (took < time);
    return double(took.count()) / double(count);
}

inline double sample(const contender &of)
{
    run_for(of, WARM_UP);
    const double found = run_for(of, SAMPLE);

    if (of.finish)
        of.finish();
    return found;
}

// The main function. Arguments: the row and the contender. Each line of input is answered by a
// sample, as `harness/child.rs` reads it.
inline int serve(int argc, char **argv, const std::vector<contender> &all)
{
    const contender *const asked = argc == 3 ? find(all, argv[1], argv[2]) : nullptr;

    if (!asked)
        return 2;
    for (int next; (next = std::getchar()) != EOF;) {
        if (next != '\n')
            continue;
        std::printf("{\"Ok\":[%.4f]}\n", sample(*asked));
        std::fflush(stdout);
    }
    return 0;
}

} // namespace loops

#endif // SHEAVES_BENCH_CXX_LOOPS
