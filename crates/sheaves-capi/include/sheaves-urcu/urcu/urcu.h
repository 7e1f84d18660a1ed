/* The name by which newer programs include <urcu.h> without its mapping. */

#include <urcu/urcu-memb.h>
