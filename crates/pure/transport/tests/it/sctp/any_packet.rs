//! A property that any bytes received as an SCTP packet must satisfy. `fuzz/` searches for counterexamples, and
//! [`corpus`](super::corpus) replays them.

use netrig_core::{Data, Endpoint, StreamId};
use netrig_transport::sctp::packet::{Chunk, Packet};
use netrig_transport::sctp::wire::{self, Checksum, DecodeError};
use netrig_transport::{Connection, Serial};

use super::pair::*;

/// Largest number of bytes that the user of the attacked end sends.
const GIVEN: u64 = 60_000;

/// Largest number of events after an attack until the association is quiet. A timer that is always set again for its
/// expiration time would exceed it.
const MOST_STEPS: u32 = 5_000;

/// The largest payload of an IPv4 packet (RFC 791 section 3.1).
const MOST_BYTES: usize = 65_535 - 20;

/// Either the bytes are refused with a reason, or they are decoded to a packet that is unchanged after encoding and
/// decoding. An association in any state survives the packet.
pub fn check(bytes: &[u8]) {
    if bytes.len() <= MOST_BYTES
        && let Some(packet) = read(bytes)
    {
        STAGES.iter().for_each(|stage| attack(*stage, &packet));
    }
}

/// Decodes a packet without regard to its checksum.
fn read(bytes: &[u8]) -> Option<Packet> {
    let strict = wire::decode(bytes);
    let lenient = wire::decode_with(bytes, Checksum::Zero);
    match &strict {
        Err(DecodeError::Checksum { found, computed }) => assert_ne!(found, computed),
        _ => assert_eq!(strict, lenient),
    }
    let packet = match lenient {
        Ok(packet) => packet,
        Err(error) => {
            assert!(!matches!(error, DecodeError::Checksum { .. }));
            assert!(!error.to_string().is_empty());
            return None;
        }
    };
    let encoded = wire::encode(&packet);
    assert_eq!(encoded.len() as u32, packet.wire_len());
    assert_eq!(wire::decode(&encoded).as_ref(), Ok(&packet));
    // The decoded packet is not longer than the bytes, except for padding that was missing.
    assert!(encoded.len() <= bytes.len().next_multiple_of(4));
    Some(packet)
}

/// The state of an end when the packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A listener, which keeps no state.
    Listening,
    CookieWait,
    CookieEchoed,
    Established,
    /// Data is in flight and unacknowledged.
    Sending,
    /// The retransmission timer has expired.
    TimedOut,
    /// A fragment of the received data is missing.
    Receiving,
    ShutdownPending,
    ShutdownSent,
    ShutdownReceived,
    ShutdownAckSent,
    Closed,
}

const STAGES: [Stage; 12] = [
    Stage::Listening,
    Stage::CookieWait,
    Stage::CookieEchoed,
    Stage::Established,
    Stage::Sending,
    Stage::TimedOut,
    Stage::Receiving,
    Stage::ShutdownPending,
    Stage::ShutdownSent,
    Stage::ShutdownReceived,
    Stage::ShutdownAckSent,
    Stage::Closed,
];

impl Stage {
    /// The side of the end that is attacked.
    fn side(self) -> Side {
        match self {
            Self::Listening | Self::Receiving | Self::ShutdownReceived | Self::ShutdownAckSent => {
                Side::Server
            }
            _ => Side::Client,
        }
    }

    /// Two hosts, with the attacked one in this state, and a network that loses all later packets: the peer is cut off,
    /// and an attacker replaces it. The hosts are the same in every call, tags included, so that the packets of a
    /// corpus can match them.
    fn reached(self) -> Pair {
        let mut pair = Pair::new(&rfc(), 2, ms(20));
        if !matches!(self, Self::Listening | Self::CookieWait | Self::CookieEchoed) {
            pair.open();
            pair.run_for(ms(160));
        }
        match self {
            Self::Listening => {}
            Self::CookieWait => {
                pair.lose(|_| true);
                pair.open();
            }
            Self::CookieEchoed => {
                pair.lose(|crossing| crossing.has("COOKIE ECHO"));
                pair.open();
                pair.run_for(ms(50));
            }
            Self::Established => {}
            Self::Sending => pair.fill(GIVEN),
            Self::TimedOut => {
                pair.lose(|_| true);
                pair.fill(GIVEN);
                pair.run_for(s(3));
            }
            Self::Receiving => {
                pair.lose(first(|crossing| crossing.packet.carries_data()));
                pair.fill(4_000);
                pair.run_for(ms(30));
            }
            Self::ShutdownPending => {
                pair.fill(GIVEN);
                close(&mut pair, Side::Client);
            }
            Self::ShutdownSent => {
                pair.lose(|_| true);
                close(&mut pair, Side::Client);
            }
            Self::ShutdownReceived => {
                pair.lose(|crossing| crossing.from == Side::Server);
                pair.act(Side::Server, |server, now| server.send(now, StreamId(0), Data::Fill(GIVEN)));
                close(&mut pair, Side::Client);
                pair.run_for(ms(30));
            }
            Self::ShutdownAckSent => {
                pair.lose(|crossing| crossing.from == Side::Server);
                close(&mut pair, Side::Client);
                pair.run_for(ms(30));
            }
            Self::Closed => pair.act(Side::Client, |client, now| client.abort(now)),
        }
        pair.lose(|crossing| {
            can_be_sent(&crossing.packet);
            true
        });
        pair
    }
}

