//! Runs of experiments with conformance tests before loads, with kept messages, and with user-defined scenarios. The
//! tests in namespaces need root on Linux; otherwise each prints that it was skipped.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};

use netrig_test_support::skip_unless;
use serde_json::Value;

use crate::common::kamailio::kamailio_node;
use crate::common::machine::{can, folder};
use crate::common::spoilt;
use crate::common::{netrig, run_ids, sip_users, text, words};

/// The text of an experiment in which each of `metrics` of the users is a response with the same name.
fn experiment(application: &str, metrics: &[&str]) -> String {
    let flow = format!(r#"start = "4 s", stop = "5 s", application = {{ kind = "sip", {application} }}"#);
    sip_users("runs", "6 s", "1 ms", &flow).responses("flow.users", metrics).build()
}

/// The value of a response in the only run of the only point, on `netns`.
fn measured(document: &Value, response: &str) -> f64 {
    let run = &document["points"][0]["responses"][response]["runs"][0];
    run["value"].as_f64().unwrap_or_else(|| panic!("{response}: {document:#}"))
}

/// The warnings of a document.
fn doubts(document: &Value) -> Vec<String> {
    let warnings = document["warnings"].as_array().into_iter().flatten();
    warnings.map(|warning| format!("{}: {}", warning["what"], warning["why"])).collect()
}

#[test]
fn a_server_that_keeps_the_rules_is_tested_before_its_load_and_not_marked() {
    skip_unless!(can(&[]));
    let application = r#"scenario = "call", callee = "own", arrivals = "constant", rate = 20, users = 20, conform = true, server = { role = "proxy", record_route = true }"#;
    let metrics = ["conformance_run", "conformance_failed", "attempts_begun", "attempt_success"];
    let folder = folder("sip", &experiment(application, &metrics));
    let arguments = ["run", "sip.toml", "--on", "netns", "--keep", "all", "--keep-to", "kept", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    // The messages of the conformance test are kept together with those of the load.
    let kept = kept_log(folder.path());
    assert!(kept.contains("Max-Forwards: 0\r\n") && kept.contains("SIP/2.0 483 "), "{kept}");
    assert!(kept.matches("INVITE sip:").count() >= 40, "{kept}");
    assert!(measured(&document, "conformance_run") >= 20.0, "{document:#}");
    assert_eq!(measured(&document, "conformance_failed"), 0.0);
    assert_eq!((measured(&document, "attempts_begun"), measured(&document, "attempt_success")), (20.0, 1.0));
    assert_eq!(document["points"][0].get("remarks"), None, "{document:#}");
    assert!(doubts(&document).iter().all(|doubt| !doubt.contains("marked")), "{:?}", doubts(&document));
    // The simulator names the feature that it does not have.
    let ended = netrig(folder.path(), &["check", "sip.toml", "--on", "sim"]);
    let said = text(&ended.stdout);
    assert!(said.contains("1 points unsupported") && said.contains("(`conform`)"), "{said}");
}

/// Kamailio as a registrar that answers a second REGISTER with the bindings of the first only.
#[test]
fn a_server_that_breaks_a_rule_marks_its_run_and_the_figures_stay() {
    skip_unless!(can(&["/usr/sbin/kamailio"]));
    let config = include_str!("kamailio/node.cfg").replace(
        "    save(\"location\");\n",
        "    save(\"location\", \"0x02\");\n    sl_send_reply(\"200\", \"OK\");\n",
    );
    let application = r#"scenario = "register", rate = 20, users = 60, password = "zanzibar", domain = "example.com", conform = true, server = "program""#;
    let metrics = ["conformance_run", "conformance_failed", "registration_success"];
    let folder =
        folder("sip", &experiment(application, &metrics).replace("[node.server]\n", &kamailio_node(&config)));
    let arguments = words("run sip.toml --on netns --allow-programs --keep failed --keep-to kept --json");
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    // The messages of the server's fault are kept. No registration of the load failed.
    let kept = kept_log(folder.path());
    assert!(kept.contains("REGISTER sip:example.com"), "{kept}");
    let failed = measured(&document, "conformance_failed");
    assert!(failed >= 1.0 && failed <= measured(&document, "conformance_run"), "{document:#}");
    // The users were registered nevertheless.
    assert_eq!(measured(&document, "registration_success"), 1.0);
    let remark = &document["points"][0]["remarks"][0];
    let said = remark["text"].as_str().unwrap_or_default();
    assert!(
        said.starts_with("flow `users`: its server fails") && said.contains("as registrar: REG-"),
        "{document:#}"
    );
    assert_eq!(remark["runs"], 1);
    assert!(doubts(&document).iter().any(|doubt| doubt.contains("1 run marked")), "{:?}", doubts(&document));
    // The output of the run and that of the stored run have the same remark. The stored run also describes what the
    // server did.
    let table =
        text(&netrig(folder.path(), &["run", "sip.toml", "--on", "netns", "--allow-programs"]).stdout);
    assert!(table.contains("warning: 1 run marked: flow `users`: its server fails"), "{table}");
    let identity = run_ids(folder.path()).pop().expect("a run is listed");
    let shown = text(&netrig(folder.path(), &["show", "run", &identity]).stdout);
    assert!(shown.contains("remark: flow `users`") && shown.contains("FAIL REG-"), "{shown}");
}

#[test]
fn a_test_that_has_no_time_fails_the_run_and_says_so() {
    skip_unless!(can(&[]));
    let application = r#"scenario = "redirect", callee = "own", rate = 20, users = 20, conform = true, server = { role = "redirect" }"#;
    let text_of = experiment(application, &["attempts_begun"]);
    let folder = folder("sip", &text_of.replace("start = \"4 s\"", "start = \"200 ms\""));
    let ended =
        netrig(folder.path(), &["run", "sip.toml", "--on", "netns", "--keep", "all", "--keep-to", "kept"]);
    let said = format!("{}{}", text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("had not ended at the `start` of the flow"), "{said}");
    // The messages until the failure are kept, and the output names their files.
    let files = kept_files(&folder.path().join("kept"));
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(said.contains("kept: messages of a failed run in ") && said.contains(&files[0]), "{said}");
    assert!(kept_log(folder.path()).contains("REGISTER sip:"), "{said}");
}

/// The kept files in a folder.
fn kept_files(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> =
        files.map(|file| file.expect("it is there").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The newest log in the folder `kept`. There may be several, because runs that the machine made invalid leave logs
/// too.
fn kept_log(folder: &Path) -> String {
    let kept = folder.join("kept");
    let logs =
        kept_files(&kept).into_iter().filter(|name| name.ends_with(".log")).map(|name| kept.join(name));
    let written =
        |log: &PathBuf| std::fs::metadata(log).and_then(|file| file.modified()).expect("it is there");
    let log = logs.max_by_key(written).unwrap_or_else(|| panic!("{:?}", kept_files(&kept)));
    std::fs::read_to_string(log).expect("it was kept")
}

#[test]
fn messages_of_runs_are_kept_and_a_run_is_the_same_without() {
    skip_unless!(can(&[]));
    let application = r#"scenario = "call", callee = "own", rate = 20, users = 20, server = { role = "proxy", record_route = true }"#;
    let folder = folder("sip", &experiment(application, &["attempts_begun", "attempt_success"]));
    let arguments = ["run", "sip.toml", "--on", "netns", "--keep", "all", "--keep-to", "kept", "--json"];
    let ended = netrig(folder.path(), &arguments);
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    let files = kept_files(&folder.path().join("kept"));
    let [log, capture] = &files[..] else { panic!("{files:?}: {out}{err}") };
    // The file name has eight digits of a digest of the run between the replication and the flow.
    assert!(log.starts_with("runs-r1-") && log.ends_with("-users.log"), "{log}");
    assert_eq!(log.len(), "runs-r1-01234567-users.log".len(), "{log}");
    assert_eq!(capture.strip_suffix("pcapng"), log.strip_suffix("log"));
    assert!(err.contains("kept: ") && err.contains(log.as_str()), "{err}");
    for file in files {
        let shown = netrig(folder.path(), &["sip", "show", &format!("kept/{file}")]);
        let shown = text(&shown.stdout);
        assert!(shown.contains("INVITE") && shown.contains("REGISTER"), "{file}: {shown}");
    }
    // Keeping messages does not change the identity of a run, so the run is not repeated.
    let again = netrig(folder.path(), &["run", "sip.toml", "--on", "netns", "--keep", "failed"]);
    let said = text(&again.stdout);
    if spoilt::valid(folder.path(), &["run", "sip.toml", "--on", "netns", "--json"]).is_some()
        && said.contains("0 runs made")
    {
        assert!(said.contains("kept: no messages: no run was made"), "{said}");
    }
    let ended = netrig(folder.path(), &["run", "sip.toml", "--on", "sim", "--keep", "all"]);
    let said = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("netrig export --run ID --pcapng"), "{said}");
}

/// A SIPp scenario with a field of an injection file, a user-defined keyword and a response-time measurement.
const OPTIONS: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="options of a tenant">
  <send start_rtd="invite">
    <![CDATA[
      OPTIONS sip:[field0]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:[service]@[local_ip]:[local_port]>;tag=[call_number]
      To: <sip:[field0]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 OPTIONS
      X-Tenant: [tenant]
      Max-Forwards: 70
      Content-Length: 0
    ]]>
  </send>
  <recv response="200" rtd="invite"/>
</scenario>
"#;

#[test]
fn calls_of_a_run_follow_the_scenario_of_its_file() {
    skip_unless!(can(&[]));
    let application = r#"scenario_file = "my.xml", values_file = "users.csv", keys = { tenant = "blue" }, arrivals = "constant", rate = 20, count = 15, server = { role = "uas" }"#;
    let metrics =
        ["attempts_begun", "attempts_failed", "attempt_success", "response_time_1", "scenario_time"];
    let folder = folder("sip", &experiment(application, &metrics));
    std::fs::write(folder.path().join("my.xml"), OPTIONS).expect("the folder is ours");
    std::fs::write(folder.path().join("users.csv"), "SEQUENTIAL\nanna\nbruno\n").expect("the folder is ours");
    let arguments = ["run", "sip.toml", "--on", "netns", "--keep", "all", "--keep-to", "kept", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let of = |response| measured(&document, response);
    assert_eq!((of("attempts_begun"), of("attempts_failed"), of("attempt_success")), (15.0, 0.0, 1.0));
    // The round-trip time is at least 2 ms.
    assert!(of("response_time_1") >= 0.002 && of("scenario_time") >= of("response_time_1"), "{document:#}");
    let log = kept_log(folder.path());
    assert_eq!(log.matches("X-Tenant: blue").count(), 15, "{log}");
    assert_eq!((log.matches("OPTIONS sip:anna@").count(), log.matches("OPTIONS sip:bruno@").count()), (8, 7));
    // The text of the scenario is part of the run's identity. With another text the stored run is not found.
    std::fs::write(folder.path().join("my.xml"), OPTIONS.replace("Max-Forwards: 70", "Max-Forwards: 69"))
        .expect("it is ours");
    let again = netrig(folder.path(), &["run", "sip.toml", "--on", "netns"]);
    assert!(text(&again.stdout).contains("1 runs made"), "{}", text(&again.stdout));
    let ended = netrig(folder.path(), &["check", "sip.toml", "--on", "sim"]);
    assert!(text(&ended.stdout).contains("follow a scenario file"), "{}", text(&ended.stdout));
}

/// A SIPp scenario of a call with a session description. The expected response is a level of a factor.
const CALL: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="call">
  <send retrans="500">
    <![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:caller@[local_ip]:[local_port];transport=[transport]>
      Max-Forwards: 70
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=caller 1 1 IN IP[local_ip_type] [local_ip]
      s=-
      c=IN IP[media_ip_type] [media_ip]
      t=0 0
      m=audio [media_port] RTP/AVP 0
      a=rtpmap:0 PCMU/8000
    ]]>
  </send>
  <recv response="100" optional="true"/>
  <recv response="180" optional="true"/>
  <recv response="${answer}"/>
  <send>
    <![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
      Call-ID: [call_id]
      CSeq: 1 ACK
      Max-Forwards: 70
      Content-Length: 0
    ]]>
  </send>
  <send retrans="500">
    <![CDATA[
      BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:caller@[local_ip]:[local_port]>;tag=[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
      Call-ID: [call_id]
      CSeq: 2 BYE
      Max-Forwards: 70
      Content-Length: 0
    ]]>
  </send>
  <recv response="200"/>
</scenario>
"#;

#[test]
fn calls_of_a_scenario_offer_a_port_for_media() {
    skip_unless!(can(&[]));
    let application =
        r#"scenario_file = "my.xml", arrivals = "constant", rate = 20, count = 5, server = { role = "uas" }"#;
    let text_of = experiment(application, &["attempts_begun", "attempt_success"]);
    let folder = folder("sip", &format!("{text_of}[factors]\nanswer = [200]\n"));
    std::fs::write(folder.path().join("my.xml"), CALL).expect("the folder is ours");
    let arguments = ["run", "sip.toml", "--on", "netns", "--keep", "all", "--keep-to", "kept", "--json"];
    let Some(document) = spoilt::valid(folder.path(), &arguments) else { return };
    let of = |response| measured(&document, response);
    assert_eq!((of("attempts_begun"), of("attempt_success")), (5.0, 1.0));
    let log = kept_log(folder.path());
    assert_eq!(log.matches("m=audio 6000 RTP/AVP 0").count(), 5, "{log}");
}

#[test]
fn a_scenario_in_which_a_factor_stands_is_checked_at_each_point() {
    let application = r#"scenario_file = "my.xml", rate = 20, server = { role = "uas" }"#;
    let text_of = experiment(application, &["attempts_begun"]);
    let folder = folder("sip", &format!("{text_of}[factors]\nanswer = [\"200\", \"never\"]\n"));
    std::fs::write(folder.path().join("my.xml"), CALL).expect("the folder is ours");
    for arguments in [&["check", "sip.toml"][..], &["run", "sip.toml", "--on", "netns"]] {
        let ended = netrig(folder.path(), arguments);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("sip.toml: flow `users` with answer = never: the scenario: line "), "{said}");
    }
    let ended = netrig(folder.path(), &["check", "sip.toml", "--set", "answer=200"]);
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
}

#[test]
fn what_is_wrong_with_a_scenario_is_found_when_the_file_is_checked() {
    let application =
        r#"scenario_file = "my.xml", keys = { tenant = "blue" }, rate = 20, server = { role = "uas" }"#;
    let folder = folder("sip", &experiment(application, &["attempts_begun"]));
    let line = 1 + std::fs::read_to_string(folder.path().join("sip.toml"))
        .expect("it is there")
        .lines()
        .position(|line| line.contains("scenario_file"))
        .expect("it is named");
    let refused = |scenario: Option<&str>| {
        if let Some(scenario) = scenario {
            std::fs::write(folder.path().join("my.xml"), scenario).expect("the folder is ours");
        }
        let ended = netrig(folder.path(), &["check", "sip.toml"]);
        let said = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("sip.toml:{line}:")), "{said}");
        said
    };
    assert!(refused(None).contains("the scenario `my.xml`"));
    let said = refused(Some("<scenario>\n<send>\n</scenario>\n"));
    assert!(said.contains("the scenario `my.xml`: line "), "{said}");
    assert!(refused(Some(OPTIONS)).contains("`values_file`"));
}
