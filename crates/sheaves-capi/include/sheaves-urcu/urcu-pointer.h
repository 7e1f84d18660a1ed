/* Old name of <urcu/pointer.h>. */

#include <urcu/pointer.h>
