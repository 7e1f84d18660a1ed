// A program of one thread that allocates while a signal handler forks repeatedly. Argument: number
// of forks. The child ends at once, or continues where the signal interrupted it and ends after
// some more allocations.
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { BLOCKS = 400, CHILD_SECONDS = 20, ROUNDS_IN_CHILD = 20 };

static volatile sig_atomic_t forks, is_child;

static void on_alarm(int signal) {
    (void)signal;
    int saved = errno;
    pid_t process = fork();
    if (process < 0) _exit(2);
    if (process == 0) {
        // A child that hangs is killed, which the parent detects.
        alarm(CHILD_SECONDS);
        if (forks % 2) _exit(0);
        is_child = 1;
    } else {
        int status;
        if (waitpid(process, &status, 0) != process || status != 0) _exit(3);
        forks++;
    }
    errno = saved;
}

static void churn(unsigned round) {
    static void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t bytes = round % 16 == 0 && i % 100 == 0 ? 1 << 21 : 16 + (i * 37 + round) % 3000;
        CHECK(blocks[i] = malloc(bytes));
        memset(blocks[i], (int)i, 16);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        CHECK(*(unsigned char *)blocks[i] == (unsigned char)i);
        free(blocks[i]);
    }
}

int main(int count, char **arguments) {
    CHECK(count == 2);
    int wanted = atoi(arguments[1]);
    // If a fork waits for a lock of its own thread the parent hangs: then this kills it.
    alarm(60);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigset_t signals;
    CHECK(!sigemptyset(&signals) && !sigaddset(&signals, SIGVTALRM));
    CHECK(!sigaddset(&signals, SIGALRM));
    CHECK(!sigprocmask(SIG_UNBLOCK, &signals, NULL));
    CHECK(signal(SIGALRM, SIG_DFL) != SIG_ERR && signal(SIGCHLD, SIG_DFL) != SIG_ERR);
    CHECK(!sigaction(SIGVTALRM, &action, NULL));
    // Counts CPU time of the program only, so that forks leave some to it.
    struct itimerval timer = {{0, 500}, {0, 500}};
    CHECK(!setitimer(ITIMER_VIRTUAL, &timer, NULL));
    for (unsigned round = 0; forks < wanted && !is_child; round++) churn(round);
    for (unsigned round = 0; is_child && round < ROUNDS_IN_CHILD; round++) churn(round);
    if (is_child) _exit(0);
    return 0;
}
