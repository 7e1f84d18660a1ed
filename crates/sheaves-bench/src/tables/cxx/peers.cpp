// The peers of `cxx`: liburcu's usual flavour, inlined from its headers, and containers on mimalloc
// and on the C library's malloc. Their public interfaces are used alone.
#define _LGPL_SOURCE
#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include <cstdlib>
#include <mimalloc.h>
#include <new>

#include "loops.hpp"

namespace {

// As std::allocator in a program whose operator new is that of the heap, without the call of it.
template <void *(*ALLOCATE)(std::size_t), void (*FREE)(void *)> struct heap {
    template <class T> struct allocator {
        using value_type = T;
        allocator() = default;
        template <class U> allocator(const allocator<U> &) {}

        T *allocate(std::size_t count)
        {
            void *const block = ALLOCATE(count * sizeof(T));

            if (!block)
                throw std::bad_alloc();
            return static_cast<T *>(block);
        }
        void deallocate(T *block, std::size_t) { FREE(block); }

        template <class U> bool operator==(const allocator<U> &) const { return true; }
        template <class U> bool operator!=(const allocator<U> &) const { return false; }
    };
};

struct linked {
    rcu_head head;
    std::uint64_t content[6];
};

static_assert(sizeof(linked) == 64);

void call_rcu_loop(std::size_t count)
{
    while (count--) {
        linked *const object = static_cast<linked *>(mi_malloc(sizeof(linked)));

        if (!object)
            std::abort();
        *const_cast<volatile std::uint64_t *>(&object->content[0]) = 14;
        call_rcu(&object->head, [](rcu_head *head) { mi_free(head); });
    }
}

void settle()
{
    rcu_barrier();
}

void read_loop(std::size_t count)
{
    while (count--) {
        rcu_read_lock();
        cmm_barrier();
        rcu_read_unlock();
    }
}

} // namespace

void loops::add_peers(std::vector<contender> &to)
{
    rcu_register_thread();
    to.push_back({"retire", "liburcu-memb", call_rcu_loop, settle});
    to.push_back({"readers", "liburcu-memb", read_loop, nullptr});
    add_containers<heap<mi_malloc, mi_free>::allocator>(to, "mimalloc");
    add_containers<heap<std::malloc, std::free>::allocator>(to, "glibc");
}
