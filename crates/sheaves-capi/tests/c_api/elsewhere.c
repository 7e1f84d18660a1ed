/* Compiles where readers are function calls, and fails to where they are inlined. */
#include "sheaves.h"

#ifdef SHEAVES_INLINED
#error "inlined"
#endif

void read_something(void);

void read_something(void)
{
    sheaves_rcu_read_lock();
    sheaves_rcu_read_unlock();
}
