#!/bin/bash
# Runs the speed scenarios and prints one line of key=value per scenario: what
# the simulator itself prints, the median wall and processor seconds of the
# whole process over some runs, and microseconds of processor time per packet.
#
#   run.sh [runs] [scenario ...]      runs: 5; scenarios: see `all` below
#
# Wants ns (package ns2) and, for ns3-*, g++ and libns3-dev.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
runs=${1:-5}
shift || true
all="ns2-1 ns2-20 ns2-1000 ns2-cubic-1 ns2-cubic-20 ns3-1 ns3-20 ns3-1000 ns3-cubic-1 ns3-cubic-20 ns2-sctp ns2-sctp-fast ns2-sctp-web"
[ $# -gt 0 ] || set -- $all
work=${TMPDIR:-/tmp}/peers.$$
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT

ns3=$work/ns3-dumbbell
build() {
    [ -x "$ns3" ] || g++ -O3 -std=c++17 -o "$ns3" "$here/ns3/dumbbell.cc" -lns3-applications \
        -lns3-internet -lns3-traffic-control -lns3-point-to-point -lns3-network -lns3-stats -lns3-core
}

command_of() {
    case $1 in
    ns2-sctp) echo ns "$here/ns2/sctp.tcl" duration=10000 ;;
    ns2-sctp-fast) echo ns "$here/ns2/sctp.tcl" rate=10Mb delay=20ms queue=100 ;;
    ns2-sctp-web) echo ns "$here/ns2/sctp.tcl" source=web ;;
    ns2-cubic-*) echo ns "$here/ns2/dumbbell.tcl" cc=cubic flows="${1##*-}" ;;
    ns2-*) echo ns "$here/ns2/dumbbell.tcl" flows="${1##*-}" ;;
    ns3-cubic-*) build; echo "$ns3" --cc=cubic --flows="${1##*-}" ;;
    ns3-1000) build; echo "$ns3" --flows=1000 --duration=30 ;; # 1,000 s take ten minutes
    ns3-*) build; echo "$ns3" --flows="${1##*-}" ;;
    *) echo "unknown scenario: $1" >&2; exit 2 ;;
    esac
}

median() { sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

TIMEFORMAT='%R %U %S'
for scenario; do
    line=$(command_of "$scenario")
    : > "$work/times"
    for _ in $(seq "$runs"); do
        { time $line > "$work/out" 2> "$work/err"; } 2>> "$work/times"
    done
    result=$(grep -E '^scenario=' "$work/out")
    wall=$(awk '{ print $1 }' "$work/times" | median)
    cpu=$(awk '{ print $2 + $3 }' "$work/times" | median)
    packets=$(echo "$result" | sed 's/.* packets=\([0-9]*\).*/\1/')
    echo "id=$scenario runs=$runs wall_s=$wall cpu_s=$cpu" \
        "us_per_packet=$(awk "BEGIN { printf \"%.2f\", 1e6 * $cpu / $packets }")" \
        "load=$(cut -d' ' -f1 /proc/loadavg) $result"
done
