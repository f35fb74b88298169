// ns-3 3.37 (Debian libns3-dev): N WiFi stations -> access point -> wired server.
//
//   wifi-ns3 [--rate=54] [--payload=1460] [--mode=tcp|udp] [--stations=1] [--duration=20]
//            [--ampdu=0|1] [--band=2.4|5] [--delay=5ms] [--warmup=2] [--cc=newreno|linuxreno|cubic]
//            [--timestamps=0|1] [--delack=2] [--queue=500p] [--qdisc=0|1] [--beacon=102400]
//            [--maxdelay=10] [--udpinterval=50] [--run=1]
//
// --rate      6,9,12,18,24,36,48,54: 802.11g (non-QoS DCF);
//             7,13,19,26,39,52,58,65: 802.11n, 20 MHz, one stream, long GI, MCS 0..7 (QoS, AC_BE EDCA)
// --payload   TCP payload per segment; the IP packet is payload + 40 in both modes
//             (in udp mode the UDP payload is therefore payload + 12); + 12 more with --timestamps=1 in tcp mode
// --beacon    beacon interval, microseconds, a multiple of 1024; 10240000 makes beacons vanish from the result
// --qdisc     0: the WiFi MAC queue is the only one (tail drop); 1: ns-3's default FqCoDel above it
//
// Prints one line of key=value results. goodput_bps counts payload bytes (as in --payload) that reached the
// server during [start + warmup, start + warmup + duration]; packets is the number of data packets behind it.
//
// Build: g++ -O2 -std=c++17 -o wifi-ns3 wifi.cc -lns3-wifi -lns3-propagation -lns3-mobility
//        -lns3-applications -lns3-internet -lns3-traffic-control -lns3-point-to-point -lns3-network
//        -lns3-stats -lns3-core

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/mobility-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/propagation-module.h"
#include "ns3/traffic-control-module.h"
#include "ns3/wifi-module.h"

