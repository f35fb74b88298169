//! `netrig probe web` over the loopback interface: with netrig's own server, a third-party server, and malicious
//! servers.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use netrig_host::http::message::HttpRequest;
use netrig_probe::web::answer::Objects;
use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::as_json;
use crate::common::machine::has;

fn fetch(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netrig"));
    command.args(["probe", "web", url]).args(arguments).output().expect("netrig starts")
}

/// The document of a fetch that ends with this exit code.
fn document(url: &str, arguments: &[&str], code: i32) -> Value {
    let output = fetch(url, &[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    as_json(&output)
}

/// A server for one connection. It reads the request and then calls `does`.
fn server(does: impl FnOnce(TcpStream, Vec<u8>) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody connects");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time-out");
        let (mut heard, mut part) = (Vec::new(), [0; 1000]);
        while !heard.ends_with(b"\r\n\r\n") {
            match stream.read(&mut part) {
                Ok(len @ 1..) => heard.extend(&part[..len]),
                _ => return,
            }
        }
        does(stream, heard);
    });
    address
}

/// A server that sends `words` and closes the connection.
fn says(words: &'static str) -> SocketAddr {
    server(move |mut stream, _| drop(stream.write_all(words.as_bytes())))
}

/// A server that sends an object in this number of pieces with a pause between them. Its responses are those of the
/// speed meter.
fn objects(pieces: u64, pause: Duration) -> SocketAddr {
    server(move |mut stream, heard| {
        let (request, _) = HttpRequest::read(&heard).expect("a request").expect("a whole one");
        let answer = Objects { longest: 1 << 30 }.answer(&request);
        stream.write_all(&answer.head).expect("it is heard");
        for piece in 0..pieces {
            std::thread::sleep(pause);
            let len = answer.fill * (piece + 1) / pieces - answer.fill * piece / pieces;
            if stream.write_all(&vec![0; len as usize]).is_err() {
                return;
            }
        }
    })
}

#[test]
fn an_object_is_counted_and_its_times_follow_each_other() {
    let address = objects(1, Duration::from_millis(50));
    let told = document(&format!("http://{address}{}", Objects::path(1_000_000)), &[], 0);
    assert_eq!(
        (&told["status"], &told["bytes"], &told["complete"]),
        (&200.into(), &1_000_000.into(), &true.into())
    );
    let seconds = |name: &str| told[name].as_f64().unwrap_or_else(|| panic!("{name}: {told:#}"));
    assert!(
        0.0 < seconds("connect_s") && seconds("connect_s") + seconds("first_byte_s") <= seconds("total_s")
    );
    assert!(seconds("total_s") >= 0.05);
    let rate = 8e6 / (seconds("total_s") - seconds("connect_s"));
    assert!(seconds("rate") >= rate * 0.999 && seconds("rate") <= 8e6 / 0.05, "{told:#}");
    assert_eq!(told["rate_after_first_second"], Value::Null);
}

/// 150 KB in 1.5 s at a constant rate. The rate without the first second is the same.
#[test]
fn the_second_rate_leaves_the_first_second_away() {
    let address = objects(15, Duration::from_millis(100));
    let told = document(&format!("http://{address}{}", Objects::path(150_000)), &[], 0);
    let [whole, late] = ["rate", "rate_after_first_second"].map(|name| told[name].as_f64().expect("a rate"));
    assert!(whole <= 8.0 * 150_000.0 / 1.5 && late <= 8.0 * 60_000.0 / 0.4, "{told:#}");
}

#[test]
fn an_object_that_takes_too_long_is_left_at_what_came() {
    let address = objects(1000, Duration::from_millis(20));
    let told = document(&format!("http://{address}{}", Objects::path(1_000_000)), &["--limit", "300ms"], 0);
    assert_eq!((&told["complete"], &told["limited"]), (&false.into(), &true.into()));
    assert!(told["bytes"].as_u64().is_some_and(|bytes| bytes > 0 && bytes < 1_000_000), "{told:#}");
    assert!(
        told["found"].as_str().is_some_and(|found| found.contains("the time limit was reached")),
        "{told:#}"
    );
}

