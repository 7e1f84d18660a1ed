/* Allocates known amounts at 20 places, with other allocations in between, and compares the profile
 * with them. With the argument "late" profiling begins after the program has worked for a while. A
 * number after it is for how many seconds other blocks come and go before the comparison, which is
 * printed then. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <pthread.h>

#include "sheaves.h"

/* A rate with so many samples that what is allowed below is five deviations at most places. */
enum { RATE = 2 << 10, RING = 3000, PLACES = 20 };

#define NOINLINE __attribute__((noinline, noclone))
/* The call must not be the last thing that a function does: it would become a jump. */
#define STAY(p) __asm__ volatile("" : "+r"(p))

static sheaves_cache *small_cache, *large_cache;

#define PLACE(n, expression)                                                                       \
    static NOINLINE void *place_##n(size_t bytes)                                                  \
    {                                                                                              \
        void *p = (expression);                                                                    \
        (void)bytes;                                                                               \
        STAY(p);                                                                                   \
        return p;                                                                                  \
    }

PLACE(0, sheaves_malloc(bytes))
PLACE(1, sheaves_malloc(bytes))
PLACE(2, sheaves_malloc(bytes))
PLACE(3, sheaves_malloc(bytes))
PLACE(4, sheaves_malloc(bytes))
PLACE(5, sheaves_malloc(bytes))
PLACE(6, sheaves_malloc(bytes))
PLACE(7, sheaves_malloc(bytes))
PLACE(8, sheaves_malloc(bytes))
PLACE(9, sheaves_malloc(bytes))
PLACE(10, sheaves_malloc(bytes))
PLACE(11, sheaves_calloc(1, bytes))
PLACE(12, sheaves_calloc(1, bytes))
PLACE(13, sheaves_aligned_alloc(64, bytes))
PLACE(14, sheaves_realloc(sheaves_malloc(bytes / 4), bytes))
PLACE(15, sheaves_realloc(sheaves_malloc(bytes / 4), bytes))
PLACE(16, sheaves_cache_alloc(small_cache))
PLACE(17, sheaves_cache_alloc(large_cache))
PLACE(18, sheaves_malloc(bytes))
PLACE(19, sheaves_cache_alloc(small_cache))

static const struct place {
    void *(*function)(size_t);
    size_t bytes, count, stride;
    int is_deferred;
} places[PLACES] = {
    {place_0, 1000, 1, 1088, 0},
    {place_1, 16, 200000, 16, 0},
    {place_2, 24, 100000, 32, 0},
    {place_3, 100, 40000, 112, 0},
    {place_4, 500, 20000, 512, 0},
    {place_5, 1000, 8000, 1088, 0},
    {place_6, 5000, 2000, 5184, 0},
    {place_7, 40000, 300, 41024, 0},
    {place_8, 200000, 60, 262144, 0},
    {place_9, 2 << 20, 20, 2 << 20, 0},
    {place_10, 100 << 20, 1, 100 << 20, 0},
    {place_11, 64, 50000, 64, 0},
    {place_12, 3 << 20, 5, 3 << 20, 0},
    {place_13, 192, 20000, 192, 0},
    {place_14, 800, 10000, 832, 0},
    {place_15, 8 << 20, 3, 8 << 20, 0},
    {place_16, 72, 40000, 72, 0},
    {place_17, 7000, 1000, 7000, 0},
    {place_18, 240, 20000, 240, 1},
    {place_19, 72, 30000, 72, 1},
};

static NOINLINE void defer(int place, void *p)
{
    if (place == 19)
        sheaves_cache_free_rcu(small_cache, p);
    else
        sheaves_free_rcu(p);
    STAY(p);
}

/* Other blocks of the same sizes, which come and go. */
static void *ring[2][RING];
static uint64_t seed[2] = {1, 2};

static unsigned random_below(int who, unsigned below)
{
    seed[who] = seed[who] * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(seed[who] >> 33) % below;
}

static NOINLINE void *other(size_t bytes)
{
    void *p = sheaves_malloc(bytes);

    STAY(p);
    return p;
}

static void churn(int who, size_t bytes)
{
    unsigned index = random_below(who, RING);

    sheaves_free(ring[who][index]);
    ring[who][index] = bytes < 100000 ? other(bytes) : NULL;
    sheaves_free(other(bytes));
}

static int is_over;

static void *churn_always(void *unused)
{
    (void)unused;
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        for (int step = 0; step < 1000; step++)
            churn(1, places[1 + random_below(1, 6)].bytes);
    }
    return NULL;
}

static void fail(const char *what)
{
    printf("%s\n", what);
    exit(1);
}

/* The place whose function has an address, or -1: not if another function starts in between. */
static int place_of(uintptr_t address)
{
    uintptr_t nearest = (uintptr_t)other < address ? (uintptr_t)other : 0;
    int best = -1;

    for (int n = 0; n < PLACES; n++) {
        uintptr_t start = (uintptr_t)places[n].function;
        if (start < address && start > nearest) {
            nearest = start;
            best = n;
        }
    }
    return address - nearest < 200 ? best : -1;
}

