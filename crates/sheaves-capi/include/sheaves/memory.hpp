// Memory and caches for C++: a part of <sheaves.hpp>.
#ifndef SHEAVES_MEMORY_HPP
#define SHEAVES_MEMORY_HPP

#include <cstddef>
#include <cstdint>
#include <limits>

#if __has_include(<memory_resource>)
#include <memory_resource>
#endif

#include "rcu"

namespace sheaves {

// A new object on the heap of Sheaves.
template <class T, class... Args> std::unique_ptr<T, heap_delete<T>> make(Args &&...args)
{
    static_assert(!std::is_array_v<T>, "one object");
    detail::memory room(sizeof(T), alignof(T));
    T *const made = ::new (room.block) T(std::forward<Args>(args)...);

    room.block = nullptr;
    return std::unique_ptr<T, heap_delete<T>>(made);
}

// An allocator on the heap of Sheaves, each of whose size classes is a per-CPU cache.
template <class T> struct allocator {
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    constexpr allocator() noexcept = default;
    template <class U> constexpr allocator(const allocator<U> &) noexcept {}

    [[nodiscard]] T *allocate(std::size_t count)
    {
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
            detail::out_of_memory();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }
    void deallocate(T *block, std::size_t) noexcept { sheaves_free(block); }

    template <class U> constexpr bool operator==(const allocator<U> &) const noexcept
    {
        return true;
    }
    template <class U> constexpr bool operator!=(const allocator<U> &) const noexcept
    {
        return false;
    }
};

#if defined(__cpp_lib_memory_resource)
// The heap of Sheaves for containers of std::pmr.
class memory_resource final : public std::pmr::memory_resource {
    void *do_allocate(std::size_t bytes, std::size_t align) override
    {
        return detail::allocate(bytes, align);
    }
    void do_deallocate(void *block, std::size_t, std::size_t) override { sheaves_free(block); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
#if defined(__cpp_rtti)
        return dynamic_cast<const memory_resource *>(&other) != nullptr;
#else
        return this == &other;
#endif
    }
};
#endif

// A cache of objects of one type. An object is constructed when it is created, and destroyed when
// it is given back.
template <class T> class cache {
    static_assert(sizeof(T) <= 65536 && alignof(T) <= 65536, "too large for a cache");

    sheaves_cache *cache_;

    void close() noexcept
    {
        if (!cache_)
            return;
        // Objects that wait for their destructor are in use, and will come back to the cache.
        if constexpr (!std::is_trivially_destructible_v<T>)
            if (sheaves_rcu_barrier() != 0)
                return;
        (void)sheaves_cache_destroy(cache_);
    }

public:
    // Gives an object back to its cache, which must still exist.
    class deleter {
        sheaves_cache *cache_ = nullptr;
        friend class cache;
        explicit deleter(sheaves_cache *cache) noexcept : cache_(cache) {}

    public:
        deleter() noexcept = default;

        void operator()(T *object) const noexcept
        {
            if (object) {
                object->~T();
                sheaves_cache_free(cache_, const_cast<std::remove_cv_t<T> *>(object));
            }
        }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;

    // The name is for reports; flags are SHEAVES_CACHE_*.
    explicit cache(const char *name = nullptr, std::uint32_t flags = 0)
        : cache_(sheaves_cache_create(name, sizeof(T), alignof(T), flags, nullptr))
    {
        if (!cache_)
            detail::out_of_memory();
    }
    cache(cache &&other) noexcept : cache_(std::exchange(other.cache_, nullptr)) {}
    cache &operator=(cache &&other) noexcept
    {
        if (this != &other) {
            close();
            cache_ = std::exchange(other.cache_, nullptr);
        }
        return *this;
    }
    // Objects that are still in use keep their memory, which is then never freed. In a region or a
    // deleter it cannot wait for objects that were retired: the cache is then never freed either.
    ~cache() { close(); }

    template <class... Args> [[nodiscard]] T *create(Args &&...args)
    {
        struct guard {
            sheaves_cache *cache;
            void *object;
            ~guard()
            {
                if (object)
                    sheaves_cache_free(cache, object);
            }
        } room{cache_, sheaves_cache_alloc(cache_)};

        if (!room.object)
            detail::out_of_memory();
        T *const made = ::new (room.object) T(std::forward<Args>(args)...);
        room.object = nullptr;
        return made;
    }
    template <class... Args> [[nodiscard]] unique_ptr make(Args &&...args)
    {
        return unique_ptr(create(std::forward<Args>(args)...), get_deleter());
    }

    void destroy(T *object) noexcept { get_deleter()(object); }

    // Destroys an object after a grace period. If it is trivially destructible this allocates
    // nothing, and is as cheap as destroy.
    void retire(T *object) noexcept(std::is_trivially_destructible_v<T>)
    {
        if constexpr (std::is_trivially_destructible_v<T>)
            sheaves_cache_free_rcu(cache_, const_cast<std::remove_cv_t<T> *>(object));
        else
            rcu_retire(object, get_deleter());
    }

    [[nodiscard]] deleter get_deleter() const noexcept { return deleter(cache_); }
    [[nodiscard]] sheaves_cache *native_handle() const noexcept { return cache_; }
};

} // namespace sheaves

#endif // SHEAVES_MEMORY_HPP
