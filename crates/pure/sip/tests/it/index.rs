//! Indices of RFC 6076, with examples computed by hand.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

use netrig_core::{Duration, Instant};
use netrig_sip::index::quantity::{SIP_REGISTERED, SIP_REGISTRATIONS, SIP_SESSIONS};
use netrig_sip::index::{Delay, DelayStatistic, Ratios, Tally, ThresholdVerdict, Thresholds, quantities};
use netrig_sip::load::{AttemptCounts, CalleeAction, Failure, Key, Owner, Record, Side, Stamps, Token, What};
use netrig_sip::transaction::Timer;

const NEVER: Instant = Instant::NEVER;

fn ms(n: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(n)
}

fn span(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A record with these times of `[request, ringing, answered, acknowledged, ending, ended]`.
fn record(what: What, status: u16, failure: Option<Failure>, times: [Instant; 6]) -> Record {
    let [request, ringing, answered, acknowledged, ending, ended] = times;
    let stamps = Stamps {
        intended: request,
        request,
        trying: NEVER,
        ringing,
        answered,
        acknowledged,
        ending,
        ended,
        changing: NEVER,
        changed: NEVER,
        cancelling: NEVER,
        unended: NEVER,
    };
    let key = Key { index: 0, generation: 0 };
    let token = Token { run: 1, shard: 0, owner: Owner::Caller(CalleeAction::Answer), key };
    let side = match what {
        What::Answer => Side::Callee,
        What::Register | What::Renew | What::Unregister => Side::Registrant,
        _ => Side::Caller,
    };
    Record {
        token,
        side,
        what,
        user: 0,
        failure,
        status,
        stamps,
        counts: AttemptCounts::default(),
        lookup: None,
    }
}

fn tally_of(records: &[Record]) -> Tally {
    let mut tally = Tally::default();
    for record in records {
        if !record.what.is_unasked() {
            tally.begun(record.what);
        }
        tally.record(record);
    }
    tally
}

/// A call that was answered: ringing at 80 ms, 200 at 2000, BYE at 62,000, its 200 at 62,030.
fn answered() -> Record {
    record(What::Call, 200, None, [ms(0), ms(80), ms(2000), ms(2001), ms(62_000), ms(62_030)])
}

fn refused(status: u16) -> Record {
    let times = [ms(0), NEVER, ms(40), ms(40), NEVER, NEVER];
    record(What::Call, status, Some(Failure::Status(status)), times)
}

fn silent() -> Record {
    let failure = Some(Failure::TimedOut(Timer::B));
    record(What::Call, 0, failure, [ms(0), NEVER, NEVER, NEVER, NEVER, NEVER])
}

fn only(tally: &Tally, delay: Delay) -> Option<Duration> {
    let spans = tally.delay(delay);
    assert!(spans.count() <= 1);
    spans.max()
}

#[test]
fn the_delays_of_a_call() {
    let tally = tally_of(&[answered()]);
    for (delay, expected) in [
        (Delay::Connection, Some(80)),
        (Delay::SessionRequest, Some(80)),
        (Delay::SessionRequestFailed, None),
        (Delay::Disconnect, Some(30)),
        (Delay::SessionDuration, Some(60_000)),
        // From the INVITE to the 200 of the BYE it took 62,030 ms, of which 60,000 were the call.
        (Delay::Total, Some(2030)),
        (Delay::Invite, Some(2000)),
        (Delay::Redirect, None),
    ] {
        assert_eq!(only(&tally, delay), expected.map(span), "{delay:?}");
    }
    // Without a provisional response, the 200 is the first response.
    let times = [ms(0), NEVER, ms(700), ms(700), ms(800), ms(830)];
    let tally = tally_of(&[record(What::Call, 200, None, times)]);
    assert_eq!(only(&tally, Delay::SessionRequest), Some(span(700)));
    assert_eq!(only(&tally, Delay::Connection), None);
}

/// The request delay of failed calls is counted separately, and no other delay is measured.
#[test]
fn the_delays_of_a_call_that_is_refused() {
    let tally = tally_of(&[refused(503)]);
    assert_eq!(only(&tally, Delay::SessionRequestFailed), Some(span(40)));
    assert_eq!([Delay::SessionRequest, Delay::Connection].map(|delay| only(&tally, delay)), [None; 2]);
    // RFC 6076 does not count an unanswered challenge among the failures with 4xx.
    let tally = tally_of(&[refused(407)]);
    assert_eq!(only(&tally, Delay::SessionRequestFailed), None);
    assert_eq!(only(&tally_of(&[silent()]), Delay::SessionRequestFailed), None);
}

#[test]
fn a_bye_that_is_refused_is_no_disconnection() {
    let times = [ms(0), ms(80), ms(2000), ms(2001), ms(3000), ms(3050)];
    let mut refused = record(What::Call, 200, Some(Failure::Status(481)), times);
    refused.stamps.unended = ms(3050);
    let tally = tally_of(&[refused]);
    assert_eq!([Delay::Disconnect, Delay::Total].map(|delay| only(&tally, delay)), [None; 2]);
    assert_eq!(only(&tally, Delay::DisconnectRefused), Some(span(50)));
    assert_eq!(only(&tally, Delay::DisconnectFailed), None);
    // The call counts as completed, because its BYE got a response.
    assert_eq!(Ratios::of(&tally).scr, Some(1.0));
}

/// The delay of a disconnect ends with the 2xx or the timeout (RFC 6076 section 4.4). Delays that end with the timeout
/// are counted separately, whatever else failed in the call. A call that broke another rule and whose BYE was answered
/// has no failed disconnect.
#[test]
fn a_disconnect_fails_at_the_expiry_of_timer_f() {
    for failure in [Failure::TimedOut(Timer::F), Failure::Rule("RFC 3261 section 12.1.1")] {
        let mut lost =
            record(What::Call, 200, Some(failure), [ms(0), ms(80), ms(2000), ms(2001), ms(3000), NEVER]);
        lost.stamps.unended = ms(35_000);
        let tally = tally_of(&[lost]);
        assert_eq!(only(&tally, Delay::DisconnectFailed), Some(span(32_000)));
        assert_eq!([Delay::Disconnect, Delay::DisconnectRefused].map(|delay| only(&tally, delay)), [None; 2]);
        assert_eq!(Ratios::of(&tally).scr, Some(0.0));
    }
    let times = [ms(0), ms(80), ms(2000), ms(2001), ms(3000), ms(3050)];
    let tally = tally_of(&[record(What::Call, 200, Some(Failure::Rule("RFC 3261 section 12.1.1")), times)]);
    let delays = [Delay::Disconnect, Delay::DisconnectFailed, Delay::DisconnectRefused];
    assert_eq!(delays.map(|delay| only(&tally, delay)), [None; 3]);
}

/// A CANCEL that the 200 overtakes ends nothing: the session lasts until the BYE, and only the BYE is answered.
#[test]
fn a_session_ends_with_its_bye_and_not_with_a_cancel() {
    for what in [What::Call, What::Cancel] {
        let failure = (what == What::Cancel).then_some(Failure::Status(200));
        let mut crossed = record(what, 200, failure, [ms(0), ms(10), ms(100), ms(101), ms(130), ms(150)]);
        crossed.stamps.cancelling = ms(90);
        let tally = tally_of(&[crossed]);
        assert_eq!(only(&tally, Delay::SessionDuration), Some(span(30)));
        assert_eq!(only(&tally, Delay::Disconnect), (what == What::Call).then_some(span(20)));
        assert_eq!(only(&tally, Delay::Cancel), None);
    }
    let mut cancelled = record(What::Cancel, 487, None, [ms(0), ms(10), ms(95), ms(95), NEVER, NEVER]);
    cancelled.stamps.cancelling = ms(90);
    assert_eq!(only(&tally_of(&[cancelled]), Delay::Cancel), Some(span(5)));
}

#[test]
fn who_is_called_measures_the_answer_signal() {
    let times = [ms(0), ms(1), ms(10), ms(14), ms(20), ms(20)];
    let tally = tally_of(&[record(What::Answer, 200, None, times)]);
    assert_eq!(only(&tally, Delay::AnswerSignal), Some(span(4)));
    assert_eq!(tally.outcomes(What::Answer).begun, 1);
    assert_eq!(tally.total(&SIP_SESSIONS), 0, "a session is counted where it is asked for");
}

/// Ten sessions: five answered, one of them with an unanswered BYE, one redirected, one busy, one declined, one 503, one without
/// any response.
#[test]
fn ratios_of_sessions() {
    let mut lost = answered();
    (lost.failure, lost.stamps.ended) = (Some(Failure::TimedOut(Timer::F)), NEVER);
    let all =
        [answered(), answered(), answered(), answered(), lost, refused(302), refused(486), refused(603)];
    let tally = tally_of(&[&all[..], &[refused(503), silent()]].concat());
    let Ratios { ser, seer, isa, scr, ira } = Ratios::of(&tally);
    assert_eq!((ser, seer), (Some(5.0 / 9.0), Some(7.0 / 9.0)));
    assert_eq!((isa, scr, ira), (Some(2.0 / 10.0), Some(4.0 / 10.0), None));
    assert_eq!(
        Ratios::of(&tally).known().map(|(name, _)| name).collect::<Vec<_>>(),
        ["SER", "SEER", "ISA", "SCR"]
    );
    // These refusals count neither as refusals by the user nor as ineffective attempts.
    let tally = tally_of(&[answered(), refused(404), refused(401), refused(420)]);
    let Ratios { ser, seer, isa, .. } = Ratios::of(&tally);
    assert_eq!((ser, seer, isa), (Some(0.25), Some(0.25), Some(0.0)));
    let Ratios { ser, isa, .. } = Ratios::of(&tally_of(&[refused(302)]));
    assert_eq!((ser, isa), (None, Some(0.0)));
}

/// Five registrations: two that succeed (one of them after a challenge), one forbidden, one that timer F ends, one whose
/// credentials are refused, which is not an *ineffective* attempt.
#[test]
fn ratios_of_registrations() {
    let of = |status, failure| {
        record(What::Register, status, failure, [ms(0), NEVER, ms(25), NEVER, NEVER, NEVER])
    };
    let mut challenged = of(200, None);
    challenged.counts.challenges = 1;
    let tally = tally_of(&[
        of(200, None),
        challenged,
        of(403, Some(Failure::Status(403))),
        of(0, Some(Failure::TimedOut(Timer::F))),
        of(401, Some(Failure::Authentication)),
    ]);
    assert_eq!((tally.total(&SIP_REGISTERED), tally.total(&SIP_REGISTRATIONS)), (2, 5));
    assert_eq!(Ratios::of(&tally).ira, Some(0.4));
    assert_eq!((tally.delay(Delay::Registration).count(), tally.tolerated().challenges), (2, 1));
    assert_eq!(tally.delay(Delay::Registration).mean(), Some(span(25)));
}

#[test]
fn all_that_was_begun_is_accounted_for() {
    let mut tally = tally_of(&[answered(), refused(486), refused(486), silent()]);
    tally.begun(What::Call);
    let calls = tally.outcomes(What::Call);
    assert_eq!((calls.begun, calls.succeeded, calls.failed, calls.open()), (5, 1, 3, 1));
    let failures: Vec<_> = tally.failures().collect();
    let expected = [(Failure::TimedOut(Timer::B), 1), (Failure::Status(486), 2)];
    assert_eq!(failures, expected.map(|(failure, count)| (What::Call, failure, count)));
    let mut twice = tally.clone();
    twice.merge(&tally);
    assert_eq!((twice.outcomes(What::Call).begun, twice.total(&SIP_SESSIONS)), (10, 8));
    assert_eq!(twice.failures().map(|(_, _, count)| count).sum::<u64>(), 6);
    assert_eq!(twice.delay(Delay::Invite).count(), 6);
}

/// The mean may be within a bound when the 95th percentile is not.
#[test]
fn thresholds_hold_what_they_are_told_to_hold() {
    let with = |ringing| {
        let times = [ms(0), ms(ringing), ms(3000), ms(3000), ms(3000), ms(3010)];
        record(What::Call, 200, None, times)
    };
    let records: Vec<_> = (0..10).map(|n| with(if n == 0 { 2000 } else { 100 })).collect();
    let tally = tally_of(&records);
    let kept = |statistic| {
        let thresholds = Thresholds { statistic, ..Thresholds::default() };
        let verdicts = thresholds.judge(&tally);
        let connection = verdicts
            .iter()
            .find(|verdict| matches!(verdict, ThresholdVerdict::Delay { delay: Delay::Connection, .. }));
        connection.unwrap().is_kept()
    };
    // The mean is 290 ms. The 95th percentile of ten is no longer the second longest.
    assert_eq!(
        [DelayStatistic::Mean, DelayStatistic::P95, DelayStatistic::Max].map(kept),
        [true, false, false]
    );
    let tally = tally_of(&[answered(), silent()]);
    let verdicts = Thresholds::default().judge(&tally);
    let success = ThresholdVerdict::Success { what: What::Call, was: 0.5, least: 0.999 };
    assert!(verdicts.contains(&success) && !success.is_kept());
    assert!(
        !verdicts
            .iter()
            .any(|verdict| matches!(verdict, ThresholdVerdict::Delay { delay: Delay::Redirect, .. }))
    );
}

/// Runs and reports find a quantity by its name.
#[test]
fn quantities_of_sip_have_names_of_their_own() {
    let mut names: Vec<_> = quantities()
        .chain(netrig_core::quantity::ALL.iter().copied())
        .map(|quantity| quantity.name)
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
