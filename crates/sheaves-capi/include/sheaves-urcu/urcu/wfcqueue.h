/* Queues whose enqueues are wait-free: one exchange of the tail, and a store that links the node.
 *
 * Between the two the nodes behind it cannot be reached yet: a dequeue waits for the link, or
 * returns CDS_WFCQ_WOULDBLOCK. Dequeues exclude each other: those without underscores take the lock
 * of the head. Head and tail are apart, so that they need not share a cache line. */

#ifndef SHEAVES_URCU_WFCQUEUE_H
#define SHEAVES_URCU_WFCQUEUE_H

#include <urcu/sheaves-wait.h>

#define CDS_WFCQ_WOULDBLOCK ((struct cds_wfcq_node *)~(uintptr_t)0)

enum cds_wfcq_ret {
    CDS_WFCQ_RET_WOULDBLOCK = -1,
    CDS_WFCQ_RET_DEST_EMPTY = 0,
    CDS_WFCQ_RET_DEST_NON_EMPTY = 1,
    CDS_WFCQ_RET_SRC_EMPTY = 2,
};

enum cds_wfcq_state {
    /* The queue is empty now. */
    CDS_WFCQ_STATE_LAST = 1 << 0,
};

struct cds_wfcq_node {
    struct cds_wfcq_node *next;
};

/* Its node is before the first. */
struct __cds_wfcq_head {
    struct cds_wfcq_node node;
};

struct cds_wfcq_head {
    struct cds_wfcq_node node;
    pthread_mutex_t lock;
};

/* The last node, that of the head if the queue is empty. */
struct cds_wfcq_tail {
    struct cds_wfcq_node *p;
};

#ifdef __cplusplus
extern "C++" {
#endif
SHEAVES_URCU_EITHER(cds_wfcq_head_ptr_t, struct cds_wfcq_head, h, struct __cds_wfcq_head, _h);
#ifdef __cplusplus
}
extern "C" {
#endif

static inline struct cds_wfcq_head *cds_wfcq_head_cast(struct cds_wfcq_head *head)
{
    return head;
}

static inline struct __cds_wfcq_head *__cds_wfcq_head_cast(struct __cds_wfcq_head *head)
{
    return head;
}

static inline void cds_wfcq_node_init(struct cds_wfcq_node *node)
{
    node->next = NULL;
}

static inline void __cds_wfcq_init(struct __cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    head->node.next = NULL;
    tail->p = &head->node;
}

static inline void cds_wfcq_init(struct cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    head->node.next = NULL;
    tail->p = &head->node;
    if (pthread_mutex_init(&head->lock, NULL) != 0)
        abort();
}

static inline void cds_wfcq_destroy(struct cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    (void)tail;
    if (pthread_mutex_destroy(&head->lock) != 0)
        abort();
}

static inline bool cds_wfcq_empty(cds_wfcq_head_ptr_t head, struct cds_wfcq_tail *tail)
{
    return !__atomic_load_n(&head._h->node.next, __ATOMIC_ACQUIRE)
        && __atomic_load_n(&tail->p, __ATOMIC_RELAXED) == &head._h->node;
}

/* Adds a chain of nodes. True if the queue was not empty. A full fence, as in liburcu. */
static inline bool sheaves_urcu_wfcq_append(struct cds_wfcq_node *end, struct cds_wfcq_tail *tail,
                                            struct cds_wfcq_node *first, struct cds_wfcq_node *last)
{
    struct cds_wfcq_node *before = uatomic_xchg(&tail->p, last);

    __atomic_store_n(&before->next, first, __ATOMIC_RELEASE);
    return before != end;
}

/* True if the queue was not empty. */
static inline bool cds_wfcq_enqueue(cds_wfcq_head_ptr_t head, struct cds_wfcq_tail *tail,
                                    struct cds_wfcq_node *node)
{
    node->next = NULL;
    return sheaves_urcu_wfcq_append(&head._h->node, tail, node, node);
}

static inline struct cds_wfcq_node *sheaves_urcu_wfcq_first(cds_wfcq_head_ptr_t head,
                                                            struct cds_wfcq_tail *tail, int waits)
{
    struct cds_wfcq_node *first;

    if (cds_wfcq_empty(head, tail))
        return NULL;
    first = SHEAVES_URCU_LINKED(&head._h->node.next, waits);
    return first ? first : CDS_WFCQ_WOULDBLOCK;
}

static inline struct cds_wfcq_node *sheaves_urcu_wfcq_next(struct cds_wfcq_tail *tail,
                                                           struct cds_wfcq_node *node, int waits)
{
    struct cds_wfcq_node *next = __atomic_load_n(&node->next, __ATOMIC_ACQUIRE);

    if (!next) {
        if (__atomic_load_n(&tail->p, __ATOMIC_RELAXED) == node)
            return NULL;
        next = SHEAVES_URCU_LINKED(&node->next, waits);
    }
    return next ? next : CDS_WFCQ_WOULDBLOCK;
}

static inline struct cds_wfcq_node *sheaves_urcu_wfcq_dequeue(cds_wfcq_head_ptr_t head,
                                                              struct cds_wfcq_tail *tail,
                                                              int *state, int waits)
{
    struct cds_wfcq_node *const end = &head._h->node;
    struct cds_wfcq_node *first = sheaves_urcu_wfcq_first(head, tail, waits), *next;

    if (state)
        *state = 0;
    if (!first || first == CDS_WFCQ_WOULDBLOCK)
        return first;
    next = __atomic_load_n(&first->next, __ATOMIC_ACQUIRE);
    if (!next) {
        struct cds_wfcq_node *last = first;

        /* Before the head is the tail: the next enqueue links its node there. */
        __atomic_store_n(&end->next, (struct cds_wfcq_node *)NULL, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&tail->p, &last, end, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED)) {
            if (state)
                *state = CDS_WFCQ_STATE_LAST;
            return first;
        }
        next = SHEAVES_URCU_LINKED(&first->next, waits);
        if (!next) {
            __atomic_store_n(&end->next, first, __ATOMIC_RELAXED);
            return CDS_WFCQ_WOULDBLOCK;
        }
    }
    __atomic_store_n(&end->next, next, __ATOMIC_RELAXED);
    return first;
}

