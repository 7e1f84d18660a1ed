// Ends the program with a line if a condition does not hold.
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,    \
                    errno);                                                              \
            _Exit(1);                                                                    \
        }                                                                                \
    } while (0)

#endif
