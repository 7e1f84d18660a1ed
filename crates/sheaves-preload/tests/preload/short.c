// Memory becomes short, near the limit or by an allocation that fails; the program does not end by
// itself. By then the file has a profile.
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "check.h"

/* Without malloc, which has nothing left. */
static int has_profile(void)
{
    static char text[1 << 16];
    int file = open(getenv("SHEAVES_PROF_FILE"), O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);

    close(file);
    return bytes > 0 && strstr(text, "\nsite live ") != NULL && strstr(text, "\nend\n") != NULL;
}

static void use_up(size_t size, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        char *block = malloc(size);

        if (block == NULL)
            return;
        memset(block, 1, size);
    }
}

int main(int argc, char **argv)
{
    volatile size_t huge = SIZE_MAX;

    (void)argc;
    /* Memory is not short where no heap serves a request. */
    CHECK(malloc(huge) == NULL);
    CHECK(!has_profile());
    if (strcmp(argv[1], "limit") == 0) {
        use_up(1000, 100000);
    } else {
        struct rlimit limit = {256 << 20, 256 << 20};

        CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
        use_up(100000, 10000);
    }
    for (int n = 0; n < 6000 && !has_profile(); n++)
        usleep(10000);
    CHECK(has_profile());
    _exit(0);
}
