//! Keeps messages of a load in a text log and in a capture for Wireshark. The size of the files is limited, and writing
//! does not delay the load.
//!
//! Each thread of a load has a [tap](netrig_sip_net::tap::MessageTap) that collects messages in batches. A thread of the keeper
//! takes the batches, decides which messages to keep, and writes them. If it falls behind, batches are dropped and counted.

#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "kept messages are written to files")]

mod batch;
mod evidence;
mod files;
mod records;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use netrig_sip_net::MessageKeeper;
use netrig_sip_net::tap::{KeptMessages, MessageTap, MessageTaps};
pub use netrig_sip_net::{KeepOrder, KeepPolicy, ParseKeepPolicyError};

use self::batch::{Batch, Collector};
pub use self::evidence::LoadEvidence;
use self::files::KeepFiles;
pub use self::files::{KeepError, sip_capture};
pub use self::records::{RecordLine, RecordWriter};
use self::writer::Writer;

/// The largest number of batches that wait for the keeper: 16 MiB.
const MOST_WAITING: usize = 256;

/// Keeps messages of a load. If [`Keeper::finish`] is not called, the files end after the last written batch.
pub struct Keeper {
    batches: SyncSender<Batch>,
    /// Messages of batches that were dropped because the channel was full.
    dropped: Arc<AtomicU64>,
    policy: KeepPolicy,
    writer: JoinHandle<KeptMessages>,
}

impl Keeper {
    /// Opens both files and starts the thread.
    ///
    /// # Errors
    /// If a file exists or cannot be created, or the thread cannot start.
    pub fn begin(order: &KeepOrder) -> Result<Self, KeepError> {
        let files = KeepFiles::open(order)?;
        let (batches, waiting) = sync_channel(MOST_WAITING);
        let policy = order.policy;
        let thread = std::thread::Builder::new().name("sip-keep".into());
        let writer =
            thread.spawn(move || Writer::new(policy, files).run(&waiting)).map_err(KeepError::NoThread)?;
        Ok(Self { batches, dropped: Arc::default(), policy, writer })
    }

    /// Waits until all messages are written.
    ///
    /// # Panics
    /// If the keeper's thread panicked.
    pub fn finish(self) -> KeptMessages {
        let Self { batches, dropped, writer, .. } = self;
        drop(batches);
        let kept = writer.join().expect("the keeper does not panic");
        KeptMessages { dropped: dropped.load(Ordering::Relaxed), ..kept }
    }
}

impl MessageTaps for Keeper {
    fn tap(&self) -> Box<dyn MessageTap> {
        Box::new(Collector::new(
            self.policy.needs_attempts(),
            self.batches.clone(),
            Arc::clone(&self.dropped),
        ))
    }
}

