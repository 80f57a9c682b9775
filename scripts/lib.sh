# shellcheck shell=bash
# What every script here starts with.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
# Flags and target folders are each script's own; what the caller's shell holds must not leak in.
unset MAKEFLAGS MFLAGS MAKELEVEL RUSTFLAGS CARGO_ENCODED_RUSTFLAGS RUSTDOCFLAGS CARGO_TARGET_DIR CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR CARGO_BUILD_RUSTFLAGS

say() { printf '· %s\n' "$*"; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# The server runs on the machine it is built on: the model's kernels take AVX2 at compile time only.
# The contract's bits must not notice, which `make test` checks.
native_target=$root/target/native
native() { CARGO_TARGET_DIR=$native_target RUSTFLAGS="-C target-cpu=native" "$@"; }

# debian PACKAGE…: installs Debian packages.
debian() {
    [ "$(id -u)" = 0 ] || die "needs the Debian packages: $*. Run as root, or install them with: sudo apt-get install $*"
    say "installing Debian packages: $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q -q update
    apt-get -q -q -o DPkg::Lock::Timeout=600 install -y --no-install-recommends "$@" >/dev/null
}