static double square_root(double x)
{
    double root = x > 1 ? x : 1;

    for (int n = 0; n < 100; n++)
        root = (root + x / root) / 2;
    return root;
}

/* 1 - exp(-x) */
static double chance(double x)
{
    double power = 1;

    for (int n = 0; n < 4096; n++)
        power *= 1 - x / 4096 / (1 + x / 8192);
    return 1 - power;
}

int main(int argc, char **argv)
{
    static double live[PLACES], deferred_bytes, other_caches;
    int is_late = argc > 1 && strcmp(argv[1], "late") == 0;
    pthread_t thread;
    size_t most = 0;

    small_cache = sheaves_cache_create("small", 72, 8, 0, NULL);
    large_cache = sheaves_cache_create("large objects", 7000, 8, 0, NULL);
    if (sheaves_prof_start(1) == 0 || sheaves_prof_dump(-1) == 0)
        fail("bad arguments are accepted");
    if (!is_late && sheaves_prof_start(RATE) != 0)
        fail("no start");
    for (int step = 0; step < 400000; step++)
        churn(0, places[1 + step % 6].bytes);
    if (is_late && sheaves_prof_start(RATE) != 0)
        fail("no start");
    if (pthread_create(&thread, NULL, churn_always, NULL) != 0)
        fail("no thread");

    sheaves_rcu_read_lock();
    for (int n = 0; n < PLACES; n++)
        most = most > places[n].count ? most : places[n].count;
    for (size_t index = 0; index < most; index++) {
        for (int n = 0; n < PLACES; n++) {
            if (index >= places[n].count)
                continue;
            void *p = places[n].function(places[n].bytes);
            if (p == NULL)
                fail("out of memory");
            if (places[n].is_deferred)
                defer(n, p);
            churn(0, places[n].bytes);
        }
    }
    time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 0);
    while (time(NULL) < end) {
        for (int step = 0; step < 10000; step++)
            churn(0, places[1 + step % 8].bytes);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);

    int fd = memfd_create("dump", 0);
    if (fd < 0 || sheaves_prof_dump(fd) != 0 || lseek(fd, 0, SEEK_SET) != 0)
        fail("no dump");
    sheaves_rcu_read_unlock();
    FILE *dump = fdopen(fd, "r");
    static char line[4096];
    unsigned sites = 0, deep = 0;
    while (fgets(line, sizeof line, dump) != NULL) {
        char state[16], kind[16], name[40];
        unsigned long long samples, objects, bytes, all_objects, all_bytes;
        uintptr_t leaf, second;
        int count =
            sscanf(line, "site %15s %15s %39s %llu %llu %llu %llu %llu %lx %lx", state, kind, name,
                   &samples, &objects, &bytes, &all_objects, &all_bytes, &leaf, &second);
        if (count < 8)
            continue;
        sites++;
        deep += count == 10;
        int place = count > 8 ? place_of(leaf) : -1;
        if (strcmp(state, "deferred") == 0)
            deferred_bytes += (double)bytes;
        else if (place >= 0)
            live[place] += (double)bytes;
        else if (strcmp(kind, "cache") == 0)
            other_caches += (double)bytes;
    }
    if (argc > 2)
        printf("%u sites, %u with callers, other caches %.0f\n", sites, deep, other_caches);
    double total = 0, total_expected = 0, deferred_expected = 0;
    int failures = 0;
    for (int n = 0; n < PLACES; n++) {
        double expected = (double)places[n].bytes * (double)places[n].count;
        double p = chance((double)places[n].stride / RATE);
        double error = (double)places[n].bytes * square_root((double)places[n].count * (1 - p) / p);
        if (places[n].is_deferred) {
            deferred_expected += expected;
            continue;
        }
        total += live[n];
        total_expected += expected;
        double deviation = live[n] > expected ? live[n] - expected : expected - live[n];
        double allowed = 0.05 * expected + 3 * error;
        /* Few samples are not distributed normally: one or two where none is expected are right. */
        if ((double)places[n].count * p < 10)
            allowed += 3 * (double)places[n].bytes / p;
        int is_right = deviation <= allowed;
        failures += !is_right;
        if (argc > 2 || !is_right)
            printf("place %d: %.0f bytes, expected %.0f +- %.0f%s\n", n, live[n], expected, error,
                   is_right ? "" : " WRONG");
    }
    total += deferred_bytes;
    total_expected += deferred_expected;
    if (argc > 2)
        printf("deferred %.0f of %.0f, total %.0f of %.0f\n", deferred_bytes, deferred_expected,
               total, total_expected);
    if (deferred_bytes < 0.8 * deferred_expected || deferred_bytes > 1.2 * deferred_expected)
        fail("deferred bytes are wrong");
    if (total < 0.95 * total_expected || total > 1.05 * total_expected)
        fail("the total is wrong");
    if (failures != 0)
        return 1;
    sheaves_prof_stop();
    printf("ok\n");
    return 0;
}
