//! Metrics of the quality of calls and of video at the receiver.

use netrig_core::quantity::{DATAGRAMS_SENT, MEDIA_DELAY, MEDIA_NUMBER};
use netrig_traffic::{CallQuality, MediaArrival, Settings, VideoQuality};

use super::super::Per;
use super::{MeasuredValue, Need, View, metrics};

metrics! {
    of Flow;
    "voice_rating" ["1"].per(Per::Mean).computed(|_| needs(), |view| of_call(view, |quality| quality.rating)):
        "Transmission rating R of the E-model (ITU-T G.107) for the call in the measuring window. It \
         depends on the delay from mouth to ear, on the packets that were lost or too late for the \
         play-out buffer, and on their burst ratio.";
    "voice_opinion" ["1"].per(Per::Mean).computed(|_| needs(), |view| of_call(view, |quality| quality.opinion)):
        "Mean opinion score, 1 to 4.5, that the E-model (ITU-T G.107 Annex B) expects for the call in the \
         measuring window.";
    "voice_missing" ["1"].share().per(Per::Mean).computed(|_| needs(), |view| of_call(view, |quality| quality.missing)):
        "Share of the call's packets in the measuring window that were lost or too late to be played.";
    "voice_delay" ["s"].per(Per::Mean).computed(|_| needs(), |view| of_call(view, |quality| quality.delay_s)):
        "Delay from mouth to ear in the measuring window: coding, network and play-out buffer.";
    "video_intact" ["1"].share().per(Per::Mean).computed(|_| needs(), intact):
        "Share of the pictures of a `video` in the measuring window that were shown as they were sent: \
         all their packets arrived in time, and so did those of all pictures back to the last key \
         picture, on which they depend.";
}

fn of_call(view: &View<'_>, of: fn(&CallQuality) -> f64) -> MeasuredValue {
    match quality(view) {
        Ok(quality) => of(&quality).into(),
        Err(why) => MeasuredValue::not(why),
    }
}

fn needs() -> Vec<Need> {
    vec![Need::Marks(&MEDIA_NUMBER), Need::Marks(&MEDIA_DELAY), Need::Total(&DATAGRAMS_SENT)]
}

/// The quality of the part of a call in the measuring window.
fn quality(view: &View<'_>) -> Result<CallQuality, String> {
    let Some(Settings::Voice(voice)) = view.application() else {
        return Err("the flow's application is no voice".to_owned());
    };
    let (first, sent, received) = received(view);
    CallQuality::of(voice, first, sent, received)
}

/// The datagrams of the measuring window: the sequence number of the first, the number of sent datagrams, and the
/// received datagrams.
fn received(view: &View<'_>) -> (u64, u64, Vec<MediaArrival>) {
    let numbers = view.marks_in_window(&MEDIA_NUMBER);
    let received: Vec<MediaArrival> = numbers
        .zip(view.marks_in_window(&MEDIA_DELAY))
        .map(|(number, delay)| MediaArrival {
            number: number.value as u64,
            sent_s: number.at.as_secs_f64() - delay.value,
            delay_s: delay.value,
        })
        .collect();
    // If the window starts within a call, the first sent number is unknown, and the smallest received number is taken.
    let first = received
        .iter()
        .map(|received| received.number)
        .min()
        .filter(|_| !view.begins_with_flow())
        .unwrap_or(0);
    (first, view.total(&DATAGRAMS_SENT) as u64, received)
}

/// Share of intact pictures.
fn intact(view: &View<'_>) -> MeasuredValue {
    let Some(Settings::Video(video)) = view.application() else {
        return MeasuredValue::not("the flow's application is no video");
    };
    let (first, sent, received) = received(view);
    match VideoQuality::of(video, first, sent, received) {
        Ok(quality) => quality.intact.into(),
        Err(why) => MeasuredValue::not(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::bench::{Bench, flow};

    /// A call of ten seconds of G.711 with a datagram every 20 ms, from 20 ms on. The delay is 50 ms, and every
    /// twentieth datagram is lost. Of 500 datagrams, the last three are still in the network at the end.
    fn call() -> Bench {
        let mut bench = Bench::new(10);
        bench.layout.flows[0].application = toml::from_str("[voice]\ncodec = 'g711'").unwrap();
        bench.count(flow(), &DATAGRAMS_SENT, &[(5.0, 249.0), (10.0, 248.0)]);
        for number in (0..497).filter(|number| number % 20 != 19) {
            let at = 0.02 * f64::from(number + 1) + 0.05;
            bench.count(flow(), &MEDIA_NUMBER, &[(at, f64::from(number))]);
            bench.count(flow(), &MEDIA_DELAY, &[(at, 0.05)]);
        }
        bench
    }

    /// 24 of 497 datagrams are lost, each separately. The delay is 20 + 50 + 40 ms. The expected Ie-eff is that of
    /// G.107, the expected effect of the delay that of Cole and Rosenbluth, with a tolerance of 1.
    #[test]
    fn a_call_with_loss() {
        let mut bench = call();
        let mut of = |metric: &str| bench.measure(&format!("of = 'flow.web'\nmetric = '{metric}'")).unwrap();
        let share = 24.0 / 497.0;
        assert!((of("voice_missing") - share).abs() < 1e-12);
        assert!((of("voice_delay") - 0.11).abs() < 1e-9);
        let percent = 100.0 * share;
        let impairment = 95.0 * percent / (percent / (1.0 - share) + 4.3);
        let expected = 93.2 - impairment - 0.024 * 110.0;
        assert!((of("voice_rating") - expected).abs() < 1.0, "{} for {expected}", of("voice_rating"));
        assert!((1.0..3.0).contains(&of("voice_opinion")));
    }

    /// The window is the second half of the call, so earlier losses do not count.
    #[test]
    fn a_part_of_a_call() {
        let mut bench = call();
        let missing = bench.measure("of = 'flow.web'\nmetric = 'voice_missing'\nafter = '5 s'").unwrap();
        assert!((missing - 12.0 / 248.0).abs() < 0.01, "{missing}");
    }

    /// The clip is sent once, without packet 0. So no picture before the second key picture is intact, and 50 of 75 are
    /// intact.
    #[test]
    fn pictures_without_their_first_packet() {
        let mut bench = Bench::new(10);
        bench.layout.flows[0].application = toml::from_str("[video]").unwrap();
        let clip = netrig_traffic::Clip::moving();
        bench.count(flow(), &DATAGRAMS_SENT, &[(5.0, clip.packets().len() as f64)]);
        for number in 1..clip.packets().len() {
            let at = 0.1 + number as f64 / 1000.0;
            bench.count(flow(), &MEDIA_NUMBER, &[(at, number as f64)]);
            bench.count(flow(), &MEDIA_DELAY, &[(at, 0.05)]);
        }
        let intact = bench.measure("of = 'flow.web'\nmetric = 'video_intact'").unwrap();
        assert!((intact - 50.0 / 75.0).abs() < 1e-12, "{intact}");
    }

    #[test]
    fn only_voice_is_a_call() {
        let mut bench = Bench::new(10);
        let error = bench.measure("of = 'flow.web'\nmetric = 'voice_rating'").unwrap_err();
        assert_eq!(error, "the flow's application is no voice");
        bench.layout.flows[0].application = toml::from_str("[voice]").unwrap();
        let error = bench.measure("of = 'flow.web'\nmetric = 'voice_rating'").unwrap_err();
        assert_eq!(error, "no packet of voice was sent");
    }
}
