/* Publishing and dereferencing pointers. */

#ifndef SHEAVES_URCU_POINTER_H
#define SHEAVES_URCU_POINTER_H

#include <urcu/arch.h>
#include <urcu/compiler.h>
#include <urcu/uatomic.h>

/* Loads the pointer that a writer has published last. The dependency orders what it leads to. */
#if defined(URCU_DEREFERENCE_USE_VOLATILE)
#define rcu_dereference(p) (*(__typeof__(p) volatile *)&(p))
#else
#define rcu_dereference(p) __atomic_load_n(&(p), __ATOMIC_CONSUME)
#endif

/* Publishes v as *p: a reader that follows it sees all earlier stores. */
#define rcu_set_pointer(p, v)                                     \
    do {                                                          \
        __typeof__(*(p)) sheaves_value = (v);                     \
        __atomic_store_n((p), sheaves_value, __ATOMIC_RELEASE);   \
    } while (0)
#define rcu_assign_pointer(p, v) rcu_set_pointer(&(p), v)

/* Publishes v as *p and returns the old pointer. A full fence, as the next one. */
#define rcu_xchg_pointer(p, v)                                    \
    __extension__({                                               \
        __typeof__(*(p)) sheaves_value = (v);                     \
        uatomic_xchg((p), sheaves_value);                         \
    })

/* Publishes new_ as *p if *p is old; returns the previous pointer. */
#define rcu_cmpxchg_pointer(p, old, new_)                         \
    __extension__({                                               \
        __typeof__(*(p)) sheaves_old = (old), sheaves_new = (new_); \
        uatomic_cmpxchg((p), sheaves_old, sheaves_new);           \
    })

#define _rcu_dereference rcu_dereference
#define _rcu_set_pointer rcu_set_pointer
#define _rcu_assign_pointer rcu_assign_pointer
#define _rcu_xchg_pointer rcu_xchg_pointer
#define _rcu_cmpxchg_pointer rcu_cmpxchg_pointer

#ifdef __cplusplus
extern "C" {
#endif

static inline void *rcu_dereference_sym(void *p)
{
    return __atomic_load_n(&p, __ATOMIC_CONSUME);
}

static inline void *rcu_dereference_sym2(void **p)
{
    return __atomic_load_n(p, __ATOMIC_CONSUME);
}

static inline void *rcu_set_pointer_sym(void **p, void *v)
{
    __atomic_store_n(p, v, __ATOMIC_RELEASE);
    return v;
}

static inline void *rcu_xchg_pointer_sym(void **p, void *v)
{
    return rcu_xchg_pointer(p, v);
}

static inline void *rcu_cmpxchg_pointer_sym(void **p, void *old, void *_new)
{
    return rcu_cmpxchg_pointer(p, old, _new);
}

/* Compares two pointers; the compiler cannot replace one by the other afterwards. */
#ifndef cmm_ptr_eq
static inline int sheaves_urcu_ptr_eq(const void *a, const void *b)
{
    __asm__("" : "+r"(a));
    __asm__("" : "+r"(b));
    return a == b;
}
#define cmm_ptr_eq(a, b) sheaves_urcu_ptr_eq((a), (b))
#endif

#ifdef __cplusplus
}
#endif

#endif /* SHEAVES_URCU_POINTER_H */