/* Moves all nodes of one queue to the end of another. */
static inline enum cds_wfcq_ret sheaves_urcu_wfcq_splice(cds_wfcq_head_ptr_t dest_q_head,
                                                         struct cds_wfcq_tail *dest_q_tail,
                                                         cds_wfcq_head_ptr_t src_q_head,
                                                         struct cds_wfcq_tail *src_q_tail,
                                                         int waits)
{
    struct cds_wfcq_node *const end = &src_q_head._h->node;
    struct cds_wfcq_node *first, *last;
    unsigned attempts = 0;

    /* Another splice may take the first node in between: these do not exclude each other. */
    while (!__atomic_load_n(&end->next, __ATOMIC_RELAXED)
           || !(first = __atomic_exchange_n(&end->next, (struct cds_wfcq_node *)NULL,
                                            __ATOMIC_SEQ_CST))) {
        if (__atomic_load_n(&src_q_tail->p, __ATOMIC_RELAXED) == end)
            return CDS_WFCQ_RET_SRC_EMPTY;
        if (!waits)
            return CDS_WFCQ_RET_WOULDBLOCK;
        sheaves_urcu_wait(&attempts);
    }
    last = __atomic_exchange_n(&src_q_tail->p, end, __ATOMIC_SEQ_CST);
    return sheaves_urcu_wfcq_append(&dest_q_head._h->node, dest_q_tail, first, last)
        ? CDS_WFCQ_RET_DEST_NON_EMPTY : CDS_WFCQ_RET_DEST_EMPTY;
}

/* For callers that exclude other dequeues. */

static inline struct cds_wfcq_node *__cds_wfcq_dequeue_with_state_blocking(
    cds_wfcq_head_ptr_t head, struct cds_wfcq_tail *tail, int *state)
{
    return sheaves_urcu_wfcq_dequeue(head, tail, state, 1);
}

static inline struct cds_wfcq_node *__cds_wfcq_dequeue_blocking(cds_wfcq_head_ptr_t head,
                                                                struct cds_wfcq_tail *tail)
{
    return sheaves_urcu_wfcq_dequeue(head, tail, NULL, 1);
}

static inline struct cds_wfcq_node *__cds_wfcq_dequeue_with_state_nonblocking(
    cds_wfcq_head_ptr_t head, struct cds_wfcq_tail *tail, int *state)
{
    return sheaves_urcu_wfcq_dequeue(head, tail, state, 0);
}

static inline struct cds_wfcq_node *__cds_wfcq_dequeue_nonblocking(cds_wfcq_head_ptr_t head,
                                                                   struct cds_wfcq_tail *tail)
{
    return sheaves_urcu_wfcq_dequeue(head, tail, NULL, 0);
}

