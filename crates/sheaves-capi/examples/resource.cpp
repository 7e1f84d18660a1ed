// A std::pmr::memory_resource over the heap, and an allocator over a cache for node containers.
#include <cassert>
#include <cstdio>
#include <list>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "sheaves.h"

class Resource : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        if (void *block = sheaves_aligned_alloc(align, bytes))
            return block;
        throw std::bad_alloc();
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override { sheaves_free(block); }
    bool do_is_equal(const memory_resource &other) const noexcept override
    {
        return dynamic_cast<const Resource *>(&other) != nullptr;
    }
};

// One object comes from the cache of its type, several from the heap.
template <typename T> struct Allocator {
    using value_type = T;
    Allocator() = default;
    template <typename U> Allocator(const Allocator<U> &) noexcept {}

    static sheaves_cache *cache()
    {
        static sheaves_cache *made = sheaves_cache_create("nodes", sizeof(T), alignof(T), 0, nullptr);
        return made;
    }
    T *allocate(std::size_t count)
    {
        void *block = count == 1 && cache() ? sheaves_cache_alloc(cache())
                                            : sheaves_aligned_alloc(alignof(T), count * sizeof(T));
        if (!block)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t count) noexcept
    {
        if (count == 1 && cache())
            sheaves_cache_free(cache(), block);
        else
            sheaves_free(block);
    }
    template <typename U> bool operator==(const Allocator<U> &) const noexcept { return true; }
    template <typename U> bool operator!=(const Allocator<U> &) const noexcept { return false; }
};

int main()
{
    Resource resource;
    std::pmr::vector<std::pmr::string> texts(&resource);
    for (int i = 0; i < 1000; i++)
        texts.emplace_back("a text that is too long to lie inside of the string itself");
    assert(texts.back().size() == 58);

    std::list<int, Allocator<int>> numbers;
    for (int i = 0; i < 10000; i++)
        numbers.push_back(i);
    long sum = 0;
    for (int number : numbers)
        sum += number;
    assert(sum == 49995000);
    std::puts("ok");
}
