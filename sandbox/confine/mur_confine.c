/*
 * mur-confine: starts programs behind walls. Its modes (spec containment 19.1):
 *
 *   mur-confine probe                            what this machine grants, as one line of JSON
 *   mur-confine keeper <control socket>          makes and holds the network of a session
 *   mur-confine run <control socket>             runs one command
 *   mur-confine guard [option...] -- <program>   runs a component host, or another program, that must not
 *                                                outlive its starter
 *   mur-confine init <program> <name> [argument...]
 *                                                is the first process of a PID namespace in a program's place
 *   mur-confine harden-check                     checks its own tables
 *
 * It decides nothing: the runtime hands it resolved facts. It reads no configuration, resolves no name and does not
 * look at the environment. One thread, no library but libc.
 */
#include "confine.h"

int main(int argc, char **argv) {
  const char *mode = argc < 2 ? "" : argv[1];
  if (strcmp(mode, "guard") == 0) guard(argc, argv);
  if (argc >= 4 && strcmp(mode, "init") == 0) stand_first(argv);
  if (argc == 3 && strcmp(mode, "run") == 0) run_command(argv[2]);
  if (argc == 3 && strcmp(mode, "keeper") == 0) keep_network(argv[2]);
  if (argc == 2 && strcmp(mode, "probe") == 0) probe_host();
  if (argc == 2 && strcmp(mode, "harden-check") == 0) check_hardening();
  say("mur-confine: an unknown mode\n"
      "usage: mur-confine probe\n"
      "       mur-confine keeper|run <control socket>\n"
      "       mur-confine guard [option...] -- /absolute/program [argument...]\n"
      "       mur-confine init /absolute/program name [argument...]\n"
      "       mur-confine harden-check\n");
  return EXIT_USAGE;
}
