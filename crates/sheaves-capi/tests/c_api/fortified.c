/* All bytes of sheaves_usable_size may be used, also where the compiler knows the requested size
 * and _FORTIFY_SOURCE checks every memset. */
#include <sheaves.h>

#include <stdio.h>
#include <string.h>

/* The compiler must not know the value of the size, only where it comes from. */
static volatile size_t sizes[] = { 1, 17, 100, 1000, 5000, 100000, 3000000 };

static int fill(void *block)
{
    size_t usable = sheaves_usable_size(block);
    memset(block, 0xa5, usable);
    return ((unsigned char *)block)[usable - 1] == 0xa5;
}

int main(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t size = sizes[i];
        void *block = sheaves_malloc(size);
        if (!block || !fill(block))
            return 1;
        sheaves_free(block);
        block = sheaves_calloc(1, size);
        if (!block || !fill(block))
            return 1;
        block = sheaves_realloc(block, size + 1);
        if (!block || !fill(block))
            return 1;
        sheaves_free(block);
        block = sheaves_aligned_alloc(64, size);
        if (!block || !fill(block))
            return 1;
        sheaves_free(block);
    }
    puts("ok");
    return 0;
}
