/* Errors and none, for guard samples. The first argument says which; see guard.rs. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE char *make_block(size_t bytes)
{
    char *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block));
    return block;
}

NOINLINE void drop_block(char *block)
{
    free(block);
    __asm__ volatile("");
}

NOINLINE void spoil(volatile char *block, long place)
{
    block[place] = 1;
    __asm__ volatile("");
}

static void *work(void *unused)
{
    char *blocks[64] = { 0 };
    for (unsigned i = 0; i < 300000; i++) {
        unsigned place = i * 31 % 64;
        unsigned bytes = 1 + i * 97 % 5000;
        switch (i % 5) {
        case 0:
            blocks[place] = realloc(blocks[place], bytes);
            break;
        case 1:
            free(blocks[place]);
            blocks[place] = calloc(1, bytes);
            break;
        case 2:
            free(blocks[place]);
            blocks[place] = aligned_alloc(64, bytes);
            break;
        default:
            free(blocks[place]);
            blocks[place] = malloc(bytes);
        }
        memset(blocks[place], (int)i, bytes);
    }
    for (int place = 0; place < 64; place++)
        free(blocks[place]);
    return unused;
}

/* Threads and children that make no error. */
static void correct(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            char *block = malloc(1000);
            memset(block, 1, 1000);
            free(block);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status)
            abort();
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
    if (count < 2)
        return 2;
    if (!strcmp(arguments[1], "correct")) {
        correct();
        return 0;
    }
    /* The first byte of the page after the block, and the last one of the page before it: nearer
       than any other block can be, at whichever end of its place the block is. */
    char *block = make_block(30000);
    unsigned long page = sysconf(_SC_PAGESIZE), start = (unsigned long)block;
    if (!strcmp(arguments[1], "over"))
        spoil(block, (start + 30000 + page - 1) / page * page - start);
    if (!strcmp(arguments[1], "under"))
        spoil(block, -(long)(start % page) - 1);
    if (!strcmp(arguments[1], "after")) {
        drop_block(block);
        spoil(block, 5);
    }
    return 3;
}
