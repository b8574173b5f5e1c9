/* A program in one file: this launcher, and appended to it the pinned Deno, the bundled program and what that needs.
 *
 * At the first start it unpacks them into the user's cache, checking their hash; later it only looks whether they are
 * still as they were unpacked. Then it executes Deno with the program. Nothing of the user's configuration of Deno or
 * Node gets through: the variables are taken out here, and the arguments, which the file carries, leave out every file. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "launcher.h"

extern char **environ;

/* A process that unpacks a part meanwhile, 0 without one. */
static pid_t helper;

/* Waits until it is done, whatever came of it: nobody is left behind. */
static void wait_for_helper(void) {
  while (helper > 0 && waitpid(helper, NULL, 0) < 0 && errno == EINTR) continue;
  helper = 0;
}

void refuse(const char *code, const char *hint, const char *format, ...) {
  va_list arguments;
  wait_for_helper();
  va_start(arguments, format);
  fprintf(stderr, "error[%s]: ", code);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n  hint: %s\n", hint);
  va_end(arguments);
  exit(1);
}

void tell_waiting(const char *cache_path) {
  static struct timespec first;
  static int told;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (first.tv_sec == 0) first = now;
  if (told || (now.tv_sec - first.tv_sec) * 1000 + (now.tv_nsec - first.tv_nsec) / 1000000 < 1000) return;
  told = 1;
  if (isatty(STDERR_FILENO)) fprintf(stderr, "unpacking into %s, once …\n", cache_path);
}

/* Opens the file this program was started from and finds its path, links resolved. */
static int open_self(char path[PATH_BYTES]) {
#ifdef __APPLE__
  char given[PATH_BYTES];
  uint32_t size = sizeof given;
  if (_NSGetExecutablePath(given, &size) != 0 || realpath(given, path) == NULL) {
    refuse("E-IO-003", "start it by its full path", "this program cannot find its own file");
  }
  int self = open(path, O_RDONLY | O_CLOEXEC);
#else
  ssize_t length = readlink("/proc/self/exe", path, PATH_BYTES - 1);
  int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (length < 0) {
    refuse("E-IO-003", "mount it: mount -t proc proc /proc",
           "/proc is not mounted, and Deno, which this program runs on, does not start without it");
  }
  path[length] = '\0';
  /* Where this file was replaced between its start and now, as an upgrade does, the kernel says so behind the path. What
   * stands there is the program too, and later ones start from it. */
  static const char GONE[] = " (deleted)";
  size_t kept = (size_t)length - (sizeof GONE - 1);
  if (length >= (ssize_t)sizeof GONE && strcmp(path + kept, GONE) == 0 && access(path, F_OK) != 0) path[kept] = '\0';
#endif
  if (self < 0) refuse("E-IO-003", "make it readable", "this program cannot read its own file: %s", strerror(errno));
  return self;
}

/* Variables that would configure Deno, or the parts of Node in it. */
static int configures_deno(const char *entry) {
  static const char *const prefixes[] = {"DENO_", "DENORT_", "NODE_", "OTEL_DENO", "NPM_CONFIG_", "npm_config_"};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    if (strncmp(entry, prefixes[i], strlen(prefixes[i])) == 0) return 1;
  }
  return 0;
}

static void set(const char *name, const char *value) {
  if (setenv(name, value, 1) != 0) refuse("E-IO-003", "free some memory", "the environment cannot be set");
}