impl MessageKeeper for Keeper {
    fn finish(self: Box<Self>) -> KeptMessages {
        Keeper::finish(*self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use netrig_core::{Duration, Instant};
    use netrig_sip::header::Transport;
    use netrig_sip::load::{
        AttemptCounts, CalleeAction, Failure, Key, Owner, Record, Side, Stamps, Token, What,
    };
    use netrig_sip::transaction::Timer;
    use netrig_sip_net::tap::PassedMessage;

    use super::*;
    use crate::trace::SipTrace;

    fn token(index: u32) -> Token {
        Token {
            run: 1,
            shard: 0,
            owner: Owner::Caller(CalleeAction::Answer),
            key: Key { index, generation: 0 },
        }
    }

    /// The record of an attempt with this failure and this time of the final response, ms.
    fn record(index: u32, failure: Option<Failure>, answered_ms: Option<u64>) -> Record {
        let mut stamps = Stamps::new(Instant::ZERO, Instant::ZERO);
        stamps.answered = answered_ms.map_or(Instant::NEVER, |ms| Instant::ZERO + Duration::from_millis(ms));
        Record {
            token: token(index),
            side: Side::Caller,
            what: What::Call,
            user: 0,
            failure,
            status: 0,
            stamps,
            counts: AttemptCounts::default(),
            lookup: None,
        }
    }

    fn pass(tap: &mut dyn MessageTap, index: u32, text: &str, transport: Transport) {
        let call_id = String::from_utf8(token(index).digits().to_vec()).unwrap();
        let bytes =
            format!("{text} SIP/2.0\r\nCall-ID: {call_id}@h\r\nCSeq: 1 {text}\r\nContent-Length: 0\r\n\r\n");
        let (local, peer) = ("192.0.2.1:5060".parse().unwrap(), "192.0.2.2:5070".parse().unwrap());
        let message = PassedMessage {
            at_ns: 5,
            is_sent: true,
            local,
            peer,
            transport,
            is_of_script: false,
            bytes: bytes.as_bytes(),
        };
        tap.message(&message);
    }

    /// The kept messages of four attempts. The second failed, the third had no final response, and the fourth had the
    /// latest final response.
    fn kept(policy: &str, most_bytes: u64) -> (KeptMessages, SipTrace, SipTrace) {
        let folder = tempfile::tempdir().unwrap();
        let order = KeepOrder { policy: policy.parse().unwrap(), to: folder.path().join("kept"), most_bytes };
        let keeper = Keeper::begin(&order).unwrap();
        let mut tap = keeper.tap();
        for index in 1..=4 {
            pass(&mut *tap, index, "INVITE", Transport::Udp);
            pass(&mut *tap, index, "ACK", Transport::Udp);
        }
        tap.ended(&record(1, None, Some(10)));
        tap.ended(&record(2, Some(Failure::Status(486)), Some(20)));
        tap.ended(&record(3, Some(Failure::TimedOut(Timer::B)), None));
        tap.ended(&record(4, None, Some(900)));
        pass(&mut *tap, 2, "BYE", Transport::Udp);
        tap.hand_on();
        drop(tap);
        let kept = keeper.finish();
        let [log, capture] =
            [&kept.log, &kept.capture].map(|path| SipTrace::read(&fs::read(path).unwrap()).unwrap());
        (kept, log, capture)
    }

    fn texts(trace: &SipTrace) -> Vec<String> {
        trace.messages.iter().map(|message| String::from_utf8(message.bytes.to_vec()).unwrap()).collect()
    }

    #[test]
    fn each_policy_keeps_what_it_says_and_both_files_have_it() {
        for (policy, messages, attempts) in [
            ("all", 9, None),
            // Includes a message that arrived after the end of its attempt.
            ("failed", 5, Some(2)),
            ("slowest:1", 2, Some(1)),
            ("slowest:3", 6, Some(3)),
            ("sample:100%", 9, Some(4)),
        ] {
            let (kept, log, capture) = kept(policy, u64::MAX);
            assert_eq!((kept.messages, kept.attempts), (messages, attempts), "{policy}");
            assert_eq!((kept.dropped, kept.without_room, kept.fault), (0, 0, None), "{policy}");
            assert_eq!(log.messages.len() as u64, messages, "{policy}");
            assert_eq!(texts(&log), texts(&capture), "{policy}");
            assert_eq!(log.messages[0].from, capture.messages[0].from, "{policy}");
        }
        let (_, log, _) = kept("slowest:1", u64::MAX);
        let call = String::from_utf8(token(3).digits().to_vec()).unwrap();
        assert!(
            texts(&log).iter().all(|text| text.contains(&call)),
            "without a final response it is the slowest"
        );
    }

    #[test]
    fn messages_without_room_are_counted() {
        let (kept, log, _) = kept("all", 1500);
        assert!(kept.messages > 0 && kept.messages + kept.without_room == 9, "{kept:?}");
        assert_eq!(log.messages.len() as u64, kept.messages);
    }

    #[test]
    fn a_share_of_the_attempts_is_kept_whole() {
        let folder = tempfile::tempdir().unwrap();
        let order = KeepOrder {
            policy: "sample:10%".parse().unwrap(),
            to: folder.path().join("kept"),
            most_bytes: u64::MAX,
        };
        let keeper = Keeper::begin(&order).unwrap();
        let mut tap = keeper.tap();
        for index in 0..5000 {
            pass(&mut *tap, index, "INVITE", Transport::Udp);
            pass(&mut *tap, index, "ACK", Transport::Udp);
            if index % 100 == 0 {
                tap.hand_on();
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        drop(tap);
        let kept = keeper.finish();
        let attempts = kept.attempts.unwrap();
        assert_eq!(kept.messages, 2 * attempts, "{kept:?}");
        // Five standard deviations of a binomial distribution.
        assert!((394..=606).contains(&attempts), "{kept:?}");
    }

    #[test]
    fn nothing_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("kept.pcapng"), "mine").unwrap();
        let order = KeepOrder { policy: KeepPolicy::All, to: folder.path().join("kept"), most_bytes: 1 };
        let error = Keeper::begin(&order).err().unwrap().to_string();
        assert!(error.contains("kept.pcapng exists"), "{error}");
        assert_eq!(fs::read(folder.path().join("kept.pcapng")).unwrap(), b"mine");
        assert!(!folder.path().join("kept.log").exists(), "and nothing is left behind");
    }

    /// In the capture, a message of a connection is an exported PDU. A message over TLS is exported as TCP.
    #[test]
    fn messages_of_connections_are_in_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let order =
            KeepOrder { policy: KeepPolicy::All, to: folder.path().join("kept"), most_bytes: u64::MAX };
        let keeper = Keeper::begin(&order).unwrap();
        let mut tap = keeper.tap();
        pass(&mut *tap, 1, "INVITE", Transport::Tls);
        drop(tap);
        let kept = keeper.finish();
        let log = SipTrace::read(&fs::read(&kept.log).unwrap()).unwrap();
        assert_eq!(log.messages[0].transport, Transport::Tls);
        let capture = SipTrace::read(&fs::read(&kept.capture).unwrap()).unwrap();
        assert_eq!(capture.messages[0].transport, Transport::Tcp);
        assert_eq!(texts(&log), texts(&capture));
    }
}
