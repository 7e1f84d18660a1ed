/* Declared by every flavour; names without one are those of the flavour included before. */

#include <urcu/sheaves.h>
