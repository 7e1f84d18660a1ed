/* Parameters of mallopt: 1 for those that are followed, 0 for all others. */
#include <limits.h>
#include <malloc.h>
#include <string.h>

#include "check.h"

/* Bytes that the heap keeps after as many blocks were freed. */
static size_t kept(void)
{
    enum { BLOCKS = 64, BYTES = 200000 };
    void *blocks[BLOCKS];
    malloc_trim(0);
    size_t before = mallinfo2().keepcost;
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i] = malloc(BYTES));
        memset(blocks[i], 1, BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return mallinfo2().keepcost - before;
}

int main(void)
{
    static const int refused[] = {
        M_MXFAST, M_NLBLKS, M_GRAIN, M_KEEP, M_TOP_PAD, M_MMAP_THRESHOLD, M_MMAP_MAX,
        M_CHECK_ACTION, M_PERTURB, 0, 5, -9, 1000, INT_MAX, INT_MIN,
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        errno = 77;
        CHECK(mallopt(refused[i], 1) == 0 && errno == 77);
    }
    /* There is one heap, which is no more than any limit. */
    CHECK(mallopt(M_ARENA_MAX, 1) == 1);
    CHECK(mallopt(M_ARENA_TEST, 8) == 1);
    CHECK(mallopt(M_ARENA_MAX, 0) == 1 && mallopt(M_ARENA_TEST, 0) == 0);
    CHECK(mallopt(M_TRIM_THRESHOLD, 128 << 10) == 0);
    CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    size_t for_ever = kept();
    CHECK(mallopt(M_TRIM_THRESHOLD, 0) == 1);
    size_t at_once = kept();
    int is_plain = !getenv("SHEAVES_HARDEN") && !getenv("SHEAVES_DEBUG");
    if (is_plain)
        CHECK(for_ever > (8 << 20) && at_once < (2 << 20));
    return 0;
}
