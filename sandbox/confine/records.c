/*
 * The records of a SPEC frame: NUL-terminated strings, an operation's name followed by its operands (spec containment
 * 19.3). All of them are checked before anything is forked. An unknown operation, a missing operand, a path that is not
 * absolute, a record twice that counts once, anything behind the last: the whole is refused.
 */
#include "confine.h"

/*
 * What an operand is:
 *   p  an absolute path              c  one without `.`, `..`, empty parts: no way around what is checked later
 *   n  a number                      b  0 or 1
 *   h  64 lower-case hex digits      s  any text
 *   T  a tier     R  a right set     L  a limit      W  a watched limit
 *   q  req, opt   x  exec, noexec    a  a bind's access   g  a protection
 */
struct form {
  const char *name;
  const char *operands;
  enum spec_kind kind;
  /* May stand there only once. */
  int once;
};

static const struct form forms[OPERATIONS] = {
    [OP_VERSION] = {"version", "n", SPEC_COMMAND, 1},
    [OP_TOKEN] = {"token", "h", SPEC_KEEPER, 1},
    [OP_PORT] = {"port", "n", SPEC_KEEPER, 0},
    [OP_TIER] = {"tier", "T", SPEC_COMMAND, 1},
    /* Followed by as many arguments as its number says. */
    [OP_EXEC] = {"exec", "pn", SPEC_COMMAND, 1},
    [OP_IDS] = {"ids", "nn", SPEC_COMMAND, 1},
    [OP_JOIN] = {"join", "nn", SPEC_COMMAND, 1},
    [OP_UNIX] = {"unix", "b", SPEC_COMMAND, 1},
    [OP_RLIMIT] = {"rlimit", "Ln", SPEC_COMMAND, 0},
    [OP_CGROUP] = {"cgroup", "p", SPEC_COMMAND, 0},
    [OP_WATCH] = {"watch", "Wn", SPEC_COMMAND, 0},
    [OP_RULE] = {"rule", "Rqp", SPEC_COMMAND, 0},
    [OP_ABI] = {"abi", "n", SPEC_COMMAND, 1},
    [OP_PIDNS] = {"pidns", "b", SPEC_COMMAND, 1},
    [OP_MOUNTS] = {"mounts", "b", SPEC_COMMAND, 1},
    [OP_RW] = {"rw", "xc", SPEC_COMMAND, 0},
    [OP_REBIND] = {"rebind", "xc", SPEC_COMMAND, 0},
    [OP_COVER] = {"cover", "pc", SPEC_COMMAND, 0},
    [OP_TMPMAP] = {"tmpmap", "xc", SPEC_COMMAND, 1},
    [OP_PROTECT] = {"protect", "gc", SPEC_COMMAND, 0},
    [OP_HOLD] = {"hold", "c", SPEC_COMMAND, 0},
    [OP_BASE] = {"base", "c", SPEC_COMMAND, 1},
    [OP_MKDIR] = {"mkdir", "c", SPEC_COMMAND, 0},
    [OP_MKFILE] = {"mkfile", "c", SPEC_COMMAND, 0},
    [OP_SYMLINK] = {"symlink", "sc", SPEC_COMMAND, 0},
    [OP_BIND] = {"bind", "aqpc", SPEC_COMMAND, 0},
    [OP_TMPFS] = {"tmpfs", "c", SPEC_COMMAND, 0},
    [OP_PROC] = {"proc", "c", SPEC_COMMAND, 1},
    [OP_DEVPTS] = {"devpts", "c", SPEC_COMMAND, 1},
    [OP_SEAL] = {"seal", "", SPEC_COMMAND, 1},
    [OP_CWD] = {"cwd", "p", SPEC_COMMAND, 1},
};

/* Words of each list in the order of its enumeration. */
static const char *const tiers[] = {"sealed", "full", "seccomp", "env", NULL};
static const char *const right_sets[] = {"W", "WX", "RX", "RXL", "R", "RL", "DRW", NULL};
static const char *const watch_names[] = {"memory_bytes", "cgroup_memory_bytes", "cgroup_pids_max", NULL};
static const char *const presences[] = {"req", "opt", NULL};
static const char *const executions[] = {"exec", "noexec", NULL};
static const char *const accesses[] = {"ro", "rw", "rwx", "dev", "data", NULL};
static const char *const protections[] = {"ro", "dir", NULL};

static int word_of(const char *const *words, const char *text, unsigned long long *value) {
  for (size_t i = 0; words[i] != NULL; i++) {
    if (strcmp(words[i], text) != 0) continue;
    *value = i;
    return 1;
  }
  return 0;
}

static int is_path(const char *text) { return text[0] == '/' && strlen(text) < PATH_MAX; }

