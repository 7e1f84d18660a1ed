// The contenders of `cxx` on Sheaves: a program of its own, as bench and library are separate
// builds.
#include <cstdlib>
#include <memory_resource>
#include <mutex>

#include <sheaves.hpp>
#include <sheaves/new.hpp>

#include "loops.hpp"

namespace {

struct plain {
    std::uint64_t content[8];
};

struct protectable : sheaves::rcu_obj_base<protectable> {
    std::uint64_t content[6];
};

// What a program in C calls back.
struct linked {
    sheaves_head head;
    std::uint64_t content[6];
};

static_assert(sizeof(plain) == 64 && sizeof(protectable) == 64 && sizeof(linked) == 64);

template <class T> T *written(T *object)
{
    if (!object)
        std::abort();
    *const_cast<volatile std::uint64_t *>(&object->content[0]) = 14;
    return object;
}

template <class T> T *from_c()
{
    return written(static_cast<T *>(sheaves_malloc(sizeof(T))));
}

void free_rcu(std::size_t count)
{
    while (count--)
        sheaves_free_rcu(from_c<plain>());
}

void retire(std::size_t count)
{
    while (count--)
        sheaves::rcu_retire(written(new plain));
}

void free_linked(sheaves_head *head)
{
    sheaves_free(head);
}

void call_rcu(std::size_t count)
{
    while (count--) {
        linked *const object = from_c<linked>();

        object->head = {};
        sheaves_call_rcu(&object->head, free_linked);
    }
}

void retire_protectable(std::size_t count)
{
    while (count--)
        written(new protectable)->retire();
}

void settle()
{
    sheaves::rcu_barrier();
}

// No instruction: keeps an empty section.
void barrier()
{
    __asm__ __volatile__("" ::: "memory");
}

void read_in_c(std::size_t count)
{
    while (count--) {
        sheaves_rcu_read_lock();
        barrier();
        sheaves_rcu_read_unlock();
    }
}

void read_in_cxx(std::size_t count)
{
    while (count--) {
        const std::lock_guard<sheaves::rcu_domain> region(sheaves::rcu_default_domain());
        barrier();
    }
}

std::vector<loops::contender> contenders()
{
    std::vector<loops::contender> all = {
        {"retire", "c", free_rcu, settle},
        {"retire", "rcu_retire", retire, settle},
        {"retire", "c-call", call_rcu, settle},
        {"retire", "rcu_obj_base", retire_protectable, settle},
        {"readers", "c", read_in_c, nullptr},
        {"readers", "rcu_domain", read_in_cxx, nullptr},
    };

    loops::add_containers<sheaves::allocator>(all, "allocator");
    loops::add_containers<std::pmr::polymorphic_allocator>(all, "pmr");
    loops::add_containers<std::allocator>(all, "std");
    return all;
}

} // namespace

int main(int argc, char **argv)
{
    static sheaves::memory_resource heap;
    std::pmr::set_default_resource(&heap);
    return loops::serve(argc, argv, contenders());
}
