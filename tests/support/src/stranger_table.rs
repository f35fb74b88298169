//! The tables of `docs/models/strangers.md`: requests from unvalidated addresses, and what the servers send them.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

/// A request from an unvalidated address.
pub struct StrangerRow {
    /// The name of the server in the table, such as `Speed servers`.
    pub server: String,
    /// The name of the request in the table.
    pub request: String,
    /// Length of the request, bytes.
    pub bytes_in: usize,
    /// Length of all responses together, retransmissions included, bytes.
    pub bytes_out: usize,
    /// Number of received datagrams.
    pub datagrams: usize,
}

/// A client at an unvalidated address that nothing else uses, and its request.
pub struct Stranger {
    request: String,
    socket: UdpSocket,
    bytes: usize,
}

impl Stranger {
    /// A client at 127.7.7.`number`. It sends the datagram that `make` makes for its address.
    pub fn new(number: u8, request: &str, to: SocketAddr, make: impl FnOnce(SocketAddr) -> Vec<u8>) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 7, 7, number), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let datagram = make(socket.local_addr().unwrap());
        socket.send_to(&datagram, to).unwrap();
        Self { request: request.to_owned(), socket, bytes: datagram.len() }
    }

    /// The row of the table. Panics if the server has sent more than three times the bytes of the request.
    pub fn row(&self, server: &str) -> StrangerRow {
        let mut buffer = vec![0; 65_535];
        let came: Vec<usize> = std::iter::from_fn(|| self.socket.recv(&mut buffer).ok()).collect();
        let bytes_out: usize = came.iter().sum();
        assert!(
            bytes_out <= 3 * self.bytes,
            "{server}, {}: {bytes_out} B for {} B",
            self.request,
            self.bytes
        );
        StrangerRow {
            server: server.to_owned(),
            request: self.request.clone(),
            bytes_in: self.bytes,
            bytes_out,
            datagrams: came.len(),
        }
    }
}

/// Compares rows with those below a heading of the page: the requests must be the same, and the servers may not have
/// sent more bytes. With `NETRIG_UPDATE_PAGES=1` the measured rows are written to the page.
pub fn check(heading: &str, rows: &[StrangerRow]) {
    const HEAD: &str = "| server | request | bytes in | bytes out | ratio |\n|---|---|--:|--:|--:|\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/models/strangers.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let start = page.find(&format!("## {heading}\n")).unwrap_or_else(|| panic!("{heading} is a heading"));
    let table = start + page[start..].find(HEAD).unwrap() + HEAD.len();
    let end = page[table - 1..].find("\n\n").map_or(page.len(), |end| table + end);
    if std::env::var_os("NETRIG_UPDATE_PAGES").is_some() {
        let line = |StrangerRow { server, request, bytes_in, bytes_out, .. }: &StrangerRow| {
            let ratio = *bytes_out as f64 / *bytes_in as f64;
            format!("| {server} | {request} | {bytes_in} | {bytes_out} | {ratio:.2} |\n")
        };
        let lines: String = rows.iter().map(line).collect();
        std::fs::write(&path, format!("{}{lines}{}", &page[..table], &page[end..])).unwrap();
        return;
    }
    let kept: Vec<Vec<&str>> =
        page[table..end].lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let named: Vec<[&str; 3]> = kept.iter().map(|cells| [cells[1], cells[2], cells[3]]).collect();
    let sizes: Vec<String> = rows.iter().map(|row| row.bytes_in.to_string()).collect();
    let measured: Vec<[&str; 3]> = rows
        .iter()
        .zip(&sizes)
        .map(|(row, size)| [row.server.as_str(), row.request.as_str(), size.as_str()])
        .collect();
    assert_eq!(measured, named, "NETRIG_UPDATE_PAGES=1 writes it down");
    for (row, cells) in rows.iter().zip(kept) {
        let StrangerRow { server, request, bytes_out, .. } = row;
        let most: usize = cells[4].parse().unwrap();
        assert!(*bytes_out <= most, "{server}, {request}: {bytes_out} B, where the page says {most} B");
    }
}
