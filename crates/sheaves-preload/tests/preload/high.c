// A definition that the preload object looks for when it is loaded.
#include <stddef.h>

void *realloc(void *block, size_t size) {
    (void)block;
    (void)size;
    return NULL;
}
