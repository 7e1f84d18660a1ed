/* Ends a section of a domain twice. */
#include <stdio.h>
#include <sys/resource.h>

#include "sheaves.h"

int main(void)
{
    struct rlimit none = { 0, 0 };
    sheaves_srcu *domain = sheaves_srcu_create();
    sheaves_srcu_section section = sheaves_srcu_read_lock(domain);

    setrlimit(RLIMIT_CORE, &none);
    sheaves_srcu_read_unlock(domain, section);
    if (sheaves_srcu_synchronize(domain) != 0)
        return 1;
    sheaves_srcu_read_unlock(domain, section);
    sheaves_srcu_synchronize(domain);
    puts("not found");
    return 0;
}
