//! The checks that other tests use detect faults in a capture.

use std::net::Ipv4Addr;

use netrig_core::{Data, Dscp, Ecn, FiveTuple, Header, StreamId, protocol};
use netrig_interop::{Findings, Network, Tools, write_capture};
use netrig_transport::sctp::packet::chunk;
use netrig_transport::sctp::packet::{Chunk, Chunks};
use netrig_transport::sctp::{self, crc32c};
use netrig_transport::{Packet, Payload, Serial};

fn packet() -> Packet {
    let data = chunk::Data {
        tsn: Serial(1),
        stream: StreamId(0),
        ssn: 0,
        ppid: 0,
        unordered: false,
        beginning: true,
        ending: true,
        immediate: false,
        data: Data::Fill(100),
    };
    let sctp = sctp::Packet {
        src_port: 6001,
        dst_port: 6000,
        verification_tag: 1,
        chunks: Chunks::from_iter([Chunk::Data(data)]),
    };
    let flow = FiveTuple {
        src: Ipv4Addr::new(10, 132, 0, 1).into(),
        dst: Ipv4Addr::new(10, 132, 0, 2).into(),
        src_port: 6001,
        dst_port: 6000,
        protocol: protocol::SCTP,
    };
    let header = Header { flow, ip_len: 148, dscp: Dscp(0), ecn: Ecn::NotEct };
    Packet { header, payload: Payload::Sctp(Box::new(sctp)) }
}

/// The first packet is correct. In the second, a bit of user data is flipped. The DATA chunk of the third announces a
/// length beyond the end of the packet, and the checksum is correct.
#[test]
fn faults_are_found() {
    let Some(_tools) = Tools::find() else { return };
    let network = Network::new(0);
    let file = network.folder().join("faults.pcapng");
    let spoil = |number: usize, bytes: &mut [u8]| match number {
        1 => bytes[50] ^= 1,
        2 => {
            bytes[14..16].copy_from_slice(&1000_u16.to_be_bytes());
            bytes[8..12].fill(0);
            let crc = crc32c(bytes);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        _ => {}
    };
    write_capture(&file, &[packet(), packet(), packet()], spoil).expect("a file can be written");
    let findings = Findings::of(&file).expect("tshark reads it");
    assert_eq!((findings.packets, findings.good_checksums, findings.unverified), (3, 2, 0), "{findings:?}");
    assert_eq!(findings.malformed, [3], "{findings:?}");
}
