// Memory from calloc reads as zeros where madvise reports success and does nothing.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"

// False where the program may not have a filter.
static int ignore_advice(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
           !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

int main(void) {
    enum { BLOCKS = 20 };
    static char *blocks[BLOCKS];
    if (!ignore_advice()) return 0;
    for (size_t size = 20000; size < 8u << 20; size *= 3) {
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < BLOCKS; i++) {
                CHECK((blocks[i] = calloc(1, size)) != NULL);
                for (size_t at = 0; at < size; at += 64) CHECK(blocks[i][at] == 0);
                memset(blocks[i], 1, size);
            }
            for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
            malloc_trim(0);
        }
    }
    return 0;
}
