//! Calls and video through simulated networks, whose quality can be computed by hand.

use std::collections::BTreeMap;

use netrig_test_support::ExperimentText;
use netrig_tests::simulate;

/// The metrics of one flow with this application over a line of 10 Mbit/s and 50 ms with this loss, after 200 s.
fn measure(application: &str, loss: &str, metrics: &[&str]) -> BTreeMap<String, f64> {
    let mut text = ExperimentText::new("media", "200 s")
        .nodes("a b")
        .fifo("line", "a b", ("10 Mbit/s", "50 ms", 1000), loss)
        .table("transport.t", r#"kind = "udp""#)
        .flow("f", "a b", &format!(r#"transport = "t", application = {application}"#))
        .build();
    for metric in metrics {
        text += &format!("[response.{metric}]\nof = \"flow.f\"\nmetric = \"{metric}\"\n");
    }
    simulate(&text, None, 1, |_| true).remove(0).responses
}

const VOICE: [&str; 4] = ["voice_rating", "voice_opinion", "voice_missing", "voice_delay"];

/// The delay has 20 ms of packetisation, 50 ms and 200 B at 10 Mbit/s on the line, and 40 ms of playout buffer. The
/// approximation of Cole and Rosenbluth subtracts 0.024 per ms from 93.2; its error is at most 1.
#[test]
fn a_call_over_a_clear_line() {
    let call = measure("{ kind = 'voice', codec = 'g711' }", "", &VOICE);
    assert_eq!(call["voice_missing"], 0.0);
    assert!((call["voice_delay"] - 0.110_16).abs() < 1e-9, "{}", call["voice_delay"]);
    assert!((call["voice_rating"] - (93.2 - 0.024 * 110.16)).abs() < 1.0, "{}", call["voice_rating"]);
}

/// Random loss of 2 %; five standard errors of 9,998 packets are 0.7 %. By the formula of G.107, the rating R of G.711
/// falls by 95 · 2/(2 + 4.3) = 30.2 without concealment and by 95 · 2/(2 + 25.1) = 7.0 with it, and that of G.729A by
/// 11 + 84 · 2/21 = 19.0. The burst ratio of random loss is 1.
#[test]
fn what_codecs_make_of_random_loss() {
    let loss = "loss = { kind = 'bernoulli', probability = '2 %' }";
    for (codec, impairment) in [("g711", 30.2), ("g711-plc", 7.0), ("g729a", 19.0)] {
        let application = format!("{{ kind = 'voice', codec = '{codec}' }}");
        let [clear, lossy] = ["", loss].map(|loss| measure(&application, loss, &VOICE));
        assert!((lossy["voice_missing"] - 0.02).abs() < 0.007, "{}", lossy["voice_missing"]);
        let base = if codec == "g729a" { clear["voice_rating"] + 11.0 } else { clear["voice_rating"] };
        // The steepest of the three curves has a slope of 6.4 per per cent at 2 %, so that a deviation of 0.7 % changes
        // the rating by 4.5.
        assert!(
            (base - lossy["voice_rating"] - impairment).abs() < 4.5,
            "{codec}: {}",
            lossy["voice_rating"]
        );
    }
}

/// The clip has 114 packets in three seconds. Every 1000th packet is lost, which is 7.6 losses among 5000 pictures. A
/// loss damages the pictures up to the next key picture: at least 1 and at most 25.
#[test]
fn pictures_without_some_packets() {
    let video = "{ kind = 'video' }";
    assert_eq!(measure(video, "", &["video_intact"])["video_intact"], 1.0);
    let intact =
        measure(video, "loss = { kind = 'periodic', every = 1000 }", &["video_intact"])["video_intact"];
    let damaged = (1.0 - intact) * 5000.0;
    assert!((7.0..=8.0 * 25.0).contains(&damaged), "{damaged}");
}

/// With the same seed the same packets are lost, so a repeated run gives the same figures.
#[test]
fn twice_is_the_same() {
    let application = "{ kind = 'voice', talk = 'spurts', playout = 'adaptive' }";
    let loss = "loss = { kind = 'bernoulli', probability = '1 %' }";
    assert_eq!(measure(application, loss, &VOICE), measure(application, loss, &VOICE));
}
