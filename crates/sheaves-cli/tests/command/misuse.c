/* Errors in the use of memory, without output. The argument says which. */
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline, noclone))

static NOINLINE char *make_block(size_t bytes)
{
    char *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

static NOINLINE void drop_block(char *block)
{
    free(block);
    __asm__ volatile("");
}

static NOINLINE int look_at(volatile char *block)
{
    int found = block[100];
    __asm__ volatile("");
    return found;
}

int main(int count, char **arguments)
{
    const char *kind = count > 1 ? arguments[1] : "";
    /* Nearly each block of this size is a sample at one in 1024 bytes. */
    char *block = make_block(30000);
    if (!strcmp(kind, "after")) {
        drop_block(block);
        return look_at(block);
    }
    if (!strcmp(kind, "twice")) {
        drop_block(block);
        drop_block(block);
    }
    if (!strcmp(kind, "null"))
        return look_at(NULL);
    /* Reads small blocks that are free, which harms nothing as long as they are not guarded. */
    while (!strcmp(kind, "for-ever")) {
        char *blocks[400];
        for (int i = 0; i < 400; i++)
            blocks[i] = make_block(2000);
        for (int i = 0; i < 400; i++)
            drop_block(blocks[i]);
        for (int i = 0; i < 400; i++)
            look_at(blocks[i]);
    }
    return 0;
}
