// operator new and operator delete on the heap of Sheaves. C++17 and later. -*- C++ -*-
//
// Include it in one source file of a program: it defines all forms for the whole program, because
// those of a sanitizer have a heap of their own. rcu_retire then frees trivially destructible
// objects from new as it does with heap_delete, without a callback.
//
// Valgrind's memcheck puts operators of its own in their place, and rcu_retire cannot tell: run it
// with --soname-synonyms=somalloc=nouserintercepts.
#ifndef SHEAVES_NEW
#define SHEAVES_NEW

#include "rcu"

namespace sheaves::detail {

// As the standard has it: the new-handler frees something, throws or ends the program.
inline void *allocate_or_handle(std::size_t bytes, std::size_t align)
{
    for (;;) {
        if (void *const block = try_allocate(bytes, align))
            return block;
        const std::new_handler handler = std::get_new_handler();
        if (!handler)
            out_of_memory();
        handler();
    }
}

inline void *allocate_or_null(std::size_t bytes, std::size_t align) noexcept
{
#if defined(__cpp_exceptions)
    try {
        return allocate_or_handle(bytes, align);
    } catch (...) {
        return nullptr;
    }
#else
    return try_allocate(bytes, align);
#endif
}

} // namespace sheaves::detail

// Both names are one function, by which rcu_retire knows it.
extern "C" void sheaves_operator_delete(void *block) noexcept
{
    sheaves_free(block);
}
extern "C" void sheaves_operator_delete_sized(void *block, std::size_t) noexcept
{
    sheaves_free(block);
}
void operator delete(void *) noexcept __attribute__((alias("sheaves_operator_delete")));
void operator delete(void *, std::size_t) noexcept
    __attribute__((alias("sheaves_operator_delete_sized")));

#define SHEAVES_NEW_FORMS(name)                                                \
    void *operator name(std::size_t bytes)                                     \
    {                                                                          \
        return sheaves::detail::allocate_or_handle(bytes, 1);                  \
    }                                                                          \
    void *operator name(std::size_t bytes, std::align_val_t align)             \
    {                                                                          \
        return sheaves::detail::allocate_or_handle(bytes, std::size_t(align)); \
    }                                                                          \
    void *operator name(std::size_t bytes, const std::nothrow_t &) noexcept    \
    {                                                                          \
        return sheaves::detail::allocate_or_null(bytes, 1);                    \
    }                                                                          \
    void *operator name(std::size_t bytes, std::align_val_t align,             \
                        const std::nothrow_t &) noexcept                       \
    {                                                                          \
        return sheaves::detail::allocate_or_null(bytes, std::size_t(align));   \
    }
SHEAVES_NEW_FORMS(new)
SHEAVES_NEW_FORMS(new[])
#undef SHEAVES_NEW_FORMS

void operator delete[](void *block) noexcept
{
    sheaves_free(block);
}
void operator delete[](void *block, std::size_t) noexcept
{
    sheaves_free(block);
}

#define SHEAVES_DELETE_FORM(...)                           \
    void operator delete(void *block, __VA_ARGS__) noexcept   \
    {                                                      \
        sheaves_free(block);                               \
    }                                                      \
    void operator delete[](void *block, __VA_ARGS__) noexcept \
    {                                                      \
        sheaves_free(block);                               \
    }
SHEAVES_DELETE_FORM(std::align_val_t)
SHEAVES_DELETE_FORM(std::size_t, std::align_val_t)
SHEAVES_DELETE_FORM(const std::nothrow_t &)
SHEAVES_DELETE_FORM(std::align_val_t, const std::nothrow_t &)
#undef SHEAVES_DELETE_FORM

#endif // SHEAVES_NEW
