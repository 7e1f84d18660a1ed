/* Likely branches, accesses that the compiler must not repeat, and containers of members. */

#ifndef SHEAVES_URCU_COMPILER_H
#define SHEAVES_URCU_COMPILER_H

#include <stddef.h>
#include <stdint.h>

#define caa_likely(x) __builtin_expect(!!(x), 1)
#define caa_unlikely(x) __builtin_expect(!!(x), 0)

/* For the compiler only. */
#define cmm_barrier() __asm__ __volatile__("" : : : "memory")
#define CMM_ACCESS_ONCE(x) (*(__typeof__(x) volatile *)&(x))

#define caa_max(a, b) ((a) > (b) ? (a) : (b))
#define caa_min(a, b) ((a) < (b) ? (a) : (b))
#define CAA_BITS_PER_LONG 64
#define CAA_ARRAY_SIZE(x) (sizeof(x) / sizeof((x)[0]))

#define caa_container_of(ptr, type, member) \
    ((type *)(void *)((char *)(uintptr_t)(ptr) - offsetof(type, member)))
#define caa_container_of_check_null(ptr, type, member) \
    __extension__({                                    \
        const void *sheaves_member = (ptr);            \
        sheaves_member ? caa_container_of(sheaves_member, type, member) : (type *)NULL; \
    })

/* 0. Does not compile if the condition is true, or no constant. */
#ifdef __cplusplus
extern "C++" {
template <bool is_bug> struct sheaves_urcu_bug_on {
    static_assert(!is_bug, "CAA_BUILD_BUG_ON: the condition is true");
};
}
#define CAA_BUILD_BUG_ON_ZERO(cond) (sizeof(sheaves_urcu_bug_on<!!(cond)>) - 1)
#else
#define CAA_BUILD_BUG_ON_ZERO(cond) \
    (sizeof(struct { int sheaves_bug : (cond) ? -1 : 1; }) - sizeof(int))
#endif
#define CAA_BUILD_BUG_ON(cond) ((void)CAA_BUILD_BUG_ON_ZERO(cond))

#ifdef __cplusplus
#define URCU_FORCE_CAST(type, arg) (reinterpret_cast<type>(arg))
#else
#define URCU_FORCE_CAST(type, arg) ((type)(arg))
#endif

#define caa_is_signed_type(type) ((type)-1 < (type)1)
/* As a long, sign-extended if the type is signed. */
#define caa_cast_long_keep_sign(v) \
    (caa_is_signed_type(__typeof__(v)) ? (long)(v) : (long)(unsigned long)(v))

#define CDS_DEPRECATED(msg) __attribute__((deprecated(msg)))
/* Marks pointers that are published by RCU. */
#define __rcu

#endif /* SHEAVES_URCU_COMPILER_H */
