/* Loads a module in C++, whose runtime comes with it and is in no other scope. */
#include <dlfcn.h>
#include <stddef.h>

#include "check.h"

int main(int count, char **words)
{
    CHECK(count == 2 && dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL);
    void *object = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(object != NULL);
    int (*module)(void) = (int (*)(void))dlsym(object, "module");
    CHECK(module != NULL);
    return module();
}
