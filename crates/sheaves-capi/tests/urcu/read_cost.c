/* Cost of a read section in nanoseconds, with the header and library that it is compiled with.
 * `cargo xtask read-cost` compiles it with Sheaves and with liburcu.
 *
 * Argument: rounds of ten million sections. Prints the fastest round. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <urcu.h>

#define SECTIONS 10000000L

static int value = 1, *shared = &value;

static double round_ns(void)
{
    struct timespec begin, end;
    long sum = 0;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < SECTIONS; i++) {
        rcu_read_lock();
        sum += *rcu_dereference(shared);
        rcu_read_unlock();
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    if (sum != SECTIONS)
        abort();
    return ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) /
           (double)SECTIONS;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 10;
    double least = 1e9;

    rcu_register_thread();
    for (long i = 0; i < rounds; i++) {
        double found = round_ns();

        least = found < least ? found : least;
    }
    printf("%.3f\n", least);
    rcu_unregister_thread();
    return 0;
}
