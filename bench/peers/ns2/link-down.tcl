# Web traffic over one TCP connection or SCTP association while a link is down.
#
#   ns link-down.tcl [key=value ...]
#
# transport   tcp | sctp | sctp-multihomed                     (tcp)
# alpha       mean inter-arrival time of a source, s           (0.045)
# beta        shape of the Pareto object size                  (1.5)
# down        length of the outage, s; 0 = none                (0)
# seed        > 0                                              (1)
# duration    simulated time, s                                (100)
# and, with what they are when left out, the settings below.
#
# sources=0 or bulk=1 sends without end instead. whole=1 makes an object of an
# SCTP association end with a full chunk, as ns-2's TCP, which counts in
# packets, always does; whole=0 sends the object's own bytes. switch=scripted
# makes the second path primary when the link goes down and, with
# switch_back=1, the first again when it is up; switch=none leaves fail-over to
# the association. Throughputs, bytes/s: `throughput` and `wire` are 1500 x
# packets and bytes over the time since the first data packet; `paper` is 1500
# x packets over the duration less 1.12 s (TCP) or 1.50 s (SCTP).
#
# One line of key=value results goes to standard output. `trace=FILE` keeps
# the packet trace, `vars=FILE` the sender's cwnd, ssthresh and timers.

array set opt {
    transport tcp      alpha 0.045   beta 1.5       down 0
    seed 1             duration 100  down_at 50     sources 6
    mean 10000         rate 0.5Mb    delay 200ms    queue 50
    start 0            flows 0       bulk 0
    agent Reno         sink ""       window 45      payload 1460
    sctp_agent ""      ssthresh 65536 rwnd 65536    chunk 1452
    switch scripted    switch_at ""   switch_back 0  whole 1
    trace ""           vars ""
}
# Anything else, as Agent/TCP:minrto_=1 or Agent/SCTP:pathMaxRetrans_=0, is a
# default of an ns-2 class, set before an object of that class exists.
foreach arg $argv {
    if {![regexp {^([^=]+)=(.*)$} $arg -> key value]} {
        puts stderr "not key=value: $arg"; exit 2
    }
    if {[regexp {^(.+):([^:]+)$} $key -> class variable]} {
        $class set $variable $value
    } elseif {[info exists opt($key)]} {
        set opt($key) $value
    } else {
        puts stderr "unknown setting: $key"; exit 2
    }
}

set ns [new Simulator]
Trace set show_sctphdr_ 1
set tracefile $opt(trace)
if {$tracefile eq ""} { set tracefile "/tmp/link-down.[pid].tr" }
set tr [open $tracefile w]

# A pair of hosts; with two interfaces each when multi-homed.
proc path {from to} {
    global ns opt tr
    $ns duplex-link $from $to $opt(rate) $opt(delay) DropTail
    $ns queue-limit $from $to $opt(queue)
    $ns queue-limit $to $from $opt(queue)
    $ns trace-queue $from $to $tr
    $ns trace-queue $to $from $tr
}

set multi [expr {$opt(transport) eq "sctp-multihomed"}]
if {$multi} {
    foreach host {client server} {
        set $host [$ns node]
        foreach i {0 1} {
            set ${host}$i [$ns node]
            $ns multihome-add-interface [set $host] [set ${host}$i]
        }
    }
    path $client0 $server0
    path $client1 $server1
    set near $client0
    set far $server0
    set into [list [$server0 id] [$server1 id]]
} else {
    set client [$ns node]
    set server [$ns node]
    path $client $server
    set near $client
    set far $server
    set into [list [$server id]]
}

if {$opt(transport) eq "tcp"} {
    Agent/TCP set window_ $opt(window)
    Agent/TCP set packetSize_ $opt(payload)
    set class Agent/TCP
    if {$opt(agent) ne "Tahoe"} { append class /$opt(agent) }
    if {$opt(agent) eq "FullTcp"} { Agent/TCP/FullTcp set segsize_ $opt(payload) }
    set src [new $class]
    if {$opt(agent) eq "FullTcp"} {
        set dst [new Agent/TCP/FullTcp]
        $dst listen
    } else {
        set sink Agent/TCPSink
        if {$opt(sink) ne ""} { append sink /$opt(sink) }
        set dst [new $sink]
    }
    $ns attach-agent $client $src
    $ns attach-agent $server $dst
    set watched {cwnd_ ssthresh_ rtt_ srtt_ rttvar_ backoff_ dupacks_}
} else {
    Agent/SCTP set initialSsthresh_ $opt(ssthresh)
    Agent/SCTP set initialRwnd_ $opt(rwnd)
    set class Agent/SCTP
    if {$opt(sctp_agent) ne ""} { append class /$opt(sctp_agent) }
    set src [new $class]
    set dst [new $class]
    if {$multi} {
        $ns multihome-attach-agent $client $src
        $ns multihome-attach-agent $server $dst
    } else {
        $ns attach-agent $client $src
        $ns attach-agent $server $dst
    }
    set watched {cwnd_ rwnd_ rto_ errorCount_ frCount_ timeoutCount_}
}
if {$opt(vars) ne ""} {
    set vf [open $opt(vars) w]
    if {$opt(transport) ne "tcp"} { $src set trace_all_ 1 }
    foreach v $watched { $src trace $v }
    $src attach $vf
}
$ns connect $src $dst

