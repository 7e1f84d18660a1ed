/* What the queues and stacks share: an argument that is one of two structures with the same
 * beginning, and waiting for a node that another thread has added but not linked yet. */

#ifndef SHEAVES_URCU_WAIT_H
#define SHEAVES_URCU_WAIT_H

/* Programs find assert here, as in liburcu. */
#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include <urcu/arch.h>
#include <urcu/compiler.h>
#include <urcu/pointer.h>

/* A type for pointers to a structure or to one without a lock: whole and plain are its members. */
#ifdef __cplusplus
#define SHEAVES_URCU_EITHER(name, Whole, whole, Plain, plain) \
    struct name {                                             \
        union {                                               \
            Plain *plain;                                     \
            Whole *whole;                                     \
        };                                                    \
        name() = default;                                     \
        name(Plain *is) : plain(is) {}                        \
        name(Whole *is) : whole(is) {}                        \
    }
#else
#define SHEAVES_URCU_EITHER(name, Whole, whole, Plain, plain) \
    typedef union {                                           \
        Plain *plain;                                         \
        Whole *whole;                                         \
    } __attribute__((__transparent_union__)) name
#endif

/* The other thread is between two instructions, or was preempted there. */
static inline void sheaves_urcu_wait(unsigned *attempts)
{
    if (++*attempts < 100)
        caa_cpu_relax();
    else
        (void)poll(NULL, 0, 1);
}

/* The pointer at a place, once it is not null; null if it is and the caller does not wait. */
#define SHEAVES_URCU_LINKED(place, waits)                               \
    __extension__({                                                     \
        unsigned sheaves_attempts = 0;                                  \
        __typeof__(*(place)) sheaves_found;                             \
        while (!(sheaves_found = __atomic_load_n((place), __ATOMIC_ACQUIRE)) && (waits)) \
            sheaves_urcu_wait(&sheaves_attempts);                       \
        sheaves_found;                                                  \
    })

static inline void sheaves_urcu_mutex_lock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_lock(mutex) != 0)
        abort();
}

static inline void sheaves_urcu_mutex_unlock(pthread_mutex_t *mutex)
{
    if (pthread_mutex_unlock(mutex) != 0)
        abort();
}

#endif /* SHEAVES_URCU_WAIT_H */
