/* All lists, stacks and queues. The hash table is liburcu's: <urcu/rculfhash.h>. */

#ifndef SHEAVES_URCU_CDS_H
#define SHEAVES_URCU_CDS_H

#include <urcu/hlist.h>
#include <urcu/lfstack.h>
#include <urcu/list.h>
#include <urcu/rcuhlist.h>
#include <urcu/rculfqueue.h>
#include <urcu/rculist.h>
#include <urcu/wfcqueue.h>
#include <urcu/wfstack.h>

#if defined(__has_include)
#if __has_include(<urcu/rculfhash.h>)
#include <urcu/rculfhash.h>
#endif
#endif

#endif /* SHEAVES_URCU_CDS_H */
