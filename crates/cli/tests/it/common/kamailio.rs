//! Kamailio for a test. It is stopped at the end of the test.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::free_port::free_port;
use super::namespace::can;

/// Time limit for the start of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the test.
pub struct Kamailio {
    child: Child,
    pub port: u16,
    pub tls_port: u16,
    pub folder: tempfile::TempDir,
}

/// The tables of the node `server` of an experiment, on which Kamailio runs with this configuration.
pub fn kamailio_node(config: &str) -> String {
    format!(
        "[node.server]\n[node.server.application]\nkind = \"program\"\n\
         command = [\"kamailio\", \"-f\", \"{{folder}}/kamailio.cfg\", \"-DD\", \"-E\", \"-m\", \"64\", \"-M\", \"8\", \"-Y\", \
         \"{{folder}}\", \"-w\", \"{{folder}}\"]\nready = \"udp:5060\"\npackages = [\"kamailio\"]\n\
         files = {{ \"kamailio.cfg\" = '''\n{config}''' }}\n"
    )
}

/// Makes the certificate of the server in `folder`. If this machine lacks a requirement, prints a message and returns
/// `None`.
fn certificate(folder: &Path) -> Option<()> {
    let modules =
        ["/usr/lib/x86_64-linux-gnu/kamailio/modules", "/usr/lib/aarch64-linux-gnu/kamailio/modules"];
    if !modules.iter().any(|modules| Path::new(modules).join("tls.so").exists()) {
        eprintln!("skipped: needs kamailio and kamailio-tls-modules");
        return None;
    }
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
    command.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.arg("-keyout").arg(folder.join("key.pem")).arg("-out").arg(folder.join("certificate.pem"));
    let made = command.output();
    if !made.is_ok_and(|made| made.status.success()) {
        eprintln!("skipped: needs openssl");
        return None;
    }
    Some(())
}

impl Kamailio {
    /// Starts the server and waits until it answers. `None` if Kamailio is not installed.
    pub fn start(defines: &[&str]) -> Option<Self> {
        Self::start_with("server.cfg", defines)
    }

    /// As [`Self::start`], with another configuration file.
    pub fn start_with(config: &str, defines: &[&str]) -> Option<Self> {
        Self::start_by(|_| Command::new("kamailio"), config, defines)
    }

    /// As [`Self::start_with`], with this DNS server instead of that of this machine. Also `None` without root.
    pub fn start_asking(resolver: Ipv4Addr, config: &str, defines: &[&str]) -> Option<Self> {
        if !can(&["unshare"]) {
            return None;
        }
        let within = |folder: &Path| {
            let file = folder.join("resolv.conf");
            std::fs::write(&file, format!("nameserver {resolver}\noptions timeout:1 attempts:2\n")).unwrap();
            let mut command = Command::new("unshare");
            // The file is replaced only in the mount namespace of the server.
            let steps = "mount --bind \"$0\" /etc/resolv.conf && exec kamailio \"$@\"";
            command.args(["--mount", "sh", "-c", steps]).arg(file);
            command
        };
        Self::start_by(within, config, defines)
    }

    /// Starts the server with the command that `command` returns for its folder.
    fn start_by(command: impl FnOnce(&Path) -> Command, config: &str, defines: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        certificate(folder.path())?;
        let (port, tls_port) = (free_port(), free_port());
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kamailio").join(config);
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let mut command = command(folder.path());
        command.arg("-f").arg(config).args(["-DD", "-E", "-m", "512", "-M", "16"]);
        command.arg("-Y").arg(folder.path()).arg("-w").arg(folder.path());
        let file = |name: &str| format!("\"{}\"", folder.path().join(name).to_str().unwrap());
        let mut all = vec![format!("PORT={port}"), format!("TLSPORT={tls_port}")];
        all.extend([format!("KEY={}", file("key.pem")), format!("CERTIFICATE={}", file("certificate.pem"))]);
        all.extend(defines.iter().map(|define| (*define).to_owned()));
        all.iter().for_each(|define| {
            command.args(["-A", define]);
        });
        let Ok(child) = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn() else {
            eprintln!("skipped: needs kamailio");
            return None;
        };
        let mut server = Self { child, port, tls_port, folder };
        let until = Instant::now() + PATIENCE;
        while server.asked("OPTIONS").is_none() {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < until, "{ended:?}: {}", server.said());
        }
        Some(server)
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The response to a request of an unknown user; `None` if there is none within 200 ms.
    pub fn asked(&self, method: &str) -> Option<String> {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let request = format!(
            "{method} sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP {};rport;branch=z9hG4bK{method}\r\nMax-Forwards: 70\r\n\
             From: <sip:a@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\nCall-ID: {method}\r\nCSeq: 1 {method}\r\n\
             Contact: <sip:a@192.0.2.1>\r\nContent-Length: 0\r\n\r\n",
            socket.local_addr().unwrap()
        );
        let mut buffer = [0; 65_535];
        socket.send_to(request.as_bytes(), ("127.0.0.1", self.port)).unwrap();
        let len = socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..len]).into_owned())
    }
}

impl Drop for Kamailio {
    fn drop(&mut self) {
        // After SIGTERM, Kamailio also ends its child processes.
        let pid = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        let _ = kill_process(pid, Signal::TERM);
        let _ = self.child.wait();
    }
}
