/* Loads and stores of what threads share, each done once and without any order. */

#ifndef SHEAVES_URCU_SYSTEM_H
#define SHEAVES_URCU_SYSTEM_H

#include <urcu/compiler.h>
#include <urcu/arch.h>

#define CMM_LOAD_SHARED(p) CMM_ACCESS_ONCE(p)
#define CMM_STORE_SHARED(x, v)                  \
    __extension__({                             \
        __typeof__(x) sheaves_stored = (v);     \
        CMM_ACCESS_ONCE(x) = sheaves_stored;    \
        sheaves_stored;                         \
    })
#define _CMM_LOAD_SHARED(p) CMM_LOAD_SHARED(p)
#define _CMM_STORE_SHARED(x, v) CMM_STORE_SHARED(x, v)

#endif /* SHEAVES_URCU_SYSTEM_H */
