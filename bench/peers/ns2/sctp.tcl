# Bulk SCTP over one line, to measure the simulator's speed.
#
#   ns sctp.tcl [key=value ...]
#
# rate, delay, queue  the line                       (0.5Mb 200ms 50)
# duration            simulated time, s              (1000)
# source              bulk | web: six sources of exponential gaps (0.045 s) and
#                     Pareto sizes (mean 10 KB, shape 1.5)   (bulk)
# seed                of the web sources             (1)
#
# Prints one line of key=value results; `packets` is the data packets that left
# on the line (control packets and heartbeats, a handful, are counted with
# them), `run_ms` the wall time of the simulation without building it. No trace
# is written.

array set opt {
    rate 0.5Mb  delay 200ms  queue 50  duration 1000
    source bulk  seed 1
}
foreach arg $argv {
    if {![regexp {^([^=]+)=(.*)$} $arg -> key value] || ![info exists opt($key)]} {
        puts stderr "unknown setting: $arg"; exit 2
    }
    set opt($key) $value
}

set ns [new Simulator]
set client [$ns node]
set server [$ns node]
$ns duplex-link $client $server $opt(rate) $opt(delay) DropTail
$ns queue-limit $client $server $opt(queue)
$ns queue-limit $server $client $opt(queue)
set count [$ns monitor-queue $client $server ""]

set src [new Agent/SCTP]
set dst [new Agent/SCTP]
$ns attach-agent $client $src
$ns attach-agent $server $dst
$ns connect $src $dst
set app [new Application/FTP]
$app attach-agent $src

if {$opt(source) eq "bulk"} {
    $ns at 0 "$app start"
} else {
    set rng [new RNG]
    $rng seed $opt(seed)
    set gap [new RandomVariable/Exponential]
    $gap use-rng $rng
    $gap set avg_ 0.045
    set size [new RandomVariable/Pareto]
    $size use-rng $rng
    $size set avg_ 10000
    $size set shape_ 1.5
    proc object {} {
        global ns app gap size
        $app send [expr {(int([$size value]) + 1451) / 1452 * 1452}]
        $ns at [expr {[$ns now] + [$gap value]}] object
    }
    for {set i 0} {$i < 6} {incr i} { $ns at [$gap value] object }
}

proc finish {} {
    global opt count built
    set packets [$count set pdepartures_]
    puts "scenario=sctp peer=ns2 source=$opt(source) duration=$opt(duration)\
 packets=[format %.0f $packets] run_ms=[expr {[clock milliseconds] - $built}]"
    exit 0
}
$ns at $opt(duration) finish
set built [clock milliseconds]
$ns run
