/* Statistics of the process, and the version of the library. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sheaves.h"

int main(void)
{
    sheaves_statistics statistics;
    void *deferred = sheaves_malloc(3000);
    void *block = sheaves_malloc(1 << 20);

    assert(block && strcmp(sheaves_version(), SHEAVES_VERSION) == 0);
    assert(strcmp(sheaves_engine(), "none") != 0);
    assert(sheaves_get_statistics(&statistics, sizeof statistics) == 0);
    assert(statistics.used_bytes >= 1 << 20);
    assert(statistics.deferred_objects == 0 && statistics.deferred_bytes == 0);
    /* The grace period cannot end while this thread reads. */
    sheaves_rcu_read_lock();
    sheaves_free_rcu(deferred);
    assert(sheaves_get_statistics(&statistics, sizeof statistics) == 0);
    assert(statistics.deferred_objects == 1 && statistics.deferred_bytes >= 3000);
    sheaves_rcu_read_unlock();
    assert(sheaves_rcu_barrier() == 0);
    assert(sheaves_get_statistics(&statistics, sizeof statistics) == 0);
    assert(statistics.deferred_objects == 0);
    assert(sheaves_get_statistics(NULL, 8) == EINVAL);
    assert(sheaves_print_statistics(2, SHEAVES_FORMAT_JSON) == 0);
    assert(sheaves_print_statistics(2, 77) == EINVAL);
    assert(sheaves_print_statistics(-1, SHEAVES_FORMAT_TEXT) == EINVAL);
    sheaves_free(block);
    puts("ok");
    return 0;
}
