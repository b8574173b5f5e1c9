/*
 * Starts processes from a thread that is not the first, as a program would that hides them from who looks at the first
 * thread's children alone. Built and run by the tests.
 *
 *   thread_forks <number>
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *start_all(void *number) {
  for (int i = *(int *)number; i > 0; i--) {
    if (fork() == 0) {
      sleep(1000);
      _exit(0);
    }
  }
  /* The thread stays, and with it its children. */
  sleep(1000);
  return NULL;
}

int main(int argc, char **argv) {
  int number = argc == 2 ? atoi(argv[1]) : 0;
  pthread_t thread;
  if (pthread_create(&thread, NULL, start_all, &number) != 0) return 1;
  pthread_join(thread, NULL);
  return 0;
}
