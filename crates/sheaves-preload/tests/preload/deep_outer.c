// Loads a library that is only on its own run path, as php does with its modules.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

void *outer_open(void) {
    // Only the run path of this object, $ORIGIN/inner, leads to it: the loader must see that the
    // call comes from here.
    void *library = dlopen("libdeep_inner.so", RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!library) fprintf(stderr, "%s\n", dlerror());
    return library;
}

void *inner_symbol(void *library, const char *name) {
    return dlsym(library, name);
}
