/* Atomic operations on integers and pointers, by those of the compiler.
 *
 * xchg, cmpxchg, add_return and sub_return are full fences. Others order nothing: that is what the
 * fences before and after them are for. */

#ifndef SHEAVES_URCU_UATOMIC_H
#define SHEAVES_URCU_UATOMIC_H

#include <urcu/arch.h>
#include <urcu/compiler.h>
#include <urcu/system.h>

#define UATOMIC_HAS_ATOMIC_BYTE
#define UATOMIC_HAS_ATOMIC_SHORT

/* The type of what an address leads to, without qualifiers. */
#define SHEAVES_URCU_VALUE(addr) __typeof__(__atomic_load_n((addr), __ATOMIC_RELAXED))

/* On x86 a locked instruction is a fence. Elsewhere one that is sequentially consistent does not
 * keep later accesses from its own store. */
#if defined(__x86_64__)
#define SHEAVES_URCU_AROUND() cmm_barrier()
#else
#define SHEAVES_URCU_AROUND() cmm_smp_mb()
#endif

#define uatomic_read(addr) __atomic_load_n((addr), __ATOMIC_RELAXED)
#define uatomic_set(addr, v) \
    ((void)__atomic_store_n((addr), (SHEAVES_URCU_VALUE(addr))(v), __ATOMIC_RELAXED))

#define uatomic_xchg(addr, v)                                                       \
    __extension__({                                                                 \
        SHEAVES_URCU_VALUE(addr) sheaves_was = __atomic_exchange_n(                 \
            (addr), (SHEAVES_URCU_VALUE(addr))(v), __ATOMIC_SEQ_CST);               \
        SHEAVES_URCU_AROUND();                                                      \
        sheaves_was;                                                                \
    })

#define uatomic_cmpxchg(addr, old, _new)                                            \
    __extension__({                                                                 \
        SHEAVES_URCU_VALUE(addr) sheaves_was = (SHEAVES_URCU_VALUE(addr))(old);     \
        SHEAVES_URCU_AROUND();                                                      \
        (void)__atomic_compare_exchange_n((addr), &sheaves_was,                     \
                                          (SHEAVES_URCU_VALUE(addr))(_new), 0,      \
                                          __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);      \
        SHEAVES_URCU_AROUND();                                                      \
        sheaves_was;                                                                \
    })

#define SHEAVES_URCU_RETURN(function, addr, v)                                      \
    __extension__({                                                                 \
        SHEAVES_URCU_VALUE(addr) sheaves_is = function(                             \
            (addr), (SHEAVES_URCU_VALUE(addr))(v), __ATOMIC_SEQ_CST);               \
        SHEAVES_URCU_AROUND();                                                      \
        sheaves_is;                                                                 \
    })
#define uatomic_add_return(addr, v) SHEAVES_URCU_RETURN(__atomic_add_fetch, addr, v)
#define uatomic_sub_return(addr, v) SHEAVES_URCU_RETURN(__atomic_sub_fetch, addr, v)

#define SHEAVES_URCU_CHANGE(function, addr, v) \
    ((void)function((addr), (SHEAVES_URCU_VALUE(addr))(v), __ATOMIC_RELAXED))
#define uatomic_add(addr, v) SHEAVES_URCU_CHANGE(__atomic_fetch_add, addr, v)
#define uatomic_sub(addr, v) SHEAVES_URCU_CHANGE(__atomic_fetch_sub, addr, v)
#define uatomic_and(addr, v) SHEAVES_URCU_CHANGE(__atomic_fetch_and, addr, v)
#define uatomic_or(addr, v) SHEAVES_URCU_CHANGE(__atomic_fetch_or, addr, v)
#define uatomic_inc(addr) uatomic_add(addr, 1)
#define uatomic_dec(addr) uatomic_sub(addr, 1)

#define cmm_smp_mb__before_uatomic_add() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_add() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__before_uatomic_sub() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_sub() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__before_uatomic_inc() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_inc() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__before_uatomic_dec() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_dec() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__before_uatomic_and() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_and() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__before_uatomic_or() SHEAVES_URCU_AROUND()
#define cmm_smp_mb__after_uatomic_or() SHEAVES_URCU_AROUND()

#endif /* SHEAVES_URCU_UATOMIC_H */