/* `/` itself, or parts that are names: none empty, `.` or `..`. */
static int is_canonical(const char *text) {
  if (!is_path(text)) return 0;
  if (text[1] == '\0') return 1;
  while (*text == '/') {
    const char *part = ++text;
    while (*text != '/' && *text != '\0') text++;
    size_t length = (size_t)(text - part);
    if (length == 0 || (length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.')) return 0;
  }
  return 1;
}

static int is_hex(const char *text) {
  if (strlen(text) != 2 * TOKEN_BYTES) return 0;
  return strspn(text, "0123456789abcdef") == 2 * TOKEN_BYTES;
}

static int read_operand(char form, const char *text, unsigned long long *value) {
  switch (form) {
    case 'p': return is_path(text);
    case 'c': return is_canonical(text);
    case 'n': return parse_number(text, value) == 0;
    case 'b': return parse_number(text, value) == 0 && *value <= 1;
    case 'h': return is_hex(text);
    case 's': return 1;
    case 'T': return word_of(tiers, text, value);
    case 'R': return word_of(right_sets, text, value);
    case 'W': return word_of(watch_names, text, value);
    case 'q': return word_of(presences, text, value);
    case 'x': return word_of(executions, text, value);
    case 'a': return word_of(accesses, text, value);
    case 'g': return word_of(protections, text, value);
    case 'L': {
      int resource = limit_of_name(text);
      if (resource < 0) return 0;
      *value = (unsigned long long)resource;
      return 1;
    }
    default: return 0;
  }
}

static unsigned char hex_digit(char digit) {
  return (unsigned char)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

/* What a record says about the whole. NULL, or what is wrong. */
static const char *take_record(struct spec *spec, const struct record *record) {
  const unsigned long long *value = record->value;
  switch (record->operation) {
    case OP_VERSION:
      return value[0] == 1 ? NULL : "another version of the record language";
    case OP_TOKEN:
      for (size_t i = 0; i < TOKEN_BYTES; i++) {
        spec->token[i] =
            (unsigned char)(hex_digit(record->text[0][2 * i]) << 4 | hex_digit(record->text[0][2 * i + 1]));
      }
      return NULL;
    case OP_PORT:
      if (value[0] < 1 || value[0] > 65535) return "a port out of range";
      if (spec->port_count == MAX_PORTS) return "too many ports";
      if (spec->port_count > 0 && spec->ports[spec->port_count - 1] >= value[0]) return "ports that do not ascend";
      spec->ports[spec->port_count++] = (uint16_t)value[0];
      return NULL;
    case OP_TIER:
      spec->tier = (enum tier)value[0];
      return NULL;
    case OP_EXEC:
      spec->program = record->text[0];
      return NULL;
    case OP_IDS:
      /* The last number of each is no id. */
      if (value[0] >= UINT32_MAX || value[1] >= UINT32_MAX) return "an id out of range";
      spec->uid = (uid_t)value[0];
      spec->gid = (gid_t)value[1];
      return NULL;
    case OP_JOIN:
      if (value[0] < 1 || value[0] > INT_MAX || value[1] == 0) return "a keeper that can't be";
      spec->keeper = (pid_t)value[0];
      spec->keeper_network = value[1];
      return NULL;
    case OP_UNIX:
      spec->unix_sockets = (int)value[0];
      return NULL;
    case OP_ABI:
      if (value[0] < 1 || value[0] > INT_MAX) return "an ABI out of range";
      spec->abi_limit = (int)value[0];
      return NULL;
    case OP_PIDNS:
      spec->pid_namespace = (int)value[0];
      return NULL;
    case OP_MOUNTS:
      spec->mount_namespace = (int)value[0];
      return NULL;
    case OP_WATCH:
      if (value[1] == 0) return "a watched limit of nothing";
      if (value[0] == WATCH_MEMORY) spec->watched.memory_bytes = value[1];
      if (value[0] == WATCH_TREE_MEMORY) spec->watched.tree_memory_bytes = value[1];
      if (value[0] == WATCH_TREE_PROCESSES) spec->watched.tree_processes = value[1];
      return NULL;
    case OP_CWD:
      spec->cwd = record->text[0];
      return NULL;
    default:
      return NULL;
  }
}

static int is_root_operation(enum operation operation) { return operation >= OP_BASE && operation <= OP_SEAL; }

/* What must be there, what can't be together, and the order of the composed root's records. */
static const char *check_command(const struct spec *spec, const unsigned *seen) {
  static const enum operation needed[] = {OP_TIER, OP_EXEC, OP_IDS, OP_CWD};
  for (size_t i = 0; i < LENGTH_OF(needed); i++) {
    if (!seen[needed[i]]) return "a record is missing: tier, exec, ids and cwd must be there";
  }
  int root = 0, sealed = 0;
  for (size_t i = 0; i < spec->count; i++) {
    enum operation operation = spec->records[i].operation;
    if (!is_root_operation(operation)) continue;
    if (spec->tier != TIER_SEALED) return "a composed root without the tier sealed";
    if (sealed) return "a composed root that goes on behind its seal";
    if ((operation == OP_BASE) != !root) return "a composed root that does not begin with its base";
    root = 1;
    sealed = operation == OP_SEAL;
  }
  if (spec->tier == TIER_SEALED) {
    if (!sealed) return "the tier sealed without a sealed root";
    if (seen[OP_RW] || seen[OP_REBIND] || seen[OP_COVER] || seen[OP_TMPMAP]) {
      return "grants of another tier beside a composed root";
    }
    if (seen[OP_MOUNTS] && !spec->mount_namespace) return "a composed root without a mount namespace";
  } else if (!spec->mount_namespace &&
             (seen[OP_RW] || seen[OP_REBIND] || seen[OP_COVER] || seen[OP_TMPMAP] || seen[OP_PROTECT])) {
    return "mounts without a mount namespace";
  }
  if (spec->tier == TIER_ENV) {
    static const enum operation walls[] = {OP_JOIN, OP_UNIX, OP_CGROUP, OP_RULE, OP_ABI, OP_PIDNS, OP_MOUNTS};
    for (size_t i = 0; i < LENGTH_OF(walls); i++) {
      if (seen[walls[i]]) return "walls on the tier without any";
    }
  }
  if (spec->tier == TIER_SECCOMP && (seen[OP_RULE] || seen[OP_ABI])) return "Landlock rules on a tier without Landlock";
  return NULL;
}

/* The next string, NULL when there is none. `bytes` ends in a NUL. */
static char *next_string(char **at, const char *end) {
  if (*at == end) return NULL;
  char *text = *at;
  *at += strlen(text) + 1;
  return text;
}

static const char *read_record(char **at, const char *end, enum spec_kind kind, struct spec *spec, unsigned *seen) {
  const char *name = next_string(at, end);
  enum operation operation = OP_VERSION;
  while (operation < OPERATIONS && strcmp(forms[operation].name, name) != 0) operation++;
  if (operation == OPERATIONS) return "an unknown operation";
  if (forms[operation].kind != kind && operation != OP_VERSION) return "an operation of another mode";
  if ((spec->count == 0) != (operation == OP_VERSION)) return "the version is not the first record";
  if (seen[operation]++ && forms[operation].once) return "a record twice that counts once";
  struct record *record = &spec->records[spec->count++];
  memset(record, 0, sizeof *record);
  record->operation = operation;
  for (size_t i = 0; forms[operation].operands[i] != '\0'; i++) {
    record->text[i] = next_string(at, end);
    if (record->text[i] == NULL) return "an operand is missing";
    if (!read_operand(forms[operation].operands[i], record->text[i], &record->value[i])) return "a malformed operand";
  }
  if (operation == OP_EXEC) {
    size_t room = (size_t)(end - *at);
    /* A string has at least its end. */
    if (record->value[1] < 1 || record->value[1] > room) return "a number of arguments that can't be";
    spec->argv = calloc((size_t)record->value[1] + 1, sizeof *spec->argv);
    if (spec->argv == NULL) return "no memory";
    for (size_t i = 0; i < record->value[1]; i++) {
      spec->argv[i] = next_string(at, end);
      if (spec->argv[i] == NULL) return "an argument is missing";
    }
  }
  return take_record(spec, record);
}

const char *parse_spec(char *bytes, size_t length, enum spec_kind kind, struct spec *spec) {
  memset(spec, 0, sizeof *spec);
  spec->pid_namespace = 1;
  spec->abi_limit = INT_MAX;
  if (length == 0) return "no records";
  if (bytes[length - 1] != '\0') return "text behind the last record";
  /* Every record has its name: no more of them than strings. */
  size_t strings = 0;
  for (size_t i = 0; i < length; i++) strings += bytes[i] == '\0';
  spec->records = calloc(strings, sizeof *spec->records);
  if (spec->records == NULL) return "no memory";
  unsigned seen[OPERATIONS] = {0};
  const char *wrong = NULL;
  for (char *at = bytes; wrong == NULL && at < bytes + length;) {
    wrong = read_record(&at, bytes + length, kind, spec, seen);
  }
  if (wrong == NULL && kind == SPEC_KEEPER && !seen[OP_TOKEN]) wrong = "a keeper without a token";
  if (wrong == NULL && kind == SPEC_COMMAND) wrong = check_command(spec, seen);
  if (spec->tier == TIER_SEALED) spec->mount_namespace = 1;
  if (spec->tier == TIER_ENV) spec->pid_namespace = 0;
  if (wrong != NULL) free_spec(spec);
  return wrong;
}

void free_spec(struct spec *spec) {
  free(spec->records);
  free(spec->argv);
  spec->records = NULL;
  spec->argv = NULL;
  spec->count = 0;
}