static void prepare_environment(const char *self, const char *cache, const struct contents *contents) {
  char **kept = environ;
  for (char **entry = environ; *entry != NULL; entry++) {
    if (!configures_deno(*entry)) *kept++ = *entry;
  }
  *kept = NULL;
  /* Deno's own caches, beside the Deno that fills them: another version's are never taken for its own. */
  char caches[PATH_BYTES];
  const char *slash = strchr(contents->program, '/');
  int length = snprintf(caches, sizeof caches, "%s/%.*s/cache", cache,
                        slash == NULL ? 0 : (int)(slash - contents->program), contents->program);
  if (length < 0 || length >= (int)sizeof caches) refuse("E-IO-003", "use a shorter path", "%s is too long", cache);
  set("DENO_DIR", caches);
  set("DENO_NO_UPDATE_CHECK", "1");
  set("DENO_NO_PROMPT", "1");
  /* A delegated child holds little of this environment: told where this one unpacked, it need not do so once more
   * elsewhere. */
  set("MURMUR_CACHE_DIR", cache);
  /* Which file this is, for whoever keeps others from changing it. */
  set("MURMUR_PROGRAM_FILE", self);
  /* Processes of this program's kind are started from this same file, unless the user names another one. */
  const char *named = getenv("MURMUR_MUR_BINARY");
  if (named == NULL || *named == '\0') set("MURMUR_MUR_BINARY", self);
}

/* Unpacks the parts that are not there: the second of two in a process of its own meanwhile, since most of the time goes
 * into computing. That process says nothing: what it could not do is done once more, and told, here. */
static void unpack_missing(int self, int cache, const char *cache_path, const struct contents *contents) {
  const struct part *missing[MAX_PARTS];
  size_t count = 0;
  for (size_t i = 0; i < contents->part_count; i++) {
    if (!holds_part(cache, &contents->parts[i])) missing[count++] = &contents->parts[i];
  }
  tell_waiting(cache_path);
  if (count > 1 && (helper = fork()) == 0) {
    int nothing = open("/dev/null", O_RDWR);
    if (nothing < 0 || dup2(nothing, STDERR_FILENO) < 0) _exit(1);
    unpack_part(self, cache, cache_path, missing[1]);
    _exit(0);
  }
  if (count > 0) unpack_part(self, cache, cache_path, missing[0]);
  while (helper > 0 && waitpid(helper, NULL, WNOHANG) == 0) {
    tell_waiting(cache_path);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  helper = 0;
  for (size_t i = 1; i < count; i++) {
    if (!holds_part(cache, missing[i])) unpack_part(self, cache, cache_path, missing[i]);
  }
}

/* An argument with the cache's path put in. */
static char *argument(const char *text, const char *cache) {
  if (*text != '%') return (char *)text;
  size_t size = strlen(cache) + strlen(text);
  char *whole = malloc(size);
  if (whole == NULL) refuse("E-IO-003", "free some memory", "there is no memory left");
  snprintf(whole, size, "%s%s", cache, text + 1);
  return whole;
}

int main(int argc, char **argv) {
  static struct contents contents;
  char self_path[PATH_BYTES], cache_path[PATH_BYTES], program[PATH_BYTES];
  int self = open_self(self_path);
  read_contents(self, &contents);
  /* What is made here has the rights it is given, whatever else the user wants of other files. */
  mode_t mask = umask(0077);
  int cache = open_cache(cache_path);
  unpack_missing(self, cache, cache_path, &contents);
  umask(mask);
  prepare_environment(self_path, cache_path, &contents);
  char **arguments = calloc(contents.argument_count + (size_t)argc + 1, sizeof *arguments);
  if (arguments == NULL) refuse("E-IO-003", "free some memory", "there is no memory left");
  size_t count = 0;
  for (size_t i = 0; i < contents.argument_count; i++) {
    arguments[count++] = argument(contents.arguments[i], cache_path);
  }
  for (int i = 1; i < argc; i++) arguments[count++] = argv[i];
  if (snprintf(program, sizeof program, "%s/%s", cache_path, contents.program) >= (int)sizeof program) {
    refuse("E-IO-003", "set MURMUR_CACHE_DIR to a shorter path", "%s is too long", cache_path);
  }
  execv(program, arguments);
  if (errno == EACCES) {
    refuse("E-IO-002", "set MURMUR_CACHE_DIR to a directory on a disk that is not mounted with noexec",
           "%s may not be executed", program);
  }
  if (errno == ENOENT) {
    refuse("E-IO-003", "use a system with the GNU C library, 2.34 or newer",
           "%s does not start: this system does not have the C library it was built for", program);
  }
  refuse("E-IO-003", "see whether this file is for this machine's processor", "%s does not start: %s", program,
         strerror(errno));
}
