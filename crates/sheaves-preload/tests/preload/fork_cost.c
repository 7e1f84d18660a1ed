// A program of one thread: the pages that its children copy do not become more with the number of
// size classes in use.
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { MORE = 8 };

// Page faults of a child that ends at once. The first children resolve symbols.
static long faults_of_child(void) {
    long faults = 0;
    for (int i = 0; i < 3; i++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) _exit(0);
        int status;
        struct rusage usage;
        CHECK(wait4(process, &status, 0, &usage) == process && status == 0);
        faults = usage.ru_minflt;
    }
    return faults;
}

static void use(size_t bytes) {
    void *block = malloc(bytes);
    CHECK(block);
    memset(block, 1, bytes);
    free(block);
}

int main(void) {
    use(100);
    long before = faults_of_child();
    for (size_t bytes = 1; bytes < 60000; bytes += bytes / 8 + 8) use(bytes);
    long after = faults_of_child();
    if (after > before + MORE) fprintf(stderr, "%ld page faults, then %ld\n", before, after);
    CHECK(after <= before + MORE);
    return 0;
}
