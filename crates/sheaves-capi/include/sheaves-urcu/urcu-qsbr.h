/* The flavour with quiescent states (qsbr), under names without a flavour. */

#ifndef URCU_API_MAP
#define URCU_API_MAP
#endif
#include <urcu/urcu-qsbr.h>
