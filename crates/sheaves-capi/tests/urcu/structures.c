/* Lists, stacks, queues, references and atomic operations of the headers for liburcu. Threads add
 * and take nodes: each node is taken once, and queues keep the order of each thread. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <urcu.h>
#include <urcu/cds.h>
#include <urcu/ref.h>

/* A test defines it as what must not compile. */
#ifndef BUG
#define BUG sizeof(long) != 8
#endif

enum { THREADS = 2, NODES = 20000 };

struct item {
    union {
        struct cds_lfs_node lfs;
        struct cds_wfs_node wfs;
        struct cds_wfcq_node wfcq;
        struct cds_lfq_node_rcu lfq;
    } node;
    struct rcu_head head;
    int thread, number, taken;
};

/* A structure that threads add to and take from. */
struct kind {
    const char *name;
    void (*add)(struct item *item);
    struct item *(*take)(void);
    int is_queue;
};

static struct item items[THREADS][NODES];
static long taken;
static const struct kind *kind;

static struct cds_lfs_stack lfs;
static struct cds_wfs_stack wfs;
static struct cds_wfcq_head head, other_head;
static struct cds_wfcq_tail tail, other_tail;
static struct cds_lfq_queue_rcu lfq;

#define ITEM(found, member) ((found) ? caa_container_of(found, struct item, node.member) : NULL)

static void lfs_add(struct item *item)
{
    cds_lfs_node_init(&item->node.lfs);
    cds_lfs_push(&lfs, &item->node.lfs);
}

static struct item *lfs_take(void)
{
    struct cds_lfs_node *found = cds_lfs_pop_blocking(&lfs);

    return ITEM(found, lfs);
}

/* Under RCU in place of the lock: no node is pushed twice. */
static struct item *lfs_take_rcu(void)
{
    struct cds_lfs_node *found;

    rcu_read_lock();
    found = __cds_lfs_pop(&lfs);
    rcu_read_unlock();
    return ITEM(found, lfs);
}

static void wfs_add(struct item *item)
{
    cds_wfs_node_init(&item->node.wfs);
    cds_wfs_push(&wfs, &item->node.wfs);
}

static struct item *wfs_take(void)
{
    int state;
    struct cds_wfs_node *found = cds_wfs_pop_with_state_blocking(&wfs, &state);

    return ITEM(found, wfs);
}

static struct item *wfs_try(void)
{
    struct cds_wfs_node *found;

    cds_wfs_pop_lock(&wfs);
    found = __cds_wfs_pop_nonblocking(&wfs);
    cds_wfs_pop_unlock(&wfs);
    return found == CDS_WFS_WOULDBLOCK ? NULL : ITEM(found, wfs);
}

static void wfcq_add(struct item *item)
{
    cds_wfcq_node_init(&item->node.wfcq);
    cds_wfcq_enqueue(&head, &tail, &item->node.wfcq);
}

static struct item *wfcq_take(void)
{
    struct cds_wfcq_node *found = cds_wfcq_dequeue_blocking(&head, &tail);

    return ITEM(found, wfcq);
}

static struct item *wfcq_try(void)
{
    int state;
    struct cds_wfcq_node *found;

    cds_wfcq_dequeue_lock(&head, &tail);
    found = __cds_wfcq_dequeue_with_state_nonblocking(&head, &tail, &state);
    cds_wfcq_dequeue_unlock(&head, &tail);
    return found == CDS_WFCQ_WOULDBLOCK ? NULL : ITEM(found, wfcq);
}

/* Moves all to another queue, and takes from that. */
static struct item *wfcq_splice(void)
{
    struct cds_wfcq_node *found;

    cds_wfcq_splice_blocking(&other_head, &other_tail, &head, &tail);
    found = cds_wfcq_dequeue_blocking(&other_head, &other_tail);
    return ITEM(found, wfcq);
}

static void lfq_add(struct item *item)
{
    cds_lfq_node_init_rcu(&item->node.lfq);
    rcu_read_lock();
    cds_lfq_enqueue_rcu(&lfq, &item->node.lfq);
    rcu_read_unlock();
}

static struct item *lfq_take(void)
{
    struct cds_lfq_node_rcu *found;

    rcu_read_lock();
    found = cds_lfq_dequeue_rcu(&lfq);
    rcu_read_unlock();
    return ITEM(found, lfq);
}

