// Frees blocks that other objects have allocated, and the reverse.
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