#[test]
fn chunks_and_ends_of_connections_are_read() {
    let chunked = says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(document(&format!("http://{chunked}/"), &[], 0)["bytes"], 5);
    let close = says("HTTP/1.0 200 OK\r\n\r\nuntil the end");
    let told = document(&format!("http://{close}/"), &[], 0);
    assert_eq!((&told["bytes"], &told["complete"]), (&13.into(), &true.into()));
    let first =
        says("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(document(&format!("http://{first}/"), &[], 0)["bytes"], 2);
}

#[test]
fn what_is_elsewhere_is_told_and_not_asked() {
    let moved = says("HTTP/1.1 301 Moved\r\nLocation: https://example/\r\nContent-Length: 0\r\n\r\n");
    let told = document(&format!("http://{moved}/"), &[], 1);
    assert_eq!((&told["status"], &told["location"]), (&301.into(), &"https://example/".into()));
    assert!(told["found"].as_str().is_some_and(|found| found.contains("was not followed")), "{told:#}");
}

#[test]
fn servers_that_mean_ill_are_sentences() {
    let cut = says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfew");
    let told = document(&format!("http://{cut}/"), &[], 1);
    assert_eq!((&told["bytes"], &told["complete"]), (&3.into(), &false.into()));
    assert!(told["found"].as_str().is_some_and(|found| found.contains("broke off")), "{told:#}");
    for (words, says_what) in [
        ("SSH-2.0-OpenSSH_9.2\r\n", "is not HTTP/1.1"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "transfer coding “gzip”"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "hexadecimal"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "cannot be determined"),
    ] {
        let output = fetch(&format!("http://{}/", says(words)), &[]);
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says_what), "{words}: {said}");
    }
    let silent = server(|stream, _| {
        std::thread::sleep(Duration::from_secs(5));
        drop(stream);
    });
    let told = document(&format!("http://{silent}/"), &["--wait", "200ms"], 1);
    assert!(
        told["found"].as_str().is_some_and(|found| found.contains("was silent for too long")),
        "{told:#}"
    );
}

#[test]
fn a_web_probe_that_cannot_be_is_refused_in_words() {
    for (url, code, says) in [
        ("https://127.0.0.1/", 2, "TLS is not supported"),
        ("127.0.0.1", 2, "expected http://"),
        ("http://127.0.0.1:1/", 1, "cannot connect"),
    ] {
        let output = fetch(url, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{url}: {said}");
        assert!(said.contains(says), "{url}: {said}");
    }
}

#[test]
fn curl_takes_an_object_for_what_it_is() {
    skip_unless!(has("curl"));
    let address = objects(1, Duration::ZERO);
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code} %{size_download} %{content_type}",
    ]);
    let out = curl.arg(format!("http://{address}{}", Objects::path(123_456))).output().expect("curl starts");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "200 123456 application/octet-stream", "{out:?}");
}

#[test]
fn a_file_comes_from_a_server_that_nobody_here_wrote() {
    skip_unless!(has("python3"));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("file"), vec![7; 234_567]).expect("it can be written");
    let mut python = Command::new("python3");
    python.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "0"]).current_dir(folder.path());
    let mut python = python.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("python3 starts");
    let mut said = String::new();
    let mut out = python.stdout.take().expect("it is piped");
    while !said.contains('\n') {
        let mut part = [0; 200];
        let len = out.read(&mut part).expect("it tells");
        assert!(len > 0, "{said}");
        said += &String::from_utf8_lossy(&part[..len]);
    }
    // The server prints: Serving HTTP on 127.0.0.1 port 40123 (http://127.0.0.1:40123/) ...
    let url = said.split(['(', ')']).nth(1).expect("it tells where").to_owned();
    let there = document(&format!("{url}file"), &[], 0);
    let missing = document(&format!("{url}other"), &[], 1);
    python.kill().expect("it is ours");
    python.wait().expect("it ends");
    assert_eq!((&there["bytes"], &there["complete"]), (&234_567.into(), &true.into()));
    assert_eq!(missing["status"], 404);
}
