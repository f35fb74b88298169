//! Metrics of `netrig sip load`, `capacity` and `serve`, as Prometheus reads them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::common;
use crate::common::as_json;
use crate::common::free_port::free_port;
use crate::common::sip_server::SipServer;
use crate::common::text;

/// Samples by their name and labels.
type Samples = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// Parses a page and checks the rules of the exposition format: each family occurs once, with its help and type before
/// its samples, which are contiguous; no sample occurs twice; the buckets of a histogram do not decrease, and the last,
/// `+Inf`, equals the count.
fn parsed(page: &str) -> Samples {
    assert!(page.ends_with('\n'), "{page:?}");
    let mut types = BTreeMap::new();
    let mut samples = Samples::new();
    let mut family = String::new();
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(name, family, "its help comes before");
            types.insert(name.to_owned(), kind.to_owned());
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            family = rest.split_once(' ').unwrap().0.to_owned();
            assert!(!types.contains_key(&family), "{family} stands twice");
            continue;
        }
        let (name, labels, value) = sample(line);
        let kind = &types[&family];
        let behind = name.strip_prefix(&family).unwrap_or_else(|| panic!("{name} in {family}"));
        match &**kind {
            "histogram" => assert!(["_bucket", "_sum", "_count"].contains(&behind), "{line}"),
            "counter" => assert!(behind.is_empty() && name.ends_with("_total") && value >= 0.0, "{line}"),
            _ => assert!(behind.is_empty(), "{line}"),
        }
        assert!(samples.insert((name, labels), value).is_none(), "twice: {line}");
    }
    buckets_grow(&samples);
    samples
}

fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let is_name = |text: &str| {
        text.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
            && !text.as_bytes()[0].is_ascii_digit()
    };
    let (head, value) = line.rsplit_once(' ').unwrap();
    let (name, rest) = head.split_once('{').unwrap_or((head, "}"));
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    let mut rest = rest.strip_suffix('}').unwrap();
    while !rest.is_empty() {
        let (label, behind) = rest.split_once("=\"").unwrap();
        assert!(is_name(label), "{line}");
        let mut of = String::new();
        let mut letters = behind.char_indices();
        let end = loop {
            match letters.next().unwrap() {
                (place, '"') => break place,
                (_, '\\') => of.push(match letters.next().unwrap().1 {
                    'n' => '\n',
                    letter @ ('"' | '\\') => letter,
                    letter => panic!("\\{letter} in {line}"),
                }),
                (_, letter) => of.push(letter),
            }
        };
        assert!(labels.insert(label.to_owned(), of).is_none(), "{line}");
        rest = behind[end + 1..].trim_start_matches(',');
    }
    (name.to_owned(), labels, value.parse().unwrap())
}

fn buckets_grow(samples: &Samples) {
    let mut all: BTreeMap<_, Vec<(f64, f64)>> = BTreeMap::new();
    for ((name, labels), value) in samples {
        let Some(family) = name.strip_suffix("_bucket") else { continue };
        let mut others = labels.clone();
        let end = others.remove("le").unwrap();
        let end = if end == "+Inf" { f64::INFINITY } else { end.parse().unwrap() };
        all.entry((family.to_owned(), others)).or_default().push((end, *value));
    }
    for ((family, labels), mut buckets) in all {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{family}");
        let (end, most) = *buckets.last().unwrap();
        assert_eq!((end, most), (f64::INFINITY, samples[&(format!("{family}_count"), labels.clone())]));
        assert!(samples.contains_key(&(format!("{family}_sum"), labels)));
    }
}

/// The sum of all samples of a name with these labels.
fn total(samples: &Samples, name: &str, wanted: &[(&str, &str)]) -> f64 {
    let has = |labels: &BTreeMap<String, String>| {
        wanted.iter().all(|(label, of)| labels.get(*label).is_some_and(|found| found == of))
    };
    let all = samples.iter().filter(|((found, labels), _)| found == name && has(labels));
    all.map(|(_, value)| value).sum()
}

fn scraped(place: &str) -> Samples {
    let mut stream = TcpStream::connect(place).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    if page.is_empty() { Samples::new() } else { parsed(page) }
}

