/* Reference counts. */

#ifndef SHEAVES_URCU_REF_H
#define SHEAVES_URCU_REF_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

#include <urcu/uatomic.h>

struct urcu_ref {
    long refcount;
};

#ifdef __cplusplus
extern "C" {
#endif

static inline void urcu_ref_set(struct urcu_ref *ref, long val)
{
    uatomic_set(&ref->refcount, val);
}

static inline void urcu_ref_init(struct urcu_ref *ref)
{
    urcu_ref_set(ref, 1);
}

/* Adds a reference unless there are first or LONG_MAX: false then. */
static inline bool sheaves_urcu_ref_get(struct urcu_ref *ref, long first)
{
    long count = uatomic_read(&ref->refcount);

    while (count != first && count != LONG_MAX) {
        long was = uatomic_cmpxchg(&ref->refcount, count, count + 1);

        if (was == count)
            return true;
        count = was;
    }
    return false;
}

/* False if no more references can be counted. */
static inline bool __attribute__((warn_unused_result)) urcu_ref_get_safe(struct urcu_ref *ref)
{
    return sheaves_urcu_ref_get(ref, LONG_MAX);
}

/* Aborts the process if no more references can be counted. */
static inline void urcu_ref_get(struct urcu_ref *ref)
{
    if (!urcu_ref_get_safe(ref))
        abort();
}

/* False if there is no reference any more. */
static inline bool urcu_ref_get_unless_zero(struct urcu_ref *ref)
{
    return sheaves_urcu_ref_get(ref, 0);
}

/* Drops a reference, and calls a function with the last one. */
static inline void urcu_ref_put(struct urcu_ref *ref, void (*release)(struct urcu_ref *))
{
    if (uatomic_sub_return(&ref->refcount, 1) == 0)
        release(ref);
}

#ifdef __cplusplus
}
#endif

#endif /* SHEAVES_URCU_REF_H */
