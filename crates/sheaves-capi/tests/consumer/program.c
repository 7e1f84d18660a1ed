/* Uses the installed library: a cache, and a reader of one of its objects. */
#include <stdio.h>
#include <string.h>

#include <sheaves.h>

struct name {
    char text[24];
};

int main(void)
{
    sheaves_cache *names = sheaves_cache_create("name", sizeof(struct name), 0, 0, NULL);
    struct name *name = names ? sheaves_cache_alloc(names) : NULL;
    int is_same;

    if (!name || strcmp(sheaves_version(), SHEAVES_VERSION) != 0)
        return 1;
    sheaves_rcu_read_lock();
    strcpy(name->text, "a consumer");
    sheaves_cache_free_rcu(names, name);
    is_same = strcmp(name->text, "a consumer") == 0;
    sheaves_rcu_read_unlock();
    if (!is_same || sheaves_cache_destroy(names) != 0)
        return 1;
    puts("ok");
    return 0;
}
