/* A program that defines functions of liburcu itself, as one may that links a library which uses
 * RCU but needs no RCU of its own. And the old names of the flavour with signals. */
/* assert comes with <urcu.h>. */
#include <stdio.h>

#include <urcu.h>
#include <urcu/urcu-signal.h>

static int calls;

void rcu_register_thread_memb(void)
{
    calls += 1;
}

void rcu_unregister_thread_memb(void)
{
    calls += 2;
}

void urcu_memb_init(void)
{
    calls += 4;
}

void urcu_memb_exit(void)
{
    calls += 8;
}

static void count(void *priv)
{
    ++*(int *)priv;
}

int main(void)
{
    static int forks;
    static int value = 3, *shared;
    static struct urcu_atfork atfork = { count, count, count, &forks };

    rcu_register_thread_memb();
    rcu_unregister_thread_memb();
    urcu_memb_init();
    urcu_memb_exit();
    assert(calls == 15);

    rcu_read_lock_sig();
    _rcu_read_lock_sig();
    rcu_set_pointer_sig(&shared, &value);
    assert(rcu_read_ongoing_sig() && *rcu_dereference_sig(shared) == 3);
    rcu_read_unlock_sig();
    rcu_read_unlock_sig();
    assert(urcu_signal_xchg_pointer(&shared, NULL) == &value);
    assert(rcu_cmpxchg_pointer_sig(&shared, NULL, &value) == NULL && shared == &value);
    synchronize_rcu_sig();
    rcu_barrier_sig();

    /* Called as long as one table is registered. */
    urcu_register_rculfhash_atfork_memb(&atfork);
    urcu_register_rculfhash_atfork_sig(&atfork);
    urcu_unregister_rculfhash_atfork_memb(&atfork);
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    assert(forks == 2);
    urcu_unregister_rculfhash_atfork_sig(&atfork);
    call_rcu_before_fork();
    call_rcu_after_fork_parent();
    assert(forks == 2);
    puts("ok");
    return 0;
}
