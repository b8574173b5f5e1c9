#!/bin/sh
# Installs mur and mur-roost for this user, without sudo:
#
#   curl -fsSL https://github.com/murmur-nexus/murmur/releases/latest/download/install.sh | sh
#
# Options (after `sh -s --` when piped) and variables:
#
#   --version V     MUR_VERSION            version to install; default the latest; also goes back to an older one
#   --dir D         MUR_INSTALL_DIR        where to; default /usr/local/bin when writable, else ~/.local/bin
#   --from X        MURMUR_INSTALL_FROM    directory or URL of a release to install from
#   --repo O/R      MUR_REPO               repository of the releases
#   --quiet         MUR_QUIET=1            warnings and errors only
#   --uninstall                            removes the programs, their manual pages and what they unpacked
#
# docs/install.md says more. Everything is one function that the last line calls: a cut download does nothing.
set -eu

murmur_install() {
  # The key the releases are signed with; `deno task release` puts it in. Empty in the repository.
  release_key=''
  # What the programs were built with needs it.
  least_glibc_major=2
  least_glibc_minor=34

  quiet=${MUR_QUIET:-}
  version=${MUR_VERSION:-}
  directory=${MUR_INSTALL_DIR:-}
  from=${MURMUR_INSTALL_FROM:-}
  repository=${MUR_REPO:-murmur-nexus/murmur}
  action=install
  work=
  stage_directory=
  # What others may write to, they may replace. Who keeps more to himself goes on doing so.
  case $(umask) in
    *[2367]) ;;
    *) umask 022 ;;
  esac

  info() { if [ -z "$quiet" ]; then printf 'info: %s\n' "$*"; fi; }
  warning() { printf 'warning: %s\n' "$*" >&2; }
  fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
  }
  has() { command -v "$1" >/dev/null 2>&1; }

  # Nothing half written stays, however this ends.
  clean_up() {
    status=$?
    trap - EXIT HUP INT PIPE TERM
    if [ -n "$stage_directory" ]; then rm -rf "$stage_directory"; fi
    if [ -n "$work" ]; then rm -rf "$work"; fi
    exit "$status"
  }

  while [ $# -gt 0 ]; do
    case $1 in
      --version | --dir | --from | --repo)
        if [ $# -lt 2 ]; then fail "$1 needs a value"; fi
        case $1 in
          --version) version=$2 ;;
          --dir) directory=$2 ;;
          --from) from=$2 ;;
          --repo) repository=$2 ;;
        esac
        shift
        ;;
      --quiet | -q) quiet=1 ;;
      --uninstall) action=uninstall ;;
      --help | -h)
        printf '%s\n' 'usage: install.sh [--version V] [--dir D] [--from DIR|URL] [--repo OWNER/REPO] [--quiet] [--uninstall]'
        exit 0
        ;;
      *) fail "unknown option: $1" 'see install.sh --help' ;;
    esac
    shift
  done
  version=${version#v}
  case $version in
    *[!0-9A-Za-z.+-]*) fail "'$version' is no version" ;;
  esac
  case $from in
    '' | /* | http://* | https://*) ;;
    *) from=$(pwd)/$from ;;
  esac

  # --- where to -----------------------------------------------------------------------------------------------------

  find_directory() {
    if [ -n "$directory" ]; then
      case $directory in
        /*) ;;
        *) directory=$(pwd)/$directory ;;
      esac
      return
    fi
    if [ "$action" = uninstall ]; then
      for candidate in /usr/local/bin "${HOME:-}/.local/bin"; do
        if [ -f "$candidate/mur" ] && [ -w "$candidate" ]; then
          directory=$candidate
          return
        fi
      done
    elif [ -d /usr/local/bin ] && [ -w /usr/local/bin ]; then
      directory=/usr/local/bin
      return
    fi
    if [ -z "${HOME:-}" ]; then fail 'HOME is not set, so there is no place to install into' 'set MUR_INSTALL_DIR'; fi
    directory=$HOME/.local/bin
  }

  manual_directory() {
    case $directory in
      */bin) printf '%s\n' "${directory%/bin}/share/man/man1" ;;
    esac
  }

  # --- removal ------------------------------------------------------------------------------------------------------

  remove_cache() {
    if [ -n "${MURMUR_CACHE_DIR:-}" ]; then
      cache=$MURMUR_CACHE_DIR
    else
      # A relative one counts for nothing, as for the programs.
      case ${XDG_CACHE_HOME:-} in
        /*) cache=$XDG_CACHE_HOME/murmur ;;
        *)
          cache=${HOME:-}/.cache/murmur
          if [ "$(uname -s)" = Darwin ]; then cache=${HOME:-}/Library/Caches/murmur; fi
          ;;
      esac
    fi
    # Where those of root unpack when HOME is another user's.
    for cache in "$cache" /var/cache/murmur; do
      case $cache in
        /*) ;;
        *) continue ;;
      esac
      if [ ! -d "$cache" ] || [ -L "$cache" ] || [ ! -w "$cache" ]; then continue; fi
      # Only what the programs make there.
      for file in "$cache"/*; do
        case ${file##*/} in
          deno-* | mur-*) ;;
          *) continue ;;
        esac
        hash=${file##*-}
        case $hash in
          *[!0-9a-f]*) continue ;;
        esac
        case ${file##*/} in
          "deno-$hash" | "mur-$hash" | "mur-roost-$hash") if [ ${#hash} -eq 32 ]; then rm -rf "$file"; fi ;;
        esac
      done
      for name in deno mur mur-roost; do rm -rf "$cache/.unpacking-$name@"* "$cache/.lock-$name"; done
      if rmdir "$cache" 2>/dev/null; then info "removed $cache"; fi
    done
  }

  uninstall() {
    find_directory
    found=
    manual=$(manual_directory)
    for file in "$directory/mur" "$directory/mur-roost" ${manual:+"$manual/mur.1" "$manual/mur-roost.1"}; do
      if [ ! -e "$file" ] && [ ! -L "$file" ]; then continue; fi
      name=${file##*/}
      if [ "${name%.1}" = "$name" ] && [ -e "$file" ] && ! is_ours "$file" "$name"; then
        warning "left: $file, which is another program"
        continue
      fi
      found=1
      rm -f "$file" || fail "$file cannot be removed"
      info "removed $file"
    done
    # What an installation that was killed left.
    rm -rf "$directory"/.murmur-install.*
    remove_cache
    if [ -z "$found" ]; then info "nothing of mur is in $directory"; fi
    if [ -e /usr/local/libexec/murmur/mur-confine ]; then
      info 'left: /usr/local/libexec/murmur and its AppArmor profile, which root placed (mur setup --remove undoes it)'
    fi
    if [ -d "${HOME:-}/.murmur" ]; then
      info "left: $HOME/.murmur, with your configuration, keys, artifacts and records; remove it when you need none of them"
    fi
  }

  # --- which file ---------------------------------------------------------------------------------------------------

  # Sets `platform`, or fails with what to do instead.
  find_platform() {
    source_hint='build it from source: docs/install.md says how'
    case $(uname -s) in
      Linux) os=linux ;;
      Darwin) os=darwin ;;
      MINGW* | MSYS* | CYGWIN*) fail 'Windows is not supported' 'use the Windows Subsystem for Linux' ;;
      *) fail "there are no programs for $(uname -s)" "$source_hint" ;;
    esac
    case $(uname -m) in
      x86_64 | amd64) arch=x86_64 ;;
      aarch64 | arm64) arch=aarch64 ;;
      *) fail "there are no programs for the processor $(uname -m)" "$source_hint" ;;
    esac
    # A translated shell on an Apple processor says it is the other one.
    if [ "$os" = darwin ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || true)" = 1 ]; then arch=aarch64; fi
    platform=$os-$arch
    if [ "$os" = linux ]; then check_libc; fi
  }

  check_libc() {
    library=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
    case $library in
      glibc\ *) ;;
      *)
        library=$(ldd --version 2>&1 | sed -n 1p || true)
        case $library in
          *musl*) fail 'this system has the C library musl; the programs need glibc' "$source_hint" ;;
          *GLIBC* | *"GNU libc"*) ;;
          *) return 0 ;; # whether they start is tried below
        esac
        ;;
    esac
    number=$(printf '%s\n' "$library" | sed -n 's/.*[^0-9.]\([0-9][0-9]*\.[0-9][0-9]*\)[^0-9]*$/\1/p')
    major=${number%%.*}
    minor=${number#*.}
    if [ -z "$number" ]; then return 0; fi
    if [ "$major" -lt $least_glibc_major ] ||
      { [ "$major" -eq $least_glibc_major ] && [ "$minor" -lt $least_glibc_minor ]; }; then
      fail "this system has glibc $number; the programs need $least_glibc_major.$least_glibc_minor or newer" "$source_hint"
    fi
  }

  # --- getting it ---------------------------------------------------------------------------------------------------

  find_tools() {
    for tool in awk cat mktemp sed tail tr uname; do
      if ! has $tool; then fail "$tool is needed and not here"; fi
    done
    case $from in
      '' | http://* | https://*)
        if has curl; then
          download=with_curl
        elif has wget; then
          download=with_wget
        else
          fail 'curl or wget is needed and neither is here'
        fi
        ;;
    esac
    if has sha256sum; then
      hash=sha256sum
    elif has shasum; then
      hash='shasum -a 256'
    else
      fail 'sha256sum or shasum is needed and neither is here: nothing is installed unchecked'
    fi
  }

  with_curl() {
    # Only a release that was named by its address may come in the open.
    case $1 in
      https://*) curl -fsSL --proto '=https' --tlsv1.2 --connect-timeout 30 -o "$2" "$1" ;;
      *) curl -fsSL --connect-timeout 30 -o "$2" "$1" ;;
    esac
  }

  with_wget() {
    if wget --version 2>/dev/null | sed -n 1p | grep -q GNU; then
      wget -q -t 3 -T 30 -O "$2" "$1"
    else
      wget -q -O "$2" "$1"
    fi
  }

  # Fetches a file of the release to the work directory; tells whether it is there.
  fetch() {
    case $from in
      '') $download "https://github.com/$repository/releases/download/v$version/$1" "$work/$1" ;;
      http://* | https://*) $download "${from%/}/$1" "$work/$1" ;;
      *) if [ -f "$from/$1" ]; then cp "$from/$1" "$work/$1"; else return 1; fi ;;
    esac
  }

  # The latest release is where its page leads to, which must be in the same repository.
  find_latest() {
    page=https://github.com/$repository/releases/latest
    if [ "$download" = with_curl ]; then
      leads=$(curl -fsSLI --proto '=https' --tlsv1.2 --connect-timeout 30 -o "$work/page" -w '%{url_effective}' "$page") ||
        fail "the latest release cannot be found at $page" 'set MUR_VERSION'
    else
      leads=$(wget -q -S --spider "$page" 2>&1 | awk 'tolower($1) == "location:" { print $2 }' | tail -n 1)
    fi
    case $leads in
      "https://github.com/$repository/releases/tag/v"*) version=${leads##*/v} ;;
      *) fail "the latest release cannot be found: $page leads to '$leads'" 'set MUR_VERSION' ;;
    esac
    case $version in
      '' | *[!0-9A-Za-z.+-]*) fail "the latest release has a strange version: '$version'" ;;
    esac
  }

  # The version of a release that was named by its place.
  find_given() {
    versions=$(awk -v platform="$platform" '{
      name = $2
      sub(/\.gz$/, "", name)
      if (index(name, "mur-") == 1 && index(name, "mur-roost-") != 1 && length(name) > length(platform) + 5 &&
          substr(name, length(name) - length(platform)) == "-" platform) {
        version = substr(name, 5, length(name) - length(platform) - 5)
        if (!seen[version]++) print version
      }
    }' "$work/checksums.txt")
    case $versions in
      '')
        offered=$(awk '$2 ~ /^mur-[0-9]/ { print $2 }' "$work/checksums.txt" | tr '\n' ' ')
        fail "this release has no mur for $platform" "it has: $offered" "$source_hint"
        ;;
      *"
