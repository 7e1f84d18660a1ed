/* Lists whose head is one pointer: buckets of hash tables. Changes need exclusion. */

#ifndef SHEAVES_URCU_HLIST_H
#define SHEAVES_URCU_HLIST_H

#include <stddef.h>

#include <urcu/compiler.h>

struct cds_hlist_head {
    struct cds_hlist_node *next;
};

/* The first node's prev is the head, whose only member is at the same place as a node's next. */
struct cds_hlist_node {
    struct cds_hlist_node *next, *prev;
};

#define CDS_HLIST_HEAD_INIT(name) { NULL }
#define CDS_HLIST_HEAD(name) struct cds_hlist_head name = CDS_HLIST_HEAD_INIT(name)

#ifdef __cplusplus
extern "C" {
#endif

static inline void CDS_INIT_HLIST_HEAD(struct cds_hlist_head *head)
{
    head->next = NULL;
}

static inline int cds_hlist_empty(const struct cds_hlist_head *head)
{
    return !head->next;
}

/* What leads to a node: the next of the node before it, or of the head. */
static inline struct cds_hlist_node **sheaves_urcu_hlist_link(struct cds_hlist_node *prev)
{
    return (struct cds_hlist_node **)(void *)prev;
}

static inline void cds_hlist_add_head(struct cds_hlist_node *newp, struct cds_hlist_head *head)
{
    newp->next = head->next;
    newp->prev = (struct cds_hlist_node *)(void *)head;
    if (newp->next)
        newp->next->prev = newp;
    head->next = newp;
}

static inline void cds_hlist_del(struct cds_hlist_node *elem)
{
    if (elem->next)
        elem->next->prev = elem->prev;
    *sheaves_urcu_hlist_link(elem->prev) = elem->next;
}

#ifdef __cplusplus
}
#endif

#define cds_hlist_entry(ptr, type, member) caa_container_of(ptr, type, member)
/* NULL for NULL. */
#define cds_hlist_entry_safe(ptr, type, member) caa_container_of_check_null(ptr, type, member)
#define cds_hlist_first_entry(ptr, type, member) cds_hlist_entry((ptr)->next, type, member)

#define SHEAVES_URCU_HENTRY(ptr, entry, member) \
    cds_hlist_entry_safe(ptr, __typeof__(*(entry)), member)

#define cds_hlist_for_each(pos, head) \
    for ((pos) = (head)->next; (pos); (pos) = (pos)->next)
/* The node may be removed. */
#define cds_hlist_for_each_safe(pos, p, head) \
    for ((pos) = (head)->next; (pos) && ((p) = (pos)->next, 1); (pos) = (p))

#define cds_hlist_for_each_entry(entry, pos, head, member)                          \
    for ((pos) = (head)->next;                                                      \
         (pos) && ((entry) = cds_hlist_entry(pos, __typeof__(*(entry)), member), 1); \
         (pos) = (pos)->next)
#define cds_hlist_for_each_entry_safe(entry, pos, p, head, member)                  \
    for ((pos) = (head)->next;                                                      \
         (pos) && ((p) = (pos)->next,                                               \
                   (entry) = cds_hlist_entry(pos, __typeof__(*(entry)), member), 1); \
         (pos) = (p))
#define cds_hlist_for_each_entry_2(entry, head, member)                             \
    for ((entry) = SHEAVES_URCU_HENTRY((head)->next, entry, member); (entry);       \
         (entry) = SHEAVES_URCU_HENTRY((entry)->member.next, entry, member))
#define cds_hlist_for_each_entry_safe_2(entry, e, head, member)                     \
    for ((entry) = SHEAVES_URCU_HENTRY((head)->next, entry, member);                \
         (entry) && ((e) = SHEAVES_URCU_HENTRY((entry)->member.next, entry, member), 1); \
         (entry) = (e))

#endif /* SHEAVES_URCU_HLIST_H */
