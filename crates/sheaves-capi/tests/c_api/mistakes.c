/* A correct use of the library with one error that tools must detect: -DLEAK or -DOVERFLOW. */
#include <stdio.h>
#include <stdlib.h>

#include "sheaves.h"

int main(void)
{
    char *volatile block = malloc(40);
    void *ours = sheaves_malloc(40);

    if (!block || !ours)
        return 0;
#if defined(OVERFLOW)
    block[40] = 1;
    free(block);
#elif defined(LEAK)
    block = NULL;
#endif
    sheaves_rcu_read_lock();
    sheaves_rcu_read_unlock();
    sheaves_free(ours);
    puts("ok");
    return 0;
}
