/* What malloc serves where memory is limited before the first call. Arguments: which limit, how
   many KiB of it are left, and how many of these malloc must serve at least. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "check.h"

struct block {
    struct block *next;
};

/* A line of /proc/self/status, without malloc. */
static long kib(const char *name)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    CHECK(file >= 0 && bytes > 0);
    close(file);
    text[bytes] = 0;
    char *line = strstr(text, name);
    CHECK(line != NULL);
    return atol(line + strlen(name));
}

static long served(struct block **list, size_t size)
{
    long count = 0;
    for (;;) {
        errno = 0;
        struct block *block = malloc(size);
        if (block == NULL) {
            CHECK(errno == ENOMEM);
            return count * (long)size >> 10;
        }
        CHECK(((size_t)block & 15) == 0 && count < 1 << 24);
        memset(block, 1, size < 4096 ? size : 4096);
        block->next = *list;
        *list = block;
        count++;
    }
}

static void release(struct block *list)
{
    while (list != NULL) {
        struct block *next = list->next;
        free(list);
        list = next;
    }
}

/* Maps single pages, which cannot be joined, until the kernel refuses. The pages end in `list`. */
static void *use_up_mappings(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *pages = mmap(NULL, 1 << 30, PROT_NONE, flags, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (size_t at = 0; at < 1 << 30; at += 8192)
        if (mprotect(pages + at, 4096, PROT_READ))
            break;
    /* The last few. */
    while (mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        ;
    return pages;
}

static void small_blocks_with_all_mappings_used_up(void)
{
    void *pages = use_up_mappings();
    long size = kib("VmSize:");
    errno = 0;
    void *volatile block = malloc(100);
    CHECK(block != NULL || errno == ENOMEM);
    CHECK(block != NULL || kib("VmSize:") == size);
    munmap(pages, 1 << 20);
    CHECK((block = malloc(100)) != NULL);
    CHECK((block = malloc(300000)) != NULL);
    mprotect(pages + (1 << 20), (1 << 30) - (1 << 20), PROT_READ);
    use_up_mappings();
    for (int i = 0; i < 60000; i++)
        CHECK((block = malloc(1000)) != NULL);
    for (int i = 0; i < 60; i++)
        CHECK((block = malloc(500000)) != NULL);
}

/* What a thread has freed on one CPU lies in that CPU's sheaves until a tick: the same thread on
   another CPU is not served from there before its call fails. */
static void stay_on_this_cpu(void)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(sched_getcpu(), &cpus);
    CHECK(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
}

int main(int count, char **arguments)
{
    stay_on_this_cpu();
    const char *which = count > 1 ? arguments[1] : "";
    long left = count > 3 ? atol(arguments[2]) : 0, least = count > 3 ? atol(arguments[3]) : 0;
    if (!strcmp(which, "none")) {
        CHECK(malloc(100) != NULL && kib("VmData:") < 2048);
        return 0;
    }
    if (!strcmp(which, "mappings")) {
        small_blocks_with_all_mappings_used_up();
        return 0;
    }
    int resource = !strcmp(which, "data") ? RLIMIT_DATA : RLIMIT_AS;
    if (!strcmp(which, "memlock"))
        resource = RLIMIT_MEMLOCK;
    struct rlimit limit;
    CHECK(getrlimit(resource, &limit) == 0);
    long used = kib(resource == RLIMIT_DATA ? "VmData:" : "VmSize:");
    limit.rlim_cur = (used + left) << 10;
    if (resource == RLIMIT_MEMLOCK) {
        /* An ordinary user locks its memory, and all that comes. */
        if (limit.rlim_max < limit.rlim_cur)
            return 0;
        CHECK(geteuid() != 0 || setuid(65534) == 0);
        CHECK(setrlimit(resource, &limit) == 0 && mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
    } else {
        CHECK(setrlimit(resource, &limit) == 0);
    }
    static const size_t sizes[] = {1000, 100, 40000, 300000};
    for (int i = 0; i < 4; i++) {
        struct block *list = NULL;
        long first = served(&list, sizes[i]);
        /* Also what blocks of another size had before. */
        CHECK(first >= least);
        /* Attempts that fail leave nothing behind. */
        long before = kib("VmSize:");
        for (int j = 0; j < 500; j++) {
            served(&list, sizes[i]);
            CHECK(malloc(3 << 20) == NULL);
        }
        CHECK(kib("VmSize:") < before + 200);
        release(list);
        list = NULL;
        long second = served(&list, sizes[i]);
        CHECK(second >= first * 9 / 10);
        release(list);
    }
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(resource, &limit) == 0);
    char *volatile large = malloc(resource == RLIMIT_MEMLOCK ? 300 << 10 : 10 << 20);
    CHECK(large != NULL && malloc(100) != NULL);
    large[0] = 1;
    return 0;
}
