//! FTP with vsftpd, an independent server, and with malicious servers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as StdDuration, Instant};

use netrig_core::Duration;
use netrig_host::socket::TcpOptions;
use netrig_probe::ProbeError;
use netrig_probe::transfer::{self, FILE_BYTES, FtpOrder, FtpReport};
use netrig_traffic::FtpDirection;

/// Runs a transfer to its end.
fn ftp(order: &FtpOrder) -> Result<FtpReport, ProbeError> {
    transfer::ftp(order, &AtomicBool::new(false))
}

fn order(server: SocketAddr) -> FtpOrder {
    FtpOrder {
        server,
        user: "anonymous".to_owned(),
        password: "netrig@".to_owned(),
        direction: FtpDirection::Store,
        file: "netrig.bin".to_owned(),
        bytes: FILE_BYTES,
        options: TcpOptions::default(),
        dscp: 46,
        patience: Duration::from_secs(20),
    }
}

/// A vsftpd process with a temporary folder. It is killed when this value is dropped.
struct Vsftpd {
    child: Child,
    folder: tempfile::TempDir,
    address: SocketAddr,
}

impl Vsftpd {
    /// Starts vsftpd at this address. Returns `None`, after a line on standard error, if it is not installed.
    fn start(at: &str) -> Option<Self> {
        let path = "/usr/sbin/vsftpd";
        if !Path::new(path).exists() {
            eprintln!("skipped: needs vsftpd");
            return None;
        }
        let address = TcpListener::bind(at).unwrap().local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (root, empty) = (folder.path().join("root"), folder.path().join("empty"));
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(&empty).unwrap();
        let listen = if address.is_ipv4() {
            format!("listen=YES\nlisten_address={}", address.ip())
        } else {
            format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={}", address.ip())
        };
        let text = format!(
            "{listen}\nlisten_port={}\nbackground=NO\nanonymous_enable=YES\nlocal_enable=NO\nwrite_enable=YES\n\
             anon_upload_enable=YES\nanon_other_write_enable=YES\nanon_umask=022\nanon_root={}\n\
             allow_writeable_chroot=YES\nno_anon_password=YES\nrun_as_launching_user=YES\nxferlog_enable=NO\n\
             secure_chroot_dir={}\nseccomp_sandbox=NO\n",
            address.port(),
            root.display(),
            empty.display()
        );
        let config = folder.path().join("vsftpd.conf");
        std::fs::write(&config, text).unwrap();
        let child = Command::new(path).arg(&config).stdin(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, folder, address };
        let deadline = Instant::now() + StdDuration::from_secs(10);
        while TcpStream::connect(server.address).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "vsftpd ended");
            assert!(Instant::now() < deadline, "vsftpd does not listen");
            std::thread::sleep(StdDuration::from_millis(20));
        }
        Some(server)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("root").join(name)
    }
}

impl Drop for Vsftpd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_file_to_vsftpd_and_back() {
    for at in ["127.0.0.1:0", "[::1]:0"] {
        let Some(server) = Vsftpd::start(at) else { return };
        let up = ftp(&order(server.address)).unwrap();
        assert_eq!(up.bytes, FILE_BYTES);
        assert!(up.greeting.contains("vsFTPd"), "{}", up.greeting);
        assert!(0.0 < up.transfer_s && up.transfer_s < up.session_s, "{up:?}");
        assert!(!server.file("netrig.bin").exists(), "what was uploaded is deleted");

        std::fs::write(server.file("there.bin"), vec![7; 100_000]).unwrap();
        let back = FtpOrder {
            direction: FtpDirection::Fetch,
            file: "there.bin".to_owned(),
            ..order(server.address)
        };
        let down = ftp(&back).unwrap();
        assert_eq!(down.bytes, 100_000);
        assert!(server.file("there.bin").exists());

        let refused = ftp(&FtpOrder { file: "nothing.bin".to_owned(), ..back.clone() }).unwrap_err();
        assert!(refused.to_string().contains("RETR: "), "{refused}");
        assert!(refused.to_string().contains("550"), "{refused}");
        let long = ftp(&FtpOrder { bytes: 99_999, ..back }).unwrap_err();
        assert!(long.to_string().ends_with("the file is longer than 99999 B"), "{long}");
        let stranger =
            ftp(&FtpOrder { user: "nobody-here".to_owned(), ..order(server.address) }).unwrap_err();
        assert!(stranger.to_string().contains("login: "), "{stranger}");
    }
}

