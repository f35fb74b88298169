//! The E-model compared with published numbers.

use std::collections::BTreeMap;

use netrig_stats::theory::curve;
use netrig_stats::theory::e_model::{Codec, TelephoneCall, opinion};
use proptest::prelude::*;

use crate::near;

/// G.107 section 7.7: with default parameters the rating is 93.2. By Annex B this is a mean opinion score of 4.41.
#[test]
fn a_call_that_nothing_impairs() {
    let call = TelephoneCall::new(Codec::G711);
    near(call.rating().unwrap(), 93.2, 0.05);
    near(call.opinion().unwrap(), 4.41, 0.005);
}

/// G.107 Annex B, Table B.1: the lower limits of the categories of user satisfaction. For a rating of 80 the table
/// rounds the score 4.024 up.
#[test]
fn ratings_and_opinions_of_annex_b() {
    for (rating, score) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
        near(opinion(rating), score, 0.0065);
    }
    assert_eq!((opinion(-3.0), opinion(0.0), opinion(100.0), opinion(120.0)), (1.0, 1.0, 4.5, 4.5));
}

/// G.113 (02/2001) Appendix I, Tables I.2 and I.3: impairments at random losses in per cent, as listeners judged them.
/// The formula was fitted to these impairments later. The impairments are in steps of 1, and for G.711 with concealment
/// in coarser steps.
#[test]
fn impairment_by_loss_as_listeners_judged_it() {
    let g729a = [
        (0.0, 11.0),
        (0.5, 13.0),
        (1.0, 15.0),
        (1.5, 17.0),
        (2.0, 19.0),
        (3.0, 23.0),
        (4.0, 26.0),
        (8.0, 36.0),
        (16.0, 49.0),
    ];
    let g723_1 = [
        (0.0, 15.0),
        (0.5, 17.0),
        (1.0, 19.0),
        (1.5, 22.0),
        (2.0, 24.0),
        (3.0, 27.0),
        (4.0, 32.0),
        (8.0, 41.0),
        (16.0, 55.0),
    ];
    let g723_1_codec = Codec { impairment: 15.0, robustness: 16.1 };
    let g711 = [
        (0.0, 0.0),
        (1.0, 5.0),
        (2.0, 7.0),
        (3.0, 10.0),
        (5.0, 15.0),
        (7.0, 20.0),
        (10.0, 25.0),
        (15.0, 35.0),
        (20.0, 45.0),
    ];
    for (codec, table, within) in
        [(Codec::G729A, &g729a, 1.0), (g723_1_codec, &g723_1, 1.2), (Codec::G711_CONCEALED, &g711, 3.0)]
    {
        for (percent, impairment) in table {
            near(codec.effective_impairment(percent / 100.0, 1.0).unwrap(), *impairment, within);
        }
    }
}

/// Cole and Rosenbluth (2001), *Voice over IP performance monitoring*, fitted the delay impairment of the standard with
/// default parameters by 0.024 d + 0.11 (d - 177.3) H(d - 177.3), d in ms. Above 350 ms these two straight lines differ
/// from the standard's curve.
#[test]
fn delay_beside_the_fit_of_cole_and_rosenbluth() {
    let best = TelephoneCall::new(Codec::G711).rating().unwrap();
    for delay_ms in [25.0, 50.0, 100.0, 150.0, 200.0, 250.0, 300.0, 350.0] {
        let call = TelephoneCall { delay_s: delay_ms / 1000.0, ..TelephoneCall::new(Codec::G711) };
        let fit = 0.024 * delay_ms + 0.11 * f64::max(0.0, delay_ms - 177.3);
        near(best - call.rating().unwrap(), fit, 2.0);
    }
}

/// Bursts of loss that are twice as long as with random loss cause a larger impairment. For G.729A at 2 % loss it is
/// 11 + 84 · 2 / 20 instead of 11 + 84 · 2 / 21.
#[test]
fn bursts_of_loss() {
    near(Codec::G729A.effective_impairment(0.02, 1.0).unwrap(), 19.0, 1e-9);
    near(Codec::G729A.effective_impairment(0.02, 2.0).unwrap(), 19.4, 1e-9);
}

#[test]
fn the_curves_and_what_they_refuse() {
    let rating = curve("e_model_rating").unwrap();
    let loss = |loss: f64| BTreeMap::from([("loss", loss)]);
    let g711 = TelephoneCall { delay_s: 0.1, loss: 0.01, ..TelephoneCall::new(Codec::G711) };
    assert_eq!(rating.at(0.1, &loss(0.01)), g711.rating());
    let score = curve("e_model_opinion").unwrap();
    assert_eq!(score.at(0.1, &loss(0.01)), g711.opinion());
    assert!(rating.at(0.1, &loss(1.5)).unwrap_err().to_string().contains("loss must be from 0 to 1"));
    assert!(rating.at(-0.1, &loss(0.0)).is_err());
}

proptest! {
    /// More loss or longer bursts never improve a call, and scores stay within 1 to 4.5.
    #[test]
    fn nothing_improves_a_call_but_its_absence(
        delay in 0.0..2.0_f64,
        loss in 0.0..1.0_f64,
        burst in 1.0..10.0_f64,
        more in 0.0..0.5_f64,
    ) {
        let call = TelephoneCall { delay_s: delay, loss, burst_ratio: burst, ..TelephoneCall::new(Codec::G729A) };
        let rating = call.rating().unwrap();
        let lost = (loss + more * (1.0 - loss)).min(1.0);
        for worse in [TelephoneCall { loss: lost, ..call }, TelephoneCall { burst_ratio: burst + more, ..call }] {
            prop_assert!(worse.rating().unwrap() <= rating + 1e-9);
        }
        prop_assert!(call.codec.effective_impairment(loss, burst).unwrap() <= 95.0);
        prop_assert!((1.0..=4.5).contains(&call.opinion().unwrap()));
    }
}