static const struct kind kinds[] = {
    { "lfstack", lfs_add, lfs_take, 0 },          { "lfstack, RCU", lfs_add, lfs_take_rcu, 0 },
    { "wfstack", wfs_add, wfs_take, 0 },          { "wfstack, tried", wfs_add, wfs_try, 0 },
    { "wfcqueue", wfcq_add, wfcq_take, 1 },       { "wfcqueue, tried", wfcq_add, wfcq_try, 1 },
    { "wfcqueue, spliced", wfcq_add, wfcq_splice, 1 }, { "rculfqueue", lfq_add, lfq_take, 1 },
};

static void *add_all(void *mine)
{
    struct item *item = (struct item *)mine;

    for (int i = 0; i < NODES; i++)
        kind->add(&item[i]);
    return NULL;
}

static void *take_all(void *unused)
{
    int last[THREADS] = { -1, -1 };

    while (uatomic_read(&taken) < THREADS * NODES) {
        struct item *item = kind->take();

        if (!item)
            continue;
        assert(uatomic_add_return(&item->taken, 1) == 1);
        assert(!kind->is_queue || item->number > last[item->thread]);
        last[item->thread] = item->number;
        uatomic_inc(&taken);
    }
    return unused;
}

static void threads(void)
{
    pthread_t adders[THREADS], takers[THREADS];

    taken = 0;
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < NODES; i++) {
            items[thread][i].thread = thread;
            items[thread][i].number = i;
            items[thread][i].taken = 0;
        }
    for (int i = 0; i < THREADS; i++) {
        assert(pthread_create(&adders[i], NULL, add_all, items[i]) == 0);
        assert(pthread_create(&takers[i], NULL, take_all, NULL) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(adders[i], NULL);
        pthread_join(takers[i], NULL);
    }
    assert(taken == THREADS * NODES && !kind->take());
}

/* What one thread sees. */
static void alone(void)
{
    struct item *three = items[0];
    cds_lfs_stack_ptr_t either;
    struct cds_lfs_node *lfs_node, *lfs_next;
    struct cds_wfs_node *wfs_node, *wfs_next;
    struct cds_wfcq_node *node, *next;
    int state, count = 0;

    assert(cds_lfs_empty(&lfs) && cds_wfs_empty(&wfs) && cds_wfcq_empty(&head, &tail));
    either.s = &lfs;
    assert(cds_lfs_empty(either));
#ifdef __cplusplus
    assert(cds_lfs_empty(cds_lfs_stack_cast(&lfs)) && cds_wfs_empty(cds_wfs_stack_cast(&wfs)));
#endif
    for (int i = 0; i < 3; i++)
        assert(cds_lfs_push(&lfs, &three[i].node.lfs) == (i > 0));
    cds_lfs_for_each_safe(cds_lfs_pop_all_blocking(&lfs), lfs_node, lfs_next)
        assert(lfs_node == &three[2 - count++].node.lfs);
    assert(count == 3 && cds_lfs_empty(&lfs) && !cds_lfs_pop_all_blocking(&lfs));

    for (int i = 0; i < 3; i++)
        assert(cds_wfs_push(&wfs, &three[i].node.wfs) == (i > 0));
    assert(cds_wfs_pop_with_state_blocking(&wfs, &state) == &three[2].node.wfs && state == 0);
    count = 0;
    cds_wfs_for_each_blocking_safe(cds_wfs_pop_all_blocking(&wfs), wfs_node, wfs_next)
        assert(wfs_node == &three[1 - count++].node.wfs);
    assert(count == 2 && cds_wfs_empty(&wfs) && !cds_wfs_first(NULL));
    cds_wfs_push(&wfs, &three[0].node.wfs);
    assert(cds_wfs_pop_with_state_blocking(&wfs, &state) && state == CDS_WFS_STATE_LAST);

    assert(cds_wfcq_splice_blocking(&other_head, &other_tail, &head, &tail)
           == CDS_WFCQ_RET_SRC_EMPTY);
    for (int i = 0; i < 2; i++)
        assert(cds_wfcq_enqueue(&head, &tail, &three[i].node.wfcq) == (i > 0));
    assert(cds_wfcq_splice_blocking(&other_head, &other_tail, &head, &tail)
           == CDS_WFCQ_RET_DEST_EMPTY);
    cds_wfcq_enqueue(&head, &tail, &three[2].node.wfcq);
    assert(cds_wfcq_splice_blocking(&other_head, &other_tail, &head, &tail)
           == CDS_WFCQ_RET_DEST_NON_EMPTY);
    count = 0;
    __cds_wfcq_for_each_blocking_safe(&other_head, &other_tail, node, next)
        assert(node == &three[count++].node.wfcq);
    assert(count == 3);
    for (int i = 0; i < 3; i++) {
        node = cds_wfcq_dequeue_with_state_blocking(&other_head, &other_tail, &state);
        assert(node == &three[i].node.wfcq && state == (i == 2 ? CDS_WFCQ_STATE_LAST : 0));
    }
    assert(cds_wfcq_empty(&other_head, &other_tail));
}

