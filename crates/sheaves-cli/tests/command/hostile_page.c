/* A process with a control page of its own making, for the tests in hostile.rs.
 *
 * hostile_page FOLDER [lease | lock | silent | signals | words]: answers the command with the
 * number N by the file FOLDER/N, or by "{}". Prints a line when the page is there. With `signals` a
 * child sends signals to it, each when it has received the one before; FOLDER/received has their
 * number. With `words` it answers nothing, and the page says that the words of its fast path are
 * those whose address FOLDER/words has.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IDLE, REQUESTED, ANSWERING, ANSWERED };
enum { ANSWER_AT = 4096, ANSWER_BYTES = 4 << 20, FILE_BYTES = ANSWER_AT + ANSWER_BYTES };

struct page {
  uint64_t magic;
  uint32_t version, command, state, process;
  uint64_t argument;
  uint32_t status, reserved;
  uint64_t answer_bytes, object, closing_words;
};

static void answer(volatile struct page *page, const char *folder) {
  char path[PATH_MAX], *to = (char *)page + ANSWER_AT;
  snprintf(path, sizeof path, "%s/%u", folder, page->command);
  FILE *file = fopen(path, "r");
  size_t bytes = file ? fread(to, 1, ANSWER_BYTES, file) : (size_t)sprintf(to, "{}");
  if (file) fclose(file);
  page->status = 0;
  page->answer_bytes = bytes;
  __atomic_store_n(&page->state, ANSWERED, __ATOMIC_RELEASE);
  syscall(SYS_futex, &page->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A mark, two words, and two limits, as they are in the library. They are not so in the file. */
static volatile uint64_t words[] = {1, 0, 0, 1000, 1000};

static int offer_words(volatile struct page *page, const char *folder) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/words", folder);
  words[0] = 0xbd4afaee901fd09e;
  page->closing_words = (uintptr_t)&words[3];
  FILE *file = fopen(path, "w");
  return file && fprintf(file, "%p", (void *)&words[3]) > 0 && fclose(file) == 0 ? 0 : -1;
}

static volatile uint64_t *received;

static void receive(int number) {
  (void)number;
  ++*received;
}

/* A standard signal and a real-time signal in turns. */
static int send_signals(const char *folder) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/received", folder);
  int file = open(path, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof *received) != 0) return -1;
  received = mmap(NULL, sizeof *received, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (received == MAP_FAILED) return -1;
  int signals[] = {SIGUSR1, SIGRTMIN + 3};
  for (int i = 0; i < 2; i++)
    sigaction(signals[i], &(struct sigaction){.sa_handler = receive, .sa_flags = SA_RESTART}, NULL);
  if (fork() != 0) return 0;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (uint64_t sent = 0;; sent++) {
    kill(getppid(), signals[sent % 2]);
    while (*received == sent) sched_yield();
  }
}

int main(int argc, char **argv) {
  const char *mode = argc > 2 ? argv[2] : "";
  prctl(PR_SET_NAME, "\x1b[31m\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
  int file = memfd_create("sheaves-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0 || fchmod(file, 0600) != 0 || ftruncate(file, FILE_BYTES) != 0) return 1;
  fcntl(file, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW);
  void *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return 1;
  volatile struct page *page = at;
  page->version = 2;
  page->magic = *(const uint64_t *)"SHEAVES!";
  if (strcmp(mode, "silent") == 0) page->state = ANSWERING;
  char self[64];
  snprintf(self, sizeof self, "/proc/self/fd/%d", file);
  if (strcmp(mode, "lease") == 0) {
    signal(SIGIO, SIG_IGN);
    munmap(at, FILE_BYTES);
    int reader = open(self, O_RDONLY);
    close(file);
    if (fcntl(reader, F_SETLEASE, F_RDLCK) != 0) return 1;
  }
  if (strcmp(mode, "lock") == 0) flock(open(self, O_RDWR), LOCK_EX);
  if (strcmp(mode, "words") == 0 && offer_words(page, argv[1]) != 0) return 1;
  int sends = strcmp(mode, "signals") == 0;
  if (sends && send_signals(argv[1]) != 0) return 1;
  puts("begun");
  fflush(stdout);
  while (*mode && !sends) pause();
  for (;;) {
    if (page->state == REQUESTED) answer(page, argv[1]);
    else usleep(200);
  }
}
