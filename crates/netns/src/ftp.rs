//! FTP servers of flows: vsftpd, each in a folder of its own.

use std::net::SocketAddr;

use netrig_agent::SERVED_FILE;
use netrig_experiment::{Carrier, Flow, Program, Ready, Scenario, Unsupported};
use netrig_traffic::{Ftp, FtpDirection, Settings};

use crate::orders::{server_port, unsupported};
use crate::program::Errand;

/// Within the server's folder: what clients see, and the empty folder that the server's unprivileged part is locked into.
const ROOT: &str = "root";
const EMPTY: &str = "empty";

/// What Linux has as the least and the usual receive buffer of TCP, bytes (tcp(7)).
const LEAST_BUFFER: u32 = 4096;

/// The file that a flow transfers by FTP, if it does.
pub(crate) fn of(flow: &Flow) -> Option<&Ftp> {
    match &flow.application {
        Settings::Ftp(ftp) => Some(ftp),
        _ => None,
    }
}

/// The servers of all flows of FTP.
///
/// # Errors
/// If vsftpd is not here, or a flow is not over TCP.
pub(crate) fn servers(scenario: &Scenario) -> Result<Vec<Errand>, Unsupported> {
    let mut servers = Vec::new();
    for (number, flow) in (0..).zip(&scenario.flows) {
        let Some(ftp) = of(flow) else { continue };
        if !matches!(flow.carrier, Carrier::Tcp(_)) {
            return unsupported(format!(
                "flow `{}` is FTP, whose servers and clients speak TCP (transport `{}`)",
                flow.name, flow.transport
            ));
        }
        let address = flow.paths.first().and_then(|path| scenario.address(flow.to, path.hops.last()?.link));
        let Some(address) = address else { return unsupported(format!("flow `{}` has no path", flow.name)) };
        let mut errand =
            Errand::new(scenario, flow.to, server(SocketAddr::from((address, server_port(number)))))?;
        errand.folders = vec![ROOT, EMPTY];
        if ftp.direction == FtpDirection::Fetch {
            errand.zeros.push((format!("{ROOT}/{SERVED_FILE}"), ftp.size.bytes()));
        }
        servers.push(errand);
    }
    Ok(servers)
}

/// vsftpd on one address: anybody may store, fetch and delete files in its folder, and nothing else (vsftpd.conf(5)).
fn server(address: SocketAddr) -> Program {
    let listen = match address {
        SocketAddr::V4(_) => format!("listen=YES\nlisten_address={}", address.ip()),
        SocketAddr::V6(_) => format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={}", address.ip()),
    };
    let settings = format!(
        "{listen}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
         anon_upload_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\nanon_root={{folder}}/{ROOT}\n\
         allow_writeable_chroot=YES\nno_anon_password=YES\nrun_as_launching_user=YES\nxferlog_enable=NO\n\
         secure_chroot_dir={{folder}}/{EMPTY}\nseccomp_sandbox=NO\nreverse_lookup_enable=NO\n",
        address.port()
    );
    Program {
        command: ["vsftpd", "{folder}/vsftpd.conf"].map(str::to_owned).to_vec(),
        ready: Some(Ready::Tcp(address.port())),
        packages: vec!["vsftpd".to_owned()],
        files: [("vsftpd.conf".to_owned(), settings)].into(),
    }
}

/// What gives the sockets of a server, which nobody here opens, the window and the congestion control of its transport.
pub(crate) fn server_sysctls(receive: Option<u32>, congestion: Option<&str>) -> Vec<(String, String)> {
    let mut sysctls = Vec::new();
    if let Some(receive) = receive {
        // SO_RCVBUF takes twice what it is told, for book-keeping (socket(7)); this is what it has then.
        let buffer = receive.saturating_mul(2);
        sysctls.push(("net.ipv4.tcp_rmem".to_owned(), format!("{} {buffer} {buffer}", LEAST_BUFFER.min(buffer))));
    }
    sysctls.extend(congestion.map(|name| ("net.ipv4.tcp_congestion_control".to_owned(), name.to_owned())));
    sysctls
}
