//! Netrig's own form of scenarios: TOML, typed, with the keywords of [`ScriptTemplate`](super::template::ScriptTemplate).

mod document;
mod reader;
mod writer;

pub use self::reader::{ScenarioFormError, read_scenario_form};
pub use self::writer::write_scenario_form;

#[cfg(test)]
mod tests {
    use super::super::script::CallScript;
    use super::super::sipp::read_sipp_scenario;
    use super::super::template::ScriptWords;
    use super::*;

    const WORDS: ScriptWords<'_> = ScriptWords { keys: &[] };

    /// Checks that a script is the same after it is written and read again.
    fn check(script: &CallScript) {
        let text = write_scenario_form(script);
        let read = read_scenario_form(&text, WORDS).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let again = write_scenario_form(&read);
        // Two equal scripts may number their variables differently. The texts have the names of variables.
        assert_eq!(text, again);
        assert_eq!(read.steps.len(), script.steps.len());
        assert_eq!(read.response_times, script.response_times);
    }

    #[test]
    fn own_scenarios_are_written_and_read() {
        for text in [super::super::OWN_CALL, super::super::OWN_ANSWER] {
            let keys = [("caller".to_owned(), "netrig".to_owned())];
            check(&read_sipp_scenario(text, ScriptWords { keys: &keys }).unwrap().0);
        }
    }

    #[test]
    fn all_that_a_script_has_is_written_and_read() {
        let steps = "<Global variables=\"g\"/><User variables=\"u\"/>
            <init><nop><action><assign assign_to=\"g\" value=\"1\"/></action></nop></init>
            <label id=\"begin\"/>
            <send retrans=\"500\" timeout=\"3000\" start_txn=\"t\" lost=\"10\" start_rtd=\"a,b\" counter=\"c\"><![CDATA[
              INVITE sip:[field0 file=\"u.csv\" line=\"[$g]\"] SIP/2.0
              [last_Via:]
              Call-ID: a///[call_id]
              X: [cseq+3] [fill text=\"ab\" variable=\"g\"] [file name=\"x\"] \\x5Bno]
              [authentication username=[$u] password=y]

            ]]></send>
            <recv response=\"100\" optional=\"global\" response_txn=\"t\"/>
            <recv response=\"180\" optional=\"true\" advance_state=\"false\"/>
            <recv request=\"A.*\" regexp_match=\"true\" timeout=\"100\" ontimeout=\"begin\"/>
            <recv response=\"200\" rrs=\"true\" auth=\"true\" rtd=\"a\" repeat_rtd=\"true\" crlf=\"true\" next=\"begin\" test=\"g\" chance=\"0.25\">
             <action>
              <ereg regexp=\"a(b)\" search_in=\"hdr\" header=\"To:\" occurrence=\"2\" case_indep=\"true\" start_line=\"true\" check_it_inverse=\"true\" assign_to=\"g,u\"/>
              <ereg regexp=\"a\" search_in=\"body\" check_it=\"true\" assign_to=\"g\"/>
              <ereg regexp=\"a\" search_in=\"var\" variable=\"u\" assign_to=\"g\"/>
              <ereg regexp=\"a\" search_in=\"msg\" assign_to=\"g\"/>
              <log message=\"m [$g]\"/><warning message=\"w\"/><error message=\"e\"/>
              <subtract assign_to=\"g\" variable=\"u\"/><divide assign_to=\"g\" value=\"2\"/>
              <gettimeofday assign_to=\"g,u\"/><index assign_to=\"g\"/><jump value=\"1\"/>
              <sample assign_to=\"g\" distribution=\"gpareto\" shape=\"1\" scale=\"2\" location=\"3\"/>
              <todouble assign_to=\"g\" variable=\"u\"/><test assign_to=\"g\" variable=\"u\" compare=\"not_equal\" value=\"3\"/>
              <strcmp assign_to=\"g\" variable=\"u\" value=\"x\"/><trim assign_to=\"g\"/><urldecode variable=\"g\"/><urlencode variable=\"g\"/>
              <verifyauth assign_to=\"g\" username=\"a\" password=\"b\"/><lookup assign_to=\"g\" file=\"f\" key=\"[$u]\"/>
              <insert file=\"f\" value=\"v\"/><replace file=\"f\" line=\"1\" value=\"v\"/><setdest host=\"h\" port=\"p\" protocol=\"udp\"/>
              <closecon/><exec command=\"c\"/><exec int_cmd=\"stop_call\"/><exec int_cmd=\"stop_now\"/><exec int_cmd=\"stop_gracefully\"/>
              <exec play_pcap_video=\"v.pcap\"/><exec rtp_stream=\"a.wav,-1,8\"/><exec rtp_stream=\"pause\"/><exec play_dtmf=\"12#\"/>
              <rtp_echo value=\"1\"/>
             </action></recv>
            <pause/><pause milliseconds=\"20\"/><pause variable=\"g\"/><pause distribution=\"weibull\" lambda=\"1\" k=\"2\"/>
            <nop condexec=\"g\" condexec_inverse=\"true\" display=\"d\"/>
            <sendCmd dest=\"s1\"><![CDATA[
              Call-ID: [call_id]
            ]]></sendCmd>
            <recvCmd src=\"s1\"/><recvCmd/>
            <label id=\"_unexp.main\"/>
            <timewait milliseconds=\"4000\"/>";
        let text = format!("<?xml version=\"1.0\"?><scenario name=\"all\">{steps}</scenario>");
        let (script, _) = read_sipp_scenario(&text, WORDS).unwrap();
        check(&script);
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        for (text, line, words) in [
            ("", 1, "expected [[step]]"),
            ("[[step]]\nsend = \"A\"\nreceive = 200\n", 1, "a step has one of"),
            ("[[step]]\nsend = \"A [what] B\"\n", 1, "no keyword [what]"),
            ("[[step]]\npause = \"1s\"\n[[step]]\nreceive = 99\n", 3, "99 is not a status"),
            ("[[step]]\nreceive = 200\nthen = \"x\"\n", 1, "there is no label x"),
            ("[[step]]\nlabel = \"a\"\n[[step]]\nlabel = \"a\"\n", 3, "second time"),
            ("[[step]]\nreceive = 200\nthen-if = \"x\"\n", 1, "expected then"),
            ("[[step]]\nreceive = 200\nstays = true\n", 1, "optional messages only"),
            ("[[step]]\nreceive = 200\nlost = 2\n", 1, "expected 0 to 1"),
            ("[[step]]\nactions = [{ extract = { pattern = \"(\", from = \"body\" } }]\n", 1, "extract: `(`"),
        ] {
            let wrong = read_scenario_form(text, WORDS).unwrap_err();
            let ScenarioFormError::Place { line: found, what, .. } = &wrong else {
                panic!("{text}: {wrong}")
            };
            assert!(*found == line && what.contains(words), "{text}: {wrong}");
        }
        for (text, words) in [
            ("[[step]]\nsent = 1\n", "unknown field"),
            ("x", "line 1"),
            ("[[step]]\npause = true\n", "line 2"),
        ] {
            let wrong = read_scenario_form(text, WORDS).unwrap_err().to_string();
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
    }
}
