# Bulk SACK TCP over a dumbbell: N senders, one router pair, N receivers.
#
#   ns dumbbell.tcl [key=value ...]
#
# flows       number of flows, each with its own two hosts     (1)
# duration    simulated time, s                                (1000)
# cc          reno (Agent/TCP/Sack1) | cubic (Agent/TCP/Linux) (reno)
# access, access_delay, rate, delay, queue: the links          (below)
#
# Flow i starts at i/N s. Prints one line of key=value results; `packets` is
# what the receivers acknowledged in order, `run_ms` the wall time of the
# simulation without building it. No trace is written.

array set opt {
    flows 1       duration 1000   cc reno
    access 100Mb  access_delay 1ms
    rate 10Mb     delay 20ms      queue 100
}
foreach arg $argv {
    if {![regexp {^([^=]+)=(.*)$} $arg -> key value] || ![info exists opt($key)]} {
        puts stderr "unknown setting: $arg"; exit 2
    }
    set opt($key) $value
}

# 1448 bytes of data and 52 of headers, timestamps included, both ways.
Agent/TCP set packetSize_ 1448
Agent/TCP set tcpip_base_hdr_size_ 40
Agent/TCP set ts_option_size_ 12
Agent/TCP set timestamps_ true
Agent/TCP set window_ 10000
Agent/TCP set maxcwnd_ 0
Agent/TCP set windowInit_ 10
Agent/TCP set minrto_ 0.2
Agent/TCPSink set packetSize_ 52
Agent/TCPSink/Sack1/DelAck set interval_ 200ms
if {$opt(cc) eq "cubic"} {
    Agent/TCP/Linux set timestamps_ true
    Agent/TCP/Linux set window_ 10000
}

set began [clock milliseconds]
set ns [new Simulator]
# A default route per host and one per host at its router: computing all pairs
# of 2,002 nodes would take longer than the simulation.
$ns rtproto Manual
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right $opt(rate) $opt(delay) DropTail
$ns queue-limit $left $right $opt(queue)
$ns queue-limit $right $left $opt(queue)
[$left get-module Manual] add-route-to-adj-node -default $right
[$right get-module Manual] add-route-to-adj-node -default $left

for {set i 0} {$i < $opt(flows)} {incr i} {
    foreach {host router} {a left b right} {
        set $host [$ns node]
        $ns duplex-link [set $host] [set $router] $opt(access) $opt(access_delay) DropTail
        $ns queue-limit [set $host] [set $router] 10000
        $ns queue-limit [set $router] [set $host] 10000
        [[set $host] get-module Manual] add-route-to-adj-node -default [set $router]
        [[set $router] get-module Manual] add-route-to-adj-node [set $host]
    }
    if {$opt(cc) eq "cubic"} {
        set tcp($i) [new Agent/TCP/Linux]
        $ns at 0 "$tcp($i) select_ca cubic"
    } else {
        set tcp($i) [new Agent/TCP/Sack1]
    }
    set sink [new Agent/TCPSink/Sack1/DelAck]
    $ns attach-agent $a $tcp($i)
    $ns attach-agent $b $sink
    $ns connect $tcp($i) $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    $ns at [expr {double($i) / $opt(flows)}] "$ftp start"
}

proc finish {} {
    global opt tcp began built
    set packets 0
    set resent 0
    for {set i 0} {$i < $opt(flows)} {incr i} {
        incr packets [expr {max(0, [$tcp($i) set ack_])}]
        incr resent [$tcp($i) set nrexmitpack_]
    }
    set now [clock milliseconds]
    puts "scenario=dumbbell peer=ns2 cc=$opt(cc) flows=$opt(flows) duration=$opt(duration)\
 packets=$packets resent=$resent build_ms=[expr {$built - $began}] run_ms=[expr {$now - $built}]"
    exit 0
}
$ns at $opt(duration) finish
set built [clock milliseconds]
$ns run
