//! Settings of calls that follow a scenario file, and of the rule test of a server.

use netrig_core::setting::SettingsTable as _;
use netrig_core::{Duration, SpanDistribution};

use super::TESTED_USERS;
use super::error::{SettingError, wrong};
use super::load::{Connections, LoadSettings};
use crate::load::Plan;

impl LoadSettings {
    /// Keys without an effect on calls that follow a scenario file.
    pub const SAID_BY_SCRIPTS: [&str; 18] = [
        "callee",
        "ring",
        "contacts",
        "provisionals",
        "session_expires",
        "patience",
        "sdp",
        "domain",
        "expires",
        "t1",
        "t4",
        "population",
        "fail_over",
        "location",
        "messages",
        "follow_redirects",
        "retries",
        "large_requests",
    ];

    /// The text of the flow's scenario file, if its calls follow one.
    pub fn script(&self) -> Option<&str> {
        self.scenario_text.as_deref()
    }

    /// Duration of the pauses without a time in the scenario file.
    pub fn script_pause(&self) -> Duration {
        self.hold.0.mean()
    }

    /// Checks that the scenario file is given once and was read, and that no other key sets what a scenario file
    /// sets.
    pub(super) fn check_script(&self) -> Result<(), SettingError> {
        for (file, text, [file_key, text_key]) in [
            (&self.scenario_file, &self.scenario_text, ["scenario_file", "scenario_text"]),
            (&self.values_file, &self.values_text, ["values_file", "values_text"]),
        ] {
            match (file, text) {
                (Some(_), Some(_)) => return wrong(text_key, format!("`{file_key}` names the text already")),
                (Some(name), None) => {
                    return wrong(
                        file_key,
                        format!(
                            "the file \"{name}\" was not read: that is done in an experiment file, where an application says \
                             `kind = \"sip\"` itself; elsewhere give its text as `{text_key}`"
                        ),
                    );
                }
                _ => {}
            }
        }
        if self.script().is_none() {
            let of_scripts = [
                ("values_text", self.values_text.is_some()),
                ("keys", !self.keys.is_empty()),
                ("service", self.service.is_some()),
            ];
            return match of_scripts.into_iter().find(|(_, is_said)| *is_said) {
                Some((key, _)) => wrong(key, "it belongs to a `scenario_file` or a `scenario_text`"),
                None => Ok(()),
            };
        }
        let set = self.differences(&Self::default());
        if let Some(key) = set.into_iter().find(|key| Self::SAID_BY_SCRIPTS.contains(key)) {
            return wrong(key, "calls that follow a scenario of the file's own have no such setting");
        }
        if !matches!(self.hold.0, SpanDistribution::Constant(_)) {
            return wrong(
                "hold",
                "it sets the pauses of the scenario without a time and cannot be drawn: draw them by <pause> in the scenario",
            );
        }
        if self.connections == Some(Connections::PerUser) {
            return wrong(
                "connections",
                "calls that follow a scenario have one connection, or one each (`per-attempt`)",
            );
        }
        if self.threads != 1 {
            return wrong("threads", "calls that follow a scenario are carried out by one thread");
        }
        if self.conform {
            return wrong(
                "conform",
                "a scenario of the file's own does not say in which role its server is to be tested: test it by a flow with a \
                 `scenario`",
            );
        }
        Ok(())
    }

    /// Checks that a plan has enough users for the rule test of its server.
    pub(super) fn check_tested_users(&self, plan: &Plan) -> Result<(), SettingError> {
        let test = plan.rule_test();
        if self.conform && !test.has_users() {
            let why = format!(
                "`conform` tests the server with {TESTED_USERS} users, peers included, and there are {}: more `users`",
                test.users
            );
            return wrong("users", why);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use netrig_core::Seeds;
    use serde_json::{Value, json};

    use super::*;

    fn settings(keys: &Value) -> LoadSettings {
        let mut all = json!({ "rate": 10.0, "server": "program" });
        for (key, value) in keys.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn refused(keys: &Value) -> SettingError {
        settings(keys).check_values().expect_err(&keys.to_string())
    }

    #[test]
    fn a_scenario_of_ones_own_stands_in_the_place_of_a_named_one() {
        let own = settings(
            &json!({ "scenario_text": "<scenario/>", "keys": { "tenant": "a" }, "hold": { "constant": "1 s" } }),
        );
        own.check_values().unwrap();
        assert_eq!((own.script(), own.script_pause()), (Some("<scenario/>"), Duration::from_secs(1)));
        // The arrivals are those of the flow.
        let plan = own.plan("f", &Seeds::new(1), Duration::from_secs(5)).unwrap();
        assert_eq!(plan.duration, Duration::from_secs(5));
        for (keys, field) in [
            (json!({ "scenario": "call", "scenario_text": "x" }), "scenario_text"),
            (json!({ "mix": { "call": "100 %" }, "scenario_text": "x" }), "scenario_text"),
            (json!({ "scenario_file": "my.xml" }), "scenario_file"),
            (json!({ "scenario_file": "my.xml", "scenario_text": "x" }), "scenario_text"),
            (json!({ "scenario": "call", "keys": { "a": "b" } }), "keys"),
            (json!({ "scenario": "call", "values_text": "SEQUENTIAL\na\n" }), "values_text"),
            (json!({ "scenario_text": "x", "values_file": "users.csv" }), "values_file"),
            (json!({ "scenario_text": "x", "callee": "own" }), "callee"),
            (json!({ "scenario_text": "x", "population": 4 }), "population"),
            (json!({ "scenario_text": "x", "t1": "1 s" }), "t1"),
            (json!({ "scenario_text": "x", "retries": 1 }), "retries"),
            (json!({ "scenario_text": "x", "threads": 2 }), "threads"),
            (json!({ "scenario_text": "x", "connections": "per-user" }), "connections"),
            (json!({ "scenario_text": "x", "hold": { "exponential": "1 s" } }), "hold"),
            (json!({ "scenario_text": "x", "conform": true }), "conform"),
        ] {
            assert_eq!(refused(&keys).field, field, "{keys}");
        }
    }

    #[test]
    fn a_test_of_rules_needs_three_users() {
        let plan = |keys: Value| settings(&keys).plan("f", &Seeds::new(1), Duration::from_secs(1));
        let two = json!({ "scenario": "options", "users": 2, "conform": true });
        let error = plan(two).unwrap_err();
        assert!(error.field == "users" && error.why.contains("with 3 users"), "{error}");
        plan(json!({ "scenario": "options", "users": 3, "conform": true })).unwrap();
        // Two callers and two callees.
        plan(json!({ "scenario": "call", "users": 2, "callee": "own", "conform": true })).unwrap();
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        let text = serde_json::to_string(&settings(&json!({ "scenario": "call" }))).unwrap();
        for key in ["conform", "scenario_file", "scenario_text", "values", "keys", "service"] {
            assert!(!text.contains(&format!("\"{key}")), "{key}: {text}");
        }
    }
}
