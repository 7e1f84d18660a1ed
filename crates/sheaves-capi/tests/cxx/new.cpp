// The operators of sheaves/new.hpp: what rcu_retire frees without a callback, and what not. With
// REPLACED the program has operators of its own, which come before those in a library: all, or
// where it is 2 the one that has the size.
#ifndef REPLACED
#include <sheaves/new.hpp>
#else
#include <sheaves/rcu>
#endif

#include "check.hpp"

namespace {

struct plain {
    long numbers[8];
};
struct alignas(64) aligned : plain {};
struct destroyed : plain {
    static inline int count = 0;
    ~destroyed() { count++; }
};
// Each has operators of its own, which are found in the class, in its base, or by several forms.
struct counted : plain {
    static inline int count = 0;
    static void operator delete(void *block)
    {
        count++;
        ::operator delete(block);
    }
};
struct inherited : counted {};
struct last final : plain {};
struct twice : plain {
    static inline int count = 0;
    static void operator delete(void *block, std::size_t) { twice::operator delete(block); }
    static void operator delete(void *block)
    {
        count++;
        ::operator delete(block);
    }
};
union either {
    long number;
    char bytes[64];
};
#pragma GCC diagnostic ignored "-Wpedantic"
struct flexible {
    long count;
    char bytes[];
};
// std::default_delete alone may call it.
class hidden : plain {
    friend std::default_delete<hidden>;
    static void operator delete(void *block) { counted::operator delete(block); }
};
#if defined(__cpp_lib_destroying_delete)
struct destroying : plain {
    static void operator delete(destroying *, std::destroying_delete_t, std::size_t) {}
};
struct destroying_base : destroying {};
#else
using destroying = counted;
using destroying_base = counted;
#endif

template <class T>
constexpr bool is_of_new = sheaves::detail::is_of_new<T, std::default_delete<T>>();
static_assert(is_of_new<plain> && is_of_new<const plain> && is_of_new<long>);
static_assert(is_of_new<last> && is_of_new<either> && is_of_new<flexible>);
static_assert(!is_of_new<aligned> && !is_of_new<destroyed> && !is_of_new<hidden>);
static_assert(!is_of_new<counted> && !is_of_new<inherited> && !is_of_new<twice>);
static_assert(!is_of_new<destroying> && !is_of_new<destroying_base>);

template <class T> void retire()
{
    for (int i = 0; i < 1000; i++)
        sheaves::rcu_retire(new T());
}

} // namespace

#ifdef REPLACED
static int deleted;

#if REPLACED == 1
void *operator new(std::size_t bytes)
{
    return std::malloc(bytes);
}

void operator delete(void *block) noexcept
{
    std::free(block);
}
#else
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

void operator delete(void *block, std::size_t) noexcept
{
    __atomic_add_fetch(&deleted, 1, __ATOMIC_RELAXED);
    ::operator delete(block);
}

int main()
{
    CHECK(&sheaves_operator_delete != nullptr && !sheaves::detail::is_our_delete());
    retire<plain>();
    sheaves::rcu_barrier();
    CHECK(deleted == 1000);
    std::puts("ok");
}
#else
static int handled;

static void handle()
{
    handled++;
    std::set_new_handler(nullptr);
}

int main()
{
    CHECK(sheaves::detail::is_our_delete());
    retire<plain>();
    retire<const plain>();
    retire<long>();
    retire<either>();
    retire<aligned>();
    retire<destroyed>();
    retire<last>();
    retire<flexible>();
    retire<counted>();
    retire<inherited>();
    retire<twice>();
    sheaves::rcu_barrier();
    CHECK(destroyed::count == 1000 && counted::count == 2000 && twice::count == 1000);
    // Blocks of the heap of Sheaves, in all forms.
    plain *const one = new plain(), *const many = new plain[3];
    plain *const quiet = new (std::nothrow) plain;
    for (const void *block : {one, many, quiet})
        CHECK(sheaves_usable_size(block) >= sizeof(plain));
    delete one;
    delete[] many;
    delete quiet;
    delete new aligned();
    std::set_new_handler(handle);
    try {
        ::operator delete(::operator new(std::size_t(1) << 60));
        CHECK(false);
    } catch (const std::bad_alloc &) {
        CHECK(handled == 1);
    }
    std::puts("ok");
}
#endif
