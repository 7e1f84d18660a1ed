// Forks while threads allocate, with a library whose fork handlers allocate. Argument: number of
// forks.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 2, BLOCKS = 200, CHILD_SECONDS = 20 };

extern int handlers_run;

static atomic_int stop;

static void churn(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) CHECK(blocks[i] = malloc(16 + (size_t)i * 9));
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
}

static void *work(void *argument) {
    (void)argument;
    while (!atomic_load(&stop)) {
        churn();
        // Leaves some CPU time to the forking thread.
        usleep(100);
    }
    return NULL;
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    int forks = atoi(arguments[1]);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, work, NULL));
    for (int i = 0; i < forks; i++) {
        pid_t process = fork();
        CHECK(process >= 0);
        if (process == 0) {
            // A child that hangs is killed, which the parent detects.
            alarm(CHILD_SECONDS);
            churn();
            _exit(0);
        }
        int status;
        CHECK(waitpid(process, &status, 0) == process && status == 0);
    }
    // Before each fork and after it in the parent.
    CHECK(handlers_run == 2 * forks);
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    return 0;
}
