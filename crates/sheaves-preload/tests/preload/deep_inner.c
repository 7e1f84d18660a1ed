// Frees what others have allocated, and the other way round.
#include <stdlib.h>

void *inner_malloc(void) {
    return (void *)malloc;
}

void inner_free(void *block) {
    free(block);
}

void *inner_take(size_t size) {
    return malloc(size);
}
