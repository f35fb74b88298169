//! The messages for files with a fault, as the author of a file reads them.
//!
//! Each group of messages is one snapshot. When you change a message, make sure that a network engineer who does not
//! know this code can act on it.

use netrig_experiment::{Assignment, Experiment};

const BASE: &str = r#"format = 1
name = "base"
duration = "100 s"

[factors]
rate = ["1 Mbit/s", "2 Mbit/s"]

[node.client]
[node.server]

[link.line]
between = ["client", "server"]
rate = "${rate}"
delay = "10 ms"
queue = { kind = "fifo", packets = 50 }

[transport.tcp]
kind = "tcp"

[flow.file]
from = "client"
to = "server"
transport = "tcp"
application = { kind = "bulk" }

[response.goodput]
of = "flow.file"
metric = "goodput"
"#;

/// A fault: its description, the text of the base file that is replaced (if empty, the new text is appended), and the
/// new text.
type Mistake = (&'static str, &'static str, &'static str);

/// Compares with the snapshot of the calling test.
macro_rules! show {
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

fn text_of((what, old, new): Mistake) -> String {
    if old.is_empty() {
        return format!("{BASE}{new}");
    }
    assert!(BASE.contains(old), "{what}: `{old}` is not in the base");
    BASE.replacen(old, new, 1)
}

fn messages(mistakes: &[Mistake]) -> String {
    let mut all = String::new();
    for mistake in mistakes {
        let told = match Experiment::parse("base.toml", text_of(*mistake)) {
            Ok(experiment) => format!("(accepted)\n{}", experiment.warnings()),
            Err(diagnostics) => diagnostics.to_string(),
        };
        all += &format!("## {}\n\n{told}\n", mistake.0);
    }
    all
}

#[test]
fn the_base_is_fine() {
    let experiment = Experiment::parse("base.toml", BASE).unwrap();
    assert!(experiment.warnings().is_empty(), "{}", experiment.warnings());
}

#[test]
fn text() {
    show!(messages(&[
        ("a bracket is missing", "[node.server]", "[node.server"),
        ("several syntax errors at once", "delay = \"10 ms\"", "delay = 10 ms\nmtu 5"),
        ("a key twice", "delay = \"10 ms\"", "delay = \"10 ms\"\ndelay = \"20 ms\""),
        ("a number that is none", "name = \"base\"", "name = \"base\"\nseed = 99999999999999999999"),
        ("infinity", "name = \"base\"", "name = \"base\"\nseed = inf"),
        ("a date", "name = \"base\"", "name = \"base\"\nquestion = 2026-11-21"),
        ("control characters do not reach the terminal", "name = \"base\"", "name = \"\u{1b}[31mred\""),
        ("wide characters keep the caret in place", "delay = \"10 ms\"", "delay = \"십 ms\" # 지연 시간"),
        (
            "nested too deep",
            "[node.server]",
            "[node.server]\nx = [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
        ),
    ]));
}

#[test]
fn head() {
    show!(messages(&[
        ("made for a newer netrig", "format = 1", "format = 2\nunheard = \"of\""),
        ("no format", "format = 1", ""),
        ("a format that is no number", "format = 1", "format = \"one\""),
        ("no name", "name = \"base\"", ""),
        ("a name with spaces", "name = \"base\"", "name = \"my base\""),
        ("no duration", "duration = \"100 s\"", ""),
        ("a run of no length", "duration = \"100 s\"", "duration = \"0 s\""),
        ("a duration without unit", "duration = \"100 s\"", "duration = 100"),
        ("a unit that is a slip", "duration = \"100 s\"", "duration = \"100 sec\""),
        ("too many samples", "duration = \"100 s\"", "duration = \"100 h\"\nsample_every = \"1 us\""),
        ("a run that is too long", "duration = \"100 s\"", "duration = \"100000 h\""),
        ("an unknown key", "duration = \"100 s\"", "duration = \"100 s\"\nwarmup = \"5 s\""),
        ("a warm-up that is none", "duration = \"100 s\"", "duration = \"100 s\"\nwarm_up = \"mser5\""),
        ("a warm-up as long as the run", "duration = \"100 s\"", "duration = \"100 s\"\nwarm_up = \"100 s\""),
        ("a version of IP that there is not", "duration = \"100 s\"", "duration = \"100 s\"\nip = 5"),
        (
            "an end with a flow that is not there",
            "duration = \"100 s\"",
            "duration = \"100 s\"\nends_with = \"fiel\""
        ),
        (
            "an end with a flow that has none",
            "duration = \"100 s\"",
            "duration = \"100 s\"\nends_with = \"file\""
        ),
        ("an end with what is no name", "duration = \"100 s\"", "duration = \"100 s\"\nends_with = 3"),
        (
            "an end with datagrams",
            "duration = \"100 s\"",
            "duration = \"100 s\"\nends_with = \"voice\"\n[transport.udp]\nkind = \"udp\"\n[flow.voice]\nfrom = \"client\"\nto = \"server\"\ntransport = \"udp\"\napplication = { kind = \"cbr\", interval = \"20 ms\", size = \"160 B\" }"
        ),
        ("an unknown section", "", "[respones.delay]\nof = \"flow.file\"\nmetric = \"goodput\""),
        ("a section that is no table", "[node.client]\n[node.server]", "node = [\"client\", \"server\"]"),
        ("a part that is no table", "[node.client]\n[node.server]", "[node]\nclient = 1\nserver = 2"),
        ("all sections are missing", BASE, "format = 1\nname = \"empty\"\nduration = \"1 s\""),
    ]));
}

#[test]
fn factors() {
    show!(messages(&[
        ("a level with a wrong unit", "\"2 Mbit/s\"", "\"10 Mb\""),
        ("a level of zero", "\"2 Mbit/s\"", "\"0 bit/s\""),
        ("a level of the wrong type", "\"2 Mbit/s\"", "7"),
        ("a factor that nothing uses", "[factors]", "[factors]\nload = [1, 2]"),
        ("a factor that does not exist", "delay = \"10 ms\"", "delay = \"${dealy}\""),
        ("a factor that almost exists", "delay = \"10 ms\"", "delay = \"${rat}\""),
        ("a placeholder that is not closed", "delay = \"10 ms\"", "delay = \"${rate\""),
        ("a placeholder without a name", "delay = \"10 ms\"", "delay = \"${}\""),
        ("a factor that refers to itself", "\"2 Mbit/s\"", "\"${rate}\""),
        ("no levels", "[\"1 Mbit/s\", \"2 Mbit/s\"]", "[]"),
        ("a level twice, in other words", "\"2 Mbit/s\"", "\"1000 kbit/s\""),
        ("a level that is a table", "\"2 Mbit/s\"", "{ mean = 1 }"),
        ("a name that cannot be set", "[factors]", "[factors]\n\"a=b\" = 1"),
        ("no factors at all", "[factors]\nrate = [\"1 Mbit/s\", \"2 Mbit/s\"]", ""),
        ("a level within a text", "rate = \"${rate}\"", "rate = \"${rate}/s\""),
        (
            "a varied factor in what holds for all points",
            "name = \"base\"",
            "name = \"base\"\nquestion = \"${rate}?\""
        ),
        ("points of an unknown factor", "", "[[points]]\nrates = \"1 Mbit/s\""),
        ("points of an unknown level", "", "[[points]]\nrate = [\"1 Mbit/s\", \"3 Mbit/s\"]"),
        (
            "too many points",
            "[factors]",
            "[factors]\na = [0,1,2,3,4,5,6,7,8,9]\nb = [0,1,2,3,4,5,6,7,8,9]\nc = [0,1,2,3,4,5,6,7,8,9]\nd = [0,1,2,3,4,5,6,7,8,9]\ne = [0,1,2,3,4,5,6,7,8,9]\nf = [0,1,2,3,4,5,6,7,8,9]\ng = [0,1,2,3,4,5,6,7,8,9]\nh = [0,1,2,3,4,5,6,7,8,9]\ni = [0,1,2,3,4,5,6,7,8,9]"
        ),
    ]));
}

#[test]
fn replications() {
    show!(messages(&[
        ("count beside min", "", "[replications]\ncount = 5\nmin = 3"),
        ("none", "", "[replications]\ncount = 0"),
        ("max below min", "", "[replications]\nmin = 20\nmax = 10"),
        ("no rule to stop", "", "[replications]\nmin = 10\nmax = 40"),
        (
            "an unknown response",
            "",
            "[replications]\nmin = 10\nmax = 40\nuntil = { response = \"godput\", half_width = \"2 %\" }"
        ),
        (
            "too few to judge",
            "",
            "[replications]\nmin = 2\nmax = 40\nuntil = { response = \"goodput\", half_width = \"2 %\" }"
        ),
        (
            "an impossible width",
            "",
            "[replications]\nmin = 10\nmax = 40\nuntil = { response = \"goodput\", half_width = \"200 %\" }"
        ),
        ("a confidence in percent", "", "[replications]\nconfidence = 95"),
        ("a low confidence", "", "[replications]\nconfidence = \"5 %\""),
        ("a fraction of a replication", "", "[replications]\ncount = 2.5"),
    ]));
}

/// The settings of the line in the base file, which tests replace by those of a WiFi link.
const LINE: &str = "rate = \"${rate}\"\ndelay = \"10 ms\"\nqueue = { kind = \"fifo\", packets = 50 }";

#[test]
fn wifi() {
    let own = |settings: &str| format!("{settings}\nqueue = {{ kind = \"fifo\", packets = 50 }}");
    let g = "standard = \"802.11g\"\nrate = \"54 Mbit/s\"";
    let event = |what: &str| format!("\n[[event]]\nat = \"1 s\"\nlink = \"line\"\ndo = {{ {what} }}\n");
    let two = "[node.client]\n[node.server]\n[node.tablet]\n[link.other]\nbetween = [\"tablet\", \"server\"]\n\
               channel = \"home\"\nstandard = \"802.11g\"\nrate = \"54 Mbit/s\"\n\
               queue = { kind = \"fifo\", packets = 50 }\n";
    let mut all = String::new();
    for (what, settings, more) in [
        ("a standard that there is not", "standard = \"802.11b\"\nrate = \"11 Mbit/s\"", String::new()),
        ("a rate of another standard", "standard = \"802.11n\"\nrate = \"54 Mbit/s\"", String::new()),
        ("a key of a line", &format!("{g}\nframing = \"ethernet\""), String::new()),
        ("aggregates before there were any", &format!("{g}\naggregation = {{ packets = 8 }}"), String::new()),
        ("a window that is none", &format!("{g}\ncw_min = 16"), String::new()),
        (
            "a queue that differs at one transmitter",
            &format!("{g}\nchannel = \"home\"\nreverse = {{ attempts = 4 }}"),
            two.into(),
        ),
        (
            "another standard on the channel",
            "standard = \"802.11n\"\nrate = \"65 Mbit/s\"\nchannel = \"home\"",
            two.into(),
        ),
        ("a rate that comes later", g, event("rate = \"11 Mbit/s\"")),
        (
            "what waits for one of several",
            &format!("{g}\nchannel = \"home\""),
            format!("{two}{}", event("down_for = \"1 s\", queue = \"keep\"")),
        ),
    ] {
        let text = BASE.replacen("[factors]\nrate = [\"1 Mbit/s\", \"2 Mbit/s\"]\n", "", 1);
        let text = text.replacen(LINE, &own(settings), 1);
        let text = if more.contains("[node.client]") {
            text.replacen("[node.client]\n[node.server]\n", &more, 1)
        } else {
            text + &more
        };
        let told =
            Experiment::parse("base.toml", text).map_or_else(|e| e.to_string(), |_| "accepted\n".to_owned());
        all.push_str(&format!("## {what}\n\n{told}\n"));
    }
    show!(all);
}

/// Time of a frame exchange per packet, in microseconds, by tables 17-4 and 19-27 of IEEE Std 802.11-2016 with 7.5
/// slots of backoff. It is 28 + 67.5 + 254 + 10 + 34 for 1500 B; for 200 B, the frame takes 62 instead of 254. If 28
/// packets fit into a frame of 5.484 ms, it is (37 + 67.5 + 5366 + 10 + 38) / 28.
#[test]
fn a_station_that_is_offered_more_than_it_gets_onto_the_air() {
    let g = "standard = \"802.11g\"\nrate = \"54 Mbit/s\"";
    let n = "standard = \"802.11n\"\nrate = \"65 Mbit/s\"\naggregation = { packets = 64 }";
    let mut all = String::new();
    for (settings, payload, packet_us, gets) in
        [(g, 1472, 393.5, "3.7 MB/s"), (g, 172, 201.5, "854 KB/s"), (n, 1472, 5518.5 / 28.0, "7.5 MB/s")]
    {
        let told = |interval_us: f64| {
            let text = BASE
                .replacen("[factors]\nrate = [\"1 Mbit/s\", \"2 Mbit/s\"]\n", "", 1)
                .replacen(LINE, &format!("{settings}\nqueue = {{ kind = \"fifo\", packets = 50 }}"), 1)
                .replacen("transport = \"tcp\"\n", "", 1)
                .replacen("[transport.tcp]\nkind = \"tcp\"\n", "", 1);
            let application =
                format!("{{ kind = \"cbr\", interval = \"{interval_us:.1} us\", size = \"{payload} B\" }}");
            let text = text.replacen("{ kind = \"bulk\" }", &application, 1);
            Experiment::parse("base.toml", text).unwrap().warnings().to_string()
        };
        let above = told(packet_us * 1.005);
        assert!(above.is_empty(), "{above}");
        let below = told(packet_us * 0.995);
        assert!(below.contains(&format!("to a line of {gets}")), "{below}");
        all.push_str(&format!("{below}\n"));
    }
    show!(all);
}

#[test]
fn topology() {
    show!(messages(&[
        ("an unknown node", "between = [\"client\"", "between = [\"cleint\""),
        ("a host that takes too long", "[node.client]", "[node.client]\nreceive = { per_packet = \"2 s\" }"),
        (
            "a host without room",
            "[node.client]",
            "[node.client]\nreceive = { per_packet = \"1 ms\", queue = 0 }"
        ),
        ("a channel of a line", "delay = \"10 ms\"", "delay = \"10 ms\"\nchannel = \"home\""),
        ("a link to itself", "between = [\"client\", \"server\"]", "between = [\"client\", \"client\"]"),
        ("a link with one end", "between = [\"client\", \"server\"]", "between = [\"client\"]"),
        (
            "a link with three ends",
            "between = [\"client\", \"server\"]",
            "between = [\"client\", \"server\", \"server\"]"
        ),
        ("an unknown key of a link", "delay = \"10 ms\"", "latency = \"10 ms\""),
        ("several mistakes in one link", "delay = \"10 ms\"", "delays = \"10 ms\"\nrates = 5\nmtu = \"0 B\""),
        ("no rate", "rate = \"${rate}\"\ndelay", "delay"),
        ("a negative rate", "rate = \"${rate}\"\ndelay", "rate = \"-1 Mbit/s\"\nmtu = \"${rate}\"\ndelay"),
        ("an unknown queue", "kind = \"fifo\"", "kind = \"fifos\""),
        ("a queue without kind", "kind = \"fifo\", ", ""),
        ("a queue that is a name", "{ kind = \"fifo\", packets = 50 }", "\"fifo\""),
        ("a queue without limit", ", packets = 50", ""),
        ("an unknown key of a queue", "packets = 50", "packet = 50"),
        (
            "a way back that is wrong",
            "delay = \"10 ms\"",
            "delay = \"10 ms\"\nreverse = { delay = \"5 ns\", rate = \"0 bit/s\" }"
        ),
        ("no nodes of a kind", "[node.client]", "[node.client]\ncount = 0"),
        ("too many nodes", "[node.client]", "[node.client]\ncount = 4000000000"),
        (
            "counts that do not fit",
            "[node.client]\n[node.server]",
            "[node.client]\ncount = 3\n[node.server]\ncount = 2"
        ),
        (
            "a number beyond the count",
            "[node.client]\n[node.server]\n\n[link.line]\nbetween = [\"client\"",
            "[node.client]\ncount = 3\n[node.server]\n\n[link.line]\nbetween = [\"client#4\""
        ),
        ("a name with a dot", "[node.client]", "[node.\"client.one\"]"),
    ]));
}

#[test]
fn hosts() {
    let mistakes = [
        ("a load of nobody's processors", "[node.client]\nload = \"50 %\"\n"),
        ("more than all", "[node.client]\ncpus = [1]\nload = \"150 %\"\n"),
        ("nothing may run", "[node.client]\ncpus = [1]\nquota = \"0 %\"\n"),
        ("a quota of nobody's processors", "[node.client]\nquota = \"50 %\"\n"),
        ("no room for an agent", "[node.client]\nmemory = \"1 MB\"\n"),
        ("too short for IP", "[node.client]\nmtu = \"60 B\"\n"),
        ("longer than IP can say", "[node.client]\nmtu = \"70 KB\"\n"),
        ("a window of nothing", "[node.client]\nwindow = \"0 B\"\n"),
        ("segments of nothing", "[node.client]\nmss = \"10 B\"\n"),
        ("a way of cutting that nobody knows", "[node.client]\nfragmentation = \"df\"\n"),
        ("a setting that is said otherwise", "[node.client]\nnet.ipv4.ip_no_pmtu_disc = 1\n"),
        ("a name that is none", "[node.client]\nnet.ipv4.\"../mem\" = 1\n"),
        ("a setting of one part", "[node.client]\nnet.somaxconn = 1\n"),
        ("several with one load", "[node.client]\ncount = 2\ncpus = [1]\nload = \"50 %\"\n"),
    ];
    show!(messages(&mistakes.map(|(what, settings)| (what, "[node.client]\n", settings))));
    let shared: Mistake = (
        "the load would be another's too",
        "[node.client]\n[node.server]\n",
        "[node.client]\ncpus = [1]\nload = \"50 %\"\n[node.server]\ncpus = [0, 1]\n",
    );
    let of_ipv6: [Mistake; 2] = [
        ("IPv6 needs longer packets", "[node.client]\n", "[node.client]\nmtu = \"1000 B\"\n"),
        ("IPv6 is not cut", "[node.client]\n", "[node.client]\nfragmentation = \"allowed\"\n"),
    ];
    let told = of_ipv6.map(|mistake| {
        let text = text_of(mistake).replacen("name =", "ip = 6\nname =", 1);
        Experiment::parse("base.toml", text).err().map(|problems| problems.to_string()).unwrap_or_default()
    });
    show!(format!("{}{}", messages(&[shared]), told.concat()));
}

#[test]
fn presets() {
    let whole = "rate = \"${rate}\"\ndelay = \"10 ms\"\nqueue = { kind = \"fifo\", packets = 50 }\n";
    show!(messages(&[
        ("a line that nobody knows", "delay = \"10 ms\"", "delay = \"10 ms\"\npreset = \"isdn\""),
        ("a preset of one way", "delay = \"10 ms\"", "delay = \"10 ms\"\nreverse = { preset = \"adsl\" }"),
        ("a preset of a cable", whole, "kind = \"direct\"\npreset = \"10baset\"\nmtu = \"${rate}\"\n"),
        (
            "a value that its preset cannot have",
            "delay = \"10 ms\"",
            "preset = \"adsl\"\njitter = { spread = { uniform = \"30 ms\" } }"
        ),
        ("no time to wait", "packets = 50", "time = \"0 s\""),
        ("room and no limit", "packets = 50", "time = \"1 s\", unlimited = true"),
    ]));
}

#[test]
fn conditioning() {
    const FILE: &str = "of = \"flow.file\"\nmetric = \"goodput\"";
    const QUEUE: &str = "queue = { kind = \"fifo\", packets = 50 }";
    let of = |what: &'static str, line: &str| -> Mistake { (what, QUEUE, line.to_owned().leak()) };
    let rule = |what, rule: &str| of(what, &format!("{QUEUE}\ncondition = [{{ {rule} }}]"));
    let classes = |what, kind: &str, classes: &str| {
        of(what, &format!("queue = {{ kind = \"{kind}\", packets = 50 }}\nclasses = [{classes}]"))
    };
    show!(messages(&[
        rule("an unknown node", r#"match = { src = "cleint" }, green = "ef""#),
        rule("a prefix with bits behind its length", r#"match = { dst = "10.0.0.1/8" }, green = "ef""#),
        rule("an unknown code point", r#"match = { dscp = "gold" }, green = "ef""#),
        rule("an unknown field", r#"match = { source = "client" }, green = "ef""#),
        rule("an unknown action", r#"green = "discard""#),
        rule("no bucket", r#"meter = { kind = "token-bucket", rate = "1 Mbit/s", burst = "0 B" }"#),
        rule("an unknown meter", r#"meter = { kind = "bucket", rate = "1 Mbit/s", burst = "1 KB" }"#),
        rule(
            "yellow of a token bucket",
            r#"meter = { kind = "token-bucket", rate = "1 Mbit/s", burst = "1 KB" }, yellow = "be""#
        ),
        of("a schedule of no classes", r#"queue = { kind = "priority", packets = 50 }"#),
        classes("a class of no packets", "priority", r#"{ name = "a" }, { phb = "be" }"#),
        classes("an unknown behaviour", "priority", r#"{ phb = "gold" }, { phb = "be" }"#),
        classes("two of one name", "priority", r#"{ phb = "ef" }, { name = "ef" }"#),
        classes("low latency at no rate", "class-wfq", r#"{ phb = "ef" }, { phb = "be" }"#),
        classes(
            "more than may be reserved",
            "class-wfq",
            r#"{ phb = "ef", reserve = "0.8 Mbit/s" }, { phb = "be" }"#
        ),
        classes(
            "nothing left",
            "drr",
            r#"{ phb = "ef", reserve = "1 Mbit/s" }, { phb = "be" }]
reservable = "100 %"
drop = [1"#
        ),
        ("a class of nothing", "of = \"flow.file\"", "of = \"link.line.class.\""),
        ("an unknown class", FILE, "of = \"link.line.class.fe\"\nmetric = \"drops\""),
        ("an unknown rule", FILE, "of = \"link.line.backward.rule.2\"\nmetric = \"packets_green\""),
        classes(
            "a class of another name",
            "priority",
            r#"{ phb = "ef" }, { phb = "af1" }, { phb = "be" }]
[response.drops]
of = "link.line.class.fe"
metric = "drops"
[link.other]
between = ["client", "server"]
rate = "1 Mbit/s"
queue = { kind = "fifo", packets = 50 }
drop = [1"#
        ),
        rule(
            "a rule behind a wider one",
            r#"match = { src = "client" }, green = "ef" }, { name = "gold", match = { src = "client", protocol = "tcp" }, green = "af11""#
        ),
        rule("a rule behind one for all", r#"green = "ef" }, { match = { dscp = "be" }, green = "af11""#),
        rule(
            "a narrower rule first",
            r#"match = { src = "client", protocol = "tcp" }, green = "af11" }, { match = { src = "client" }, green = "ef""#
        ),
        rule("two rules of one name", r#"name = "gold", match = { src = "client" } }, { name = "gold""#),
        rule(
            "a rule with the name of another's number",
            r#"name = "2", match = { src = "client" } }, { green = "ef""#
        ),
        rule("a name that cannot be", r#"name = "gold class""#),
        classes(
            "a class behind a wider one",
            "priority",
            r#"{ name = "tcp", match = { protocol = "tcp" } }, { name = "web", match = { protocol = "tcp", dst_port = 80 } }, { name = "rest" }"#
        ),
        classes(
            "a class whose code points are taken",
            "priority",
            r#"{ name = "a", match = { dscp = ["be", "af11"] } }, { name = "b", match = { dscp = "be" } }, { name = "rest" }"#
        ),
        classes("a class that nobody marks", "priority", r#"{ phb = "ef" }, { phb = "be" }"#),
        of(
            "a class that a rule marks",
            "queue = { kind = \"priority\", packets = 50 }\ncondition = [{ match = { src = \"client\" }, green = \"ef\" }]\nclasses = [{ phb = \"ef\" }, { phb = \"be\" }]"
        ),
        (
            "a code point that is none",
            "transport = \"tcp\"\napp",
            "transport = \"tcp\"\ndscp = \"AF14\"\napp"
        ),
        ("a code point beyond six bits", "transport = \"tcp\"\napp", "transport = \"tcp\"\ndscp = 64\napp"),
        (
            "a metric that classes do not have",
            "of = \"flow.file\"\nmetric = \"goodput\"",
            "of = \"link.line.class.ef\"\nmetric = \"utilisation\""
        ),
    ]));
}

#[test]
fn buckets_that_no_packet_fits() {
    const QUEUE: &str = "queue = { kind = \"fifo\", packets = 50 }";
    let of = |what: &'static str, line: String| -> Mistake { (what, QUEUE, line.leak()) };
    let policer = |what, matches: &str, burst: &str| {
        let meter = format!("{{ kind = \"token-bucket\", rate = \"1 Mbit/s\", burst = \"{burst}\" }}");
        let rule = format!("{{ match = {{ {matches} }}, meter = {meter} }}");
        of(what, format!("{QUEUE}\ncondition = [{rule}]"))
    };
    let shaper = |what, burst: &str, more: &str| {
        let shaped = format!(
            "queue = {{ kind = \"shaped\", rate = \"1 Mbit/s\", burst = \"{burst}\", {more}queue = {{ kind = \"fifo\", packets = 9 }} }}"
        );
        of(what, shaped)
    };
    show!(messages(&[
        policer("a policer that lets no full segment pass", "src = \"client\"", "1 KB"),
        policer("one that just does", "src = \"client\"", "1500 B"),
        policer("one of other packets", "protocol = \"udp\"", "1 KB"),
        policer("one of acknowledgements", "src = \"server\"", "1 KB"),
        shaper("a shaper that lets no full segment pass", "1 KB", ""),
        shaper("one that just does", "1500 B", ""),
        shaper("one that counts the frame", "1500 B", "layer = \"line\", "),
        of(
            "a meter of three colours",
            format!("{QUEUE}\ncondition = [{{ meter = {{ kind = \"srtcm\", cir = \"1 Mbit/s\", cbs = \"1 KB\", ebs = \"3 KB\" }}, green = \"ef\", yellow = \"be\" }}]")
        ),
        of(
            "a class of low latency with little reserved",
            "queue = { kind = \"class-wfq\", packets = 9 }\nclasses = [{ phb = \"be\", low_latency = true, reserve = \"32 kbit/s\" }, { name = \"rest\" }]".to_owned()
        ),
        of(
            "the way back alone",
            format!("{QUEUE}\nreverse = {{ queue = {{ kind = \"shaped\", rate = \"1 Mbit/s\", burst = \"1 KB\", queue = {{ kind = \"fifo\", packets = 9 }} }} }}")
        ),
    ]));
}

#[test]
fn transports_and_flows() {
    show!(messages(&[
        ("an unknown transport", "transport = \"tcp\"", "transport = \"tpc\""),
        ("no transport", "transport = \"tcp\"\n", ""),
        ("an unknown kind of transport", "kind = \"tcp\"", "kind = \"quic\""),
        ("an unknown profile", "kind = \"tcp\"", "kind = \"tcp\"\nprofile = \"linus\""),
        ("an unknown constant", "kind = \"tcp\"", "kind = \"tcp\"\nrto_minimum = \"1 s\""),
        ("a constant of another protocol", "kind = \"tcp\"", "kind = \"tcp\"\npath_max_retrans = 5"),
        ("a constant that cannot be", "kind = \"tcp\"", "kind = \"tcp\"\nmss = \"0 B\""),
        ("bounds in the wrong order", "kind = \"tcp\"", "kind = \"sctp\"\nrto_min = \"100 s\""),
        (
            "a word that a constant does not know",
            "kind = \"tcp\"",
            "kind = \"tcp\"\ninitial_ssthresh = \"unbound\""
        ),
        ("headers for TCP", "kind = \"tcp\"", "kind = \"tcp\"\nheaders = \"none\""),
        ("a backup path for TCP", "kind = \"tcp\"", "kind = \"tcp\"\nbackup = true"),
        ("a kernel's setting for TCP", "kind = \"tcp\"", "kind = \"tcp\"\nnet.mptcp.stale_loss_cnt = 2"),
        ("a setting that no kernel can have", "kind = \"tcp\"", "kind = \"mptcp\"\nnet.mptcp.\"../x\" = 2"),
        ("a setting of another family", "kind = \"tcp\"", "kind = \"mptcp\"\nnet.ipv4.tcp_sack = 0"),
        ("TCP over two paths", "kind = \"tcp\"", "kind = \"tcp\"\npaths = [\"line\", \"line\"]"),
        ("the same path twice", "kind = \"tcp\"", "kind = \"sctp\"\npaths = [\"line\", \"line\"]"),
        ("a path of an unknown link", "kind = \"tcp\"", "kind = \"tcp\"\npaths = [\"lime\"]"),
        ("no path", "kind = \"tcp\"", "kind = \"tcp\"\npaths = []"),
        ("a path that is a number", "kind = \"tcp\"", "kind = \"tcp\"\npaths = [1]"),
        ("an unknown end", "to = \"server\"", "to = \"sever\""),
        ("from a node to itself", "to = \"server\"", "to = \"client\""),
        ("an unknown application", "kind = \"bulk\"", "kind = \"bluk\""),
        ("a setting of another application", "kind = \"bulk\"", "kind = \"bulk\", interval = \"1 s\""),
        (
            "a setting out of range",
            "{ kind = \"bulk\" }",
            "{ kind = \"web\", interarrival = { exponential = \"1 s\" }, size = { pareto = { mean = \"10 KB\", shape = 0.9 } } }"
        ),
        (
            "an unknown distribution",
            "{ kind = \"bulk\" }",
            "{ kind = \"web\", interarrival = { exponental = \"1 s\" }, size = { constant = \"1 KB\" } }"
        ),
        ("a missing setting", "{ kind = \"bulk\" }", "{ kind = \"web\", size = { constant = \"1 KB\" } }"),
        (
            "datagrams over TCP",
            "{ kind = \"bulk\" }",
            "{ kind = \"cbr\", rate = \"1 Mbit/s\", size = \"1 KB\" }"
        ),
        ("a connection over UDP", "kind = \"tcp\"", "kind = \"udp\""),
        ("a constant of UDP", "kind = \"tcp\"", "kind = \"udp\"\nmss = \"1 KB\""),
        ("a start after the end", "transport = \"tcp\"", "transport = \"tcp\"\nstart = \"200 s\""),
        (
            "a stop before the start",
            "transport = \"tcp\"",
            "transport = \"tcp\"\nstart = \"20 s\"\nstop = \"10 s\""
        ),
        (
            "a flow's application after the head of a node",
            "transport = \"tcp\"\n",
            "transport = \"tcp\"\n[node.other]\n"
        ),
        (
            "no way to an island",
            "to = \"server\"\ntransport = \"tcp\"\napplication = { kind = \"bulk\" }",
            "to = \"island\"\ntransport = \"tcp\"\napplication = { kind = \"bulk\" }\n[node.island]"
        ),
    ]));
}

#[test]
fn paths_over_several_links() {
    let line = |path: &str| {
        let chain = "[node.server]\n[node.router]\n\n[link.far]\nbetween = [\"router\", \"server\"]\n\
                     rate = \"1 Mbit/s\"\nqueue = { kind = \"fifo\", packets = 9 }\n";
        let text = BASE
            .replacen("[node.server]\n", chain, 1)
            .replacen("between = [\"client\", \"server\"]", "between = [\"client\", \"router\"]", 1)
            .replacen("kind = \"tcp\"", &format!("kind = \"tcp\"\npaths = [{path}]"), 1);
        match Experiment::parse("chain.toml", text) {
            Ok(_) => "(accepted)\n".to_owned(),
            Err(diagnostics) => diagnostics.to_string(),
        }
    };
    let paths = [
        r#"["line", "far"]"#,
        r#""line""#,
        r#"["line"]"#,
        r#"["far", "line"]"#,
        r#"["line", "line"]"#,
        r#"["line", "fra"]"#,
        "[]",
    ];
    let all: String = paths.iter().map(|path| format!("## {path}\n\n{}\n", line(path))).collect();
    show!(all);
}

/// Invalid settings of SIP users.
#[test]
fn users_of_sip() {
    const FLOW: &str = "transport = \"tcp\"\napplication = { kind = \"bulk\" }";
    let sip =
        |before: &str, settings: &str| format!("{before}application = {{ kind = \"sip\", {settings} }}");
    let registrar = "server = { role = \"registrar\" }";
    let mistakes = [
        ("no scenario", "", format!("rate = 1, {registrar}")),
        ("an unknown one", "", format!("scenario = \"registers\", rate = 1, {registrar}")),
        ("no server", "", "scenario = \"register\", rate = 1".to_owned()),
        ("no server of that name", "", "scenario = \"register\", rate = 1, server = \"kamailio\"".to_owned()),
        (
            "an unknown role",
            "",
            "scenario = \"register\", rate = 1, server = { role = \"b2bua\" }".to_owned(),
        ),
        ("no moments", "", format!("scenario = \"register\", {registrar}")),
        (
            "two kinds of moments",
            "",
            format!("scenario = \"register\", rate = 1, interval = \"1 s\", {registrar}"),
        ),
        ("no rate", "", format!("scenario = \"register\", rate = 0, {registrar}")),
        ("no interval", "", format!("scenario = \"register\", interval = \"0 s\", {registrar}")),
        (
            "stages of nobody",
            "",
            format!("scenario = \"register\", stages = [{{ rate = 0, for = \"1 s\" }}], {registrar}"),
        ),
        ("nobody", "", format!("scenario = \"register\", rate = 1, users = 0, {registrar}")),
        ("too few users", "", format!("scenario = \"register\", rate = 10, users = 10, {registrar}")),
        ("no time to register", "", format!("scenario = \"re-register\", rate = 1, {registrar}")),
        (
            "a closed loop of those who leave",
            "start = \"1 s\"\n",
            format!("scenario = \"unregister\", pause = {{ constant = \"1 s\" }}, {registrar}"),
        ),
        ("a registrar that is called", "", format!("scenario = \"call\", rate = 1, {registrar}")),
        ("nobody to be found", "", "scenario = \"call\", rate = 1, server = { role = \"proxy\" }".to_owned()),
        (
            "a user agent as registrar",
            "",
            "scenario = \"register\", rate = 1, server = { role = \"uas\" }".to_owned(),
        ),
        ("nobody is called", "", format!("scenario = \"register\", rate = 1, callee = \"own\", {registrar}")),
        (
            "no password",
            "",
            "scenario = \"register\", rate = 1, server = { role = \"registrar\", digest = \"md5\" }"
                .to_owned(),
        ),
        (
            "a registrar that stays in the way",
            "",
            "scenario = \"register\", rate = 1, server = { role = \"registrar\", record_route = true }"
                .to_owned(),
        ),
        (
            "a refusal that is none",
            "",
            "scenario = \"busy\", rate = 1, server = { role = \"uas\", refuse = 200 }".to_owned(),
        ),
        (
            "a name that is none",
            "",
            format!("scenario = \"register\", rate = 1, location = {{ name = \"a b\" }}, {registrar}"),
        ),
        (
            "no line of a table",
            "",
            format!(
                "scenario = \"register\", rate = 1, location = {{ name = \"a.test\", records = [\"a.test MX 1 b\"] }}, {registrar}"
            ),
        ),
        (
            "no node for the DNS",
            "",
            format!(
                "scenario = \"register\", rate = 1, location = {{ name = \"a.test\", node = \"dns\" }}, {registrar}"
            ),
        ),
        (
            "no time to look for it",
            "",
            format!(
                "scenario = \"register\", rate = 1, location = {{ name = \"a.test\", dns = \"server\" }}, {registrar}"
            ),
        ),
        ("TLS over UDP", "", format!("scenario = \"register\", rate = 1, secure = true, {registrar}")),
        ("SCTP", "transport = \"sctp\"\n", format!("scenario = \"register\", rate = 1, {registrar}")),
        ("no T1", "", format!("scenario = \"register\", rate = 1, t1 = \"0 s\", {registrar}")),
        (
            "more threads than users",
            "",
            format!("scenario = \"options\", rate = 1, users = 2, threads = 3, {registrar}"),
        ),
        (
            "a key that is none",
            "",
            format!("scenario = \"register\", rate = 1, hold_time = \"1 s\", {registrar}"),
        ),
        ("a scenario and a mix", "", "scenario = \"call\", mix = { busy = \"100 %\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a mix of less than all", "", "mix = { call = \"70 %\", busy = \"20 %\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a mix with nothing of one", "", "mix = { call = \"100 %\", busy = \"0 %\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a mix with an unknown one", "", "mix = { calls = \"100 %\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a mix with a share that is none", "", "mix = { call = \"most\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a mix of those who leave", "", "mix = { call = \"50 %\", unregister = \"50 %\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a hold that is none", "", "scenario = \"call\", hold = 3, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a hold of an unknown law", "", "scenario = \"call\", hold = { normal = \"3 s\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a hold that cannot be drawn", "", "scenario = \"call\", hold = { lognormal = { mean = \"3 s\", sigma = 9 } }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a burst of nobody", "", "scenario = \"call\", arrivals = { burst = 0 }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a burst in a closed loop", "", "scenario = \"call\", arrivals = { burst = 3 }, pause = { constant = \"1 s\" }, server = { role = \"uas\" }".to_owned()),
        ("moments and how they are distributed", "", "scenario = \"call\", arrivals = \"uniform\", moments = [\"1 s\"], server = { role = \"uas\" }".to_owned()),
        ("moments out of order", "", "scenario = \"call\", moments = [\"2 s\", \"1 s\"], server = { role = \"uas\" }".to_owned()),
        ("moments and a trace", "", "scenario = \"call\", moments = [\"1 s\"], trace = \"busy.txt\", server = { role = \"uas\" }".to_owned()),
        ("a trace file that was not read", "", "scenario = \"call\", trace = \"busy.txt\", server = { role = \"uas\" }".to_owned()),
        ("more users than there may be", "", "scenario = \"register\", rate = 5e8, server = { role = \"registrar\" }".to_owned()),
        ("T2 below T1", "", "scenario = \"call\", rate = 1, t1 = \"1 s\", t2 = \"500 ms\", server = { role = \"uas\" }".to_owned()),
        ("no T4", "", "scenario = \"call\", rate = 1, t4 = \"0 s\", server = { role = \"uas\" }".to_owned()),
        ("nothing to put on hold", "", "scenario = \"re-invite\", rate = 1, sdp = \"0 B\", server = { role = \"uas\" }".to_owned()),
        ("contacts of nobody", "", "scenario = \"call\", rate = 1, contacts = 2, server = { role = \"uas\" }".to_owned()),
        ("too many contacts", "", "scenario = \"call\", rate = 1, contacts = 17, server = { role = \"uas\" }".to_owned()),
        ("no word before the answer", "", "scenario = \"call\", rate = 1, provisionals = 0, server = { role = \"uas\" }".to_owned()),
        ("a user agent that forks", "", "scenario = \"fork\", rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a user agent that is subscribed to", "", "scenario = \"subscribe\", rate = 1, server = { role = \"uas\" }".to_owned()),
        ("early media of one that has none", "", "scenario = \"early-media\", rate = 1, server = { role = \"uas\" }".to_owned()),
        ("PRACK for one that wants none", "", "scenario = \"prack\", rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a server that takes over and has no port", "", "scenario = \"call\", rate = 1, fail_over = [\"10.0.0.3\"], server = { role = \"uas\" }".to_owned()),
        ("a scenario and one of one's own", "", "scenario = \"call\", scenario_text = \"<scenario/>\", rate = 1, server = \"program\"".to_owned()),
        ("a scenario file that was not read", "", "scenario_file = \"my.xml\", rate = 1, server = \"program\"".to_owned()),
        ("keywords of no scenario", "", "scenario = \"call\", keys = { a = \"b\" }, rate = 1, server = { role = \"uas\" }".to_owned()),
        ("a scenario with peers", "start = \"1 s\"\n", "scenario_text = \"<scenario/>\", callee = \"own\", rate = 1, server = { role = \"proxy\" }".to_owned()),
        ("no time for a test of the server", "", "scenario = \"options\", rate = 9, conform = true, server = { role = \"uas\" }".to_owned()),
        ("no users for a test of the server", "start = \"1 s\"\n", "scenario = \"options\", rate = 9, users = 2, conform = true, server = { role = \"uas\" }".to_owned()),
        (
            "a fork of one place",
            "start = \"1 s\"\n",
            "scenario = \"fork\", rate = 1, callee = \"own\", server = { role = \"proxy\" }".to_owned(),
        ),
        (
            "a registrar with early media",
            "",
            "scenario = \"register\", rate = 1, server = { role = \"registrar\", early_media = true }".to_owned(),
        ),
    ];
    let mistakes = mistakes.map(|(what, before, settings)| (what, sip(before, &settings)));
    let sctp = BASE.replace("[flow.file]", "[transport.sctp]\nkind = \"sctp\"\n[flow.file]");
    let told = |(what, flow): &(&str, String)| {
        let text = sctp.replace(FLOW, flow).replace("\"goodput\"", "\"attempts_begun\"");
        let said = match Experiment::parse("base.toml", text) {
            Ok(_) => "accepted".to_owned(),
            Err(problems) => problems.to_string(),
        };
        format!("## {what}\n\n{said}\n\n")
    };
    let all: String = mistakes.iter().map(told).collect();
    assert!(!all.contains("accepted"), "{all}");
    for one in all.split("## ").skip(1) {
        assert_eq!(one.matches("error: ").count(), 1, "one cause has one error: {one}");
    }
    show!(all);
}

#[test]
fn events() {
    show!(messages(&[
        ("after the end", "", "[[event]]\nat = \"100 s\"\nlink = \"line\"\ndo = { down_for = \"1 s\" }"),
        ("an unknown link", "", "[[event]]\nat = \"10 s\"\nlink = \"lnie\"\ndo = { down_for = \"1 s\" }"),
        ("an unknown node", "", "[[event]]\nat = \"10 s\"\nnode = \"cleint\"\ndo = { primary = \"line\" }"),
        ("about nothing", "", "[[event]]\nat = \"10 s\"\ndo = { down_for = \"1 s\" }"),
        ("nothing happens", "", "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { direction = \"both\" }"),
        (
            "two things at once",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"1 s\", rate = \"1 Mbit/s\" }"
        ),
        (
            "an unknown direction",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"1 s\", direction = \"up\" }"
        ),
        ("an unknown word", "", "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down = \"1 s\" }"),
        (
            "a queue rule without outage",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { delay = \"1 ms\", queue = \"keep\" }"
        ),
        (
            "an outage of a node",
            "",
            "[[event]]\nat = \"10 s\"\nnode = \"client\"\ndo = { down_for = \"1 s\" }"
        ),
        (
            "a primary path of a link",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { primary = \"line\" }"
        ),
        (
            "an interface that is not there",
            "",
            "[node.other]\n[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"1 s\", where = \"other\" }"
        ),
        (
            "an interface that goes down one way",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"1 s\", where = \"client\", direction = \"forward\" }"
        ),
        ("a rate of zero", "", "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { rate = \"0 bit/s\" }"),
        (
            "flapping without end",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { flap = { down = \"1 s\", up = \"1 s\", times = 4000000000 } }"
        ),
        (
            "overlapping outages",
            "",
            "[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"5 s\" }\n[[event]]\nat = \"12 s\"\nlink = \"line\"\ndo = { down_for = \"5 s\", direction = \"backward\" }"
        ),
        (
            "outages that touch",
            "",
            "[[event]]\nat = \"15 s\"\nlink = \"line\"\ndo = { down_for = \"5 s\" }\n[[event]]\nat = \"10 s\"\nlink = \"line\"\ndo = { down_for = \"5 s\" }"
        ),
    ]));
}

#[test]
fn responses_and_claims() {
    show!(messages(&[
        ("an unknown metric", "metric = \"goodput\"", "metric = \"godput\""),
        ("measured after the end", "metric = \"goodput\"", "metric = \"goodput\"\nafter = \"2 min\""),
        ("of an unknown flow", "of = \"flow.file\"", "of = \"flow.fil\""),
        ("of nothing that there is", "of = \"flow.file\"", "of = \"files\""),
        (
            "a claim about an unknown response",
            "",
            "[claim.c]\nsays = \"more\"\nresponse = \"throughput\"\ncompare = { rate = [\"2 Mbit/s\", \"1 Mbit/s\"] }\nexpect = \"greater\""
        ),
        (
            "a claim about an unknown factor",
            "",
            "[claim.c]\nsays = \"more\"\nresponse = \"goodput\"\ncompare = { rates = [\"2 Mbit/s\", \"1 Mbit/s\"] }\nexpect = \"greater\""
        ),
        (
            "a claim about an unknown level",
            "",
            "[claim.c]\nsays = \"more\"\nresponse = \"goodput\"\ncompare = { rate = [\"3 Mbit/s\", \"1 Mbit/s\"] }\nexpect = \"greater\""
        ),
        (
            "a claim that expects the unknown",
            "",
            "[claim.c]\nsays = \"more\"\nresponse = \"goodput\"\ncompare = { rate = [\"2 Mbit/s\", \"1 Mbit/s\"] }\nexpect = \"more\""
        ),
        (
            "a table of an unknown factor",
            "",
            "[table.t]\nrows = [\"speed\"]\ncolumns = { g = { value = \"goodput\" } }"
        ),
        ("a figure of an unknown response", "", "[figure.f]\nx = \"rate\"\ny = \"goodputs\""),
        ("panels for what is no factor", "", "[figure.f]\nx = \"rate\"\ny = \"goodput\"\npanels = \"phone\""),
        (
            "panels for the factor on the x axis",
            "",
            "[figure.f]\nx = \"rate\"\ny = \"goodput\"\npanels = [\"rate\"]"
        ),
        (
            "a claim that is to be seen nowhere",
            "",
            "[claim.c]\nsays = \"more\"\nresponse = \"goodput\"\ncompare = { rate = [\"2 Mbit/s\", \"1 Mbit/s\"] }\nexpect = \"greater\"\nfigure = \"fig1\""
        ),
    ]));
}

#[test]
fn agreement_of_substrates() {
    const GOODPUT: &str = "metric = \"goodput\"";
    show!(messages(&[
        (
            "an amount of another kind",
            GOODPUT,
            "metric = \"goodput\"\nagreement = { within = [\"10 %\", \"20 us\"] }"
        ),
        ("less than nothing", GOODPUT, "metric = \"goodput\"\nagreement = { within = \"-5 %\" }"),
        ("no amount at all", GOODPUT, "metric = \"goodput\"\nagreement = { within = [] }"),
        ("no margin", GOODPUT, "metric = \"goodput\"\nagreement = { where = { rate = \"1 Mbit/s\" } }"),
        ("an unknown unit", GOODPUT, "metric = \"goodput\"\nagreement = { within = [\"5 %\", \"2 kB/s\"] }"),
        ("an unknown key", GOODPUT, "metric = \"goodput\"\nagreement = { withn = \"5 %\" }"),
        (
            "points that there are not",
            GOODPUT,
            "metric = \"goodput\"\n[response.goodput.agreement]\nwithin = \"5 %\"\nwhere = { rates = \"1 Mbit/s\", rate = \"3 Mbit/s\" }"
        ),
        (
            "a share of what is in percent",
            GOODPUT,
            "metric = \"retransmission_share\"\nunit = \"%\"\nagreement = { within = \"3 %\" }"
        ),
        (
            "either is fine",
            GOODPUT,
            "metric = \"retransmission_share\"\nunit = \"%\"\nagreement = { within = [\"3 %\", \"1 pp\"], where = { rate = [\"1 Mbit/s\"] } }"
        ),
    ]));
}

#[test]
fn warnings() {
    show!(messages(&[
        (
            "more offered than carried",
            "{ kind = \"bulk\" }",
            "{ kind = \"web\", interarrival = { exponential = \"45 ms\" }, size = { pareto = { mean = \"10 KB\", shape = 2.5 } } }"
        ),
        (
            "less offered than carried",
            "{ kind = \"bulk\" }",
            "{ kind = \"web\", interarrival = { exponential = \"450 ms\" }, size = { pareto = { mean = \"10 KB\", shape = 2.5 } } }"
        ),
        (
            "together too much",
            "application = { kind = \"bulk\" }",
            "application = { kind = \"web\", interarrival = { exponential = \"125 ms\" }, size = { constant = \"10 KB\" } }\n[flow.calls]\nfrom = \"client\"\nto = \"server\"\napplication = { kind = \"cbr\", interval = \"20 ms\", size = \"1 KB\" }"
        ),
        (
            "no variance",
            "{ kind = \"bulk\" }\n\n[response.goodput]\nof = \"flow.file\"\nmetric = \"goodput\"",
            "{ kind = \"web\", interarrival = { exponential = \"450 ms\" }, size = { pareto = { mean = \"10 KB\", shape = 1.5 } } }\n\n[response.time]\nof = \"flow.file\"\nmetric = \"object_time\""
        ),
        (
            "unused parts",
            "",
            "[transport.other]\nkind = \"sctp\"\n[link.other]\nbetween = [\"client\", \"server\"]\nrate = \"1 Mbit/s\"\nqueue = { kind = \"fifo\", packets = 9 }"
        ),
        (
            "an event in the warm-up",
            "name = \"base\"",
            "name = \"base\"\nwarm_up = \"20 s\"\nevent = [{ at = \"10 s\", link = \"line\", do = { down_for = \"1 s\" } }]"
        ),
    ]));
}

#[test]
fn levels_that_are_set() {
    let set = |text: &str| {
        let assignments = Assignment::parse(text)?;
        Experiment::parse("base.toml", BASE).unwrap().set(&assignments)
    };
    let texts =
        ["rat=1Mbit/s", "speed=3", "rate=", "rate=1Mbit/s,rate=2Mbit/s", "rate=10Mb", "rate=0bit/s,5Mbit/s"];
    let all: String =
        texts.iter().map(|text| format!("## --set {text}\n\n{}\n\n", set(text).unwrap_err())).collect();
    show!(all);
}

#[test]
fn a_file_that_is_none_is_refused_at_once() {
    let told = |bytes: &[u8]| Experiment::parse("file", bytes).unwrap_err().to_string();
    let long = vec![b'['; 10_000_000];
    assert_eq!(
        told(&long),
        "error: the file has 10000000 bytes; an experiment has at most 1048576\n --> file:1:1\n"
    );
    assert!(told(b"name = \"\xff\"").contains("not text in UTF-8 from here on\n --> file:1:9"));
    assert!(told(b"").contains("the key `format` is missing"));
}