/// Checks that the reply of an end fits a packet, and is decoded to the same packet.
fn can_be_sent(packet: &Packet) {
    let bytes = wire::encode(packet);
    assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
    // Compared as bytes, because bulk data is decoded as zeros.
    assert_eq!(wire::decode(&bytes).as_ref().map(wire::encode), Ok(bytes));
}

fn close(pair: &mut Pair, side: Side) {
    pair.act(side, |association, now| association.close(now));
}

/// Passes the packet to an end in a state: unchanged, then with the numbers that the end expects, then chunk by chunk.
/// Then waits until there are no more events.
fn attack(stage: Stage, packet: &Packet) {
    let mut pair = stage.reached();
    let side = stage.side();
    let whole = |tag, chunks: &[Chunk], path| forged(side, path, tag, chunks.to_vec());
    pair.deliver(side, whole(packet.verification_tag, &packet.chunks, 0));
    let (tag, fitting): (u32, Vec<Chunk>) = match Numbers::of(&pair, side) {
        Some(numbers) => (numbers.tag, packet.chunks.iter().map(|chunk| numbers.shifted(chunk)).collect()),
        None => (packet.verification_tag, packet.chunks.to_vec()),
    };
    let tag_of = |chunk: &Chunk| if matches!(chunk, Chunk::Init(_)) { 0 } else { tag };
    pair.deliver(side, whole(fitting.first().map_or(tag, tag_of), &fitting, 0));
    for (n, chunk) in fitting.into_iter().enumerate() {
        pair.run_for(ms(10));
        pair.deliver(side, whole(tag_of(&chunk), &[chunk], n % 2));
    }
    let mut steps = 0;
    let end = pair.now + s(3_600);
    pair.run_while(end, |_| {
        steps += 1;
        steps <= MOST_STEPS
    });
    assert!(steps <= MOST_STEPS, "{stage:?} does not come to rest");
    let carried: u64 = packet.chunks.iter().map(carried).sum();
    for (end, given) in [(&pair.client, GIVEN), (&pair.server, GIVEN)] {
        let Some(association) = &end.association else { continue };
        assert!(association.unacknowledged() <= given, "{stage:?}");
        assert!(association.poll_timeout().is_none_or(|at| at > pair.now), "{stage:?}");
        // The packet arrived once unchanged, once with adapted numbers, and once chunk by chunk. Packets that were in
        // flight may also have arrived.
        assert!(end.bytes() <= 3 * carried + GIVEN, "{stage:?}");
    }
}

fn carried(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Data(data) => data.data.size(),
        _ => 0,
    }
}

/// The numbers that a packet must have for an end to accept it.
#[derive(Clone, Copy)]
struct Numbers {
    tag: u32,
    /// The initial TSN of the peer.
    peer: Serial,
    /// The initial TSN of the end itself.
    own: Serial,
}

impl Numbers {
    /// The numbers that an end with an association expects.
    fn of(pair: &Pair, side: Side) -> Option<Self> {
        let tag = match side {
            Side::Client => &pair.client,
            Side::Server => &pair.server,
        }
        .association
        .as_ref()?
        .local_tag();
        let first_tsn = |own: bool| {
            let announced = pair.log.iter().filter(|crossing| (crossing.from == side) == own);
            let mut tsns = announced.filter_map(|crossing| match &crossing.packet.chunks[0] {
                Chunk::Init(init) | Chunk::InitAck(init) => Some(init.initial_tsn),
                _ => None,
            });
            tsns.next().unwrap_or_default()
        };
        Some(Self { tag, peer: first_tsn(false), own: first_tsn(true) })
    }

    /// The chunk with its TSNs relative to the initial TSN of the association, so that small numbers are valid.
    fn shifted(self, chunk: &Chunk) -> Chunk {
        match chunk.clone() {
            Chunk::Data(mut data) => {
                data.tsn = self.peer.plus(data.tsn.0);
                Chunk::Data(data)
            }
            Chunk::Sack(mut sack) => {
                sack.cumulative_tsn = self.own.plus(sack.cumulative_tsn.0);
                Chunk::Sack(sack)
            }
            Chunk::Shutdown(cumulative) => Chunk::Shutdown(self.own.plus(cumulative.0)),
            other => other,
        }
    }
}
