/* Circular lists, linked both ways, whose head is a node. Changes need exclusion. */

#ifndef SHEAVES_URCU_LIST_H
#define SHEAVES_URCU_LIST_H

#include <urcu/compiler.h>

struct cds_list_head {
    struct cds_list_head *next, *prev;
};

#define CDS_LIST_HEAD_INIT(name) { &(name), &(name) }
#define CDS_LIST_HEAD(name) struct cds_list_head name = CDS_LIST_HEAD_INIT(name)
#define CDS_INIT_LIST_HEAD(ptr)                     \
    do {                                            \
        struct cds_list_head *sheaves_list = (ptr); \
        sheaves_list->prev = sheaves_list;          \
        sheaves_list->next = sheaves_list;          \
    } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/* Makes two nodes neighbours. */
static inline void __cds_list_del(struct cds_list_head *prev, struct cds_list_head *next)
{
    prev->next = next;
    next->prev = prev;
}

/* Adds a node behind the head. */
static inline void cds_list_add(struct cds_list_head *newp, struct cds_list_head *head)
{
    __cds_list_del(newp, head->next);
    __cds_list_del(head, newp);
}

/* Adds a node before the head: at the end. */
static inline void cds_list_add_tail(struct cds_list_head *newp, struct cds_list_head *head)
{
    __cds_list_del(head->prev, newp);
    __cds_list_del(newp, head);
}

static inline void cds_list_del(struct cds_list_head *elem)
{
    __cds_list_del(elem->prev, elem->next);
}

static inline void cds_list_del_init(struct cds_list_head *elem)
{
    cds_list_del(elem);
    CDS_INIT_LIST_HEAD(elem);
}

/* Takes a node out of its list, and adds it behind another head. */
static inline void cds_list_move(struct cds_list_head *elem, struct cds_list_head *head)
{
    cds_list_del(elem);
    cds_list_add(elem, head);
}

static inline void cds_list_replace(struct cds_list_head *old, struct cds_list_head *_new)
{
    __cds_list_del(old->prev, _new);
    __cds_list_del(_new, old->next);
}

static inline int cds_list_empty(const struct cds_list_head *head)
{
    return head->next == head;
}

/* Moves a whole list to another head. */
static inline void cds_list_replace_init(struct cds_list_head *old, struct cds_list_head *_new)
{
    CDS_INIT_LIST_HEAD(_new);
    if (!cds_list_empty(old))
        cds_list_replace(old, _new);
    CDS_INIT_LIST_HEAD(old);
}

/* Adds the nodes of a list behind a head. The list's own head is not changed. */
static inline void cds_list_splice(struct cds_list_head *add, struct cds_list_head *head)
{
    if (!cds_list_empty(add)) {
        __cds_list_del(add->prev, head->next);
        __cds_list_del(head, add->next);
    }
}

#ifdef __cplusplus
}
#endif

#define cds_list_entry(ptr, type, member) caa_container_of(ptr, type, member)
#define cds_list_first_entry(ptr, type, member) cds_list_entry((ptr)->next, type, member)

#define SHEAVES_URCU_ENTRY(ptr, pos, member) cds_list_entry(ptr, __typeof__(*(pos)), member)

#define cds_list_for_each(pos, head) \
    for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)
#define cds_list_for_each_prev(pos, head) \
    for ((pos) = (head)->prev; (pos) != (head); (pos) = (pos)->prev)
/* The node may be removed, but not its neighbour. */
#define cds_list_for_each_safe(pos, p, head) \
    for ((pos) = (head)->next, (p) = (pos)->next; (pos) != (head); (pos) = (p), (p) = (pos)->next)
#define cds_list_for_each_prev_safe(pos, p, head) \
    for ((pos) = (head)->prev, (p) = (pos)->prev; (pos) != (head); (pos) = (p), (p) = (pos)->prev)

#define cds_list_for_each_entry(pos, head, member)                        \
    for ((pos) = SHEAVES_URCU_ENTRY((head)->next, pos, member);           \
         &(pos)->member != (head);                                        \
         (pos) = SHEAVES_URCU_ENTRY((pos)->member.next, pos, member))
#define cds_list_for_each_entry_reverse(pos, head, member)                \
    for ((pos) = SHEAVES_URCU_ENTRY((head)->prev, pos, member);           \
         &(pos)->member != (head);                                        \
         (pos) = SHEAVES_URCU_ENTRY((pos)->member.prev, pos, member))
#define cds_list_for_each_entry_safe(pos, p, head, member)                \
    for ((pos) = SHEAVES_URCU_ENTRY((head)->next, pos, member),           \
         (p) = SHEAVES_URCU_ENTRY((pos)->member.next, pos, member);       \
         &(pos)->member != (head);                                        \
         (pos) = (p), (p) = SHEAVES_URCU_ENTRY((pos)->member.next, pos, member))
/* From pos on. */
#define cds_list_for_each_entry_safe_from(pos, p, head, member)           \
    for ((p) = SHEAVES_URCU_ENTRY((pos)->member.next, pos, member);       \
         &(pos)->member != (head);                                        \
         (pos) = (p), (p) = SHEAVES_URCU_ENTRY((pos)->member.next, pos, member))

#endif /* SHEAVES_URCU_LIST_H */
