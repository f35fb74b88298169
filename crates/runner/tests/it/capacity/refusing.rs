//! Settings that make no search.

use netrig_runner::capacity::{Evidence, Search, Settings, Threshold};

use super::{settings, with};

#[track_caller]
fn refused(settings: Settings, words: &str) {
    let error = Search::new(settings).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn they_are_refused_with_what_they_may_be() {
    assert!(Search::new(settings()).is_ok());
    refused(
        Settings { start: 0.5, ..settings() },
        "start must be from the lowest to the highest rate, not 0.5",
    );
    refused(Settings { start: 2000.0, highest: 1000.0, ..settings() }, "start must be");
    refused(Settings { start: f64::NAN, ..settings() }, "start must be");
    refused(Settings { lowest: 0.0, ..settings() }, "lowest must be positive and finite, not 0");
    refused(Settings { linger_s: f64::INFINITY, ..settings() }, "linger must be finite, and not negative");
    refused(Settings { most_steps: 0, ..settings() }, "most steps must be at least 1");
    let mut unbound = settings();
    unbound.thresholds.push(Threshold { most_s: 0.0, ..unbound.thresholds[0].clone() });
    refused(unbound, "a threshold must be positive");
    refused(with(settings(), |sequential| sequential.factor = 1.0), "factor must be above 1");
    refused(
        with(settings(), |sequential| sequential.precision = 0.0),
        "precision must be above 0 and below 1",
    );
    refused(with(settings(), |sequential| sequential.most_s = 4.0), "at least the least span");
    refused(
        with(settings(), |sequential| sequential.within_s = f64::INFINITY),
        "the time for all steps must be finite",
    );
    let test = Evidence { good: 0.001, bad: 0.001, alpha: 0.01, beta: 0.05 };
    refused(with(settings(), |sequential| sequential.test = test), "good must be above 0 and below bad");
    let test = Evidence { good: 0.0001, bad: 0.001, alpha: 0.5, beta: 0.5 };
    refused(with(settings(), |sequential| sequential.test = test), "alpha + beta must be below 1");
    refused(Settings::design_objective("calls", 100.0, 0.0), "increment must be positive");
    refused(Settings::rfc7502("calls", 100.5), "a whole number of sessions");
}

#[test]
fn a_key_that_is_none_is_refused() {
    let mut text = serde_json::to_value(settings()).unwrap();
    assert_eq!(serde_json::from_value::<Settings>(text.clone()).unwrap(), settings());
    text["mode"]["sequential"]["factory"] = 3.into();
    assert!(serde_json::from_value::<Settings>(text).unwrap_err().to_string().contains("factory"));
}
