// Sheaves for C++: per-CPU memory and RCU. C++17 and later, with or without exceptions and RTTI.
//
// <sheaves/rcu>, which this includes, has the RCU of C++26. Here are, in namespace sheaves:
//   make, heap_delete, allocator, memory_resource   memory of the heap
//   cache                                           objects of one type from a cache of their own
//   rcu_ptr                                         a pointer that is read under RCU, and its owner
//   srcu                                            read sections that may sleep and change threads
//   counter, per_cpu                                per-CPU counters and objects
//
// Where memory is out, std::bad_alloc is thrown; without exceptions the program ends.
#ifndef SHEAVES_HPP
#define SHEAVES_HPP

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "sheaves/memory.hpp"
#include "sheaves/rcu"

namespace sheaves {

// Owns an object that readers reach under RCU, and retires the old one when it is replaced.
template <class T, class D = std::default_delete<T>> class rcu_ptr {
    static_assert(std::is_empty_v<D>, "each object is retired by a new deleter");

    std::atomic<T *> pointer_{nullptr};

    static auto prepared() { return detail::retirement<T, D>(D()); }

public:
    using unique_ptr = std::unique_ptr<T, D>;

    // The object in a region of RCU protection, which ends with this.
    class reader {
        T *object_;

        friend class rcu_ptr;
        explicit reader(const rcu_ptr &of) noexcept
        {
            rcu_default_domain().lock();
            object_ = of.load();
        }

    public:
        reader(const reader &) = delete;
        reader &operator=(const reader &) = delete;
        ~reader() { rcu_default_domain().unlock(); }

        [[nodiscard]] T *get() const noexcept { return object_; }
        T &operator*() const noexcept { return *object_; }
        T *operator->() const noexcept { return object_; }
        explicit operator bool() const noexcept { return object_ != nullptr; }
    };

    constexpr rcu_ptr() noexcept = default;
    explicit rcu_ptr(unique_ptr object) noexcept : pointer_(object.release()) {}
    rcu_ptr(const rcu_ptr &) = delete;
    rcu_ptr &operator=(const rcu_ptr &) = delete;
    // No thread reads it any more.
    ~rcu_ptr() { unique_ptr(pointer_.load(std::memory_order_relaxed)); }

    // The object, valid until the caller's region of RCU protection ends.
    [[nodiscard]] T *load() const noexcept { return pointer_.load(std::memory_order_acquire); }

    [[nodiscard]] reader read() const noexcept { return reader(*this); }

    // Publishes another object, or none. On an exception nothing has changed.
    void reset(unique_ptr object = unique_ptr())
    {
        auto retirement = prepared();

        if (T *const old = pointer_.exchange(object.release(), std::memory_order_acq_rel))
            retirement.schedule(old);
    }

    // Publishes what change makes of the current object: a unique_ptr, from a const T *, which may
    // be null. It is called again if another thread was faster, in a region of RCU protection.
    template <class Change> void update(Change change)
    {
        auto retirement = prepared();
        T *old;
        {
            const std::lock_guard<rcu_domain> region(rcu_default_domain());
            old = load();
            for (;;) {
                unique_ptr made = change(static_cast<const T *>(old));

                if (pointer_.compare_exchange_strong(old, made.get(), std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
                    made.release();
                    break;
                }
            }
        }
        if (old)
            retirement.schedule(old);
    }
};

// A domain of its own, whose regions may sleep and may end in another thread.
class srcu {
    sheaves_srcu *domain_;

    // What call needs until the function has run. The head is at the beginning.
    template <class F> struct scheduled {
        sheaves_head head;
        F function;

        static void run(sheaves_head *head) noexcept
        {
            const detail::in_callback ordered;
            scheduled *const is = reinterpret_cast<scheduled *>(head);

            is->function();
            is->~scheduled();
            sheaves_free(is);
        }
    };

public:
    // A region of one domain: Lockable, and movable to another thread.
    class section {
        sheaves_srcu *domain_ = nullptr;
        sheaves_srcu_section open_ = 0;
        bool is_open_ = false;

    public:
        explicit section(srcu &domain) noexcept : section(domain, std::defer_lock) { lock(); }
        section(srcu &domain, std::defer_lock_t) noexcept : domain_(domain.domain_) {}
        section(section &&other) noexcept
            : domain_(other.domain_), open_(other.open_),
              is_open_(std::exchange(other.is_open_, false))
        {
        }
        section &operator=(section &&other) noexcept
        {
            if (this != &other) {
                unlock();
                domain_ = other.domain_;
                open_ = other.open_;
                is_open_ = std::exchange(other.is_open_, false);
            }
            return *this;
        }
        ~section() { unlock(); }

        // Nothing happens if it is open.
        void lock() noexcept
        {
            if (!is_open_)
                open_ = sheaves_srcu_read_lock(domain_);
            is_open_ = true;
        }
        bool try_lock() noexcept
        {
            const bool was_open = is_open_;

            lock();
            return !was_open;
        }
        // Nothing happens if it is not open.
        void unlock() noexcept
        {
            if (std::exchange(is_open_, false))
                sheaves_srcu_read_unlock(domain_, open_);
        }
        [[nodiscard]] bool owns_lock() const noexcept { return is_open_; }
    };

    srcu() : domain_(sheaves_srcu_create())
    {
        if (!domain_)
            detail::out_of_memory();
    }
    srcu(const srcu &) = delete;
    srcu &operator=(const srcu &) = delete;
    // No section is open. Waits for functions and deleters that have not run; not in one of them.
    ~srcu() { sheaves_srcu_destroy(domain_); }

    [[nodiscard]] section read() noexcept { return section(*this); }

    // Waits until all sections that began before this call have ended.
    void synchronize() noexcept { (void)sheaves_srcu_synchronize(domain_); }

    // Calls the function, in the thread of the library, when all sections that are open have ended.
    template <class F> void call(F function)
    {
        detail::memory room(sizeof(scheduled<F>), alignof(scheduled<F>));
        auto *const made = ::new (room.block) scheduled<F>{{}, std::move(function)};

        room.block = nullptr;
        (void)sheaves_srcu_call(domain_, &made->head, &scheduled<F>::run);
    }

    // Deletes an object then, which threads find in sections of this domain only.
    template <class T, class D = std::default_delete<T>> void retire(T *object, D deleter = D())
    {
        call([object, deleter = std::move(deleter)]() mutable { deleter(object); });
    }

    // Waits until what was scheduled before has run. In a deleter or a region of RCU protection the
    // program ends.
    void barrier() noexcept
    {
        if (sheaves_srcu_barrier(domain_) != 0)
            std::terminate();
    }

    [[nodiscard]] sheaves_srcu *native_handle() const noexcept { return domain_; }
};

// A number that is cheap to add to, on any CPU, and slower to read.
class counter {
    sheaves_counter counter_ = SHEAVES_COUNTER_INIT;

public:
    constexpr counter() noexcept = default;
    counter(const counter &) = delete;
    counter &operator=(const counter &) = delete;
    ~counter() { sheaves_counter_destroy(&counter_); }

    void add(std::int64_t amount) noexcept { sheaves_counter_add(&counter_, amount); }
    counter &operator+=(std::int64_t amount) noexcept
    {
        add(amount);
        return *this;
    }
    counter &operator-=(std::int64_t amount) noexcept
    {
        add(static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(amount)));
        return *this;
    }
    counter &operator++() noexcept { return *this += 1; }
    counter &operator--() noexcept { return *this += -1; }

    // Exact, and slow.
    [[nodiscard]] std::int64_t sum() const noexcept { return sheaves_counter_sum(&counter_); }
    // One load, off by at most 65536 for each slot in use, and 65536 more.
    [[nodiscard]] std::int64_t approximate() const noexcept
    {
        return sheaves_counter_approximate(&counter_);
    }
};

// A T of zero bytes in every slot: for each CPU or concurrency id one. Its 64-bit members are
// changed by transactions, without atomic instructions.
template <class T> class per_cpu {
    static_assert(std::is_trivially_copyable_v<T>, "slots are zeroed memory");
    static_assert(sizeof(T) <= 32768 && alignof(T) <= 4096, "too large for a slot");

    template <class W>
    static constexpr bool is_word_v = std::is_integral_v<W> && sizeof(W) == sizeof(std::uint64_t);
    // The type of a member is that of the first argument.
    template <class W> using as = std::common_type_t<W>;

    sheaves_percpu object_ = 0;

    template <class W> static std::size_t offset(W T::*word) noexcept
    {
        static_assert(is_word_v<W>, "transactions are on integers of 64 bits");
        alignas(T) static unsigned char room[sizeof(T)];
        const W *const at = std::addressof(reinterpret_cast<const T *>(room)->*word);

        return static_cast<std::size_t>(reinterpret_cast<const unsigned char *>(at) - room);
    }

public:
    per_cpu()
    {
        if (sheaves_percpu_alloc(sizeof(T), alignof(T) < 8 ? 8 : alignof(T), &object_) != 0)
            detail::out_of_memory();
    }
    per_cpu(per_cpu &&other) noexcept : object_(std::exchange(other.object_, 0)) {}
    per_cpu &operator=(per_cpu &&other) noexcept
    {
        std::swap(object_, other.object_);
        return *this;
    }
    ~per_cpu() { (void)sheaves_percpu_free(object_); }

    // Adds to a member in the current slot, wrapping.
    template <class W> void add(W T::*word, as<W> amount) noexcept
    {
        (void)sheaves_percpu_add(object_, offset(word), static_cast<std::uint64_t>(amount));
    }
    // The member in the current slot: a hint, since the thread may migrate.
    template <class W> [[nodiscard]] W load(W T::*word) const noexcept
    {
        return static_cast<W>(sheaves_percpu_load(object_, offset(word)));
    }
    // Replaces the member in the current slot if it is expected; true if it was.
    template <class W> bool compare_store(W T::*word, as<W> expected, as<W> desired) noexcept
    {
        return sheaves_percpu_compare_store(object_, offset(word),
                                            static_cast<std::uint64_t>(expected),
                                            static_cast<std::uint64_t>(desired));
    }
    // The sum over all slots, wrapping.
    template <class W> [[nodiscard]] W sum(W T::*word) const noexcept
    {
        return static_cast<W>(sheaves_percpu_sum(object_, offset(word)));
    }

    // The object of a slot, 0 to slots() - 1. Other threads may change it at the same time.
    [[nodiscard]] T *address(std::size_t slot) const noexcept
    {
        return static_cast<T *>(sheaves_percpu_address(object_, slot));
    }
    // The slots, and one for threads without a slot.
    [[nodiscard]] static std::size_t slots() noexcept { return sheaves_slot_count() + 1; }

    [[nodiscard]] sheaves_percpu native_handle() const noexcept { return object_; }
};

} // namespace sheaves

#endif // SHEAVES_HPP
