/* Waits for input, passes the probes of slabs and of large blocks, prints what those should say. */
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 20000

static char *blocks[BLOCKS];

int main(void)
{
    getchar();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(100);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    void *large = malloc(5 << 20);
    printf("large %p %d\n", large, 5 << 20);
    free(large);
    return 0;
}