set app [new Application/FTP]
$app attach-agent $src

# Six sources, each with exponential gaps and Pareto sizes, feed one connection.
set gap_rng [new RNG]
set size_rng [new RNG]
$gap_rng seed $opt(seed)
$size_rng seed [expr {$opt(seed) + 1000003}]
set gap [new RandomVariable/Exponential]
$gap use-rng $gap_rng
$gap set avg_ $opt(alpha)
set size [new RandomVariable/Pareto]
$size use-rng $size_rng
$size set avg_ $opt(mean)
$size set shape_ $opt(beta)

set offered 0.0
set objects 0
set largest 0
proc object {left} {
    global ns app gap size offered objects largest opt
    set n [expr {int([$size value])}]
    if {$n < 1} { set n 1 }
    if {$opt(whole) && $opt(transport) ne "tcp"} {
        set n [expr {($n + $opt(chunk) - 1) / $opt(chunk) * $opt(chunk)}]
    }
    set offered [expr {$offered + $n}]
    incr objects
    if {$n > $largest} { set largest $n }
    $app send $n
    if {$left != 1} {
        $ns at [expr {[$ns now] + [$gap value]}] "object [expr {$left - 1}]"
    }
}
if {$opt(bulk) || $opt(sources) == 0} {
    $ns at $opt(start) "$app start"
} else {
    for {set i 0} {$i < $opt(sources)} {incr i} {
        $ns at [expr {$opt(start) + [$gap value]}] "object $opt(flows)"
    }
}

if {$multi} { $src set-primary-destination $far }
if {$opt(down) > 0} {
    set up_at [expr {$opt(down_at) + $opt(down)}]
    $ns rtmodel-at $opt(down_at) down $near $far
    $ns rtmodel-at $up_at up $near $far
    if {$multi && $opt(switch) eq "scripted"} {
        if {$opt(switch_at) eq ""} { set opt(switch_at) $opt(down_at) }
        $ns at $opt(switch_at) "$src set-primary-destination $server1"
        if {$opt(switch_back)} {
            $ns at $up_at "$src set-primary-destination $server0"
        }
    }
}

proc finish {} {
    global ns opt tr tracefile into offered objects largest
    $ns flush-trace
    close $tr
    set packets 0
    set bytes 0
    set first -1
    set before 0
    set after -1
    set back [expr {$opt(down_at) + $opt(down)}]
    set in [open $tracefile]
    while {[gets $in line] >= 0} {
        if {[string index $line 0] ne "r"} continue
        # event time from to type size flags ...; SCTP has a letter per chunk
        set f [split $line " "]
        if {[lsearch -exact $into [lindex $f 3]] < 0} continue
        set length [lindex $f 5]
        set flags [lindex $f 6]
        if {$opt(transport) eq "tcp"} {
            if {$length <= 60} continue
        } elseif {[string index $flags 7] ne "D"} continue
        set t [lindex $f 1]
        if {$first < 0} { set first $t }
        incr packets
        incr bytes $length
        if {$t <= $opt(down_at)} { set before $t }
        if {$after < 0 && $t >= $back} { set after $t }
    }
    close $in
    if {$opt(trace) eq ""} { file delete $tracefile }
    set tau [expr {$opt(duration) - $first}]
    set paper [expr {$opt(duration) - ($opt(transport) eq "tcp" ? 1.12 : 1.50)}]
    puts [format "transport=%s agent=%s alpha=%s beta=%s down=%s seed=%s duration=%s\
 packets=%d bytes=%d first=%.6f throughput=%.1f wire=%.1f paper=%.1f last_before=%.6f first_after=%.6f\
 objects=%d offered=%.0f largest=%d" \
        $opt(transport) $opt(agent) $opt(alpha) $opt(beta) $opt(down) $opt(seed) \
        $opt(duration) $packets $bytes $first [expr {1500.0 * $packets / $tau}] \
        [expr {$bytes / $tau}] [expr {1500.0 * $packets / $paper}] $before $after $objects $offered $largest]
    exit 0
}
$ns at $opt(duration) finish
$ns run
