//! Reads the settings of a host that are readable without privileges. No setting is changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::netlink::{Ethtool, Interface, Links, RingSizes, Route};
use crate::sys::option_int;
use crate::sysctl;

/// Settings of this host and of the network namespace of this process. Absent settings could not be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostSettings {
    /// Values of sysctls by their names (`net.ipv4.tcp_rmem`), as the kernel writes them.
    pub sysctls: BTreeMap<String, String>,
    /// Page size, bytes.
    pub page: Option<usize>,
    /// Processors available to this process.
    pub processors: Option<usize>,
    /// Frequency governor of the first processor.
    pub governor: Option<String>,
    /// The kernel's queue disciplines, built in or as modules; `None` if its lists of modules are not installed.
    pub disciplines: Option<Vec<String>>,
    /// The outgoing interface for packets to the target.
    pub outlet: Option<EgressInterface>,
    /// Error messages for users about settings that could not be read.
    pub unread: Vec<String>,
}

/// The outgoing interface of a route and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressInterface {
    /// Name, MTU and queue of the interface.
    pub interface: Interface,
    /// The route to the target.
    pub route: Route,
    /// The path MTU that the kernel assumes, bytes.
    pub path_mtu: Option<u32>,
    /// Speed that the driver reports, bit/s; `None` if it reports none.
    pub bits_per_s: Option<u64>,
    /// Active offloads that affect checksums and frame lengths, with the names that `ethtool -k` uses.
    pub offloads: Option<Vec<String>>,
    /// The queues between the interface and its driver.
    pub rings: Option<RingSizes>,
    /// For each receive queue, the mask of additional processors that handle its packets (RPS).
    pub steering: Vec<String>,
}

impl HostSettings {
    /// Reads the sysctls `names`, and the outgoing interface of packets to `target`.
    pub fn read(names: &[&str], target: Option<IpAddr>) -> Self {
        let mut settings = Self::default();
        for name in names {
            match sysctl::get(name) {
                Ok(text) => {
                    settings.sysctls.insert((*name).to_owned(), text);
                }
                Err(error) => settings.unread.push(format!("{name}: {error}")),
            }
        }
        settings.page = Some(rustix::param::page_size());
        settings.processors = std::thread::available_parallelism().ok().map(std::num::NonZeroUsize::get);
        // A virtual machine has no frequency governor.
        settings.governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok();
        settings.disciplines = disciplines();
        if let Some(target) = target {
            settings.read_outlet(target);
        }
        settings
    }

    fn read_outlet(&mut self, target: IpAddr) {
        let found = Links::open().and_then(|mut links| {
            let route = links.route(target)?;
            Ok((route, links.interface(route.interface)?))
        });
        let (route, interface) = match found {
            Ok(found) => found,
            Err(error) => return self.unread.push(format!("the interface towards {target}: {error}")),
        };
        let name = interface.name.clone();
        let mut outlet =
            EgressInterface { route, path_mtu: path_mtu(target).ok(), ..EgressInterface::default() };
        match Ethtool::open().and_then(|mut ethtool| {
            outlet.rings = ethtool.rings(&name).ok();
            ethtool.offloads(&name)
        }) {
            Ok(offloads) => outlet.offloads = Some(offloads),
            Err(error) => self.unread.push(format!("the offloads of {name}: {error}")),
        }
        // The file contains Mbit/s, or -1 if no cable is connected.
        let speed = read(&format!("/sys/class/net/{name}/speed")).ok();
        outlet.bits_per_s = speed.and_then(|text| text.parse::<u64>().ok()).map(|mbit| mbit * 1_000_000);
        outlet.steering = steering(&name);
        outlet.interface = interface;
        self.outlet = Some(outlet);
    }
}

/// The trimmed text of a file of the kernel.
fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

/// The kernel's path MTU to an address, bytes.
fn path_mtu(target: IpAddr) -> io::Result<u32> {
    let any: IpAddr = match target {
        IpAddr::V4(_) => [0; 4].into(),
        IpAddr::V6(_) => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    // Connecting a UDP socket sends nothing. Port 9 is that of the discard protocol (RFC 863).
    socket.connect(SocketAddr::new(target, 9))?;
    let mtu = match target {
        IpAddr::V4(_) => option_int(&socket, libc::IPPROTO_IP, libc::IP_MTU),
        IpAddr::V6(_) => option_int(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    mtu.map(i32::cast_unsigned)
}

/// The queue disciplines of the running kernel, from the lists of its modules (depmod(8)), which are readable without
/// privileges.
pub(crate) fn disciplines() -> Option<Vec<String>> {
    let folder = format!("/lib/modules/{}", sysctl::get("kernel.osrelease").ok()?);
    let lists = ["builtin", "dep"].map(|list| read(&format!("{folder}/modules.{list}")).ok());
    let [built_in, loadable] = lists;
    Some(disciplines_of(&[built_in?, loadable?].join("\n")))
}

/// The queue disciplines in a list with one module per line, such as `kernel/net/sched/sch_fq.ko.xz: dependencies`.
fn disciplines_of(list: &str) -> Vec<String> {
    let name = |line: &str| {
        let (_, name) = line.split(':').next()?.rsplit_once("/sch_")?;
        name.split_once(".ko").map(|(name, _)| name.to_owned())
    };
    list.lines().filter_map(name).collect()
}

/// The RPS masks of an interface's receive queues, in their order.
fn steering(interface: &str) -> Vec<String> {
    let Ok(queues) = fs::read_dir(format!("/sys/class/net/{interface}/queues")) else { return Vec::new() };
    let names = queues.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("rx-")).collect();
    names.sort();
    let mask = |name: &String| read(&format!("/sys/class/net/{interface}/queues/{name}/rps_cpus")).ok();
    names.iter().filter_map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_disciplines_stand_among_the_modules() {
        let list = "kernel/net/sched/sch_fifo.ko\nkernel/net/sched/act_api.ko\nkernel/drivers/a/sch_x\n\
                    kernel/net/sched/sch_fq_codel.ko.xz: kernel/net/sched/sch_red.ko.xz\n";
        assert_eq!(disciplines_of(list), ["fifo", "fq_codel"]);
    }

    #[test]
    fn what_cannot_be_read_is_told_and_the_rest_is_there() {
        let names = ["net.ipv4.tcp_rmem", "net.ipv4.no_such_setting"];
        let settings = HostSettings::read(&names, Some([127, 0, 0, 1].into()));
        assert_eq!(settings.sysctls["net.ipv4.tcp_rmem"].split_whitespace().count(), 3);
        assert!(settings.unread.iter().any(|words| words.starts_with("net.ipv4.no_such_setting: ")));
        let outlet = settings.outlet.unwrap();
        assert_eq!(outlet.interface.name, "lo");
        // An IPv4 packet has at most 65 535 B, even if the MTU of the interface is larger.
        assert_eq!(outlet.path_mtu, outlet.interface.mtu.map(|mtu| mtu.min(65_535)));
        assert!(outlet.offloads.unwrap().iter().any(|name| name == "tx-tcp-segmentation"));
        assert_eq!(outlet.steering.len(), 1);
    }
}
