/* Writes a filter for bwrap's --seccomp: as in an old container membarrier, rseq and memfd_create
   are unknown. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>

#define REFUSE(call)                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)

int main(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_membarrier),
        REFUSE(SYS_rseq),
        REFUSE(SYS_memfd_create),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return fwrite(filter, sizeof filter, 1, stdout) != 1;
}