"*) fail "$from holds more than one version" 'name one with MUR_VERSION' ;;
      *[!0-9A-Za-z.+-]*) fail "the release has a strange version: '$versions'" ;;
    esac
    version=$versions
  }

  check_signature() {
    if [ -z "$release_key" ]; then
      warning 'this copy of the installer has no key: the signature is not checked, the checksums are'
      return
    fi
    if ! has openssl; then
      warning 'openssl is not here: the signature is not checked, the checksums are'
      return
    fi
    fetch checksums.txt.sig || fail 'the release has no signature: nothing is installed'
    printf '%s\n' "$release_key" >"$work/key.pem"
    openssl dgst -sha256 -verify "$work/key.pem" -signature "$work/checksums.txt.sig" "$work/checksums.txt" \
      >/dev/null 2>&1 || fail 'the signature of the release is wrong: nothing is installed'
  }

  listed() { awk -v name="$1" '$2 == name { found = 1 } END { exit !found }' "$work/checksums.txt"; }

  # Fetches a listed file and checks it.
  fetch_checked() {
    expected=$(awk -v name="$1" '$2 == name { print $1 }' "$work/checksums.txt")
    case $expected in
      *"
"*) fail "the release lists $1 more than once: nothing is installed" ;;
    esac
    fetch "$1" || fail "$1 cannot be fetched: nothing is installed" 'try again'
    # Not by its name: the line for a strange one begins with a backslash.
    actual=$($hash <"$work/$1" | awk '{ print $1 }')
    if [ "$expected" != "$actual" ]; then
      fail "$1 is not what the release lists: nothing is installed" "expected $expected" "actual   $actual"
    fi
  }

  # Whether a program is one of these, so that no other of the same name is replaced or removed: by the end of its file,
  # which one that does not start has too, else by what it says.
  is_ours() {
    if [ "$(tail -c 8 "$1" 2>/dev/null | tr -d '\000')" = MURPACK1 ]; then return 0; fi
    if [ ! -x "$1" ]; then return 1; fi
    case $("$1" --version 2>/dev/null </dev/null || true) in
      "$2 "[0-9]*) return 0 ;;
      *) return 1 ;;
    esac
  }

  # Puts a program beside its place, in a directory nobody else can reach into, and starts it once.
  stage() {
    name=$1-$version-$platform
    if ! listed "$name"; then name=$name.gz; fi
    fetch_checked "$name"
    if [ -d "$directory/$1" ]; then fail "$directory/$1 is a directory"; fi
    if [ -e "$directory/$1" ] && ! is_ours "$directory/$1" "$1"; then
      fail "$directory/$1 is another program: nothing is installed" \
        'choose another directory with MUR_INSTALL_DIR, or remove it'
    fi
    file=$stage_directory/$1
    case $name in
      *.gz) gzip -dc "$work/$name" >"$file" || fail "$name cannot be unpacked into $directory: nothing is installed" ;;
      *) cp "$work/$name" "$file" || fail "$name cannot be written to $directory: nothing is installed" ;;
    esac
    rm -f "$work/$name"
    chmod 755 "$file"
    said=$("$file" --version 2>"$work/told" </dev/null) || {
      printf '%s\n' "$said" >&2
      cat "$work/told" >&2
      fail "$1 $version does not start here: what was installed before is left as it was" "$source_hint"
    }
    if [ "$said" != "$1 $version" ]; then fail "$1 says it is '$said', not version $version: nothing is installed"; fi
  }

  # Whether the first of two versions is newer: numbers by size, letters by the alphabet, one with letters before none.
  is_newer() {
    awk -v a="$1" -v b="$2" 'BEGIN {
      sub(/\+.*/, "", a); sub(/\+.*/, "", b)
      pre_a = pre_b = ""
      if (i = index(a, "-")) { pre_a = substr(a, i + 1); a = substr(a, 1, i - 1) }
      if (i = index(b, "-")) { pre_b = substr(b, i + 1); b = substr(b, 1, i - 1) }
      n = split(a, x, "."); m = split(b, y, ".")
      for (i = 1; i <= (n > m ? n : m); i++) if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 > y[i] + 0)
      if (pre_a == "" || pre_b == "") exit !(pre_a == "" && pre_b != "")
      n = split(pre_a, x, "."); m = split(pre_b, y, ".")
      for (i = 1; i <= (n < m ? n : m); i++) {
        if (x[i] == y[i]) continue
        if (x[i] ~ /^[0-9]+$/ && y[i] ~ /^[0-9]+$/) exit !(x[i] + 0 > y[i] + 0)
        exit !((x[i] "") > (y[i] ""))
      }
      exit !(n > m)
    }'
  }

  install_manual() {
    manual=$(manual_directory)
    if [ -z "$manual" ] || ! listed "$1"; then return 0; fi
    fetch_checked "$1"
    if mkdir -p "$manual" 2>/dev/null && cp "$work/$1" "$manual/.$1.$$" 2>/dev/null; then
      mv -f "$manual/.$1.$$" "$manual/$1"
    else
      rm -f "$manual/.$1.$$"
      warning "the manual page $1 cannot be written to $manual"
    fi
  }

  path_hint() {
    case :${PATH:-}: in
      *:"$directory":*) return 0 ;;
    esac
    # What would be something else inside of quotes in one shell or another is not made a command to paste.
    case $directory in
      *[\"\'\`\$\\:!]* | *"
"*)
        warning "$directory is not on your PATH; add it"
        return 0
        ;;
    esac
    warning "$directory is not on your PATH; add it:"
    case ${SHELL:-} in
      */fish) printf '  fish_add_path "%s"\n' "$directory" >&2 ;;
      */zsh) printf "  echo 'export PATH=\"%s:\$PATH\"' >> ~/.zshrc\n" "$directory" >&2 ;;
      */bash) printf "  echo 'export PATH=\"%s:\$PATH\"' >> ~/.bashrc\n" "$directory" >&2 ;;
      *) printf "  echo 'export PATH=\"%s:\$PATH\"' >> ~/.profile\n" "$directory" >&2 ;;
    esac
  }

  namespace_hint() {
    for file in /sys/module/apparmor/parameters/restrict_unprivileged_userns \
      /proc/sys/kernel/apparmor_restrict_unprivileged_userns; do
      case $(cat "$file" 2>/dev/null || true) in
        1 | Y)
          info 'AppArmor keeps programs from containing commands fully here; let root place the helper and its profile:'
          info "  sudo $directory/mur setup"
          return
          ;;
      esac
    done
  }

  # --- all of it ----------------------------------------------------------------------------------------------------

  if [ "$action" = uninstall ]; then
    uninstall
    exit 0
  fi
  find_tools
  find_platform
  find_directory
  work=$(mktemp -d "${TMPDIR:-/tmp}/murmur-install.XXXXXX") || fail 'no temporary directory can be made' 'set TMPDIR'
  trap clean_up EXIT
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 141' PIPE
  trap 'exit 143' TERM

  pinned=$version
  if [ -z "$from" ] && [ -z "$version" ]; then find_latest; fi
  fetch checksums.txt || fail "the release ${version:+of version $version }has no checksums.txt, or it cannot be fetched: nothing is installed"
  check_signature
  if [ -z "$version" ]; then find_given; fi
  if ! listed "mur-$version-$platform" && ! listed "mur-$version-$platform.gz"; then
    offered=$(awk '$2 ~ /^mur-[0-9]/ { print $2 }' "$work/checksums.txt" | tr '\n' ' ')
    fail "this release has no mur $version for $platform" "it has: $offered" "$source_hint"
  fi

  before=
  if [ -x "$directory/mur" ] && [ ! -d "$directory/mur" ]; then
    before=$("$directory/mur" --version 2>/dev/null | sed -n 's/^mur \([0-9A-Za-z.+-]*\)$/\1/p') || before=
  fi
  if [ -n "$before" ] && [ -z "$pinned" ] && is_newer "$before" "$version"; then
    info "mur $before in $directory is newer than $version and is left; to go back: MUR_VERSION=$version"
    exit 0
  fi

  if ! mkdir -p "$directory" 2>/dev/null || [ ! -w "$directory" ]; then
    fail "$directory cannot be written" 'choose another directory with MUR_INSTALL_DIR'
  fi
  stage_directory=$(mktemp -d "$directory/.murmur-install.XXXXXX") ||
    fail "$directory cannot be written" 'choose another directory with MUR_INSTALL_DIR'
  info "fetching mur $version for $platform"
  stage mur
  programs=mur
  if listed "mur-roost-$version-$platform" || listed "mur-roost-$version-$platform.gz"; then
    stage mur-roost
    programs='mur mur-roost'
  else
    warning 'this release has no mur-roost: capsules that spawn others end with E-RUN-019'
  fi
  if [ -n "$before" ] && [ "$before" != "$version" ]; then info "replacing mur $before in $directory"; fi
  for program in $programs; do
    mv -f "$stage_directory/$program" "$directory/$program" || fail "$directory/$program cannot be replaced"
  done
  for program in $programs; do install_manual "$program.1"; done
  for program in $programs; do info "installed $directory/$program ($version)"; done
  namespace_hint
  path_hint
  info 'see what this machine and a project lack: mur doctor'
}

{ murmur_install "$@"; }
