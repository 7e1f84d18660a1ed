/* Includes the header first, and twice; uses everything that is inlined. */
#include "sheaves.h"
#include "sheaves.h"

void *shared;
sheaves_counter counter = SHEAVES_COUNTER_INIT;

#ifdef __cplusplus
extern "C"
#endif
void *read_it(void);

void *read_it(void)
{
    void *found;

    sheaves_rcu_read_lock();
    found = sheaves_rcu_dereference(shared);
    sheaves_rcu_read_unlock();
    sheaves_rcu_assign_pointer(shared, found);
    /* The names without parentheses are still functions. */
    return &sheaves_rcu_read_lock == &sheaves_rcu_read_unlock ? (void *)0 : found;
}
