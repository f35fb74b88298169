//! The number of packets per megabyte, compared with the number computed from headers: for SCTP by the size of
//! messages, for TCP by that of segments. The sender is always backlogged, no packet is lost, and the MTU is 1500 B.

use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

fn transfer(transport: &str, message: u64) -> String {
    ExperimentText::new("bundling", "100 s")
        .nodes("phone server")
        .link(
            "line",
            "phone server",
            r#"rate = "10 Mbit/s", delay = "10 ms", queue = { kind = "fifo", unlimited = true }"#,
        )
        .table("transport.carrier", transport)
        .flow(
            "file",
            "phone server",
            &format!(
                r#"transport = "carrier",
            application = {{ kind = "bulk", bytes = "14600 KB", message = "{message} B" }}"#
            ),
        )
        .response("packets", "flow.file", "packets_per_megabyte")
        .build()
}

fn measured(transport: &str, message: u64) -> f64 {
    let runs = simulate(&transfer(transport, message), None, 1, |_| true);
    runs[0].responses["packets"]
}

/// Room for chunks in an SCTP packet: 1500 B without the headers of IPv4 (20 B) and SCTP (12 B, RFC 9260 section 3.1).
const ROOM: u64 = 1500 - 20 - 12;
/// Header of a DATA chunk (section 3.3.1); chunks are padded to four bytes (section 3.2).
const DATA_HEADER: u64 = 16;

/// The windows are so large that they are never the limit. A limiting window would cause packets that are not full.
const SCTP: &str =
    "kind = \"sctp\"\nstreams = 5\nnagle = true\nreceive_buffer = \"64 MB\"\nsend_buffer = \"64 MB\"";

fn chunk(data: u64) -> u64 {
    (DATA_HEADER + data).next_multiple_of(4)
}

/// Packets per megabyte of messages of this size. A message that does not fit into a packet is split into a full packet
/// and a rest. The packet of the rest has no room for another rest or for a part of the next message, which is split in
/// the same way.
fn sctp(message: u64) -> f64 {
    let most = ROOM - DATA_HEADER;
    if message > most {
        assert!(chunk(message - most) + chunk(most) > ROOM && message <= 2 * most);
        return 2.0 * 1e6 / message as f64;
    }
    let bundled = ROOM / chunk(message);
    1e6 / (bundled * message) as f64
}

#[test]
fn sctp_bundles_what_the_mtu_allows() {
    for message in [1460, 1452, 730, 716, 365] {
        let (theory, measured) = (sctp(message), measured(SCTP, message));
        println!("SCTP, messages of {message} B: {theory:.1} packets/MB, measured {measured:.1}");
        // A few packets during slow start and at the end are not full. 14.6 MB take more than 9,000 packets.
        assert!((measured / theory - 1.0).abs() < 0.002, "{message} B: {measured} for {theory}");
    }
}

#[test]
fn tcp_cuts_by_its_segments_alone() {
    for segment in [1460, 1452, 730, 716, 365] {
        let transport =
            format!("kind = \"tcp\"\ntimestamps = false\nmss = \"{segment} B\"\nreceive_buffer = \"64 MB\"");
        let (theory, measured) = (1e6 / segment as f64, measured(&transport, 365));
        println!("TCP, segments of {segment} B: {theory:.1} packets/MB, measured {measured:.1}");
        assert!((measured / theory - 1.0).abs() < 0.002, "{segment} B: {measured} for {theory}");
    }
}

/// A message of 64 kB in chunks of at most 365 B has 175 chunks and a rest. A packet has room for three chunks, or for
/// three and the rest. The message takes 59 packets if it is sent alone, and at least a third of 175. A full send
/// buffer does not change this, because it accepts only whole messages. If it accepted single chunks, packets would not
/// be full.
#[test]
fn a_full_buffer_lets_no_crumbs_out() {
    const MESSAGE: u64 = 64_000;
    let least = (MESSAGE / 365) as f64 / 3.0 * 1e6 / MESSAGE as f64;
    let most = (MESSAGE.div_ceil(365)).div_ceil(3) as f64 * 1e6 / MESSAGE as f64;
    for buffer in ["64 MB", "64 KB"] {
        let transport = format!(
            "kind = \"sctp\"\nnagle = true\nmax_chunk = \"365 B\"\nreceive_buffer = \"64 MB\"\nsend_buffer = \"{buffer}\"\n\
             chunk_charge = \"kernel-buffer\""
        );
        let measured = measured(&transport, MESSAGE);
        println!("SCTP, messages of 64 kB in chunks of 365 B, buffer of {buffer}: {measured:.1} packets/MB");
        assert!(
            measured > least * 0.999 && measured < most * 1.002,
            "{buffer}: {measured}, not {least} to {most}"
        );
    }
}
