/* What is left at the end of a program: objects of a cache, blocks, or nothing. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <unistd.h>

#include "sheaves.h"

static void *kept[1000];

/* As a daemon: closes what it does not know, and opens a file under every number. */
static void open_everything(const char *path)
{
    fflush(stdout);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    for (int fd = 0; fd >= 0 && fd < 1023;)
        fd = open(path, O_RDWR | O_CREAT, 0600);
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "cache")) {
        sheaves_cache *cache = sheaves_cache_create("kept", 48, 0, 0, NULL);
        for (int i = 0; i < 100; i++)
            kept[i] = sheaves_cache_alloc(cache);
    } else if (!strcmp(what, "heap")) {
        for (int i = 0; i < 100; i++)
            kept[i] = sheaves_malloc(3000);
    } else if (!strcmp(what, "late write")) {
        for (int i = 0; i < 1000; i++)
            kept[i] = sheaves_malloc(100);
        for (int i = 0; i < 1000; i++)
            sheaves_free(kept[i]);
        /* This one waits in the quarantine. */
        memset(kept[0], 1, 100);
    }
    /* A child by fork leaves the end to its parent. */
    pid_t child = fork();
    if (child == 0 && strcmp(what, "late write"))
        exit(0);
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    close(2);
    puts("ok");
    if (count > 2)
        open_everything(arguments[2]);
    return 0;
}
