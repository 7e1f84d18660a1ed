/* The header, before everything else, and twice; all that is inlined. */
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
    /* The names of the functions are still those of functions. */
    return &sheaves_rcu_read_lock == &sheaves_rcu_read_unlock ? (void *)0 : found;
}