#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace
{

/// What one side's MAC saw, while counting is on.
struct MacCounters
{
    uint64_t acked = 0;       ///< MPDUs acknowledged
    uint64_t timeouts = 0;    ///< missed Acks (here: collisions only)
    uint64_t baTimeouts = 0;  ///< missed BlockAcks
    uint64_t retryDrops = 0;  ///< MPDUs given up after the last attempt
    uint64_t queueDrops = 0;  ///< MPDUs refused by a full MAC queue
    uint64_t expired = 0;     ///< MPDUs too long in the MAC queue
    uint64_t otherDrops = 0;
};

bool g_counting = false;
uint64_t g_udpPackets = 0;
std::vector<uint64_t> g_rxAtStart;

void
OnAcked(MacCounters* c, Ptr<const WifiMpdu> /* mpdu */)
{
    c->acked += g_counting ? 1 : 0;
}

void
OnDropped(MacCounters* c, WifiMacDropReason reason, Ptr<const WifiMpdu> /* mpdu */)
{
    if (!g_counting)
    {
        return;
    }
    switch (reason)
    {
    case WIFI_MAC_DROP_REACHED_RETRY_LIMIT:
        c->retryDrops++;
        break;
    case WIFI_MAC_DROP_FAILED_ENQUEUE:
        c->queueDrops++;
        break;
    case WIFI_MAC_DROP_EXPIRED_LIFETIME:
        c->expired++;
        break;
    default:
        c->otherDrops++;
        break;
    }
}

void
OnMpduTimeout(MacCounters* c, uint8_t /* reason */, Ptr<const WifiMpdu> /* mpdu */, const WifiTxVector& /* v */)
{
    c->timeouts += g_counting ? 1 : 0;
}

void
OnPsduTimeout(MacCounters* c, uint8_t /* reason */, Ptr<const WifiPsdu> /* psdu */, const WifiTxVector& /* v */)
{
    c->baTimeouts += g_counting ? 1 : 0;
}

void
OnSinkRx(Ptr<const Packet> /* packet */, const Address& /* from */)
{
    g_udpPackets += g_counting ? 1 : 0;
}

void
StartCounting(std::vector<Ptr<PacketSink>>* sinks)
{
    g_rxAtStart.clear();
    for (const auto& sink : *sinks)
    {
        g_rxAtStart.push_back(sink->GetTotalRx());
    }
    g_counting = true;
}

void
Watch(Ptr<NetDevice> device, MacCounters* counters)
{
    Ptr<WifiMac> mac = DynamicCast<WifiNetDevice>(device)->GetMac();
    bool ok = mac->TraceConnectWithoutContext("AckedMpdu", MakeBoundCallback(&OnAcked, counters));
    ok = mac->TraceConnectWithoutContext("DroppedMpdu", MakeBoundCallback(&OnDropped, counters)) && ok;
    ok = mac->TraceConnectWithoutContext("MpduResponseTimeout", MakeBoundCallback(&OnMpduTimeout, counters)) && ok;
    ok = mac->TraceConnectWithoutContext("PsduResponseTimeout", MakeBoundCallback(&OnPsduTimeout, counters)) && ok;
    NS_ABORT_MSG_UNLESS(ok, "a MAC trace source is missing");
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
    uint32_t rate = 54;
    uint32_t payload = 1460;
    std::string mode = "tcp";
    uint32_t stations = 1;
    double duration = 20;
    double warmup = 2;
    bool ampdu = false;
    std::string band = "2.4";
    std::string delay = "5ms";
    std::string cc = "newreno";
    bool timestamps = false;
    uint32_t delack = 2;
    std::string queue = "500p";
    bool qdisc = false;
    uint64_t beacon = 102400;
    double maxdelay = 10;
    double udpinterval = 50;
    uint64_t run = 1;

    CommandLine cmd;
    cmd.AddValue("rate", "Mbit/s: 6..54 is 802.11g, 7..65 (rounded) is 802.11n MCS 0..7", rate);
    cmd.AddValue("payload", "TCP payload per segment; IP packet = payload + 40", payload);
    cmd.AddValue("mode", "tcp or udp (saturation)", mode);
    cmd.AddValue("stations", "number of stations, all sending", stations);
    cmd.AddValue("duration", "measured seconds", duration);
    cmd.AddValue("warmup", "seconds from the start of traffic to the start of measurement", warmup);
    cmd.AddValue("ampdu", "802.11n only: aggregate MPDUs", ampdu);
    cmd.AddValue("band", "802.11n only: 2.4 or 5", band);
    cmd.AddValue("delay", "one-way delay of the wired link", delay);
    cmd.AddValue("cc", "newreno, linuxreno or cubic", cc);
    cmd.AddValue("timestamps", "TCP timestamps", timestamps);
    cmd.AddValue("delack", "segments per TCP acknowledgement", delack);
    cmd.AddValue("queue", "MAC queue of every WiFi device", queue);
    cmd.AddValue("qdisc", "keep ns-3's default FqCoDel", qdisc);
    cmd.AddValue("beacon", "beacon interval in microseconds, a multiple of 1024", beacon);
    cmd.AddValue("maxdelay", "longest stay in a MAC queue, seconds", maxdelay);
    cmd.AddValue("udpinterval", "udp mode: microseconds between packets of a station", udpinterval);
    cmd.AddValue("run", "run number of the random streams", run);
    cmd.Parse(argc, argv);

    NS_ABORT_MSG_UNLESS(mode == "tcp" || mode == "udp", "mode is tcp or udp");
    NS_ABORT_MSG_UNLESS(stations >= 1 && stations <= 200, "1 to 200 stations");
    NS_ABORT_MSG_UNLESS(beacon % 1024 == 0 && beacon / 1024 <= 65535, "bad beacon interval");

    static const std::map<uint32_t, std::string> kHtMcs{{7, "0"},
                                                        {13, "1"},
                                                        {19, "2"},
                                                        {26, "3"},
                                                        {39, "4"},
                                                        {52, "5"},
                                                        {58, "6"},
                                                        {65, "7"}};
    const auto mcs = kHtMcs.find(rate);
    const bool ht = mcs != kHtMcs.end();
    const bool five = ht && band == "5";
    const std::string dataMode =
        ht ? "HtMcs" + mcs->second : "ErpOfdmRate" + std::to_string(rate) + "Mbps";
    // Only RTS would be sent at this rate; Ack and BlockAck follow the basic rate set.
    const std::string controlMode = five ? "OfdmRate24Mbps" : "ErpOfdmRate24Mbps";

    RngSeedManager::SetRun(run);

    // TCP: buffers and windows that never limit.
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(payload));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(delack));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(timestamps));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    TypeId tcp = TcpNewReno::GetTypeId();
    if (cc == "linuxreno")
    {
        tcp = TcpLinuxReno::GetTypeId();
    }
    else if (cc == "cubic")
    {
        tcp = TcpCubic::GetTypeId();
    }
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(tcp));

    // WiFi queue; ARP entries that do not age during the run.
    Config::SetDefault("ns3::WifiMacQueue::MaxSize", QueueSizeValue(QueueSize(queue)));
    Config::SetDefault("ns3::WifiMacQueue::MaxDelay", TimeValue(Seconds(maxdelay)));
    Config::SetDefault("ns3::ArpCache::AliveTimeout", TimeValue(Seconds(1e6)));
    Config::SetDefault("ns3::ArpCache::PendingQueueSize", UintegerValue(100));

    NodeContainer stas(stations);
    NodeContainer ap(1);
    NodeContainer server(1);

    // Every frame arrives at -40 dBm wherever the stations stand: SNR about 54 dB, no errors but collisions;
    // two frames at once are equally strong, so neither is captured.
    YansWifiChannelHelper channel;
    channel.SetPropagationDelay("ns3::ConstantSpeedPropagationDelayModel");
    channel.AddPropagationLoss("ns3::FixedRssLossModel", "Rss", DoubleValue(-40.0));
    YansWifiPhyHelper phy;
    phy.SetChannel(channel.Create());
    phy.Set("ChannelSettings", StringValue(five ? "{36, 20, BAND_5GHZ, 0}" : "{1, 20, BAND_2_4GHZ, 0}"));

    WifiHelper wifi;
    wifi.SetStandard(ht ? WIFI_STANDARD_80211n : WIFI_STANDARD_80211g);
    wifi.SetRemoteStationManager("ns3::ConstantRateWifiManager",
                                 "DataMode",
                                 StringValue(dataMode),
                                 "ControlMode",
                                 StringValue(controlMode));

    const Ssid ssid("bss");
    WifiMacHelper mac;
    mac.SetType("ns3::StaWifiMac",
                "Ssid",
                SsidValue(ssid),
                "BE_MaxAmpduSize",
                UintegerValue(ampdu ? 65535 : 0),
                "BE_MaxAmsduSize",
                UintegerValue(0));
    NetDeviceContainer staDevices = wifi.Install(phy, mac, stas);
    mac.SetType("ns3::ApWifiMac",
                "Ssid",
                SsidValue(ssid),
                "BeaconInterval",
                TimeValue(MicroSeconds(beacon)),
                "EnableBeaconJitter",
                BooleanValue(false),
                "BE_MaxAmpduSize",
                UintegerValue(ampdu ? 65535 : 0),
                "BE_MaxAmsduSize",
                UintegerValue(0));
    NetDeviceContainer apDevice = wifi.Install(phy, mac, ap);

    // All stations at the same distance from the access point: their slot grids coincide.
    Ptr<ListPositionAllocator> positions = CreateObject<ListPositionAllocator>();
    positions->Add(Vector(0, 0, 0));
    for (uint32_t i = 0; i < stations; ++i)
    {
        const double angle = 2 * M_PI * i / stations;
        positions->Add(Vector(std::cos(angle), std::sin(angle), 0));
    }
    MobilityHelper mobility;
    mobility.SetPositionAllocator(positions);
    mobility.SetMobilityModel("ns3::ConstantPositionMobilityModel");
    mobility.Install(ap);
    mobility.Install(stas);

    PointToPointHelper wire;
    wire.SetDeviceAttribute("DataRate", StringValue("100Mbps"));
    wire.SetChannelAttribute("Delay", StringValue(delay));
    wire.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("10000p"));
    NetDeviceContainer wireDevices = wire.Install(ap.Get(0), server.Get(0));

    InternetStackHelper stack;
    stack.SetRoutingHelper(Ipv4StaticRoutingHelper());
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();

    Ipv4AddressHelper address("10.1.1.0", "255.255.255.0");
    Ipv4InterfaceContainer apInterface = address.Assign(apDevice);
    Ipv4InterfaceContainer staInterfaces = address.Assign(staDevices);
    address.SetBase("10.1.2.0", "255.255.255.0");
    Ipv4InterfaceContainer wireInterfaces = address.Assign(wireDevices);
    for (uint32_t i = 0; i < stations; ++i)
    {
        DefaultRoute(stas.Get(i), apInterface.GetAddress(0), staInterfaces.Get(i).second);
    }
    DefaultRoute(server.Get(0), wireInterfaces.GetAddress(0), wireInterfaces.Get(1).second);

    // An address brings a queueing discipline with it; without it the device's own queue is the only one.
    if (!qdisc)
    {
        TrafficControlHelper control;
        control.Uninstall(staDevices);
        control.Uninstall(apDevice);
        control.Uninstall(wireDevices);
    }

    const double start = 1.0; // by then every station is associated
    const uint32_t udpPayload = payload + 12;
    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t i = 0; i < stations; ++i)
    {
        const uint16_t port = 5001 + i;
        const std::string factory = mode == "tcp" ? "ns3::TcpSocketFactory" : "ns3::UdpSocketFactory";
        PacketSinkHelper sink(factory, InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer receiver = sink.Install(server.Get(0));
        receiver.Start(Seconds(0));
        sinks.push_back(DynamicCast<PacketSink>(receiver.Get(0)));
        sinks.back()->TraceConnectWithoutContext("Rx", MakeCallback(&OnSinkRx));

        // Not all in the same instant.
        const Time begin = Seconds(start) + MicroSeconds(137 * i);
        if (mode == "tcp")
        {
            BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(wireInterfaces.GetAddress(1), port));
            bulk.SetAttribute("SendSize", UintegerValue(payload));
            bulk.SetAttribute("MaxBytes", UintegerValue(0));
            bulk.Install(stas.Get(i)).Start(begin);
        }
        else
        {
            UdpClientHelper client(wireInterfaces.GetAddress(1), port);
            client.SetAttribute("MaxPackets", UintegerValue(4294967295U));
            client.SetAttribute("Interval", TimeValue(NanoSeconds(static_cast<int64_t>(udpinterval * 1000))));
            client.SetAttribute("PacketSize", UintegerValue(udpPayload));
            client.Install(stas.Get(i)).Start(begin);
        }
    }

    MacCounters staCounters;
    MacCounters apCounters;
    for (uint32_t i = 0; i < stations; ++i)
    {
        Watch(staDevices.Get(i), &staCounters);
    }
    Watch(apDevice.Get(0), &apCounters);

    Simulator::Schedule(Seconds(start + warmup), &StartCounting, &sinks);
    Simulator::Stop(Seconds(start + warmup + duration));
    Simulator::Run();

    uint64_t packets = 0;
    std::string perStation;
    for (std::size_t i = 0; i < sinks.size(); ++i)
    {
        const uint64_t bytes = sinks[i]->GetTotalRx() - (i < g_rxAtStart.size() ? g_rxAtStart[i] : 0);
        const uint64_t n = bytes / (mode == "tcp" ? payload : udpPayload);
        packets += n;
        perStation += (i > 0 ? "," : "") + std::to_string(n);
    }
    Ptr<WifiPhy> staPhy = DynamicCast<WifiNetDevice>(staDevices.Get(0))->GetPhy();
    Ptr<WifiPhy> apPhy = DynamicCast<WifiNetDevice>(apDevice.Get(0))->GetPhy();
    std::cout.precision(12);
    std::cout << "peer=ns3 mode=" << mode << " data_mode=" << dataMode << " band=" << (five ? "5" : "2.4")
              << " stations=" << stations << " payload=" << payload << " ampdu=" << ampdu << " cc=" << cc
              << " delay=" << delay << " duration=" << duration << " run=" << run
              << " goodput_bps=" << packets * payload * 8 / duration << " packets=" << packets
              << " packets_per_s=" << packets / duration << " per_station=" << perStation
              << " sink_rx_calls=" << g_udpPackets << " sta_acked=" << staCounters.acked
              << " sta_ack_timeouts=" << staCounters.timeouts << " sta_ba_timeouts=" << staCounters.baTimeouts
              << " sta_retry_drops=" << staCounters.retryDrops << " sta_queue_drops=" << staCounters.queueDrops
              << " sta_expired=" << staCounters.expired << " ap_acked=" << apCounters.acked
              << " ap_ack_timeouts=" << apCounters.timeouts << " ap_ba_timeouts=" << apCounters.baTimeouts
              << " ap_retry_drops=" << apCounters.retryDrops << " ap_queue_drops=" << apCounters.queueDrops
              << " slot_us=" << staPhy->GetSlot().GetMicroSeconds() << "/" << apPhy->GetSlot().GetMicroSeconds()
              << " sifs_us=" << staPhy->GetSifs().GetMicroSeconds() << " events=" << Simulator::GetEventCount()
              << "\n";
    Simulator::Destroy();
    return 0;
}
