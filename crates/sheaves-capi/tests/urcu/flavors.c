/* Several flavours in one program, under all their names. Names without a flavour are those of the
 * header included last. */
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <urcu/urcu-bp.h>
#include <urcu/urcu-mb.h>
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>
#include <urcu.h>
#include <urcu-bp.h>
#include <urcu-call-rcu.h>
#include <urcu-defer.h>
#include <urcu-flavor.h>
#include <urcu-pointer.h>
#include <urcu-qsbr.h>
#include <urcu/urcu-poll.h>

struct object {
    int value;
    struct rcu_head head;
};

static int called;
static struct object *shared;

static void call(struct rcu_head *head)
{
    called += caa_container_of(head, struct object, head)->value;
}

static pthread_t caller;

static void note_thread(struct rcu_head *head)
{
    (void)head;
    caller = pthread_self();
}

static void call_plain(void *value)
{
    called += *(int *)value;
}

int main(void)
{
    static const struct rcu_flavor_struct *const flavors[] = {
        &urcu_memb_flavor, &urcu_mb_flavor, &urcu_bp_flavor, &urcu_qsbr_flavor, &rcu_flavor,
    };
    static struct object objects[5];
    static int hundred = 100;
    struct object *old;

    assert(sizeof(struct rcu_head) == 16);
    assert(flavors[4] == flavors[3] && flavors[0] != flavors[3]);
    for (unsigned i = 0; i < 5; i++) {
        const struct rcu_flavor_struct *flavor = flavors[i];
        struct urcu_gp_poll_state state;

        objects[i].value = 1;
        flavor->register_thread();
        flavor->thread_offline();
        flavor->thread_online();
        flavor->read_lock();
        assert(flavor->read_ongoing());
        flavor->read_unlock();
        flavor->read_quiescent_state();
        flavor->update_call_rcu(&objects[i].head, call);
        flavor->update_defer_rcu(call_plain, &hundred);
        state = flavor->update_start_poll_synchronize_rcu();
        flavor->update_synchronize_rcu();
        assert(flavor->update_poll_state_synchronize_rcu(state));
        flavor->unregister_thread();
        assert(!flavor->read_ongoing());
        flavor->barrier();
        assert(called == (int)(i + 1) * 101);
    }

    urcu_memb_read_lock();
    urcu_mb_read_lock();
    urcu_bp_read_lock();
    assert(urcu_memb_read_ongoing() && urcu_mb_read_ongoing());
    urcu_bp_read_unlock();
    urcu_mb_read_unlock();
    urcu_memb_read_unlock();
    assert(!urcu_memb_read_ongoing());

    /* These names are qsbr's, which was included last. An online thread is a reader. */
    rcu_register_thread();
    assert(rcu_read_ongoing());
    _rcu_read_lock();
    _rcu_read_unlock();
    _rcu_quiescent_state();
    synchronize_rcu();
    rcu_thread_offline();
    assert(!rcu_read_ongoing());
    rcu_thread_online();
    rcu_unregister_thread();
    assert(!rcu_read_ongoing());
    /* Also without registration. */
    rcu_read_lock();
    assert(rcu_read_ongoing());
    rcu_read_unlock();

    assert(rcu_xchg_pointer(&shared, &objects[1]) == NULL);
    assert(rcu_cmpxchg_pointer(&shared, &objects[2], NULL) == &objects[1]);
    assert(rcu_cmpxchg_pointer(&shared, &objects[1], &objects[3]) == &objects[1]);
    old = rcu_dereference(shared);
    assert(old == &objects[3] && cmm_ptr_eq(old, &objects[3]));
    rcu_assign_pointer(shared, NULL);
    rcu_set_pointer(&shared, old);
    assert(rcu_dereference_sym(shared) == old);

    assert(get_default_call_rcu_data() && get_call_rcu_data() == get_default_call_rcu_data());
    assert(set_cpu_call_rcu_data(-1, NULL) < 0 && set_cpu_call_rcu_data(1 << 20, NULL) < 0);
    assert(create_all_cpu_call_rcu_data(0) == 0 && get_cpu_call_rcu_data(0));
    assert(set_cpu_call_rcu_data(0, get_default_call_rcu_data()) < 0);
    free_all_cpu_call_rcu_data();
    assert(!get_cpu_call_rcu_data(0));
    assert(get_call_rcu_thread(get_default_call_rcu_data()));
    rcu_flavor.update_call_rcu(&objects[0].head, note_thread);
    rcu_flavor.barrier();
    assert(pthread_equal(get_call_rcu_thread(get_default_call_rcu_data()), caller));
    puts("ok");
    return 0;
}