static inline enum cds_wfcq_ret __cds_wfcq_splice_blocking(cds_wfcq_head_ptr_t dest_q_head,
                                                           struct cds_wfcq_tail *dest_q_tail,
                                                           cds_wfcq_head_ptr_t src_q_head,
                                                           struct cds_wfcq_tail *src_q_tail)
{
    return sheaves_urcu_wfcq_splice(dest_q_head, dest_q_tail, src_q_head, src_q_tail, 1);
}

static inline enum cds_wfcq_ret __cds_wfcq_splice_nonblocking(cds_wfcq_head_ptr_t dest_q_head,
                                                              struct cds_wfcq_tail *dest_q_tail,
                                                              cds_wfcq_head_ptr_t src_q_head,
                                                              struct cds_wfcq_tail *src_q_tail)
{
    return sheaves_urcu_wfcq_splice(dest_q_head, dest_q_tail, src_q_head, src_q_tail, 0);
}

static inline struct cds_wfcq_node *__cds_wfcq_first_blocking(cds_wfcq_head_ptr_t head,
                                                              struct cds_wfcq_tail *tail)
{
    return sheaves_urcu_wfcq_first(head, tail, 1);
}

static inline struct cds_wfcq_node *__cds_wfcq_first_nonblocking(cds_wfcq_head_ptr_t head,
                                                                 struct cds_wfcq_tail *tail)
{
    return sheaves_urcu_wfcq_first(head, tail, 0);
}

static inline struct cds_wfcq_node *__cds_wfcq_next_blocking(cds_wfcq_head_ptr_t head,
                                                             struct cds_wfcq_tail *tail,
                                                             struct cds_wfcq_node *node)
{
    (void)head;
    return sheaves_urcu_wfcq_next(tail, node, 1);
}

static inline struct cds_wfcq_node *__cds_wfcq_next_nonblocking(cds_wfcq_head_ptr_t head,
                                                                struct cds_wfcq_tail *tail,
                                                                struct cds_wfcq_node *node)
{
    (void)head;
    return sheaves_urcu_wfcq_next(tail, node, 0);
}

/* With the lock of the head. */

static inline void cds_wfcq_dequeue_lock(struct cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    (void)tail;
    sheaves_urcu_mutex_lock(&head->lock);
}

static inline void cds_wfcq_dequeue_unlock(struct cds_wfcq_head *head, struct cds_wfcq_tail *tail)
{
    (void)tail;
    sheaves_urcu_mutex_unlock(&head->lock);
}

static inline struct cds_wfcq_node *cds_wfcq_dequeue_with_state_blocking(
    struct cds_wfcq_head *head, struct cds_wfcq_tail *tail, int *state)
{
    struct cds_wfcq_node *node;

    cds_wfcq_dequeue_lock(head, tail);
    node = __extension__ sheaves_urcu_wfcq_dequeue(head, tail, state, 1);
    cds_wfcq_dequeue_unlock(head, tail);
    return node;
}

static inline struct cds_wfcq_node *cds_wfcq_dequeue_blocking(struct cds_wfcq_head *head,
                                                              struct cds_wfcq_tail *tail)
{
    return cds_wfcq_dequeue_with_state_blocking(head, tail, NULL);
}

/* Takes the lock of the source. */
static inline enum cds_wfcq_ret cds_wfcq_splice_blocking(struct cds_wfcq_head *dest_q_head,
                                                         struct cds_wfcq_tail *dest_q_tail,
                                                         struct cds_wfcq_head *src_q_head,
                                                         struct cds_wfcq_tail *src_q_tail)
{
    enum cds_wfcq_ret result;

    cds_wfcq_dequeue_lock(src_q_head, src_q_tail);
    result = __extension__ sheaves_urcu_wfcq_splice(dest_q_head, dest_q_tail, src_q_head,
                                                    src_q_tail, 1);
    cds_wfcq_dequeue_unlock(src_q_head, src_q_tail);
    return result;
}

#ifdef __cplusplus
}
#endif

/* Over the nodes of a queue that no other thread dequeues from. */
#define __cds_wfcq_for_each_blocking(head, tail, node)                  \
    for ((node) = __cds_wfcq_first_blocking(head, tail); (node);        \
         (node) = __cds_wfcq_next_blocking(head, tail, node))
/* The node may be freed. */
#define __cds_wfcq_for_each_blocking_safe(head, tail, node, n)          \
    for ((node) = __cds_wfcq_first_blocking(head, tail);                \
         (node) && ((n) = __cds_wfcq_next_blocking(head, tail, node), 1); (node) = (n))

#endif /* SHEAVES_URCU_WFCQUEUE_H */
