//! What holds for any bytes that arrive as an SCTP packet: the property that `fuzz/` searches a counterexample
//! of, and that [`corpus`](super::corpus) replays.

use netrig_core::{Data, Endpoint, StreamId};
use netrig_transport::sctp::packet::{Chunk, Packet};
use netrig_transport::sctp::wire::{self, Checksum, DecodeError};
use netrig_transport::{Connection, Serial};

use super::pair::*;

/// Bytes that the user of the attacked end gave to send, at most.
const GIVEN: u64 = 60_000;

/// Things that may happen after an attack until the association is quiet: a timer that is set again for the
/// moment at which it ran out would go on for ever.
const MOST_STEPS: u32 = 5_000;

/// The most that an IPv4 packet carries beside its header (RFC 791 section 3.1).
const MOST_BYTES: usize = 65_535 - 20;

/// The bytes are refused with a reason or understood in a way that does not change any more; and what was
/// understood is survived by an association in whatever state it is.
pub fn check(bytes: &[u8]) {
    if bytes.len() <= MOST_BYTES
        && let Some(packet) = read(bytes)
    {
        STAGES.iter().for_each(|stage| attack(*stage, &packet));
    }
}

/// Reads a packet whose checksum may be anything.
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
    // No more is kept than came; what came without its padding gets it.
    assert!(encoded.len() <= bytes.len().next_multiple_of(4));
    Some(packet)
}

/// A state in which an end may be when the packet arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A listener, which keeps no state.
    Listening,
    CookieWait,
    CookieEchoed,
    Established,
    /// Data is on its way and nothing of it acknowledged.
    Sending,
    /// The retransmission timer ran out.
    TimedOut,
    /// A piece of what arrived is missing.
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
    /// The end that is attacked.
    fn side(self) -> Side {
        match self {
            Self::Listening | Self::Receiving | Self::ShutdownReceived | Self::ShutdownAckSent => {
                Side::Server
            }
            _ => Side::Client,
        }
    }

    /// Two hosts, the attacked one in this state, and a network that loses everything from now on: the peer is
    /// cut off, and another speaks in its name. The hosts are the same every time, tags and all, so that what
    /// fits them can stand in a corpus.
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

/// What an end sends in answer fits a packet, and is understood as it was meant.
fn can_be_sent(packet: &Packet) {
    let bytes = wire::encode(packet);
    assert!(bytes.len() <= MOST_BYTES, "{} bytes", bytes.len());
    // As bytes, for bulk data comes back as what it stands for.
    assert_eq!(wire::decode(&bytes).as_ref().map(wire::encode), Ok(bytes));
}

fn close(pair: &mut Pair, side: Side) {
    pair.act(side, |association, now| association.close(now));
}

/// Lets an end in a state hear the packet as it is, as its peer would have written it, and chunk by chunk; then
/// waits until nothing happens any more.
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
        // Once as it is, once shifted, once by itself; and what was on its way before.
        assert!(end.bytes() <= 3 * carried + GIVEN, "{stage:?}");
    }
}

fn carried(chunk: &Chunk) -> u64 {
    match chunk {
        Chunk::Data(data) => data.data.size(),
        _ => 0,
    }
}

/// The numbers that a packet to an end must have to be heard.
#[derive(Clone, Copy)]
struct Numbers {
    tag: u32,
    /// The peer's first TSN.
    peer: Serial,
    /// Its own first TSN.
    own: Serial,
}

impl Numbers {
    /// Those of an end that has an association.
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

    /// The chunk with its TSNs counted from the first one of the association, so that small numbers hit.
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
