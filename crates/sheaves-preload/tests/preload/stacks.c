/* Allocates below calls without frame pointers, in main and in a thread. Prints the addresses to
   which the outermost function returns, in main and in the function of the thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *callers[2];

__attribute__((noinline)) static char *deep(int levels)
{
    volatile char room[40];
    room[0] = 0;
    char *block = levels == 0 ? malloc(1000) : deep(levels - 1);
    return block + room[0];
}

static int by_value(const void *one, const void *two)
{
    free(deep(3));
    return *(const int *)one - *(const int *)two;
}

__attribute__((noinline)) static void outermost(int number)
{
    callers[number] = __builtin_return_address(0);
    for (int index = 0; index < 100000; index++)
        free(deep(index % 30));
    /* Through libc. */
    for (int round = 0; round < 10000; round++) {
        int values[] = {3, 1, 2, 5, 4};
        qsort(values, 5, sizeof *values, by_value);
    }
}

static void *begin(void *argument)
{
    outermost(1);
    return argument;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, begin, NULL);
    outermost(0);
    pthread_join(thread, NULL);
    printf("%lx %lx\n", (long)callers[0], (long)callers[1]);
    return 0;
}