struct entry {
    int value;
    struct cds_list_head list;
    struct cds_hlist_node bucket;
    struct rcu_head head;
};

static int sum_of(struct cds_list_head *list)
{
    struct entry *entry;
    int sum = 0;

    cds_list_for_each_entry(entry, list, list)
        sum = sum * 10 + entry->value;
    return sum;
}

static void lists(void)
{
    struct entry entries[4], *entry, *next;
    struct cds_list_head *pos, *p;
    CDS_LIST_HEAD(one);
    CDS_LIST_HEAD(two);
    int sum = 0;

    for (int i = 0; i < 4; i++)
        entries[i].value = i + 1;
    cds_list_add(&entries[1].list, &one);
    cds_list_add(&entries[0].list, &one);
    cds_list_add_tail(&entries[2].list, &one);
    assert(sum_of(&one) == 123 && !cds_list_empty(&one) && cds_list_empty(&two));
    assert(cds_list_first_entry(&one, struct entry, list) == &entries[0]);
    cds_list_for_each_entry_reverse(entry, &one, list)
        sum = sum * 10 + entry->value;
    assert(sum == 321);
    cds_list_replace(&entries[1].list, &entries[3].list);
    assert(sum_of(&one) == 143);
    cds_list_move(&entries[3].list, &two);
    cds_list_add_tail(&entries[1].list, &two);
    cds_list_splice(&two, &one);
    assert(sum_of(&one) == 4213);
    cds_list_replace_init(&one, &two);
    assert(sum_of(&two) == 4213 && cds_list_empty(&one));
    cds_list_for_each_entry_safe(entry, next, &two, list)
        if (entry->value % 2)
            cds_list_del_init(&entry->list);
    assert(sum_of(&two) == 42 && cds_list_empty(&entries[0].list));
    cds_list_for_each_safe(pos, p, &two)
        cds_list_del(pos);
    assert(cds_list_empty(&two));
}

static void hlists(void)
{
    struct entry entries[3], *entry, *next;
    struct cds_hlist_node *pos, *p;
    CDS_HLIST_HEAD(bucket);
    int sum = 0;

    for (int i = 0; i < 3; i++) {
        entries[i].value = i + 1;
        cds_hlist_add_head_rcu(&entries[i].bucket, &bucket);
    }
    cds_hlist_for_each_entry_2(entry, &bucket, bucket)
        sum = sum * 10 + entry->value;
    cds_hlist_for_each_entry_rcu(entry, pos, &bucket, bucket)
        sum = sum * 10 + entry->value;
    assert(sum == 321321);
    cds_hlist_del_rcu(&entries[1].bucket);
    cds_hlist_del(&entries[2].bucket);
    cds_hlist_for_each_entry_safe(entry, pos, p, &bucket, bucket)
        assert(entry == &entries[0]);
    cds_hlist_for_each_entry_safe_2(entry, next, &bucket, bucket)
        cds_hlist_del(&entry->bucket);
    assert(cds_hlist_empty(&bucket));
    cds_hlist_add_head(&entries[0].bucket, &bucket);
    cds_hlist_for_each_entry_rcu_2(entry, &bucket, bucket)
        assert(entry == &entries[0]);
}

static CDS_LIST_HEAD(shared);
static int is_over;

static void free_entry(struct rcu_head *is)
{
    struct entry *entry = caa_container_of(is, struct entry, head);

    entry->value = -1;
    free(entry);
}

static void *read_list(void *unused)
{
    while (!uatomic_read(&is_over)) {
        struct entry *entry;
        int last = 0;

        rcu_read_lock();
        cds_list_for_each_entry_rcu(entry, &shared, list) {
            assert(entry->value > last);
            last = entry->value;
        }
        rcu_read_unlock();
    }
    return unused;
}

