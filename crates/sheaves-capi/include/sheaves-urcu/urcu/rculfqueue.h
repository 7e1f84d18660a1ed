/* Lock-free queues under RCU: after Michael and Scott, PODC 1996.
 *
 * Both ends are used inside read sections, and a dequeued node is freed or used again after a grace
 * period. The queue always has a node: a dummy is added where the last would leave, and removed
 * when it is the first. */

#ifndef SHEAVES_URCU_RCULFQUEUE_H
#define SHEAVES_URCU_RCULFQUEUE_H

#include <errno.h>
#include <stdlib.h>

#include <urcu/sheaves.h>

struct cds_lfq_node_rcu {
    struct cds_lfq_node_rcu *next;
    int dummy;
};

struct cds_lfq_queue_rcu {
    struct cds_lfq_node_rcu *head, *tail;
    void (*queue_call_rcu)(struct rcu_head *head, void (*func)(struct rcu_head *head));
};

#ifdef __cplusplus
extern "C" {
#endif

struct sheaves_urcu_dummy {
    struct cds_lfq_node_rcu node;
    struct rcu_head head;
};

static inline void sheaves_urcu_free_dummy(struct rcu_head *head)
{
    free(caa_container_of(head, struct sheaves_urcu_dummy, head));
}

static inline struct cds_lfq_node_rcu *sheaves_urcu_make_dummy(void)
{
    struct sheaves_urcu_dummy *made = (struct sheaves_urcu_dummy *)malloc(sizeof *made);

    if (!made)
        abort();
    made->node.next = NULL;
    made->node.dummy = 1;
    return &made->node;
}

static inline void cds_lfq_node_init_rcu(struct cds_lfq_node_rcu *node)
{
    node->next = NULL;
    node->dummy = 0;
}

static inline void cds_lfq_init_rcu(
    struct cds_lfq_queue_rcu *q,
    void queue_call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head)))
{
    q->head = q->tail = sheaves_urcu_make_dummy();
    q->queue_call_rcu = queue_call_rcu;
}

/* 0; -EPERM if the queue is not empty. No other thread uses it. */
static inline int cds_lfq_destroy_rcu(struct cds_lfq_queue_rcu *q)
{
    if (!q->head->dummy || q->head->next)
        return -EPERM;
    free(caa_container_of(q->head, struct sheaves_urcu_dummy, node));
    return 0;
}

/* In a read section. */
static inline void cds_lfq_enqueue_rcu(struct cds_lfq_queue_rcu *q, struct cds_lfq_node_rcu *node)
{
    struct cds_lfq_node_rcu *tail = __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE);

    for (;;) {
        struct cds_lfq_node_rcu *next = NULL;

        if (__atomic_compare_exchange_n(&tail->next, &next, node, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE)) {
            /* Before the section ends the tail has left the old node, by this or another thread. */
            (void)__atomic_compare_exchange_n(&q->tail, &tail, node, 0, __ATOMIC_SEQ_CST,
                                              __ATOMIC_ACQUIRE);
            return;
        }
        if (__atomic_compare_exchange_n(&q->tail, &tail, next, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_ACQUIRE))
            tail = next;
    }
}

/* In a read section. NULL if the queue is empty. */
static inline struct cds_lfq_node_rcu *cds_lfq_dequeue_rcu(struct cds_lfq_queue_rcu *q)
{
    struct cds_lfq_node_rcu *head = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE);

    for (;;) {
        struct cds_lfq_node_rcu *next = __atomic_load_n(&head->next, __ATOMIC_ACQUIRE);
        struct cds_lfq_node_rcu *tail = head;

        if (!next) {
            if (head->dummy)
                return NULL;
            cds_lfq_enqueue_rcu(q, sheaves_urcu_make_dummy());
            continue;
        }
        /* The tail must not stay behind. */
        (void)__atomic_compare_exchange_n(&q->tail, &tail, next, 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(&q->head, &head, next, 0, __ATOMIC_SEQ_CST,
                                         __ATOMIC_ACQUIRE))
            continue;
        if (!head->dummy)
            return head;
        q->queue_call_rcu(&caa_container_of(head, struct sheaves_urcu_dummy, node)->head,
                          sheaves_urcu_free_dummy);
        head = next;
    }
}

#ifdef __cplusplus
}
#endif

#endif /* SHEAVES_URCU_RCULFQUEUE_H */
