//! Settings outside their ranges.

use netrig_sip_tester::capacity::{CapacitySearch, FailureShareTest, SearchSettings, Threshold};

use super::{settings, with};

#[track_caller]
fn refused(settings: SearchSettings, words: &str) {
    let error = CapacitySearch::new(settings).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn they_are_refused_with_what_they_may_be() {
    assert!(CapacitySearch::new(settings()).is_ok());
    refused(
        SearchSettings { start: 0.5, ..settings() },
        "start is 0.5/s; expected: between lowest, which is 1/s, and highest, which is 1000000/s",
    );
    refused(SearchSettings { start: 2000.0, highest: 1000.0, ..settings() }, "highest, which is 1000/s");
    refused(SearchSettings { start: f64::NAN, ..settings() }, "start is NaN/s");
    refused(SearchSettings { lowest: 0.0, ..settings() }, "lowest is 0/s; expected: above 0 and finite");
    refused(
        SearchSettings { linger_s: f64::INFINITY, ..settings() },
        "linger_s is inf s; expected: at least 0 and finite",
    );
    refused(SearchSettings { most_steps: 0, ..settings() }, "most_steps is 0; expected: at least 1");
    let mut unbound = settings();
    unbound.thresholds.push(Threshold { most_s: 0.0, ..unbound.thresholds[0].clone() });
    refused(unbound, "thresholds.most_s is 0 s; expected: above 0");
    refused(with(settings(), |sequential| sequential.factor = 1.0), "factor is 1; expected: above 1");
    refused(
        with(settings(), |sequential| sequential.precision = 0.0),
        "precision is 0; expected: above 0 and below 1",
    );
    refused(
        with(settings(), |sequential| sequential.most_s = 4.0),
        "most_s is 4 s; expected: finite and at least least_s, which is 5 s",
    );
    refused(
        with(settings(), |sequential| sequential.within_s = 1.0),
        "within_s is 1 s; expected: finite and at least",
    );
    refused(with(settings(), |sequential| sequential.within_s = f64::INFINITY), "within_s is inf s");
    let test = FailureShareTest { good: 0.001, bad: 0.001, alpha: 0.01, beta: 0.05 };
    refused(
        with(settings(), |sequential| sequential.test = test),
        "test.good is 0.001; expected: above 0 and below test.bad, which is 0.001",
    );
    let test = FailureShareTest { good: 0.0001, bad: 0.001, alpha: 0.5, beta: 0.5 };
    refused(
        with(settings(), |sequential| sequential.test = test),
        "test.beta is 0.5; expected: above 0 and below 1 - test.alpha, which is 0.5",
    );
    refused(SearchSettings::design_objective("calls", 100.0, 0.0), "increment is 0/s; expected: above 0");
    refused(
        SearchSettings::rfc7502("calls", 100.5),
        "start is 100.5/s; expected: a whole number of sessions",
    );
    refused(
        SearchSettings::rfc7502("calls", 3.0),
        "start is 3/s; expected: high enough that increase, which is 0.1, raises it by at least 1/s",
    );
}

#[test]
fn a_key_that_is_none_is_refused() {
    let mut text = serde_json::to_value(settings()).unwrap();
    assert_eq!(serde_json::from_value::<SearchSettings>(text.clone()).unwrap(), settings());
    text["mode"]["sequential"]["factory"] = 3.into();
    assert!(serde_json::from_value::<SearchSettings>(text).unwrap_err().to_string().contains("factory"));
}
