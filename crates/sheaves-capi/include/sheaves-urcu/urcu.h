/* The flavour that the program has chosen, under names without a flavour. */

#ifndef URCU_API_MAP
#define URCU_API_MAP
#endif

#if defined(RCU_MB)
#include <urcu/urcu-mb.h>
#elif defined(RCU_SIGNAL)
#include <urcu/urcu-signal.h>
#else
#include <urcu/urcu-memb.h>
#endif
