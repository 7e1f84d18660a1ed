/* Another thread reads while the process forks. It does not exist in the child, where grace periods
 * must not wait for it: the fork handlers run, however the library is linked. */
#include <assert.h>
#include <pthread.h>
#include <sheaves.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_barrier_t reads, ends;

static void *stay(void *unused)
{
    (void)unused;
    sheaves_rcu_read_lock();
    pthread_barrier_wait(&reads);
    pthread_barrier_wait(&ends);
    sheaves_rcu_read_unlock();
    return NULL;
}

int main(void)
{
    pthread_t thread;
    int status;
    pid_t child;

    assert(pthread_barrier_init(&reads, NULL, 2) == 0);
    assert(pthread_barrier_init(&ends, NULL, 2) == 0);
    assert(pthread_create(&thread, NULL, stay, NULL) == 0);
    pthread_barrier_wait(&reads);
    child = fork();
    if (child == 0) {
        alarm(20);
        _exit(sheaves_rcu_synchronize() == 0 ? 0 : 1);
    }
    assert(waitpid(child, &status, 0) == child && status == 0);
    pthread_barrier_wait(&ends);
    pthread_join(thread, NULL);
    puts("ok");
    return 0;
}
