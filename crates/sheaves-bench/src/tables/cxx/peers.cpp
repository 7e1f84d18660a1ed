// The peers of `cxx`, in a program without Sheaves: liburcu's usual flavour, inlined from its
// headers, and containers on mimalloc, whose operators are those of the program, and on the C
// library's malloc. Their public interfaces are used alone.
#define _LGPL_SOURCE
#define URCU_API_MAP
#include <urcu/urcu-memb.h>

#include <cstdlib>
#include <mimalloc-new-delete.h>
#include <mimalloc.h>
#include <new>

#include "loops.hpp"

namespace {

// As std::allocator in a program whose operator new is the C library's, without the call of it.
template <class T> struct c_allocator {
    using value_type = T;
    c_allocator() = default;
    template <class U> c_allocator(const c_allocator<U> &) {}

    T *allocate(std::size_t count)
    {
        void *const block = std::malloc(count * sizeof(T));

        if (!block)
            throw std::bad_alloc();
        return static_cast<T *>(block);
    }
    void deallocate(T *block, std::size_t) { std::free(block); }

    template <class U> bool operator==(const c_allocator<U> &) const { return true; }
    template <class U> bool operator!=(const c_allocator<U> &) const { return false; }
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

int main(int argc, char **argv)
{
    std::vector<loops::contender> all = {
        {"retire", "liburcu-memb", call_rcu_loop, settle},
        {"readers", "liburcu-memb", read_loop, nullptr},
    };

    rcu_register_thread();
    loops::add_containers<std::allocator>(all, "mimalloc");
    loops::add_containers<c_allocator>(all, "glibc");
    return loops::serve(argc, argv, all);
}
