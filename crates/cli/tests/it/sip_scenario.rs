//! `netrig sip scenario`: files of SIPp are read, and what is wrong in one has its file and line.

use std::path::Path;
use std::process::Command;

use crate::common::{netrig, text};

#[test]
fn what_is_wrong_in_a_scenario_has_its_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("call.xml"),
        "<?xml version=\"1.0\"?>\n<scenario name=\"call\">\n<send><![CDATA[\nOPTIONS sip:[tenant] SIP/2.0\n]]></send>\n\
         <recv response=\"200\" next=\"nowhere\"/>\n</scenario>\n",
    )
    .unwrap();
    for (arguments, code, words) in [
        (&["call.xml"][..], 2, "call.xml: line 3: there is no keyword [tenant]"),
        (&["call.xml", "--key", "tenant=acme"], 2, "call.xml: line 6: there is no label nowhere"),
        (&["call.xml", "--key", "tenant"], 2, "expected KEYWORD=VALUE"),
        (&["absent.xml"], 2, "cannot read absent.xml"),
    ] {
        let output = netrig(folder.path(), &[&["sip", "scenario", "check"][..], arguments].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(words), "{arguments:?}: {told}");
    }
}

/// The ten scenarios that SIPp has in itself.
#[test]
fn the_scenarios_of_sipp_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "uac", "uas", "regexp", "branchc", "branchs", "uac_pcap", "3pcc-C-A", "3pcc-C-B", "3pcc-A", "3pcc-B",
    ];
    for name in names {
        let Ok(printed) = Command::new("sipp").args(["-sd", name]).output() else {
            eprintln!("skipped: needs sipp");
            return;
        };
        let file = format!("{name}.xml");
        std::fs::write(Path::new(folder.path()).join(&file), &printed.stdout).unwrap();
        let output = netrig(folder.path(), &["sip", "scenario", "check", &file]);
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
        let told = text(&output.stdout);
        assert!(!told.contains("warning"), "{name}: {told}");
    }
}
