/* The malloc family of this heap, next to that of libc. */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sheaves.h"

int main(void)
{
    char *text = sheaves_malloc(6), *other = malloc(6);
    void *page = sheaves_aligned_alloc(4096, 100);

    assert(text && other && page && (uintptr_t)page % 4096 == 0);
    strcpy(text, "hello");
    text = sheaves_realloc(text, 100000);
    assert(text && strcmp(text, "hello") == 0 && sheaves_usable_size(text) >= 100000);
    errno = 0;
    assert(!sheaves_calloc(SIZE_MAX / 2, 3) && errno == ENOMEM);
    errno = 0;
    assert(!sheaves_aligned_alloc(3, 100) && errno == EINVAL);
    sheaves_free(text);
    sheaves_free(page);
    sheaves_free(NULL);
    free(other);
    (void)sheaves_trim(0);
    puts("ok");
    return 0;
}