/// If a transfer is interrupted, or its time limit passes, after a part of the file was stored, this part is deleted.
#[test]
fn what_was_begun_is_deleted_when_it_is_broken_off() {
    let Some(server) = Vsftpd::start("127.0.0.1:0") else { return };
    let endless = FtpOrder { bytes: u64::MAX, ..order(server.address) };
    let file = server.file("netrig.bin");
    let cancel = AtomicBool::new(false);
    let failure = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| transfer::ftp(&endless, &cancel));
        while !file.exists() && !transfer.is_finished() {
            std::thread::sleep(StdDuration::from_millis(1));
        }
        cancel.store(true, Ordering::Relaxed);
        transfer.join().unwrap().unwrap_err()
    });
    assert!(matches!(failure, ProbeError::Interrupted), "{failure}");
    assert!(!file.exists(), "what was uploaded until then is deleted");

    let failure = ftp(&FtpOrder { patience: Duration::from_millis(100), ..endless }).unwrap_err();
    assert!(failure.to_string().ends_with("it took too long"), "{failure}");
    assert!(!file.exists(), "what was uploaded until then is deleted");
}

/// Runs a transfer with a server that sends these lines: the first immediately, and each other line after a command.
/// The server then closes the connection, or stays silent. Returns the error of the client.
fn with_server(script: Vec<Vec<u8>>, hangs_up: bool, patience: Duration) -> ProbeError {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut commands = BufReader::new(stream.try_clone().unwrap()).lines();
            for (number, reply) in script.iter().enumerate() {
                if number > 0 && commands.next().is_none_or(|line| line.is_err()) {
                    return;
                }
                // The client may close the connection early.
                if stream.write_all(reply).is_err() {
                    return;
                }
            }
            if !hangs_up {
                while commands.next().is_some_and(|line| line.is_ok()) {}
            }
        });
        ftp(&FtpOrder { patience, ..order(address) }).unwrap_err()
    })
}

#[test]
fn what_no_server_says_is_an_error() {
    let login = [&b"220 hello\r\n"[..], b"331 who\r\n", b"230 in\r\n", b"200 type\r\n"];
    let after_login =
        |reply: &[u8]| login.iter().copied().chain([reply]).map(<[u8]>::to_vec).collect::<Vec<_>>();
    let scripts: Vec<(&str, Vec<Vec<u8>>)> = vec![
        ("greeting", vec![b"".to_vec()]),
        ("greeting", vec![b"\r\n".to_vec()]),
        ("greeting", vec![b"2\r\n".to_vec()]),
        ("greeting", vec![vec![0xFF; 3000]]),
        ("greeting", vec![b"220-never\r\n ends\r\n".to_vec()]),
        ("greeting", vec!["é20 hello\r\n".as_bytes().to_vec()]),
        ("greeting", vec![b"-20 hello\r\n".to_vec()]),
        ("greeting", vec![vec![b'a'; 4 << 20]]),
        ("greeting", vec![[b"220-".to_vec(), b"a\r\n".repeat(1 << 20)].concat()]),
        ("login", vec![b"220 hi\r\n".to_vec(), b"999 what\r\n".to_vec()]),
        ("login", vec![b"220 hi\r\n".to_vec(), b"530 no\x1b[31m\r\n".to_vec()]),
        ("STOR", after_login(b"227 Entering Passive Mode\r\n")),
        ("STOR", after_login(b"227 (999,999,999,999,999,999)\r\n")),
        ("STOR", after_login(b"227 (127,0,0,1,1)\r\n")),
        ("STOR", after_login(b"227 ((((((,,,,,,))))))\r\n")),
        ("STOR", after_login(b"227 (127,0,0,1,-1,256)\r\n")),
        ("STOR", after_login(b"227 (127,0,0,1,0,0)\r\n")),
        ("STOR", after_login(b"421 bye\r\n")),
    ];
    for (step, script) in scripts {
        let shown: String = script
            .last()
            .map(|last| String::from_utf8_lossy(&last[..last.len().min(40)]).into_owned())
            .unwrap();
        let error = with_server(script, true, Duration::from_secs(20));
        let ProbeError::Ftp { step: at, why, .. } = &error else { panic!("{shown:?}: {error}") };
        assert_eq!(*at, step, "{shown:?}: {error}");
        assert!(!why.contains(char::is_control) && why.chars().count() <= 200, "{shown:?}: {why:?}");
    }
}

/// RFC 2577 section 3: the client does not connect to another host whose address is in the server's reply. It connects
/// to the given port of the server itself, where no program listens.
#[test]
fn a_server_cannot_send_us_to_somebody_else() {
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    let reply = format!("227 Entering Passive Mode (127,0,0,2,{},{})\r\n", port >> 8, port & 0xFF);
    let login = [&b"220 hello\r\n"[..], b"331 who\r\n", b"230 in\r\n", b"200 type\r\n", reply.as_bytes()];
    with_server(login.iter().map(|line| line.to_vec()).collect(), true, Duration::from_secs(20));
    assert!(elsewhere.accept().is_err(), "nobody came");
}

#[test]
fn a_server_that_is_silent_is_left() {
    for script in [vec![], vec![b"220 hi\r\n".to_vec()], vec![b"220-hi\r\n".to_vec()]] {
        let begun = Instant::now();
        let error = with_server(script, false, Duration::from_millis(300));
        assert!(error.to_string().ends_with("it took too long"), "{error}");
        assert!(begun.elapsed() >= StdDuration::from_millis(300));
    }
}
