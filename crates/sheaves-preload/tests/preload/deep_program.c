// Passes blocks to an object that was loaded with RTLD_DEEPBIND, and frees blocks of that object.
// The argument is the expected effect of the flag: "kept" or "cleared".
#include <string.h>

#include "check.h"

void *outer_open(void);
void *inner_symbol(void *library, const char *name);

int main(int argc, char **argv) {
    CHECK(argc == 2);
    void *library = outer_open();
    CHECK(library);
    void *(*malloc_of)(void) = (void *(*)(void))inner_symbol(library, "inner_malloc");
    CHECK(malloc_of);
    if (strcmp(argv[1], "kept") == 0) {
        CHECK(malloc_of() != (void *)malloc);
        return 0;
    }
    CHECK(malloc_of() == (void *)malloc);
    void (*give)(void *) = (void (*)(void *))inner_symbol(library, "inner_free");
    void *(*take)(size_t) = (void *(*)(size_t))inner_symbol(library, "inner_take");
    for (size_t size = 1; size < 3 << 20; size = size * 3 + 1) {
        give(malloc(size));
        free(take(size));
    }
    return 0;
}
