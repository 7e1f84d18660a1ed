/* Declared by every flavour; names without a flavour are those of the one included before. */

#include <urcu/sheaves.h>
