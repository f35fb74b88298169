// Bulk SACK TCP over a dumbbell: N senders, one router pair, N receivers.
//
//   dumbbell [--flows=1] [--duration=1000] [--cc=reno|cubic] [--statistics]
//
// The same links, packet sizes and start times as ../ns2/dumbbell.tcl. Prints
// one line of key=value results; `packets` is the data that the receivers got
// in order, in segments, `run_ms` the wall time of the simulation without
// building it. No trace is written. With --statistics queues are queueing
// disciplines of the traffic-control layer, as ns-3's helpers make them, and a
// FlowMonitor counts what every flow sent, got and lost; without it there is
// neither.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/flow-monitor-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <chrono>
#include <iostream>
#include <vector>

using namespace ns3;

namespace
{

constexpr uint32_t kSegment = 1448;

double
Milliseconds(std::chrono::steady_clock::time_point from)
{
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

void
DefaultRoute(Ptr<Node> node, Ipv4Address gateway, uint32_t interface)
{
    Ipv4StaticRoutingHelper helper;
    helper.GetStaticRouting(node->GetObject<Ipv4>())->SetDefaultRoute(gateway, interface);
}

} // namespace

int
main(int argc, char* argv[])
{
    uint32_t flows = 1;
    double duration = 1000;
    std::string cc = "reno";
    bool statistics = false;
    CommandLine cmd;
    cmd.AddValue("flows", "flows, each with its own two hosts", flows);
    cmd.AddValue("duration", "simulated seconds", duration);
    cmd.AddValue("cc", "reno or cubic", cc);
    cmd.AddValue("statistics", "count with a FlowMonitor, queue in queueing disciplines", statistics);
    cmd.Parse(argc, argv);

    const auto began = std::chrono::steady_clock::now();
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 22));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpL4Protocol::SocketType",
                       TypeIdValue(cc == "cubic" ? TcpCubic::GetTypeId() : TcpNewReno::GetTypeId()));
    // Behind a queueing discipline a device's own queue is as short as can be.
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize", StringValue(statistics ? "1p" : "10000p"));

    NodeContainer left(1);
    NodeContainer right(1);
    NodeContainer senders(flows);
    NodeContainer receivers(flows);

    InternetStackHelper stack;
    // No global routing: one table per node. (Nix-vector routing was slower here,
    // with 1,000 flows most of all: a search per pair and no faster afterwards.)
    stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    access.SetChannelAttribute("Delay", StringValue("1ms"));
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue("10Mbps"));
    bottleneck.SetChannelAttribute("Delay", StringValue("20ms"));
    bottleneck.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue(statistics ? "1p" : "100p"));

    // Either a FIFO in the traffic-control layer or the device's queue is the
    // only one, as in the other simulators; an address brings a queueing
    // discipline with it where there is none yet.
    Ipv4AddressHelper address("10.0.0.0", "255.255.255.252");
    auto link = [&](PointToPointHelper& helper, Ptr<Node> a, Ptr<Node> b) {
        NetDeviceContainer devices = helper.Install(a, b);
        if (statistics)
        {
            TrafficControlHelper control;
            control.SetRootQueueDisc("ns3::FifoQueueDisc",
                                     "MaxSize",
                                     StringValue(&helper == &bottleneck ? "100p" : "10000p"));
            control.Install(devices);
        }
        Ipv4InterfaceContainer interfaces = address.Assign(devices);
        for (uint32_t i = 0; i < 2; ++i)
        {
            Ptr<TrafficControlLayer> layer = devices.Get(i)->GetNode()->GetObject<TrafficControlLayer>();
            if (!statistics && layer && layer->GetRootQueueDiscOnDevice(devices.Get(i)))
            {
                layer->DeleteRootQueueDiscOnDevice(devices.Get(i));
            }
        }
        address.NewNetwork();
        return interfaces;
    };

    Ipv4InterfaceContainer core = link(bottleneck, left.Get(0), right.Get(0));
    DefaultRoute(left.Get(0), core.GetAddress(1), core.Get(0).second);
    DefaultRoute(right.Get(0), core.GetAddress(0), core.Get(1).second);

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < flows; ++i)
    {
        Ipv4InterfaceContainer a = link(access, senders.Get(i), left.Get(0));
        Ipv4InterfaceContainer b = link(access, receivers.Get(i), right.Get(0));
        DefaultRoute(senders.Get(i), a.GetAddress(1), a.Get(0).second);
        DefaultRoute(receivers.Get(i), b.GetAddress(1), b.Get(0).second);

        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), 5001));
        ApplicationContainer server = sink.Install(receivers.Get(i));
        server.Start(Seconds(0));
        sinks.push_back(DynamicCast<PacketSink>(server.Get(0)));

        BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(b.GetAddress(0), 5001));
        bulk.SetAttribute("SendSize", UintegerValue(kSegment));
        bulk.Install(senders.Get(i)).Start(Seconds(double(i) / flows));
    }

    FlowMonitorHelper monitor;
    if (statistics)
    {
        monitor.InstallAll();
    }
    Simulator::Stop(Seconds(duration));
    const double build = Milliseconds(began);
    const auto run = std::chrono::steady_clock::now();
    Simulator::Run();
    const double ran = Milliseconds(run);

    uint64_t bytes = 0;
    for (const auto& sink : sinks)
    {
        bytes += sink->GetTotalRx();
    }
    std::cout << "scenario=dumbbell peer=ns3 cc=" << cc << " statistics=" << statistics << " flows=" << flows << " duration=" << duration
              << " packets=" << bytes / kSegment << " events=" << Simulator::GetEventCount()
              << " build_ms=" << uint64_t(build) << " run_ms=" << uint64_t(ran) << "\n";
    Simulator::Destroy();
    return 0;
}
