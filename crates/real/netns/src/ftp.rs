//! The FTP servers of flows. Each server is a vsftpd with its own folder.

use std::net::SocketAddr;

use netrig_agent::{MOST_TRANSFERS, SERVED_FILE};
use netrig_experiment::{Carrier, Flow, Program, Ready, Scenario, Unsupported, server_port};
use netrig_host::sysctl;
use netrig_traffic::{Ftp, FtpDirection, Settings};

use crate::error::unsupported;
use crate::program::PlannedProgram;

/// Names of two folders in the server's folder: the root folder for clients, and the empty folder for the server's
/// unprivileged process.
const ROOT: &str = "root";
const EMPTY: &str = "empty";

/// Offset from a server's port to its data port. The router recognises data connections by this port. All servers
/// together have at most 20,000 ports, so no data port is also the port of a server.
const TO_DATA: u16 = 20_000;

/// Length of the timestamps option in a segment (RFC 7323 appendix A), bytes.
const TIMESTAMPS: u64 = 12;

/// The minimum receive buffer of Linux's TCP, bytes (tcp(7)).
const LEAST_BUFFER: u32 = 4096;

/// The port of the data connections of a flow's server.
pub(crate) const fn data_port(number: u32) -> u16 {
    server_port(number) + TO_DATA
}

/// The FTP settings of a flow; `None` if its application is not FTP.
pub(crate) fn of(flow: &Flow) -> Option<&Ftp> {
    match &flow.application {
        Settings::Ftp(ftp) => Some(ftp),
        _ => None,
    }
}

/// The servers of all FTP flows.
///
/// # Errors
/// If vsftpd is not on this machine, a flow does not use TCP, or there are more than [`MOST_TRANSFERS`].
pub(crate) fn servers(scenario: &Scenario) -> Result<Vec<PlannedProgram>, Unsupported> {
    let count = scenario.flows.iter().filter(|flow| of(flow).is_some()).count();
    if count > MOST_TRANSFERS {
        return unsupported(format!(
            "{count} flows are FTP, and each needs a server and a thread here; at most {MOST_TRANSFERS} are possible"
        ));
    }
    let mut servers = Vec::new();
    for (number, flow) in (0..).zip(&scenario.flows) {
        let Some(ftp) = of(flow) else { continue };
        let Carrier::Tcp(tcp) = &flow.carrier else {
            return unsupported(format!(
                "flow `{}` is FTP, which needs TCP (transport `{}`)",
                flow.name, flow.transport
            ));
        };
        let address = flow.paths.first().and_then(|path| scenario.address(flow.to, path.hops.last()?.link));
        let Some(address) = address else { return unsupported(format!("flow `{}` has no path", flow.name)) };
        let mut planned = PlannedProgram::new(
            scenario,
            flow.to,
            server((address, server_port(number)).into(), data_port(number)),
        )?;
        planned.folders = vec![ROOT, EMPTY];
        if ftp.direction == FtpDirection::Fetch {
            planned.zeros.push((format!("{ROOT}/{SERVED_FILE}"), ftp.size.bytes()));
            let options = if tcp.timestamps { TIMESTAMPS } else { 0 };
            planned.sends = Some((number, tcp.mss.bytes().saturating_sub(options)));
        }
        servers.push(planned);
    }
    Ok(servers)
}

/// A vsftpd that listens on one address and uses one data port. Anonymous clients may store, fetch and delete files,
/// but only in its folder (vsftpd.conf(5)).
fn server(address: SocketAddr, data_port: u16) -> Program {
    let listen = match address {
        SocketAddr::V4(_) => format!("listen=YES\nlisten_address={}", address.ip()),
        SocketAddr::V6(_) => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={}", address.ip()),
    };
    let settings = format!(
        "{listen}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
         anon_upload_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\nanon_root={{folder}}/{ROOT}\n\
         allow_writeable_chroot=YES\nno_anon_password=YES\nrun_as_launching_user=YES\nxferlog_enable=NO\n\
         secure_chroot_dir={{folder}}/{EMPTY}\nseccomp_sandbox=NO\n\
         pasv_min_port={data_port}\npasv_max_port={data_port}\n",
        address.port()
    );
    Program {
        command: ["vsftpd", "{folder}/vsftpd.conf"].map(str::to_owned).to_vec(),
        ready: Some(Ready::Tcp(address.port())),
        packages: vec!["vsftpd".to_owned()],
        files: [("vsftpd.conf".to_owned(), settings)].into(),
        ..Program::default()
    }
}

/// The sysctls that give the sockets of a flow's server the window and the congestion control of the flow's transport.
/// Sysctls are needed because netrig does not open these sockets. The congestion control is set only if the server
/// sends the data.
///
/// # Errors
/// If the server sends the data, and its namespace may not use the congestion control.
pub(crate) fn server_sysctls(
    flow: &Flow,
    receive: Option<u32>,
    congestion: Option<&str>,
) -> Result<Vec<(String, String)>, Unsupported> {
    let mut sysctls = Vec::new();
    if let Some(receive) = receive {
        // The kernel doubles the value of SO_RCVBUF for its overhead (socket(7)). The sysctl takes the doubled value.
        let buffer = receive.saturating_mul(2);
        let values = format!("{} {buffer} {buffer}", LEAST_BUFFER.min(buffer));
        sysctls.push(("net.ipv4.tcp_rmem".to_owned(), values));
    }
    let sends = of(flow).is_some_and(|ftp| ftp.direction == FtpDirection::Fetch);
    // A new namespace inherits the host's value.
    let Some(wanted) = congestion.filter(|name| sends && !words("tcp_congestion_control").contains(name))
    else {
        return Ok(sysctls);
    };
    // "The tcp_allowed_congestion_control [...] is a subset of those listed in
    // tcp_available_congestion_control" (ip-sysctl). Only an allowed congestion control can be the default of a
    // namespace, and third-party servers use the default.
    if !words("tcp_allowed_congestion_control").contains(wanted) {
        return unsupported(format!(
            "the server of flow `{}` sends, and this kernel gives no namespace the congestion control `{wanted}`; sysctl \
             net.ipv4.tcp_allowed_congestion_control lists those that it gives",
            flow.name
        ));
    }
    sysctls.push(("net.ipv4.tcp_congestion_control".to_owned(), wanted.to_owned()));
    Ok(sysctls)
}

/// The words of a sysctl of the host's kernel.
fn words(name: &str) -> SysctlWords {
    SysctlWords(sysctl::get(&format!("net.ipv4.{name}")).unwrap_or_default())
}

struct SysctlWords(String);

impl SysctlWords {
    fn contains(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|known| known == word)
    }
}