/* A list of ascending values, while entries come at its end, and go and are replaced anywhere. */
static void rculist(void)
{
    struct entry *entry, *next;
    pthread_t reader;

    assert(pthread_create(&reader, NULL, read_list, NULL) == 0);
    for (int i = 1; i < 20000; i++) {
        struct entry *made = (struct entry *)calloc(1, sizeof *made);

        made->value = i;
        if (i % 3 || cds_list_empty(&shared)) {
            cds_list_add_tail_rcu(&made->list, &shared);
            continue;
        }
        entry = cds_list_first_entry(&shared, struct entry, list);
        made->value = entry->value;
        cds_list_replace_rcu(&entry->list, &made->list);
        call_rcu(&entry->head, free_entry);
        cds_list_del_rcu(&made->list);
        call_rcu(&made->head, free_entry);
    }
    uatomic_set(&is_over, 1);
    pthread_join(reader, NULL);
    cds_list_for_each_entry_safe(entry, next, &shared, list)
        free(entry);
    rcu_barrier();
}

static int released;

static void release(struct urcu_ref *ref)
{
    assert(uatomic_read(&ref->refcount) == 0);
    released++;
}

static void references(void)
{
    struct urcu_ref ref;

    urcu_ref_init(&ref);
    urcu_ref_get(&ref);
    assert(urcu_ref_get_safe(&ref) && urcu_ref_get_unless_zero(&ref));
    for (int i = 0; i < 4; i++)
        urcu_ref_put(&ref, release);
    assert(released == 1 && !urcu_ref_get_unless_zero(&ref));
    urcu_ref_set(&ref, LONG_MAX);
    assert(!urcu_ref_get_safe(&ref));
}

#define CHECK_ATOMICS(type)                                                           \
    do {                                                                              \
        type value = 5;                                                               \
        assert(uatomic_xchg(&value, 7) == 5 && uatomic_cmpxchg(&value, 6, 1) == 7);   \
        assert(uatomic_cmpxchg(&value, 7, 1) == 7 && uatomic_read(&value) == 1);      \
        assert(uatomic_add_return(&value, 3) == 4 && uatomic_sub_return(&value, 1) == 3); \
        cmm_smp_mb__before_uatomic_or();                                              \
        uatomic_or(&value, 12);                                                       \
        cmm_smp_mb__after_uatomic_or();                                               \
        uatomic_and(&value, 10);                                                      \
        uatomic_add(&value, 4);                                                       \
        uatomic_sub(&value, 1);                                                       \
        uatomic_inc(&value);                                                          \
        uatomic_dec(&value);                                                          \
        assert(value == 13);                                                          \
    } while (0)

static void atomics(void)
{
    int number = 0, *place = NULL;
    volatile long seen = 1;

    CHECK_ATOMICS(signed char);
    CHECK_ATOMICS(unsigned short);
    CHECK_ATOMICS(int);
    CHECK_ATOMICS(unsigned long);
    assert(uatomic_cmpxchg(&place, NULL, &number) == NULL && place == &number);
    assert(uatomic_add_return(&seen, 1) == 2 && uatomic_xchg(&seen, 9) == 2);
    CMM_STORE_SHARED(number, 3);
    cmm_smp_mb();
    assert(CMM_LOAD_SHARED(number) == 3 && caa_max(2, 3) == 3 && caa_likely(number));
    CAA_BUILD_BUG_ON(sizeof(number) != 4);
    assert(CAA_BUILD_BUG_ON_ZERO(BUG) == 0);
    assert(caa_cast_long_keep_sign((int)-1) == -1L);
    assert(caa_cast_long_keep_sign((unsigned)-1) == 0xffffffffL);
}

int main(void)
{
    cds_lfs_init(&lfs);
    cds_wfs_init(&wfs);
    cds_wfcq_init(&head, &tail);
    cds_wfcq_init(&other_head, &other_tail);
    cds_lfq_init_rcu(&lfq, call_rcu);
    rcu_register_thread();
    alone();
    lists();
    hlists();
    references();
    atomics();
    for (unsigned i = 0; i < CAA_ARRAY_SIZE(kinds); i++) {
        kind = &kinds[i];
        threads();
    }
    rculist();
    rcu_unregister_thread();
    assert(cds_lfq_destroy_rcu(&lfq) == 0);
    cds_lfs_destroy(&lfs);
    cds_wfs_destroy(&wfs);
    cds_wfcq_destroy(&head, &tail);
    cds_wfcq_destroy(&other_head, &other_tail);
    rcu_barrier();
    puts("ok");
    return 0;
}