#[test]
fn a_load_is_scraped_while_it_goes_on_and_leaves_a_file() {
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let mut load = Command::new(env!("CARGO_BIN_EXE_netrig"));
    load.current_dir(folder.path())
        .args(["sip", "load", &target, "--rate", "40/s", "--for", "4s", "--cpus", "1"]);
    load.args(["--metrics", "0", "--metrics-file", "load.prom", "--json"]);
    let mut load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(load.stderr.take().unwrap());
    let mut line = String::new();
    told.read_line(&mut line).unwrap();
    let place = line.trim().strip_prefix("metrics: http://").and_then(|rest| rest.strip_suffix("/metrics"));
    let place = place.unwrap_or_else(|| panic!("{line}")).to_owned();
    // The line of a second is printed when the second is over.
    line.clear();
    told.read_line(&mut line).unwrap();
    told.read_line(&mut line).unwrap();
    let first = scraped(&place);
    let begun = |samples: &Samples| total(samples, "netrig_sip_begun_total", &[("what", "call")]);
    assert!(begun(&first) > 0.0, "{first:?}");
    let mut rest = String::new();
    told.read_to_string(&mut rest).unwrap();
    let mut document = String::new();
    load.stdout.take().unwrap().read_to_string(&mut document).unwrap();
    load.wait().unwrap();

    let last = parsed(&std::fs::read_to_string(folder.path().join("load.prom")).unwrap());
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let calls = &document["outcomes"][0];
    assert!(begun(&last) >= begun(&first), "counters only grow");
    let value = |name| total(&last, name, &[]);
    assert_eq!(begun(&last), calls["begun"].as_f64().unwrap());
    assert_eq!(value("netrig_sip_succeeded_total"), calls["succeeded"].as_f64().unwrap());
    assert_eq!(value("netrig_sip_failed_total"), calls["failed"].as_f64().unwrap());
    let invite = |name| total(&last, name, &[("delay", "connection")]);
    let connection = document["delays"].as_array().unwrap().iter().find(|row| row["name"] == "connection");
    let connection = connection.unwrap();
    assert_eq!(invite("netrig_sip_delay_seconds_count"), connection["n"].as_f64().unwrap());
    let mean = invite("netrig_sip_delay_seconds_sum") / invite("netrig_sip_delay_seconds_count");
    assert!((mean * 1e6 - connection["mean_us"].as_f64().unwrap()).abs() < 0.01, "{mean}");
    assert_eq!(invite("netrig_sip_threshold_seconds"), 1.5);
    let least = total(&last, "netrig_sip_threshold_success_ratio", &[("what", "call")]);
    assert!((least - 0.999).abs() < 1e-9, "{least}");
    assert_eq!(value("netrig_sip_open"), 0.0);
    assert_eq!(value("netrig_tester_lateness_seconds_count"), calls["begun"].as_f64().unwrap());
    let sent = document["tester"]["sent"].as_f64().unwrap();
    assert_eq!(value("netrig_tester_sent_total"), sent);
}

#[test]
fn failures_have_their_kinds() {
    // The server answers every call, so no call gets a busy response.
    let (_server, target) = SipServer::answering();
    let folder = tempfile::tempdir().unwrap();
    let load = ["sip", "load", &*target, "--scenario", "busy", "--rate", "100/s", "--count", "10"];
    common::netrig(folder.path(), &[&load[..], &["--metrics-file", "busy.prom"]].concat());
    let last = parsed(&std::fs::read_to_string(folder.path().join("busy.prom")).unwrap());
    let labels = [("what", "busy"), ("kind", "status"), ("why", "answered with 200")];
    assert_eq!(total(&last, "netrig_sip_failed_total", &labels), 10.0, "{last:?}");
}

#[test]
fn a_server_is_scraped_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.prom");
    let place = format!("127.0.0.1:{}", free_port());
    let scraped_at = ["--metrics", &place, "--metrics-file", file.to_str().unwrap()];
    let server = SipServer::start(&[&["uas", "--listen", "udp:127.0.0.1:0"], &scraped_at[..]].concat());
    let target = format!("udp:{}", server.address("udp"));
    let load = ["sip", "load", &*target, "--rate", "100/s", "--count", "20", "--for", "3s", "--json"];
    let load = common::netrig(folder.path(), &load);
    let told = as_json(&load);
    assert_eq!(told["outcomes"][0]["begun"], 20, "{}", text(&load.stderr));
    scraped(&place);
    server.end();
    let last = parsed(&std::fs::read_to_string(&file).unwrap());
    let came = |name, kind| total(&last, name, &[("way", "received"), kind]);
    assert!(came("netrig_sip_server_requests_total", ("method", "INVITE")) >= 20.0, "{last:?}");
    assert!(total(&last, "netrig_sip_server_responses_total", &[("way", "sent"), ("class", "2xx")]) >= 40.0);
}

#[test]
fn a_place_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let load = common::netrig(folder.path(), &["sip", "load", "udp:127.0.0.1:9", "--metrics", &place]);
    assert_eq!(load.status.code(), Some(1));
    assert!(text(&load.stderr).contains("metrics cannot be served"), "{}", text(&load.stderr));
}
